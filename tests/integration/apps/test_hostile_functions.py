"""Functions that attack: what they say and do in their worker process costs the runs of others nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.laws import one_in

APP = """
import asyncio, os, socket, time
from pathlib import Path
import msgspec
import tokimori
from tokimori.executors.functions import wire

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])
kept = []

def line() -> socket.socket:
    # That of this worker process to its node: the only socket with a peer that is another process.
    for file in map(int, os.listdir("/proc/self/fd")):
        try:
            found = socket.socket(fileno=os.dup(file))
            peer = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4)
        except OSError:
            continue
        if found.family == socket.AF_UNIX and int.from_bytes(peer, "little") not in (0, os.getpid()):
            found.setblocking(True)
            return found
    raise LookupError("no line")

@app.job(lost_attempts=0)
async def deaf(first: str) -> None:
    if first == "closes":
        line().shutdown(socket.SHUT_RDWR)
    else:
        line().sendall(b"\\xff" * 8)
    time.sleep(1000)  # nobody else runs in this process: it does not notice that it is cut off

@app.job(lost_attempts=0)
def says_much() -> None:
    body = b"\\x91\\x82\\xa4type\\xa5noted\\xa1x\\xdd" + (2**25).to_bytes(4, "big") + b"\\xc0" * 2**25
    try:
        line().sendall(len(body).to_bytes(4, "big") + body)
    except OSError:
        pass
    time.sleep(1000)

@app.job()
def ends_others() -> None:
    ended = [wire.FunctionEnded(number=number, began=0, at=0, end="failed", text="a lie") for number in range(1, 1000)]
    line().sendall(wire.frame(ended))

@app.job()
def forks() -> int:
    child = os.fork()
    if not child:
        time.sleep(0.2)
        ended = [wire.FunctionEnded(number=number, began=0, at=0, end="failed") for number in range(99)]
        line().sendall(wire.frame(ended))
        time.sleep(1000)
    return child

@app.job()
def ends_its_keeper() -> None:
    until_two_run()
    os.kill(os.getppid(), 9)
    time.sleep(1000)

@app.job()
def victim() -> str:
    (HOME / "victim").touch()
    while not (HOME / "go on").exists():
        time.sleep(0.02)
    (HOME / "victim").unlink(missing_ok=True)
    return "whole"

def until_two_run() -> None:
    while not (HOME / "victim").exists():
        time.sleep(0.02)

@app.job()
async def leaves_work() -> int:
    async def stays() -> None:
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
    kept.append(asyncio.create_task(stays()))
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    return os.getpid()

@app.job()
def double(number: int) -> int:
    return number * 2
"""


class Attacked(AppProgram):
    """The app, and what its runs have become."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.app.write_text(APP)

    def begin(self, job: str) -> str:
        """The id of a new run."""
        run: str = self.json("job", "trigger", job)["id"]
        return run

    def seen(self, run: str) -> Any:
        """The run as it is now."""
        return self.json("run", "show", run)

    def good(self, job: str = "victim") -> Any:
        """A run that waits in a worker process to go on."""
        run = self.begin(job)
        until((self.home / "victim").exists)
        return run

    def end(self, run: str) -> Any:
        """That run, when it has gone on to its end."""
        (self.home / "go on").touch()
        until(lambda: self.seen(run)["state"] not in ("running", "queued", "waiting"))
        (self.home / "go on").unlink()
        return self.seen(run)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Beside its worker with two processes, one for the attacker and one for the others."""
    program = Attacked(tmp_path_factory.mktemp("attacked"))
    node = program.work("--concurrency", "1")
    yield program
    for line in program("run", "list", "--state", "running").splitlines()[1:]:
        program.run("run", "cancel", line.split()[0])
    assert stop(node) == 0


@pytest.mark.parametrize("first", one_in(2, ["closes", "says nonsense"]))
def test_a_process_that_is_cut_off_is_ended(attacked: Attacked, first: str) -> None:
    """However deaf it is: its run is lost, and none is given to a process that can't be told."""
    run = attacked.outcome("deaf", f'{{"first": "{first}"}}', code=1)
    assert (run["state"], run["lost"]) == ("failed", 1)
    assert attacked.outcome("double", '{"number": 2}')["result"] == "4"


def test_no_frame_of_a_function_holds_up_the_node(attacked: Attacked) -> None:
    """One of 32 MiB, which the node took 0.25 s to look through, is refused at its length."""
    run = attacked.outcome("says_much", code=1)
    assert (run["state"], run["lost"]) == ("failed", 1)
    assert "a frame of 3355" in attacked.log.read_text()


def test_a_function_ends_no_run_of_another_process(attacked: Attacked) -> None:
    """Whatever numbers it names: its own run ends so, and no other does."""
    victim = attacked.good()
    lied = attacked.outcome("ends_others", code=1)
    assert (lied["state"], lied["error"]) == ("failed", "a lie")
    assert (attacked.seen(victim)["state"], attacked.end(victim)["result"]) == ("running", '"whole"')


def test_a_child_that_holds_the_line_says_nothing_for_others(attacked: Attacked) -> None:
    """What it says reaches the runs of its own process alone."""
    victim = attacked.good()
    assert attacked.outcome("forks")["state"] == "succeeded"
    assert (attacked.end(victim)["result"], attacked.seen(victim)["attempt"]) == ('"whole"', 1)


def test_what_a_function_has_left_keeps_no_process(tmp_path: Path) -> None:
    """A task that can't be cancelled, and a thread: its process leaves all the same when others take over."""
    program = Attacked(tmp_path)
    node = program.work()
    try:
        old = int(program.outcome("leaves_work")["result"])
        node.send_signal(signal.SIGHUP)
        until(lambda: not Path(f"/proc/{old}").exists())
    finally:
        assert stop(node) == 0


@pytest.mark.prove
def test_who_ends_its_keeper_uses_up_nobody_elses_attempts(tmp_path: Path) -> None:
    """Its keeper is another one's, too, until it is suspect: what is lost by that counts against it alone."""
    program = Attacked(tmp_path)
    node = program.work()
    try:
        victim = program.good()
        killer = program.begin("ends_its_keeper")
        until(lambda: program.seen(killer)["state"] == "failed", within=60)
        program.end(victim)
        ended = program.seen(victim)
        assert (ended["error"], ended["result"], ended["lost"]) == (None, '"whole"', 0)
        assert program.seen(killer)["lost"] == 4
    finally:
        assert stop(node) == 0
