"""Nothing of an attempt is left when it is reported ended: time-outs, stops, and what processes leave behind."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.executors.workshop import (
    BOTH_WAYS,
    Workshop,
    alive,
    children_of,
    exists,
    keeper_of,
    pids_in,
    shell,
    until,
    waits_of,
    written,
)
from tokimori.clock import HOUR, SECOND
from tokimori.executors.keeper.kernel import boottime
from tokimori.model.outcome import Cancelled, Failed, Released, Succeeded, TimedOut
from tokimori.model.target import Command
from tokimori.ports.executor import Ended, Started, StopReason

pytestmark = pytest.mark.parametrize("workshop", BOTH_WAYS, indirect=True)


async def test_a_time_out_ends_a_process_by_term(workshop: Workshop) -> None:
    """A process that takes too long gets TERM and is timed out, even if it then exits with 0."""
    ended = await workshop.run(shell("trap 'exit 0' TERM; while :; do sleep 0.01; done"), timeout=0.3)
    assert ended.outcome == TimedOut("it took longer than 0.3 s", exit_code=0)
    ended = await workshop.run(shell("exec sleep 1000"), timeout=0.3)
    assert ended.outcome == TimedOut("it took longer than 0.3 s", signal=15)
    assert ended.started is not None
    assert 300_000 <= ended.at - ended.started < 3_000_000


async def test_who_ignores_term_is_killed(workshop: Workshop, tmp_path: Path) -> None:
    """A whole group that ignores TERM is killed when the grace is over, and not before."""
    text = f"trap '' TERM; echo $$ >>{tmp_path}/pids; (sh -c 'echo $$; exec sleep 1000' >>{tmp_path}/pids) & wait; wait"
    before = time.monotonic()
    ended = await workshop.run(shell(text), timeout=0.4, timeout_grace=0.6)
    assert ended.outcome == TimedOut("it took longer than 0.4 s", signal=9)
    assert 1.0 <= time.monotonic() - before < 5
    assert [alive(pid) for pid in await pids_in(tmp_path / "pids", 2)] == [False, False]


async def test_who_leaves_its_group_is_ended_all_the_same(workshop: Workshop, tmp_path: Path) -> None:
    """A leader that joins the group of its keeper hears TERM once, and KILL."""
    code = f"""
import os, signal, time
told = open("{tmp_path}/told", "a", buffering=1)
signal.signal(signal.SIGTERM, lambda *_: told.write("TERM\\n"))
os.setpgid(0, os.getpgid(os.getppid()))
while True:
    time.sleep(0.1)
"""
    ended = await workshop.run(Command(argv=(sys.executable, "-c", code)), timeout=0.5, timeout_grace=0.5)
    assert ended.outcome == TimedOut("it took longer than 0.5 s", signal=9)
    assert (tmp_path / "told").read_text() == "TERM\n"


async def test_a_stopped_group_has_its_grace_though_its_leader_is_gone(workshop: Workshop, tmp_path: Path) -> None:
    """After a TERM, the rest of the group may finish within the grace: a leader may be faster."""
    child = f"trap 'sleep 0.5; echo done >{tmp_path}/farewell; exit' TERM; echo ok; while :; do sleep 0.01; done"
    workshop.start("run", shell(f'sh -c "{child}" & exec sleep 1000'))
    started = await workshop.next(Started, "run")
    await until(lambda: (workshop.log("run")).exists())
    workshop.executor.stop(started.run_id, started.token, StopReason.RELEASE)
    assert (await workshop.next(Ended, "run")).outcome == Released("its node stopped it", signal=15)
    assert (tmp_path / "farewell").read_text() == "done\n"


async def test_a_second_stop_may_shorten_the_grace(workshop: Workshop, tmp_path: Path) -> None:
    """The shortest grace counts, also for what a dead leader has left."""
    deaf = f"(trap '' TERM; echo $$ >{tmp_path}/pid; exec sleep 1000) &"
    workshop.start("run", shell(f"{deaf} until [ -s {tmp_path}/pid ]; do :; done; exec sleep 1000"))
    started = await workshop.next(Started, "run")
    await pids_in(tmp_path / "pid")
    workshop.executor.stop(started.run_id, started.token, StopReason.CANCEL, grace=1000)
    await until(lambda: not alive(started.pid))
    assert workshop.all(Ended, "run") == []
    workshop.executor.stop(started.run_id, started.token, StopReason.CANCEL, grace=0)
    assert (await workshop.next(Ended, "run")).outcome == Cancelled("cancelled", signal=15)


async def test_a_stopped_process_hears_term(workshop: Workshop) -> None:
    """A process that was halted by SIGSTOP is woken to hear its TERM."""
    workshop.start("run", shell("exec sleep 1000"))
    started = await workshop.next(Started, "run")
    os.kill(started.pid, signal.SIGSTOP)
    workshop.executor.stop(started.run_id, started.token, StopReason.CANCEL, grace=1000)
    assert (await workshop.next(Ended, "run")).outcome == Cancelled("cancelled", signal=15)


async def test_what_a_process_leaves_in_its_group_is_ended(workshop: Workshop, tmp_path: Path) -> None:
    """Children and grandchildren in the background end with the process that started them."""
    pids = tmp_path / "pids"
    pids.touch()
    family = f"sh -c 'echo $$; sh -c \"echo \\$\\$; sleep 1000; :\"; :' >{pids} &"
    ended = await workshop.run(shell(f"{family} until [ $(wc -l <{pids}) = 2 ]; do sleep 0.01; done"))
    assert ended.outcome == Succeeded(0)
    assert [alive(pid) for pid in await pids_in(tmp_path / "pids", 2)] == [False, False]


async def test_what_left_the_group_but_not_the_session_is_ended(workshop: Workshop, tmp_path: Path) -> None:
    """Jobs that a shell put into groups of their own (job control) end with it, and nobody else's do."""
    stray = "set -m; sh -c 'echo $$; exec sleep 1000' >{} 2>/dev/null & until [ -s {} ]; do sleep 0.01; done; {}"
    other, mine = tmp_path / "other", tmp_path / "mine"
    workshop.start("other", shell(stray.format(other, other, "exec sleep 1000"), shell_path="/bin/bash"))
    (innocent,) = await pids_in(other)
    workshop.start("run", shell(stray.format(mine, mine, "exit 0"), shell_path="/bin/bash"))
    assert (await workshop.next(Ended, "run")).outcome == Succeeded(0)
    (pid,) = await pids_in(mine)
    await until(lambda: not alive(pid))
    assert alive(innocent)
    assert os.getpgid(innocent) == innocent


async def test_who_goes_over_to_another_group_ends_as_himself(workshop: Workshop, tmp_path: Path) -> None:
    """His end is not taken along with that group, of which the other's end was seen first; the keeper lives on."""
    moves = f"import os,time; os.setpgid(0, int(open({str(tmp_path / 'a')!r}).read())); "
    moves += f"print(os.getpid(), file=open({str(tmp_path / 'b')!r}, 'w'), flush=True); time.sleep(1000)"
    workshop.start("a", shell(f"sleep 1000 & echo $$ > {tmp_path}/a; wait"))
    (first,) = await pids_in(tmp_path / "a")
    workshop.start("b", Command(argv=(sys.executable, "-c", moves)))
    (other,) = await pids_in(tmp_path / "b")
    workshop.start("bystander", shell("sleep 1; echo well"))
    await workshop.next(Started, "bystander")
    keeper = keeper_of(first)
    os.kill(keeper, signal.SIGSTOP)
    for pid in (first, other):
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: not alive(pid))  # type: ignore[misc]
    os.kill(keeper, signal.SIGCONT)
    outcomes = [(await workshop.next(Ended, run)).outcome for run in ("a", "b", "bystander")]
    assert outcomes == [Failed("signal 9 (SIGKILL)", signal=9)] * 2 + [Succeeded(0)]


async def test_a_daemon_does_not_hold_its_run(workshop: Workshop, tmp_path: Path) -> None:
    """A process that made itself a daemon may live on, as with cron, and a pipe that it holds delays the end little."""
    file = tmp_path / "pid"
    text = f"echo early; setsid sh -c 'echo $$ >{file}; exec sleep 1000' & until [ -s {file} ]; do sleep 0.01; done"
    before = time.monotonic()
    ended = await workshop.run(shell(text))
    assert time.monotonic() - before < 2
    assert ended.outcome == Succeeded(0)
    assert written(ended) == b"early\n"
    (daemon,) = await pids_in(file)
    assert alive(daemon)
    os.kill(daemon, signal.SIGKILL)
    await until(lambda: not alive(daemon))
    await workshop.run(shell("exit 0"))
    await until(lambda: not exists(daemon))


async def test_a_daemon_that_writes_without_end_does_not_hold_the_keeper(workshop: Workshop, tmp_path: Path) -> None:
    """A daemon that keeps filling the pipe of an ended command neither delays its end nor anybody else's."""
    file = tmp_path / "pid"
    daemon_text = f"echo $$ >{file}; for i in 1 2 3 4; do yes & done; wait"
    text = f"setsid sh -c '{daemon_text}' & until [ -s {file} ]; do sleep 0.01; done"
    before = time.monotonic()
    workshop.start("run", shell(text))
    assert (await workshop.run(shell("exit 0"))).outcome == Succeeded(0)
    assert (await workshop.next(Ended, "run")).outcome == Succeeded(0)
    assert time.monotonic() - before < 3
    (daemon,) = await pids_in(file)
    await until(lambda: not alive(daemon))


async def test_zombies_do_not_pile_up(workshop: Workshop) -> None:
    """Orphans that the keeper has adopted are collected when they end."""
    workshop.start("long", shell("for i in 1 2 3; do (sleep 0.05 & ) ; done; exec sleep 1000"))
    keeper = keeper_of((await workshop.next(Started, "long")).pid)
    await until(lambda: len(children_of(keeper)) == 4 or not workshop.pidfd)
    await until(lambda: len([pid for pid in children_of(keeper) if alive(pid)]) == 1)
    await workshop.run(shell("exit 0"))
    await until(lambda: len(children_of(keeper)) == 1)


async def test_close_ends_everything_at_once(workshop: Workshop, tmp_path: Path) -> None:
    """Closing kills what runs, reports it released, and leaves neither a process nor a note."""
    workshop.start("run", shell(f"trap '' TERM; (echo $$; exec sleep 1000) >{tmp_path}/pid & wait"))
    await workshop.next(Started, "run")
    pids = await pids_in(tmp_path / "pid")
    before = time.monotonic()
    await workshop.executor.close()
    assert time.monotonic() - before < 3
    assert (await workshop.next(Ended, "run")).outcome == Released("its node stopped it", signal=9)
    assert not any(map(alive, pids))
    assert list((workshop.state / "keepers").iterdir()) == []


async def test_a_lost_lease_ends_what_is_bound_to_it(workshop: Workshop) -> None:
    """TERM comes at 5 s, KILL at 6.5 s after the last renewal was sent; others live on, and nothing new begins."""
    workshop.executor.renew(boottime() - 4.0)
    workshop.start("polite", shell("exec sleep 1000"), kill_on_lost_lease=True)
    workshop.start("deaf", shell("trap '' TERM; while :; do sleep 0.01; done"), kill_on_lost_lease=True)
    workshop.start("free", shell("exec sleep 1000"))
    begun = (await workshop.next(Started, "free")).at
    polite, deaf = await workshop.next(Ended, "polite"), await workshop.next(Ended, "deaf")
    assert polite.outcome == Released("its node's lease ran out", signal=15)
    assert deaf.outcome == Released("its node's lease ran out", signal=9)
    assert 0.8e6 < polite.at - begun < 1.4e6
    assert 2.3e6 < deaf.at - begun < 2.9e6
    late = await workshop.run(Command(argv=("true",)), kill_on_lost_lease=True)
    assert late.outcome == Released("its node's lease ran out")
    assert workshop.all(Ended, "free") == []
    workshop.executor.renew(boottime())
    assert (await workshop.run(Command(argv=("true",)), kill_on_lost_lease=True)).outcome == Succeeded(0)


async def test_a_renewed_lease_ends_nothing(workshop: Workshop) -> None:
    """A renewal moves the deadlines."""
    workshop.executor.renew(boottime() - 4.7)
    workshop.start("run", shell("exec sleep 0.6"), kill_on_lost_lease=True)
    await workshop.next(Started, "run")
    workshop.executor.renew(boottime())
    assert (await workshop.next(Ended, "run")).outcome == Succeeded(0)


async def test_a_keeper_without_work_sleeps(workshop: Workshop) -> None:
    """While nothing runs, renewals don't wake the keeper; what begins next is bound to the newest one."""
    workshop.start("run", shell("exec sleep 0.1"))
    keeper = keeper_of((await workshop.next(Started, "run")).pid)
    await workshop.next(Ended, "run")
    workshop.executor.renew(boottime() - 60)
    late = await workshop.run(Command(argv=("true",)), kill_on_lost_lease=True)
    assert late.outcome == Released("its node's lease ran out")
    await asyncio.sleep(0.3)
    before = waits_of(keeper)
    for ago in (4.0, 2.0, 0.0):
        workshop.executor.renew(boottime() - ago)
        await asyncio.sleep(0.05)
    assert waits_of(keeper) == before
    assert (await workshop.run(Command(argv=("true",)), kill_on_lost_lease=True)).outcome == Succeeded(0)


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_moves_both_ends(workshop: Workshop, hours: int) -> None:
    """Where the machine's clock is set while a command runs, its begin is told by the same clock as its end."""
    workshop.start("run", shell("sleep 0.2"))
    await workshop.next(Started, "run")
    workshop.clock.offset = hours * HOUR
    ended = await workshop.next(Ended, "run")
    assert ended.started is not None
    assert SECOND // 10 < ended.at - ended.started < 10 * SECOND
