"""The application of `examples/shop.py`, run as its users run it: given every signal, and killed in every part."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM, ROOT

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]


class Shop(Program):
    """The shop's folder, its own database, and the nodes that work there."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        shutil.copy(ROOT / "examples" / "shop.py", home)
        self.own = home / "shop.db"
        self.log = home / "node.log"
        self.environment |= {"SHOP": str(self.own), "TOKIMORI_LOG_FILE": str(self.log)}
        self.nodes: list[subprocess.Popen[str]] = []

    def begin(self) -> "subprocess.Popen[str]":
        """A node for the shop's functions, at work when this returns."""
        command = [str(PROGRAM), "worker", "shop:app", "--processes", "2"]
        node = subprocess.Popen(command, cwd=self.home, env=self.environment, text=True, stdout=subprocess.PIPE)
        self.nodes.append(node)
        assert node.stdout is not None
        assert "runs jobs" in node.stdout.readline()
        return node

    def asked(self, statement: str) -> list[Any]:
        """What the shop's own database answers."""
        db = sqlite3.connect(self.own, timeout=30)
        try:
            return db.execute(statement).fetchall()
        finally:
            db.close()

    def pack(self, number: int) -> str:
        """Have a parcel packed; the run, which has begun."""
        payload = f'{{"number": {number}}}'
        run: str = self.json("job", "trigger", "pack", "--payload", payload)["id"]
        until(lambda: self.attempts(run) == 1)
        return run

    def attempts(self, run: str) -> int:
        """How many attempts of the run have begun."""
        return len(self.asked(f"SELECT * FROM begun WHERE run = '{run}'"))

    def pid(self, run: str) -> int:
        """The process of the newest attempt."""
        return int(self.asked(f"SELECT pid FROM begun WHERE run = '{run}' ORDER BY attempt DESC")[0][0])

    def again(self, run: str) -> float:
        """Seconds until the run is tried again."""
        before, began = self.attempts(run), time.monotonic()
        until(lambda: self.attempts(run) > before)
        return time.monotonic() - began

    def over(self, run: str) -> None:
        """Wait until the run has succeeded."""
        until(lambda: bool(self.json("run", "show", run)["state"] == "succeeded"))


def parent(pid: int) -> int:
    """The process that started this one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def family(pid: int) -> list[int]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in below for each in family(int(child)))]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """One, of which nothing is left afterwards."""
    shop = Shop(tmp_path)
    yield shop
    for node in shop.nodes:
        node.kill()
        node.communicate()


def test_whatever_is_signalled_or_killed_the_ledger_and_what_was_done_agree(shop: Shop) -> None:
    """Each second has one order and one bill, and what a dead worker did goes on within a second, else within ten.

    Kōjō's case 47 is the same: processes of every level are killed.
    """
    first, second = shop.begin(), shop.begin()
    until(lambda: shop.own.exists() and len(shop.asked("SELECT * FROM orders")) > 2)

    run = shop.pack(1)
    os.kill(shop.pid(run), signal.SIGKILL)
    assert shop.again(run) < 1

    for node in (first, second):
        node.send_signal(signal.SIGHUP)
        node.send_signal(signal.SIGUSR1)
        node.send_signal(signal.SIGUSR2)
    shop.over(run)
    assert shop.attempts(run) == 2  # whoever takes new code lets old code finish

    run = shop.pack(2)
    os.kill(parent(shop.pid(run)), signal.SIGKILL)  # the keeper
    assert shop.again(run) < 10

    engine = parent(parent(shop.pid(run)))
    assert engine in (first.pid, second.pid)
    os.kill(engine, signal.SIGKILL)
    assert shop.again(run) < 10
    shop.over(run)

    run = shop.pack(3)
    for pid in [pid for node in (first, second) if node.poll() is None for pid in family(node.pid)]:
        os.kill(pid, signal.SIGKILL)
    third, fourth = shop.begin(), shop.begin()
    shop.over(run)

    third.send_signal(signal.SIGQUIT)
    assert third.wait(30) == 0
    run = shop.pack(4)
    fourth.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    fourth.send_signal(signal.SIGTERM)  # asked twice: now
    assert fourth.wait(10) == 0
    interrupted = shop.begin()
    shop.over(run)
    run = shop.pack(5)
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.wait(30) == 0
    assert shop.json("run", "show", run)["state"] == "succeeded"  # asked once: it lets its runs end
    last = shop.begin()
    now = datetime.now(UTC).isoformat()
    shop("job", "update", "order", "--ends-at", now)  # a pause would hold back what is still to be made good
    check(shop)
    assert stop(last) == 0


def check(shop: Shop) -> None:
    """Runs and attempts of the ledger are what the shop's own database says was done."""
    with tokimori.open(shop.environment["TOKIMORI_STORE"]) as client:

        def runs_of(job: str) -> list[Any]:
            return list(client.runs.list(job_id=job, limit=1000))

        def rest() -> bool:
            orders, bills = runs_of("order"), runs_of("bill")
            return len(orders) == len(bills) and all(run.ended for run in orders + bills)

        until(rest, within=60)
        runs = {job: runs_of(job) for job in ("order", "bill", "pack")}
        kept = {(run.id, n) for each in runs.values() for run in each for n in range(1, run.attempt + 1)}
    assert {run.state for each in runs.values() for run in each} == {"succeeded"}
    seconds = sorted(int(run.nominal.timestamp()) for run in runs["order"])
    assert seconds == list(range(seconds[0], seconds[-1] + 1))
    assert [number for (number,) in shop.asked("SELECT number FROM orders ORDER BY number")] == seconds
    assert [number for (number,) in shop.asked("SELECT number FROM bills ORDER BY number")] == seconds
    assert [number for (number,) in shop.asked("SELECT number FROM parcels ORDER BY number")] == [1, 2, 3, 4, 5]
    begun = {*shop.asked("SELECT run, attempt FROM begun")}
    assert begun <= kept  # an attempt may be lost before it has begun its step
    assert {run.id for each in runs.values() for run in each} == {run for run, _ in begun}
