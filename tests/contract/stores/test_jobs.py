"""Definitions: added once, changed by one at a time, gone when deleted."""

import asyncio

import msgspec
import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
    planned,
    state_of,
)
from tokimori.clock import Moment
from tokimori.errors import Conflict, NotFound, Refused
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Hold, Released, RetryAt
from tokimori.model.policies import Retry
from tokimori.model.run import Skip, SkipReason
from tokimori.model.target import Command
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.search.jobs import JobSearch, find_jobs


def paused(job: Job) -> Job:
    """The job as a person pauses it."""
    return msgspec.structs.replace(job, state=JobState.PAUSED, reason="rest", by="me", version=job.version + 1)


def edited(job: Job, **terms: object) -> Job:
    """The job after an edit."""
    definition = msgspec.structs.replace(job.definition, **terms)
    return msgspec.structs.replace(job, definition=definition, version=job.version + 1, updated=later(1))


async def test_a_job_is_read_as_it_was_added(store: Store) -> None:
    """Every field of a job comes back."""
    job = a_job(
        target=Command(argv=("echo", "a b", "é"), env={"A": "1"}),
        schedule="0 9 * * 1-5",
        time_zone="Europe/Paris",
        retry=Retry(attempts=3, delay=1.5),
        labels={"disk": "fast"},
        next_due=later(9),
    )
    await store.add_jobs([job])
    assert await store.get_job(job.id) == job
    assert await store.list_jobs() == [job]


async def test_of_several_that_add_an_id_at_once_one_gets_it(store: Store) -> None:
    """The others are told that the id is taken, as if they had come later: nodes that start together rely on that."""
    for name in ("a", "b", "c"):
        jobs = [a_job(name) for _ in range(5)]
        added = await asyncio.gather(*(store.add_jobs([job]) for job in jobs), return_exceptions=True)
        faults = [fault for fault in added if fault is not None]
        assert {(type(fault), str(fault)) for fault in faults} == {(Conflict, f"there is a job {name!r} already")}
        assert len(faults) == len(jobs) - 1
        assert await store.get_job(JobId(name)) in jobs


async def test_an_add_that_is_repeated_beside_itself_is_done_once(store: Store) -> None:
    """A caller who heard no answer asks again, while the first one may still be under way: neither is refused."""
    for number in range(5):
        jobs = [a_job(f"{number}-{each}") for each in "ab"]
        await asyncio.gather(*(store.add_jobs(jobs) for _ in range(5)))
        assert [await store.get_job(job.id) for job in jobs] == jobs


async def test_jobs_are_listed_by_id_in_pages(store: Store) -> None:
    """A page begins after the last id of the one before."""
    for name in ("b", "C", "a", "d"):
        await add_job(store, name)
    assert [job.id for job in await store.list_jobs(limit=2)] == ["C", "a"]
    assert [job.id for job in await store.list_jobs(after=JobId("a"), limit=2)] == ["b", "d"]
    assert await store.list_jobs(after=JobId("d")) == []


async def test_hints_leave_out_no_job_that_is_wanted(store: Store) -> None:
    """Jobs are found by owner, queue, label and state in order and in pages, whatever these texts look like."""
    odd, plain = """a"b\\c\u202e'ü%_""", """a"b\\c'%_"""
    await add_job(store, "d", owner=odd)
    await add_job(store, "b", labels={plain: plain})
    await add_job(store, "e", queue="web")
    await add_job(store, "c", owner="a", labels={"a": ""})
    await add_job(store, "a", owner="A")
    stopped = await add_job(store, "stopped", owner="a")
    await store.replace_job(stopped, paused(stopped))

    async def found(**traits: object) -> list[str]:
        page = await find_jobs(store.list_jobs, store.get_job, JobSearch(**traits))  # type: ignore[arg-type]
        return [job.id for job in page]

    assert await found(owner=odd) == ["d"]
    assert await found(label=(f"{plain}={plain}",)) == await found(label=(plain,)) == ["b"]
    assert await found(queue="web") == ["e"]
    assert await found(queue="default") == ["a", "b", "c", "d", "stopped"]
    assert await found(owner="a") == ["c", "stopped"]
    assert await found(owner="a", limit=1) == ["c"]
    assert await found(owner="a", after=JobId("c")) == ["stopped"]
    assert await found(owner="a", state=frozenset({JobState.PAUSED})) == ["stopped"]
    assert await found(label=("a=",), state=frozenset({JobState.ENABLED})) == ["c"]


async def test_idle_jobs_are_the_enabled_ones_without_a_moment(store: Store) -> None:
    """A start of the host, or a person, has to move them; they are listed by id, in pages."""
    await store.add_jobs([a_job("c"), a_job("a"), a_job("due", next_due=later(1)), a_job("b")])
    rested = a_job("rested")
    await store.add_jobs([rested])
    await store.replace_job(rested, paused(rested))
    assert [job.id for job in await store.list_jobs(idle=True, limit=2)] == ["a", "b"]
    assert [job.id for job in await store.list_jobs(idle=True, after=JobId("b"))] == ["c"]


async def test_an_id_that_exists_is_a_conflict_and_nothing_is_added(store: Store) -> None:
    """Of several jobs all are added or none."""
    await add_job(store, "b")
    with pytest.raises(Conflict, match="'b'"):
        await store.add_jobs([a_job("a"), a_job("b"), a_job("c")])
    with pytest.raises(Conflict, match="'x'"):
        await store.add_jobs([a_job("x"), a_job("x")])
    assert [job.id for job in await store.list_jobs()] == ["b"]


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    """Every method that names a job says that there is none."""
    nobody = JobId("nobody")
    ghost = a_job("nobody")
    for asked in (
        store.get_job(nobody),
        store.get_due(nobody),
        store.skips(nobody),
        store.delete_job(nobody, NOW),
        store.replace_job(ghost, ghost),
        store.add_run(a_request(ghost), NOW),
    ):
        with pytest.raises(NotFound, match="nobody"):
            await asked


async def test_one_of_two_edits_wins(store: Store) -> None:
    """An edit of a job that was changed meanwhile is a conflict, and leaves the first one's result."""
    job = await add_job(store)
    first, second = edited(job, queue="first"), edited(job, queue="second")
    await store.replace_job(job, first)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await store.replace_job(job, second)
    assert await store.get_job(job.id) == first


@pytest.mark.parametrize("field", ["version", "state", "fired_through", "incarnation"])
async def test_an_edit_needs_the_job_as_it_is(store: Store, field: str) -> None:
    """An edit made from another version, state, cursor or life of the job is refused."""
    job = await add_job(store)
    wrong = {
        "version": 9,
        "state": JobState.PAUSED,
        "fired_through": later(-1),
        "incarnation": job.incarnation + 1,
    }
    old = msgspec.structs.replace(job, **{field: wrong[field]})
    with pytest.raises(Conflict):
        await store.replace_job(old, edited(old, queue="new"))
    assert await store.get_job(job.id) == job


async def test_nothing_of_a_paused_job_is_claimed(store: Store, worker: Worker) -> None:
    """Once a pause is acknowledged nothing of the job is claimed, from whatever state its runs come back."""
    job = await add_job(store, max_running=2)
    await add_runs(store, job, 4)
    released, retried = await worker.claim()
    await store.replace_job(job, paused(job))
    await worker.settle(released, Released("later"))
    await worker.settle(retried, RetryAt(later(1)))
    await store.promote(later(1), 10)
    assert (await store.survey(NOW)).lanes == ()
    assert await worker.claim() == []
    assert (await store.get_run(released.run.id)).lane is None


async def test_a_paused_job_takes_no_requests_and_no_plans(store: Store) -> None:
    """A request for a paused job is refused, and its occurrences are not planned."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    await store.replace_job(job, paused(job))
    with pytest.raises(Refused, match="paused"):
        await store.add_run(a_request(job), NOW)
    assert await store.due(later(5), 10) == []
    assert (await store.survey(NOW)).next_due is None


async def test_a_resumed_job_goes_on_where_it_stopped(store: Store, worker: Worker) -> None:
    """After resume the job's runs are claimed again, as many as its limit allows, and the skips are in the ledger."""
    job = await add_job(store, max_running=2)
    runs = await add_runs(store, job, 5)
    released, _kept = await worker.claim()
    stopped = paused(job)
    await store.replace_job(job, stopped)
    await worker.settle(released, Released("later"))
    skip = Skip(first=later(1), last=later(3), count=3, reason=SkipReason.PAUSED)
    going = msgspec.structs.replace(stopped, state=JobState.ENABLED, reason=None, by=None, version=3)
    await store.replace_job(stopped, going, [skip])
    assert await store.skips(job.id) == [skip]
    assert [claimed.run.id for claimed in await worker.claim()] == [runs[0].id]


async def test_an_edit_moves_the_jobs_runs_to_its_new_lane(store: Store, worker: Worker) -> None:
    """After an edit acknowledged, a run carries out the new definition, in the new lane."""
    job = await add_job(store, queue="old")
    await add_runs(store, job, 1)
    new = edited(job, queue="new")
    await store.replace_job(job, new)
    assert (await store.survey(NOW)).lanes == ("new||",)
    (claimed,) = await worker.claim()
    assert claimed.definition == new.definition
    late = await store.add_run(a_request(job), NOW)
    assert late.lane == "new||"


async def test_a_plan_of_the_old_definition_is_refused(store: Store) -> None:
    """A plan that was made before an edit writes nothing."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(2), 10)
    await store.replace_job(job, edited(job, schedule="0 * * * * *"))
    assert await store.apply([planned(due, later(2))], later(2)) == [False]
    assert await store.list_runs(RunFilter()) == []


async def test_a_plan_of_a_paused_job_is_refused(store: Store) -> None:
    """A plan that was made before a pause writes nothing, even where the pause is not another version."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(2), 10)
    await store.replace_job(job, msgspec.structs.replace(job, state=JobState.PAUSED, updated=later(1)))
    assert await store.apply([planned(due, later(2))], later(2)) == [False]
    assert await store.list_runs(RunFilter()) == []


async def test_a_deleted_jobs_runs_end(store: Store, worker: Worker) -> None:
    """A deleted job's runs are cancelled where they have not started; those that run go on, but not for another try."""
    job = await add_job(store, max_running=3)
    runs = await add_runs(store, job, 5)
    done, retried, released = await worker.claim()
    assert await state_of(store, runs[3]) is RunState.BLOCKED
    await store.delete_job(job.id, later(1))
    with pytest.raises(NotFound):
        await store.get_job(job.id)
    for run in runs[3:]:
        ended = await store.get_run(run.id)
        assert (ended.state, ended.ended, ended.error) == (RunState.CANCELLED, later(1), "the job was deleted")
    assert (await worker.tick()).cancels == ()
    await worker.settle(done)
    await worker.settle(retried, RetryAt(later(9)))
    await worker.settle(released, Released("later"))
    assert await state_of(store, done) is RunState.SUCCEEDED
    assert await state_of(store, retried) is RunState.CANCELLED
    assert await state_of(store, released) is RunState.CANCELLED


async def test_an_id_added_again_is_another_job(store: Store) -> None:
    """A job added after its deletion has none of the old one's ledger, and takes none of its requests."""
    old = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=1)
    await fire(store, later(3))
    assert await store.skips(old.id) != []
    await store.delete_job(old.id, later(3))
    new = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    assert await store.skips(new.id) == []
    assert await store.get_due(new.id) == (await store.due(later(1), 1))[0]
    with pytest.raises(NotFound):
        await store.add_run(a_request(old), NOW)


async def test_a_job_says_what_of_its_runs_counts(store: Store, worker: Worker) -> None:
    """`active` counts the runs that wait, are ready, blocked or running; a held or ended one counts for nothing."""
    job = await add_job(store, max_running=3)
    await add_runs(store, job, 5)
    held, done, _running = await worker.claim()
    assert (await store.get_due(job.id)).active == 5
    await worker.settle(held, Hold("look"))
    await worker.settle(done)
    await store.add_run(a_request(job, due=later(60)), NOW)
    due = await store.get_due(job.id)
    assert (due.job, due.active, due.tail) == (await store.get_job(job.id), 4, None)


async def test_a_definition_may_hold_the_largest_numbers(store: Store) -> None:
    """Incarnations and moments up to 63 bits come back as they are."""
    job = msgspec.structs.replace(a_job(), incarnation=2**63 - 1, fired_through=Moment(2**62))
    await store.add_jobs([job])
    assert await store.get_job(job.id) == job
