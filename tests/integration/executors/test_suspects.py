"""A command that gets its keeper killed: its neighbours live on, and keepers follow each other with pauses."""

import asyncio
import logging
import os
import signal
import time

import pytest

from tests.integration.executors.workshop import Workshop, alive, children_of, keeper_of, shell, told, until
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_post import KeeperPost
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Cancelled, Lost, Released, Succeeded
from tokimori.ports.executor import Ended, Started, StopReason

LASTS = shell("exec sleep 1000")


async def nth_end(workshop: Workshop, run: str, count: int) -> Ended:
    """How the nth attempt of the run ended."""
    await until(lambda: len(workshop.all(Ended, run)) >= count)
    return workshop.all(Ended, run)[count - 1]


async def nth_start(workshop: Workshop, run: str, count: int) -> Started:
    """The beginning of the nth of the run's attempts that began."""
    await until(lambda: len(workshop.all(Started, run)) >= count)
    return workshop.all(Started, run)[count - 1]


async def kill_common_keeper(workshop: Workshop, *jobs: str, times: int = 1) -> None:
    """Have it die so often while a run of each of these jobs runs."""
    for _ in range(times):
        token = 1 + len(workshop.all(Started, jobs[0]))
        for job in jobs:
            workshop.start(job, LASTS, job_id=JobId(job), token=Token(token))
        for job in jobs:
            pid = (await nth_start(workshop, job, token)).pid
        os.kill(keeper_of(pid), signal.SIGKILL)
        for job in jobs:
            await nth_end(workshop, job, token)


async def test_neighbours_of_a_command_that_kills_its_keeper_live_on(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    """After three deaths that cost nobody anything each suspect has a keeper of its own; then the culprit pays for all.

    Its next run begins apart, and its neighbours do not notice.
    """
    caplog.set_level(logging.WARNING)
    await kill_common_keeper(workshop, "bad", "good", times=3)
    for run in ("bad", "good"):
        assert [end.outcome.counts for end in workshop.all(Ended, run) if isinstance(end.outcome, Lost)] == [0, 0, 0]
    for run in ("bad", "good", "new"):
        workshop.start(run, LASTS, job_id=JobId(run), token=Token(4))
    bad, good, new = [
        (await nth_start(workshop, run, count)).pid for run, count in (("bad", 4), ("good", 4), ("new", 1))
    ]
    keepers = {keeper_of(pid) for pid in (bad, good, new)}
    assert len(keepers) == 3
    culprit = keeper_of(bad)
    os.kill(culprit, signal.SIGKILL)
    assert (await nth_end(workshop, "bad", 4)).outcome == Lost(f"its keeper died (pid {culprit}, signal 9, SIGKILL)", 4)
    workshop.start("bad-again", LASTS, job_id=JobId("bad"))
    again = keeper_of((await workshop.next(Started, "bad-again")).pid)
    assert again not in keepers
    os.kill(again, signal.SIGKILL)
    assert (await workshop.next(Ended, "bad-again")).outcome == Lost(
        f"its keeper died (pid {again}, signal 9, SIGKILL)"
    )
    assert (alive(good), alive(new)) == (True, True)
    assert "run bad of bad, run good of good" in caplog.messages[0]
    assert "get keepers of their own: bad, good" in caplog.text
    assert f"only job bad ran when keeper {culprit} died" in caplog.text


async def test_a_keeper_for_suspects_goes_with_the_last_of_their_attempts(workshop: Workshop) -> None:
    """It takes memory only while it has something to do; another one comes when it is needed, at once after an end."""
    await kill_common_keeper(workshop, "a", "b", times=3)
    workshop.start("a-1", shell("sleep 0.2"), job_id=JobId("a"))
    keeper = keeper_of((await workshop.next(Started, "a-1")).pid)
    assert (await workshop.next(Ended, "a-1")).outcome == Succeeded(0)
    workshop.start("a-2", shell("sleep 0.2"), job_id=JobId("a"))
    asked = time.monotonic()
    second = keeper_of((await workshop.next(Started, "a-2")).pid)
    assert time.monotonic() - asked < 1.5
    await until(lambda: not alive(keeper))
    assert (await workshop.next(Ended, "a-2")).outcome == Succeeded(0)
    await until(lambda: not alive(second))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds after which keepers were to be replaced, as they die."""
    pauses: list[float] = []
    open_later = KeeperPost.open_later

    def noted(post: KeeperPost, pause: float, after: asyncio.Future[None] | None = None) -> None:
        pauses.append(pause)
        open_later(post, pause, after)

    monkeypatch.setattr(KeeperPost, "open_later", noted)
    return pauses


async def test_keepers_that_die_in_a_row_are_replaced_after_a_pause(workshop: Workshop, pauses: list[float]) -> None:
    """The first is replaced at once, the second after a second, the third after two: what has to run waits for it."""
    waits = []
    for number in range(3):
        await kill_common_keeper(workshop, f"job-{number}")
        asked = time.monotonic()
        assert (await workshop.run(shell("true"), job_id=JobId(f"other-{number}"))).outcome == Succeeded(0)
        waits.append(time.monotonic() - asked)
    assert pauses == [0.0, 1.0, 2.0]
    assert waits[1] > 0.9 and waits[2] > 1.9


async def test_deaths_far_apart_cost_no_pause(
    workshop: Workshop, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a keeper had lived for a while, the next one starts at once, however many died before."""
    monkeypatch.setattr("tokimori.executors.keeper_post.ALIVE_AND_WELL", 0.0)
    for number in range(3):
        await kill_common_keeper(workshop, f"job-{number}")
    assert pauses == [0.0] * 3


async def test_a_pause_does_not_hold_up_the_end(workshop: Workshop) -> None:
    """While no keeper runs, closing does not wait for one; what waited for it is released."""
    for number in range(4):
        await kill_common_keeper(workshop, f"job-{number}")
    workshop.start("waits", shell("true"), job_id=JobId("waits"))
    asked = time.monotonic()
    await workshop.executor.close()
    assert time.monotonic() - asked < 2.0
    assert (await workshop.next(Ended, "waits")).outcome == Released("its node stopped it")


@pytest.mark.parametrize("after", [0.0, 0.002, 0.02])
async def test_closing_right_after_a_death_tells_of_every_attempt(workshop: Workshop, after: float) -> None:
    """Each is reported once, whether the death was noticed before or not, and no process is left."""
    for run in ("a", "b"):
        workshop.start(run, LASTS, job_id=JobId(run))
    pids = [(await workshop.next(Started, run)).pid for run in ("a", "b")]
    os.kill(keeper_of(pids[0]), signal.SIGKILL)
    await asyncio.sleep(after)
    await workshop.executor.close()
    for run in ("a", "b"):
        (ended,) = workshop.all(Ended, run)
        assert isinstance(ended.outcome, Lost | Released)
    assert not any(map(alive, pids))
    assert [pid for pid in children_of(os.getpid()) if told(pid, "comm") == "tokimori-keeper\n"] == []


@pytest.mark.parametrize("waits", [True, pytest.param(False, marks=pytest.mark.prove)])
async def test_the_lease_is_told_to_the_next_keeper(workshop: Workshop, *, waits: bool) -> None:
    """What a new keeper begins ends with the lease that its predecessor was told, too: no new one need be renewed.

    Whether the order waited for the keeper, or came when it was there.
    """
    workshop.executor.renew(boottime())
    await kill_common_keeper(workshop, "first")
    if not waits:
        await until(lambda: len(list((workshop.state / "keepers").glob("*.keeper"))) == 1)
        await asyncio.sleep(0.2)
    workshop.start("bound", LASTS, job_id=JobId("bound"), kill_on_lost_lease=True)
    ended = await workshop.next(Ended, "bound")
    assert ended.outcome == Released("its node's lease ran out", signal=15)
    assert ended.started is not None


async def test_a_stop_finds_its_attempt_in_whatever_keeper(workshop: Workshop) -> None:
    """A suspect in a keeper of its own is stopped, and its lease renewed, like any other."""
    await kill_common_keeper(workshop, "a", "b", times=3)
    workshop.executor.renew(boottime())
    workshop.start("a-1", LASTS, job_id=JobId("a"), kill_on_lost_lease=True)
    await workshop.next(Started, "a-1")
    for _ in range(8):
        workshop.executor.renew(boottime() - 3)
        await asyncio.sleep(0.5)
    assert workshop.all(Ended, "a-1") == []
    workshop.executor.stop(RunId("a-1"), Token(7), StopReason.CANCEL)
    assert (await workshop.next(Ended, "a-1")).outcome == Cancelled("cancelled", signal=15)
