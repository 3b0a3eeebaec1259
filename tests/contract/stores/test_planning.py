"""From schedules to runs: an occurrence becomes one run or one skip, whoever plans it."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_job,
    a_request,
    add_job,
    fire,
    later,
    planned,
    random_bytes,
    state_of,
)
from tokimori.clock import SECOND, Moment
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, RetryAt
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Run, SkipReason, scheduled_origin
from tokimori.model.transitions import ACTIVE, RunState
from tokimori.ports.planning import MOST_MAKING_WAY, Share
from tokimori.ports.store import RunFilter, Store

FREE = 0
"""`max_running` of a job without limit."""


async def runs_of(store: Store) -> list[Run]:
    """All runs, by nominal time."""
    return sorted(await store.list_runs(RunFilter(limit=10_000)), key=lambda run: (run.nominal, run.id))


async def test_what_is_due_is_found_longest_due_first(store: Store) -> None:
    """`due` gives the enabled jobs whose moment has come, the longest due first, as many as asked for."""
    for name, second in (("a", 3), ("b", 1), ("c", 2), ("d", 9)):
        await add_job(store, name, schedule=EVERY_SECOND, next_due=later(second))
    await add_job(store, "on-demand")
    assert [due.job.id for due in await store.due(later(3), 10)] == ["b", "c", "a"]
    assert [due.job.id for due in await store.due(later(3), 2)] == ["b", "c"]
    assert await store.due(later(0.9), 10) == []
    assert (await store.survey(NOW)).next_due == later(1)


async def test_shares_are_all_that_is_due_each_job_in_one(store: Store) -> None:
    """The parts of what is due have no job in common, and leave none out; each has the longest due first."""
    for number in range(40):
        await add_job(store, f"job{number:02}", schedule=EVERY_SECOND, next_due=later(1 + number % 7))
    parts = [[due.job for due in await store.due(later(9), 10, Share(part, 4))] for part in range(4)]
    parts += [[due.job for due in await store.due(later(9), 50, Share(part, 4))][10:] for part in range(4)]
    assert sorted(job.id for part in parts for job in part) == [f"job{number:02}" for number in range(40)]
    for part in parts:
        assert [job.next_due for job in part] == sorted(job.next_due or NOW for job in part)


async def test_planned_runs_are_born_ready_where_due(store: Store) -> None:
    """A plan's runs wait until they are due, and stand where the plan says."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE, priority=2)
    (due,) = await store.due(later(2), 1)
    plan, ids = planned(due, later(2))
    first, second = plan.runs
    plan = replace(plan, runs=(first, replace(second, due=later(30))))
    assert await store.apply([(plan, ids)], later(2)) == [True]
    ready, waiting = await runs_of(store)
    assert (ready.id, ready.state, ready.origin) == (ids[0], RunState.READY, scheduled_origin(later(1)))
    assert (ready.rank, ready.lane, ready.job_id) == (later(1) - 2 * 60 * SECOND, "default||", job.id)
    assert (ready.incarnation, ready.created, ready.priority) == (job.incarnation, later(2), 2)
    assert (waiting.state, waiting.due) == (RunState.WAITING, later(30))


async def test_waiting_runs_are_promoted_when_due(store: Store) -> None:
    """A waiting run becomes ready at its moment, the earliest first, and not before."""
    job = await add_job(store, max_running=FREE)
    runs = [await store.add_run(a_request(job, due=later(second)), NOW) for second in (3, 1, 2)]
    assert await store.promote(later(0.5), 10) == 0
    assert await store.promote(later(3), 2) == 2
    assert [await state_of(store, run) for run in runs] == [RunState.WAITING, RunState.READY, RunState.READY]
    assert await store.promote(later(3), 2) == 1


async def test_of_two_planners_one_wins(store: Store) -> None:
    """Two nodes that decide the same occurrences make one run of each; the loser is told."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE)
    (due,) = await store.due(later(5), 1)
    answers = await asyncio.gather(*(store.apply([planned(due, later(5))], later(5)) for _ in range(4)))
    assert sorted(answers) == [[False]] * 3 + [[True]]
    assert [run.nominal for run in await runs_of(store)] == [later(second) for second in range(1, 6)]


async def test_two_plans_of_one_job_in_a_batch_are_one(store: Store) -> None:
    """A batch that holds two plans of the same occurrences writes the first."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE)
    (due,) = await store.due(later(2), 1)
    assert await store.apply([planned(due, later(2)), planned(due, later(2))], later(2)) == [True, False]
    assert len(await runs_of(store)) == 2


async def test_a_refused_plan_hinders_no_other(store: Store) -> None:
    """In a batch, plans that hold are written though others don't."""
    for name in ("a", "b"):
        await add_job(store, name, schedule=EVERY_SECOND, next_due=later(1))
    stale, fresh = await store.due(later(1), 2)
    await store.apply([planned(stale, later(1))], later(1))
    assert await store.apply([planned(stale, later(1)), planned(fresh, later(1))], later(1)) == [False, True]


@pytest.mark.parametrize("field", ["version", "fired_from", "incarnation"])
async def test_a_plan_needs_the_job_it_was_made_from(store: Store, field: str) -> None:
    """A plan made from another version, cursor or life of the job writes nothing."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(1), 1)
    plan, ids = planned(due, later(1))
    wrong = replace(plan, **{field: getattr(plan, field) - 1})
    assert await store.apply([(wrong, ids)], later(1)) == [False]
    assert await runs_of(store) == []
    assert await store.get_job(job.id) == job


async def test_an_occurrence_that_has_a_run_gets_no_other(store: Store) -> None:
    """An origin that exists is passed over, and the rest of the plan is written."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE)
    known = await store.add_run(a_request(job, nominal=later(1), origin=scheduled_origin(later(1))), NOW)
    (due,) = await store.due(later(2), 1)
    assert await store.apply([planned(due, later(2))], later(2)) == [True]
    first, second = await runs_of(store)
    assert (first.id, second.nominal) == (known.id, later(2))


async def test_consecutive_skips_are_one_row(store: Store) -> None:
    """While a job is full its skipped occurrences extend one row of the ledger; a run between them begins another."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1)
    worker = await Worker.join(store)
    for second in (1, 2, 3, 4):
        await fire(store, later(second))
    (skip,) = await store.skips(job.id)
    assert (skip.first, skip.last, skip.count, skip.reason) == (later(2), later(4), 3, SkipReason.OVERLAP)
    assert (await store.get_due(job.id)).tail == skip
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await fire(store, later(5))
    assert (await store.get_due(job.id)).tail is None
    await fire(store, later(6))
    assert [skip.count for skip in await store.skips(job.id)] == [1, 3]
    assert [skip.count for skip in await store.skips(job.id, limit=1)] == [1]


async def test_a_job_without_further_moments_is_finished(store: Store, worker: Worker) -> None:
    """A plan that leaves no next moment finishes its job, whose last run is still carried out."""
    await add_job(store, schedule="at 2030-01-01T00:00:01Z", next_due=later(1))
    await fire(store, later(1))
    job = await store.get_job(JobId("job"))
    assert (job.state, job.next_due, job.fired_through) == (JobState.FINISHED, None, later(1))
    (claimed,) = await worker.claim()
    assert claimed.run.nominal == later(1)
    await store.add_run(a_request(job), NOW)


async def test_a_cursor_moves_with_each_plan(store: Store) -> None:
    """What has been decided is not decided again, whatever the clock says later."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE)
    await fire(store, later(3))
    job = await store.get_job(JobId("job"))
    assert (job.fired_through, job.next_due) == (later(3), later(4))
    assert await fire(store, later(1)) == []
    assert len(await runs_of(store)) == 3


async def test_a_newcomer_replaces_the_runs_before_it(store: Store, worker: Worker) -> None:
    """`replace` cancels the job's scheduled runs, orders the running one to end, and leaves requested ones alone."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=Overlap.REPLACE)
    await fire(store, later(1))
    (old,) = await worker.claim()
    requested = await store.add_run(a_request(job), NOW)
    await fire(store, later(2))
    assert await worker.claim() == []
    await fire(store, later(3))
    running, dropped, newest = [run for run in await runs_of(store) if run.id != requested.id]
    assert (running.id, running.state, running.cancel) == (old.run.id, RunState.RUNNING, "replaced by a newer run")
    assert (dropped.state, dropped.error) == (RunState.CANCELLED, "replaced by a newer run")
    assert newest.state is RunState.READY
    await worker.settle(old, Failed("ended"))
    assert await state_of(store, old) is RunState.CANCELLED
    assert [claimed.run.id for claimed in await worker.claim()] == [requested.id]


async def test_a_replaced_run_is_not_retried(store: Store, worker: Worker) -> None:
    """A run that waits for a retry when a newcomer replaces it ends."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=Overlap.REPLACE)
    await fire(store, later(1))
    (old,) = await worker.claim()
    await worker.settle(old, RetryAt(later(60)))
    await fire(store, later(2))
    assert await state_of(store, old) is RunState.CANCELLED


async def test_active_runs_are_counted_far_enough_for_catching_up(store: Store) -> None:
    """However many runs wait, catching up stops at a thousand: `active` counts at least one more."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=FREE, misfire=Misfire.ALL)
    await fire(store, later(3600))
    assert len(await runs_of(store)) == 1000
    assert (await store.get_due(job.id)).active >= 1000
    await fire(store, later(3601))
    assert len(await runs_of(store)) == 1000


async def test_a_newcomer_ends_a_bounded_number_of_runs(store: Store) -> None:
    """However many scheduled runs stand in line, one transaction ends so many; the next newcomer ends those left."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1, on_overlap=Overlap.REPLACE)
    plan, _ = planned(await store.get_due(job.id), later(1))
    (one,) = plan.runs
    moments = [later(n) for n in range(1, MOST_MAKING_WAY + 11)]
    many = tuple(replace(one, origin=scheduled_origin(moment), nominal=moment, due=NOW) for moment in moments)
    ids = sorted(RunId(uuid7(NOW, random_bytes)) for _ in many)
    assert await store.apply([(replace(plan, runs=many, fired_through=moments[-1]), ids)], later(1))
    left = []
    for n in (1, 2):
        now = Moment(moments[-1] + n * SECOND)
        newcomer = planned(await store.get_due(job.id), now)
        assert newcomer[0].replaces
        assert await store.apply([newcomer], now) == [True]
        left.append(len(await store.list_runs(RunFilter(states=ACTIVE, limit=10_000, longest=0))))
    assert left == [11, 1]


async def test_a_plan_of_a_deleted_job_is_refused(store: Store) -> None:
    """A plan whose job was deleted meanwhile writes nothing."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(1), 1)
    await store.delete_job(job.id, NOW)
    assert await store.apply([planned(due, later(1))], later(1)) == [False]
    assert await runs_of(store) == []


async def test_many_jobs_are_planned_in_batches(store: Store) -> None:
    """A thousand jobs due at one moment are each planned once, batch by batch."""
    jobs = [a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(1)) for n in range(1000)]
    await store.add_jobs(jobs)
    for _ in range(4):
        dues = await store.due(later(1), 250)
        assert await store.apply([planned(due, later(1)) for due in dues], later(1)) == [True] * 250
    assert await store.due(later(1), 250) == []
    assert {run.job_id for run in await runs_of(store)} == {job.id for job in jobs}
