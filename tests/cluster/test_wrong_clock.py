"""The clock of the store is two days wrong for a minute, then right: nothing of that is left, as processes."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tokimori
from tests.cluster.shifted_node import JUMP, JUMPED
from tests.programs.forked import BARE
from tests.servers import mariadb, postgres, redis
from tests.servers.wrong_clock import WrongClock
from tokimori.service.views.runs import Run

DAY = 24 * 3600
JOBS = {
    "often": {"schedule": "*/10 * * * * *"},
    "minutely": {"schedule": "* * * * *", "misfire": "skip"},
    "hourly": {"schedule": "0 * * * *", "misfire": "all"},
}


class Machine:
    """A node, and the clock of its store: the server's, or where there is none the machine's."""

    def __init__(self, name: str, folder: Path, wrong_by: Sequence[int]) -> None:
        self.clock: WrongClock | None = None if name == "sqlite" else WrongClock()
        self._server: postgres.Server | mariadb.Server | redis.Server | None = None
        if self.clock is None:
            self.url = f"sqlite://{folder}/t.db"
        else:
            with self.clock.begun():
                server = {"postgres": postgres.Server, "mariadb": mariadb.Server, "redis": redis.Server}[name]()
            self._server = server
            self.url = server.url() if isinstance(server, redis.Server) else server.make("t")
        self._log = folder / "log"
        environment = {"HOME": str(folder), **BARE, "TOKIMORI_STORE": self.url, "TOKIMORI_STATE_DIR": str(folder / "s")}
        offsets = map(str, wrong_by if self.clock is None else [0])
        with self._log.open("wb") as log:
            self._node = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.shifted_node", *offsets],
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )

    def go_to(self, seconds: int) -> None:
        """The clock is wrong by so many seconds from now on."""
        if self.clock is not None:
            self.clock.set(seconds)
            return
        told = self._log.read_text().count(JUMPED)
        self._node.send_signal(JUMP)
        until(lambda: self._log.read_text().count(JUMPED) > told, 10)

    def close(self) -> None:
        """End all."""
        self._node.send_signal(signal.SIGKILL)
        self._node.wait()
        if self._server is not None:
            self._server.remove()
        if self.clock is not None:
            self.clock.remove()


AHEAD, BEHIND = (0, 2 * DAY, 0, DAY, 2 * DAY + 600), (0, -2 * DAY, 0, 600)
"""Seconds by which the clock is wrong, one after the other; the machine's, of a node on SQLite."""


def until(holds: Callable[[], object], patience: float) -> float:
    """Wait; the seconds that it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + patience, "it took too long"
        time.sleep(0.2)
    return time.monotonic() - began


def runs_of(client: tokimori.Client, name: str, most: int) -> Sequence[Run]:
    """The newest runs of the job."""
    return client.runs.list(job_id=name, limit=most).runs


STORES = ("sqlite", "postgres", "mariadb", "redis")


def _named(case: object) -> str | None:
    match case:
        case (str(name), (_, int(jump), *_)):
            return f"{name}-{'ahead' if jump > 0 else 'behind'}"
        case _:
            return None


def now(offset: int) -> datetime:
    """The time by a clock that is so many seconds wrong."""
    return datetime.now(UTC) + timedelta(seconds=offset)


def fires(client: tokimori.Client, offset: int, patience: float) -> float:
    """Wait for a run that is made for a moment soon after now."""
    since = now(offset)
    soon = since + timedelta(seconds=600)
    return until(lambda: any(since <= run.nominal <= soon for run in runs_of(client, "often", 50)), patience)


def check_once(client: tokimori.Client, offset: int) -> None:
    """Fail unless every moment of each job comes once, up to now."""
    for name in JOBS:
        moments = Counter(run.nominal for run in runs_of(client, name, 1000))
        assert max(moments.values(), default=1) == 1
        verified = client.jobs.verify(name, last=now(offset) - timedelta(seconds=15))
        assert (verified.wrong, verified.fates.get("run", 0) > 0 or name != "often") == (0, True), verified


@pytest.fixture(params=[(name, offsets) for offsets in (AHEAD, BEHIND) for name in STORES], ids=_named)
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Machine, Sequence[int]]]:
    """A node on each store, and by how much its clock is wrong, one after the other."""
    name, offsets = request.param
    found = Machine(name, tmp_path, offsets)
    yield found, offsets
    found.close()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_two_days_leave_nothing_behind(wrong: tuple[Machine, Sequence[int]]) -> None:
    """Jobs fire on within two minutes, and every moment of the stretch that was decided by them comes once."""
    machine, (_, jump, right, *later) = wrong
    with tokimori.open(machine.url) as client:
        until(lambda: any(node.kind == "node" for node in client.nodes.list()), 60)
        for name, terms in JOBS.items():
            client.jobs.add(name, noop=True, max_running=0, **terms)  # type: ignore[arg-type]
        fires(client, 0, 60)
        machine.go_to(jump)
        if jump > 0:
            fires(client, jump, 60)
        time.sleep(40 if jump > 0 else 75)
        machine.go_to(right)
        assert fires(client, right, 150) < 120
        assert (client.jobs.get("minutely").next_due or now(0)) <= now(120)
        for offset in later:
            machine.go_to(offset)
            fires(client, offset, 90)
            check_once(client, offset)
