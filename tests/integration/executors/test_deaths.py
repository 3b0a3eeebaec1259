"""The engine killed or frozen, the keeper killed, or both: no process is left that should not be."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import (
    Workshop,
    alive,
    exists,
    in_session,
    keeper_of,
    pids_in,
    shell,
    size_of,
    told,
    until,
    written,
)
from tokimori.errors import Refused
from tokimori.executors import keeper_post
from tokimori.executors.keeper.kernel import boot_identity, boottime
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Cancelled, Lost, Released, Succeeded
from tokimori.ports.executor import Ended, Started, StopReason

ROOT = Path(__file__).parents[3]


class Engine:
    """A process with an executor, in `folder`; every command adds its pid to the file `pids`."""

    def __init__(self, folder: Path, *commands: str) -> None:
        self.folder = folder
        self.pids = folder / "pids"
        prefixed = [text.replace(":", f":echo $$ >>{self.pids};", 1) for text in commands]
        self.heard = folder / "heard"
        with self.heard.open("wb") as heard:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.executors.small_engine", str(folder), *prefixed],
                cwd=ROOT,
                stdout=heard,
            )
        self.count = len(commands)

    async def running(self) -> list[int]:
        """The pids of its commands, once they all run."""
        return await pids_in(self.pids, self.count)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    """Engines that are ended with the test."""
    engines: list[Engine] = []
    yield engines
    for engine in engines:
        engine.process.kill()
        engine.process.wait()


async def test_a_killed_engine_leaves_no_process(engines: list[Engine], tmp_path: Path) -> None:
    """After `kill -9` of the engine all its processes get TERM, KILL 1.5 s later, and then the keeper goes too."""
    polite = f"free:trap 'echo done >{tmp_path}/farewell; exit' TERM; while :; do sleep 0.01; done"
    deaf = "free:trap '' TERM; (exec sleep 1000) & wait; wait"
    engines.append(Engine(tmp_path, polite, deaf, "bound:exec sleep 1000"))
    pids = await engines[0].running()
    keeper = keeper_of(pids[0])
    engines[0].signal(signal.SIGKILL)
    died = time.monotonic()
    await until(lambda: not any(map(alive, pids)))
    assert 1.0 < time.monotonic() - died < 3.0
    assert (tmp_path / "farewell").read_text() == "done\n"
    await until(lambda: not alive(keeper))
    assert in_session(keeper) == []
    assert list((tmp_path / "state" / "keepers").iterdir()) == []


async def test_an_interrupt_from_the_terminal_reaches_only_the_engine(workshop: Workshop) -> None:
    """The keeper heeds none that a person sends: it goes when its engine says so or is gone."""
    workshop.start("run", shell("exec sleep 1000"))
    keeper = keeper_of((await workshop.next(Started, "run")).pid)
    names = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
    for name in names:
        os.kill(keeper, getattr(signal, f"SIG{name}"))
    assert (await workshop.run(shell("exit 0"))).outcome == Succeeded(0)
    assert alive(keeper)
    assert workshop.all(Ended, "run") == []


async def test_a_frozen_engine_keeps_only_what_may_outlive_its_lease(engines: list[Engine], tmp_path: Path) -> None:
    """While the engine is stopped, what is bound to the lease ends by 7 s, the rest lives on; it hears of it later."""
    engines.append(
        Engine(
            tmp_path,
            "bound:exec sleep 1000",
            "free:exec sleep 1000",
            "bound:trap '' TERM; while :; do sleep 0.01; done",
        )
    )
    shown = await engines[0].running()
    await until(lambda: all("TOKIMORI_RUN_ID=" in told(pid, "environ") for pid in shown))  # empty within an exec
    pids = {told(pid, "environ").split("TOKIMORI_RUN_ID=")[1].split("\0")[0]: pid for pid in shown}
    engines[0].signal(signal.SIGSTOP)
    stopped = time.monotonic()
    await until(lambda: not alive(pids["bound-0"]))
    assert 4.0 < time.monotonic() - stopped < 5.5
    await until(lambda: not alive(pids["bound-2"]))
    assert 5.5 < time.monotonic() - stopped < 7.0
    assert alive(pids["free-1"])
    engines[0].signal(signal.SIGCONT)
    released = 'Released(reason="its node\'s lease ran out", exit_code=None, signal='
    await until(lambda: f"Ended bound-2 {released}9, " in engines[0].heard.read_text())
    assert f"Ended bound-0 {released}15, " in engines[0].heard.read_text()
    assert "Ended free-1" not in engines[0].heard.read_text()


async def test_a_frozen_engine_does_not_hold_the_keeper(engines: list[Engine], tmp_path: Path) -> None:
    """With the line to the engine full, commands run on and are waited for; ends wait for the engine, growth not."""
    go = tmp_path / "go"
    piece = "head -c 200000 /dev/zero; sleep 0.7"
    engines.append(Engine(tmp_path, *[f"free:until [ -e {go} ]; do sleep 0.05; done; {'; '.join([piece] * 5)}"] * 8))
    pids = await engines[0].running()
    engines[0].signal(signal.SIGSTOP)
    go.touch()
    await until(lambda: not any(map(alive, pids)))
    await until(lambda: not any(map(exists, pids)))  # zombies: the keeper is stuck
    engines[0].signal(signal.SIGCONT)
    await until(lambda: engines[0].heard.read_text().count("Succeeded(exit_code=0,") == 8)
    assert engines[0].heard.read_text().count("Grew") <= 8, "growth was queued"


async def test_a_busy_engine_hears_everything_later(workshop: Workshop, tmp_path: Path) -> None:
    """What did not fit into the line while the engine was busy follows by itself when there is room."""
    runs = [f"run-{number}" for number in range(8)]
    for run in runs:
        workshop.start(run, shell(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; head -c 200000 /dev/zero"))
    pids = [(await workshop.next(Started, run)).pid for run in runs]
    _be_busy_until_gone(tmp_path / "go", pids)
    for run in runs:
        assert size_of((await workshop.next(Ended, run)).output) == 200_000


def _be_busy_until_gone(go: Path, pids: list[int]) -> None:
    go.touch()
    while any(map(exists, pids)):
        time.sleep(0.02)


async def test_a_keeper_that_stands_still_is_killed_in_the_end(
    workshop: Workshop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ends nor orders pass it, so that its node could not even stop; one that answers goes on."""
    monkeypatch.setattr(keeper_post, "TOLD_AFTER", 0.2)
    monkeypatch.setattr(keeper_post, "ENDED_AFTER", 0.6)

    async def beats(seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            workshop.executor.renew(boottime())
            await asyncio.sleep(0.02)

    workshop.start("run", shell("exec sleep 1000"))
    pid = (await workshop.next(Started, "run")).pid
    keeper = keeper_of(pid)
    await beats(1.5)
    os.kill(keeper, signal.SIGSTOP)
    await beats(0.4)
    assert alive(pid)
    assert caplog.text.count(f"keeper {keeper} does not answer: it is stopped, or hangs; runs of job") == 1
    await beats(0.4)
    assert isinstance((await workshop.next(Ended, "run")).outcome, Lost)
    await until(lambda: not alive(pid))
    assert (await workshop.run(shell("exit 0"))).outcome == Succeeded(0)


@pytest.mark.parametrize("clears", ["", "env -i "])
async def test_a_killed_keeper_leaves_no_process(workshop: Workshop, tmp_path: Path, clears: str) -> None:
    """After `kill -9` of the keeper its processes are killed, their attempts lost, and the next ones just run."""
    for run in ("one", "two"):
        text = f"echo $$ >>{tmp_path}/pids; set -m; sh -c 'echo $$ >>{tmp_path}/pids; exec sleep 1000' & wait"
        workshop.start(run, shell(f"exec {clears}/bin/sh -c {shlex.quote(text)}"))
    pids = await pids_in(tmp_path / "pids", 4)
    for run in ("one", "two"):
        await workshop.next(Started, run)
    keeper = keeper_of(pids[0])
    os.kill(keeper, signal.SIGKILL)
    workshop.start("early", shell("echo hi"))
    for run in ("one", "two"):
        ended = await workshop.next(Ended, run)
        assert ended.outcome == Lost(f"its keeper died (pid {keeper}, signal 9, SIGKILL)")
        assert ended.started is not None
    assert not any(map(alive, pids))
    later = await workshop.run(shell("echo hi"))
    assert written(later) == b"hi\n"
    assert isinstance((await workshop.next(Ended, "early")).outcome, Lost | Succeeded)
    assert [note.name.startswith(f"{keeper}-") for note in (workshop.state / "keepers").iterdir()] == [False]


@pytest.mark.parametrize("unmarked", [False, True])
async def test_engine_and_keeper_killed_together(
    engines: list[Engine], tmp_path: Path, workshop: Workshop, unmarked: bool
) -> None:
    """What both leave behind is ended by the next node that starts on the same folder, and only that.

    A command that clears its environment is known by when it began.
    """
    family = "free:trap '' TERM HUP; set -m; (exec sleep 1000) & wait; wait"
    family = f'free:exec env -i /bin/sh -c "{family.partition(":")[2]}"' if unmarked else family
    engines.append(Engine(tmp_path, family, "free:exec env -i sleep 1000" if unmarked else "free:exec sleep 1000"))
    pids = await engines[0].running()
    workshop.start("other", shell("exec sleep 1000"))
    other = (await workshop.next(Started, "other")).pid
    keeper = keeper_of(pids[0])
    await until(lambda: len(set(in_session(keeper)) - {keeper}) == 3)  # its traps are set
    engines[0].signal(signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    engines[0].signal(signal.SIGKILL)
    await until(lambda: not alive(keeper))
    await until(lambda: len(in_session(keeper)) == 3)
    successor = Workshop(tmp_path)
    await successor.open()
    assert in_session(keeper) == []
    assert alive(other)
    assert len(list((tmp_path / "state" / "keepers").iterdir())) == 2, "the note of a living keeper stays"
    await successor.executor.close()


async def test_a_living_node_ends_what_an_engine_and_its_keeper_left(
    engines: list[Engine], tmp_path: Path, workshop: Workshop
) -> None:
    """It has long run on the same folder, and may soon be given what ran there: with a beat all of that is ended."""
    await workshop.run(shell("exit 0"))
    engines.append(Engine(tmp_path, "free:exec sleep 1000"))
    keeper = keeper_of((await engines[0].running())[0])
    engines[0].signal(signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    engines[0].signal(signal.SIGKILL)
    await until(lambda: not alive(keeper))
    assert in_session(keeper) != []
    workshop.executor.renew(boottime())
    await until(lambda: in_session(keeper) == [])


SPAWNING = """
import os, signal, sys
sys.path.append(sys.argv[1])
from keeper import keeper, main
spawn = keeper.spawn
def spawned(*args):
    with open({told!r}, "w") as file:
        print(spawn(*args).pid, file=file)
    os.kill(os.getpid(), signal.SIGKILL)
keeper.spawn = spawned
main.main()
"""
"""A keeper that is killed as soon as it has spawned something, before it can do anything else."""


async def test_a_keeper_killed_while_it_spawns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that cleared its environment is known as a dead keeper's, even if it was its very first one."""
    monkeypatch.setattr("tokimori.executors.keeper_process.end_session", lambda _number: None)  # the engine is dead too
    monkeypatch.setattr("tokimori.executors.keeper_post.KeeperPost.open_later", lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr("tokimori.executors.keeper_process._BEGIN", SPAWNING.format(told=str(tmp_path / "pid")))
        left = Workshop(tmp_path / "left")
        await left.open()
    left.start("run", shell("exec env -i sleep 1000"))
    (pid,) = await pids_in(tmp_path / "pid")
    await left.next(Ended, "run")
    successor = Workshop(tmp_path / "left")
    await successor.open()
    assert not alive(pid)
    await successor.executor.close()
    await left.executor.close()


async def test_a_note_counts_for_its_boot_only(tmp_path: Path) -> None:
    """What carries our mark in a noted session is ended if the note is of this boot, and left alone if of another."""
    folder = tmp_path / "state" / "keepers"
    folder.mkdir(parents=True)
    environment = {"TOKIMORI_RUN_ID": "run", "TOKIMORI_TOKEN": "1", "PATH": "/usr/bin:/bin"}
    leader = await asyncio.create_subprocess_shell(
        f"sleep 1000 & echo $! >{tmp_path}/pid", start_new_session=True, env=environment
    )
    await leader.wait()
    (left,) = await pids_in(tmp_path / "pid")
    for identity, survives in (("another boot", True), (boot_identity(), False)):
        (folder / f"{leader.pid}-1.keeper").write_text(identity)
        node = Workshop(tmp_path)
        await node.open()
        assert alive(left) == survives
        await node.executor.close()


async def test_a_note_about_a_stranger_ends_nobody(tmp_path: Path) -> None:
    """A note whose pid belongs to somebody else by now, or that speaks of another boot, ends nobody and is removed."""
    stranger = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    first = Workshop(tmp_path)
    await first.open()
    (note,) = (tmp_path / "state" / "keepers").iterdir()
    identity = note.read_text()
    await first.executor.close()
    for name, text in (("1", identity), ("2", "another boot")):
        note.with_name(f"{stranger.pid}-{name}.keeper").write_text(text)
    second = Workshop(tmp_path)
    await second.open()
    assert alive(stranger.pid)
    assert len(list(note.parent.iterdir())) == 1
    await second.executor.close()
    stranger.kill()
    await stranger.wait()


async def test_a_keeper_that_can_not_work_is_refused(tmp_path: Path) -> None:
    """Where the state folder can't be made, opening is refused and says why; closing works."""
    (tmp_path / "state").write_text("in the way")
    workshop = Workshop(tmp_path)
    with pytest.raises(Refused, match="Not a directory"):
        await workshop.open()
    await workshop.executor.close()


async def test_a_keeper_that_is_slow_to_come_back_loses_nothing(workshop: Workshop, tmp_path: Path) -> None:
    """While no new keeper can be started, attempts wait; once one can, they run; a stop given meanwhile counts."""
    workshop.start("first", shell("exec sleep 1000"))
    pid = (await workshop.next(Started, "first")).pid
    keeper = keeper_of(pid)
    workshop.state.rename(tmp_path / "aside")
    workshop.state.write_text("in the way")
    os.kill(keeper, signal.SIGKILL)
    assert (await workshop.next(Ended, "first")).outcome == Lost(f"its keeper died (pid {keeper}, signal 9, SIGKILL)")
    assert not alive(pid)
    workshop.start("second", shell("echo hi"))
    workshop.start("third", shell("exec sleep 1000"))
    workshop.executor.stop(RunId("third"), Token(7), StopReason.CANCEL)
    workshop.state.unlink()
    assert written(await workshop.next(Ended, "second")) == b"hi\n"
    assert isinstance((await workshop.next(Ended, "third")).outcome, Cancelled)


async def test_a_keeper_that_hangs_is_given_up(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not wait for ever for a keeper that does not answer, and still leaves no process."""
    monkeypatch.setattr("tokimori.executors.keeper_process.LEAVE_WITHIN", 0.3)
    workshop.start("run", shell("exec sleep 1000"))
    pid = (await workshop.next(Started, "run")).pid
    keeper = keeper_of(pid)
    os.kill(keeper, signal.SIGSTOP)
    await workshop.executor.close()
    assert not alive(pid)
    assert not alive(keeper)
    assert (await workshop.next(Ended, "run")).outcome == Released("its node stopped it")
