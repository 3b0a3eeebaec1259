"""Deciding what is due, and having the store write it."""

from itertools import count

import pytest

from tests.unit.engine.world import Broken, World
from tests.unit.examples import NEW_YEAR, Counting, Every, a_definition, a_job, a_run, seconds
from tests.unit.turns import turns_of_others
from tests.unit.virtual import Link
from tokimori.clock import SECOND
from tokimori.engine.fire import (
    LONGEST,
    LONGEST_TOGETHER,
    MOST_REPLACED,
    MOST_RUNS,
    MOST_WALKED,
    Decided,
    Schedules,
    decide_and_apply,
    fire,
)
from tokimori.errors import Conflict, NotFound, StoreUnavailable
from tokimori.model.decide import Due
from tokimori.model.ids import JobId, Lane, RunId
from tokimori.model.job import JobState
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.schedules.schedule import OnDemand


@pytest.fixture
def world() -> World:
    """An empty one."""
    return World()


async def test_due_jobs_become_runs(world: World) -> None:
    """Whatever is due is decided and written; the lanes are those in which the runs are ready."""
    await world.add("a")
    await world.add("b", queue="other")
    assert await world.fire(2) == frozenset({Lane("default||"), Lane("other||")})
    assert await world.nominals("a") == [seconds(1), seconds(2)]
    assert (await world.store.get_job(JobId("a"))).fired_through == seconds(2)


async def test_runs_made_at_once_are_listed_in_order(world: World) -> None:
    """Of a job's runs made at one moment the ids, by which they are listed, are in the order of its occurrences."""
    descending = iter(range(1 << 40, 0, -(1 << 9)))
    await world.add("a")
    await fire(world.store, seconds(5), lambda n: next(descending).to_bytes(n), world.schedule_for)
    newest_first = [run.nominal for run in await world.store.list_runs(RunFilter(job_id=JobId("a")))]
    assert newest_first == [seconds(second) for second in (5, 4, 3, 2, 1)]


async def test_nothing_is_due(world: World) -> None:
    """Before the first moment nothing is written."""
    await world.add("a")
    assert await world.fire(0.5) is None
    assert await world.nominals("a") == []


async def test_two_planners_have_one_winner(world: World) -> None:
    """Of two nodes that plan the same job, one writes and counts the runs; the other's plan counts for nothing."""
    job = await world.add("a")
    due = [await world.store.get_due(job.id)]
    first = await decide_and_apply(world.store, due, seconds(3), world.random, world.schedule_for)
    second = await decide_and_apply(world.store, due, seconds(3), world.random, world.schedule_for)
    assert ([len(plan.runs) for plan in first.applied], second) == ([3], Decided([], 1))
    assert await world.nominals("a") == [seconds(1), seconds(2), seconds(3)]


async def test_a_stale_plan_hinders_no_other(world: World) -> None:
    """A job that was changed meanwhile does not keep the others of its batch from firing."""
    a, b = await world.add("a"), await world.add("b")
    dues = [await world.store.get_due(job.id) for job in (a, b)]
    await world.store.delete_job(a.id, NEW_YEAR)
    decided = await decide_and_apply(world.store, dues, seconds(1), world.random, world.schedule_for)
    assert ([plan.job_id for plan in decided.applied], decided.refused) == (["b"], 1)


async def test_a_job_that_can_not_be_decided_is_parked(world: World) -> None:
    """It stops with the reason, fires no more, and keeps no other job from firing."""
    await world.add("broken")
    await world.add("whole")
    world.schedules["broken"] = Broken()
    assert await world.fire(1) == frozenset({Lane("default||")})
    assert await world.nominals("whole") == [seconds(1)]
    parked = await world.store.get_job(JobId("broken"))
    assert (parked.state, parked.by, parked.next_due, parked.version) == (JobState.PARKED, "tokimori", None, 1)
    assert "no moment" in str(parked.reason)
    assert await world.store.due(seconds(99), 10) != []
    assert "broken" not in [due.job.id for due in await world.store.due(seconds(99), 10)]


@pytest.mark.parametrize("fault", [Conflict("changed"), NotFound("gone")])
async def test_a_broken_job_that_was_changed_meanwhile_is_left_alone(world: World, fault: Exception) -> None:
    """Somebody who edits or deletes the broken job just then is not overruled."""
    job = await world.add("broken")
    world.schedules["broken"] = Broken()
    due = await world.store.get_due(job.id)
    if isinstance(fault, NotFound):
        await world.store.delete_job(job.id, NEW_YEAR)
    else:
        await world.store.replace_job(job, a_job(job.definition, id=job.id, version=2))
    assert await decide_and_apply(world.store, [due], seconds(1), world.random, world.schedule_for) == Decided([], 0)


async def test_waiting_runs_become_ready(world: World) -> None:
    """A retry whose moment has come is made ready, also where no job is due."""
    job = await world.add("a", schedule=None)
    for name, due in [("early", 5), ("late", 9)]:
        run = a_run(id=RunId(name), job_id=job.id, origin=name, state=RunState.WAITING, due=seconds(due))
        await world.store.add_run(run, NEW_YEAR)
    world.schedules["a"] = OnDemand()
    await world.fire(5)
    assert (await world.store.get_run(RunId("early"))).state is RunState.READY
    assert (await world.store.get_run(RunId("late"))).state is RunState.WAITING


async def test_no_more_jobs_than_the_limit(world: World) -> None:
    """One call decides at most so many jobs; the others are still due."""
    for name in "abc":
        await world.add(name)
    await world.fire(1, limit=2)
    assert (await world.store.survey(seconds(1))).next_due == seconds(1)
    await world.fire(1, limit=2)
    assert [await world.nominals(name) for name in "abc"] == [[seconds(1)]] * 3


async def test_a_flood_is_written_in_parts(world: World) -> None:
    """However much many jobs have to catch up with, one call plans about MOST_RUNS runs: beats have to come between."""
    for n in range(10):
        await world.add(f"j{n}", misfire=Misfire.ALL)
    counts = []
    for _ in range(3):
        await world.fire(500)
        counts.append(len(await world.store.list_runs(RunFilter(limit=10**6))))
    assert counts == [MOST_RUNS, 2 * MOST_RUNS, 5000]
    assert [len(await world.nominals(f"j{n}")) for n in range(10)] == [500] * 10


async def test_a_flood_of_skips_is_decided_in_parts(world: World) -> None:
    """Skips that are decided one by one count too: one call walks about MOST_WALKED of them, of however many jobs."""
    schedule = Counting(Every(SECOND))
    for n in range(4):
        job = await world.add(f"j{n}", late_after=86_400, max_running=1)
        world.schedules[job.id] = schedule
        run = a_run(id=RunId(job.id), job_id=job.id, incarnation=job.incarnation, origin="m:1", state=RunState.READY)
        await world.store.add_run(run, NEW_YEAR)
    steps = []
    while (await world.store.survey(NEW_YEAR)).next_due < seconds(MOST_WALKED * 0.6):  # type: ignore[operator]
        asked = schedule.asked
        await world.fire(MOST_WALKED * 0.6)
        steps.append(schedule.asked - asked)
    assert len(steps) == 2
    assert max(steps) < 1.5 * MOST_WALKED
    for n in range(4):
        (skip,) = await world.store.skips(JobId(f"j{n}"))
        assert (skip.count, skip.reason) == (MOST_WALKED * 0.6, SkipReason.OVERLAP)


async def test_a_decision_that_takes_long_gives_way(world: World) -> None:
    """It is gone on with in the next transaction, and after each one others have the loop; nothing is lost."""
    for name in "abc":
        await world.add(name)
    dues = [await world.store.get_due(JobId(name)) for name in "abc"]
    slow = (n * 2 * LONGEST for n in count())
    async with turns_of_others() as turns:
        decided = await decide_and_apply(
            world.store, dues, seconds(5), world.random, world.schedule_for, monotonic=lambda: next(slow)
        )
    assert [len(plan.runs) for plan in decided.applied] == [1, 1, 1]
    assert turns.count >= len("abc")
    while await world.fire(5):
        pass
    assert [await world.nominals(name) for name in "abc"] == [[seconds(n) for n in range(1, 6)]] * 3


async def test_many_slow_decisions_leave_time_for_a_beat(world: World) -> None:
    """One transaction decides no more of them than a beat may wait for; the next ones go on until all are decided."""
    names = [f"job-{n}" for n in range(50)]
    for name in names:
        await world.add(name)
    dues = [await world.store.get_due(JobId(name)) for name in names]
    slow = (n * 2 * LONGEST for n in count())
    decided = await decide_and_apply(
        world.store, dues, seconds(1), world.random, world.schedule_for, monotonic=lambda: next(slow)
    )
    assert 0 < len(decided.applied) <= LONGEST_TOGETHER / LONGEST
    while await world.fire(1):
        pass
    assert [await world.nominals(name) for name in names] == [[seconds(1)]] * 50


async def test_one_transaction_replaces_a_bounded_number_of_runs(world: World) -> None:
    """Jobs whose newcomers take the places of many runs wait for the next transaction once those are too many."""
    names = [f"job-{n}" for n in range(8)]
    running = dict.fromkeys(names, MOST_REPLACED)
    jobs = [await world.add(name, max_running=running[name], on_overlap=Overlap.REPLACE) for name in names]
    dues = [Due(job=job, active=MOST_REPLACED) for job in jobs]
    decided = await decide_and_apply(world.store, dues, seconds(1), world.random, world.schedule_for)
    assert len(decided.applied) == 1
    while await world.fire(1):
        pass
    assert [await world.nominals(name) for name in names] == [[seconds(1)]] * 8


async def test_a_lost_reply_doubles_nothing(world: World) -> None:
    """The reply to an apply is lost: whoever fires next finds the job decided, and makes no run twice."""
    await world.add("a")
    link = Link(world.store)
    link.lose_reply["apply"] = 1
    with pytest.raises(StoreUnavailable):
        await fire(link.store, seconds(2), world.random, world.schedule_for)
    assert await world.fire(2) is None
    assert await world.nominals("a") == [seconds(1), seconds(2)]


def test_schedules_are_parsed_once_for_each_version() -> None:
    """A job's schedule is kept while the job is what it was; the oldest are forgotten when there are too many."""
    schedules = Schedules(size=2)
    first = a_job(a_definition(schedule="every second"))
    kept = schedules(first)
    assert schedules(first) is kept
    assert schedules(a_job(a_definition(schedule="0 0 * * *"), version=2)) != kept
    schedules(a_job(a_definition(schedule="0 1 * * *"), version=3))
    assert schedules(first) is not kept
    assert schedules(first) == kept
