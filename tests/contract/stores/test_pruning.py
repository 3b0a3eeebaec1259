"""What is old becomes counts, and nothing else does."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_node, a_request, later
from tests.laws import examples
from tokimori.clock import Moment
from tokimori.errors import NotFound
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.retention import Expiry, day_of, expiry_of, expiry_of_deleted
from tokimori.model.run import Output, Run, Skip, SkipReason, backfill_origin, manual_origin, scheduled_origin
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import RunFilter, Store

_numbers = count(1)
ORIGINS: dict[str, Callable[[Moment], str]] = {
    "s": scheduled_origin,
    "b": backfill_origin,
    "m": lambda moment: manual_origin(str(moment)),
}


class Past(NamedTuple):
    """A run that ended so many days ago."""

    age: float
    kind: str = "s"
    fails: bool = False


def days_ago(days: float) -> Moment:
    """A moment before the new year of 2030."""
    return later(-days * 86400)


async def a_past(store: Store, worker: Worker, past: Sequence[Past], **terms: object) -> tuple[Job, list[Run]]:
    """A job whose runs were made and ended then, with an attempt and an output each; its runs in that order."""
    job = a_job(f"job-{next(_numbers)}", **{"schedule": EVERY_SECOND, "max_running": 0, **terms})  # type: ignore[arg-type]
    await store.add_jobs([job])
    ids = []
    for n, each in enumerate(past):
        moment = Moment(days_ago(each.age) + n)
        run_id = RunId(uuid7(moment, os.urandom))
        ids.append(run_id)
        await store.add_run(a_request(job, id=run_id, origin=ORIGINS[each.kind](moment)), NOW)
    claimed = {each.run.id: each for each in await worker.claim()}
    changes = [
        worker.change(
            claimed[run_id],
            Failed("no") if each.fails else Succeeded(0),
            days_ago(each.age),
            Output(run_id=run_id, attempt=1, size=1, head=b"x"),
        )
        for run_id, each in zip(ids, past, strict=True)
    ]
    await store.settle(changes, worker.id, NOW)
    return job, [await store.get_run(run_id) for run_id in ids]


async def skipped(store: Store, job: Job, *skips: Skip) -> Job:
    """The job after an edit that wrote these rows of the ledger."""
    after = replace(job, version=job.version + 1)
    await store.replace_job(job, after, skips)
    return after


def a_skip(age: float, number: int = 1, reason: SkipReason = SkipReason.OVERLAP) -> Skip:
    """A range of occurrences that were skipped so many days ago."""
    return Skip(first=Moment(days_ago(age) - 60), last=days_ago(age), count=number, reason=reason)


def expiry(job: Job, now: Moment = NOW) -> Expiry:
    """What of the job may go."""
    found = expiry_of(job, now)
    assert found is not None
    return found


async def kept(store: Store, job: Job) -> list[Run]:
    """The runs of the job that have a row, oldest first."""
    return (await store.list_runs(RunFilter(job_id=job.id, limit=10_000)))[::-1]


async def totals(store: Store, job_id: JobId) -> Counter[tuple[Moment, str]]:
    """How many ended so on which day, by the store's own count."""
    return Counter({(each.day, each.outcome): each.count for each in await store.counts(job_id)})


async def prune(store: Store, *expiries: Expiry, limit: int = 500) -> int:
    """Until nothing more may go; how many rows went."""
    before = await rows(store)
    rest: Sequence[Expiry] = expiries
    while rest:
        rest = await store.prune(rest, limit)
    return before - await rows(store)


async def rows(store: Store) -> int:
    """How many finished runs and skips are there."""
    return sum([len(await store.export_rows(kind, None, 10_000)) for kind in (HISTORY, SKIPS, DELETED_SKIPS)])


HISTORY, SKIPS, DELETED_SKIPS = Kind.HISTORY, Kind.SKIPS, Kind.DELETED_SKIPS
PASTS = st.lists(
    st.builds(Past, st.sampled_from([0, 1, 6, 8, 29, 31, 60]), st.sampled_from("smb"), st.booleans()), max_size=12
)


class Terms(NamedTuple):
    """How long a job's rows stay, and how many go in one step."""

    retention: str
    keep_runs: int
    limit: int


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    past=PASTS,
    skips=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6, unique_by=lambda pair: pair[0]),
    terms=st.builds(Terms, st.sampled_from(["P7D", "P30D", "P2M"]), st.integers(0, 5), st.integers(1, 4)),
)
async def test_counts_balance(
    store: Store, worker: Worker, past: list[Past], skips: list[tuple[int, int]], terms: Terms
) -> None:
    """However much was pruned, in however small steps, runs, skips and counts add up to what there was."""
    job, runs = await a_past(store, worker, past, retention=terms.retention, keep_runs=terms.keep_runs)
    rows = [a_skip(age, number) for age, number in skips]
    job = await skipped(store, job, *rows)
    expected = Counter((day_of(Moment(run.ended or 0)), str(run.state)) for run in runs)
    for row in rows:
        expected[day_of(row.last), str(row.reason)] += row.count
    assert await totals(store, job.id) == expected
    went = await prune(store, expiry(job), limit=terms.limit)
    left, ledger = await kept(store, job), await store.skips(job.id)
    assert went == len(runs) - len(left) + len(rows) - len(ledger)
    assert await totals(store, job.id) == expected
    skips_gone = sum(row.count for row in rows) - sum(row.count for row in ledger)
    assert sum(each.pruned for each in await store.counts(job.id)) == len(runs) - len(left) + skips_gone
    assert [run.id for run in left] == [run.id for run in survivors(runs, expiry(job))]
    assert all(row.last >= expiry(job).before for row in ledger[1:])


def survivors(runs: Sequence[Run], terms: Expiry) -> list[Run]:
    """What the rule leaves, said once more: the newest ones, the young, and whose key must be known."""
    ordered = sorted(runs, key=lambda run: run.id)
    newest = ordered[max(0, len(ordered) - terms.keep_runs) :]
    return [
        run
        for run in ordered
        if run in newest or (run.ended or 0) >= (terms.before if run.origin.startswith("s:") else terms.keyed_before)
    ]


async def test_what_belongs_to_a_run_goes_with_it(store: Store, worker: Worker) -> None:
    """Attempts and outputs of a pruned run are gone, those of others stay."""
    job, (old, young) = await a_past(store, worker, [Past(40, fails=True), Past(20, fails=True)], keep_runs=0)
    assert await prune(store, expiry(job)) == 1
    with pytest.raises(NotFound):
        await store.get_run(old.id)
    assert (await store.attempts(old.id), await store.output(old.id, 1)) == ([], None)
    assert len(await store.attempts(young.id)) == 1
    assert await store.output(young.id, 1) is not None


async def test_a_key_is_known_for_a_month(store: Store, worker: Worker) -> None:
    """However short the retention, a request's key finds its run for thirty days, and then makes another one."""
    past = [Past(31, "m"), Past(29, "m")]
    job, (old, young) = await a_past(store, worker, past, schedule=None, retention="PT1S", keep_runs=0)
    assert await prune(store, expiry(job)) == 1
    again = a_request(job, origin=young.origin)
    assert (await store.add_run(again, NOW)).id == young.id
    anew = a_request(job, origin=old.origin)
    assert (await store.add_run(anew, NOW)).id == anew.id


async def test_a_retention_of_nothing_leaves_counts_alone(store: Store, worker: Worker) -> None:
    """What the schedule brought goes as it ends, what was asked for an hour later: each is counted."""
    past = [Past(0.001, "s"), Past(0.001, "m"), Past(0.1, "m")]
    job, runs = await a_past(store, worker, past, retention="PT0S", schedule=EVERY_SECOND)
    assert await prune(store, expiry(job)) >= 2
    assert [run.id for run in await kept(store, job)] == [runs[1].id]
    assert (await totals(store, job.id)).total() == 3


async def test_the_newest_runs_stay(store: Store, worker: Worker) -> None:
    """So many runs as a job keeps are there whatever their age, and the newest skip is."""
    job, runs = await a_past(store, worker, [Past(100 - n) for n in range(10)], keep_runs=4)
    job = await skipped(store, job, a_skip(90), a_skip(80))
    assert await prune(store, expiry(job)) == 7
    assert [run.id for run in await kept(store, job)] == [run.id for run in runs[6:]]
    assert await store.skips(job.id) == [a_skip(80)]


async def test_what_lives_is_not_touched(store: Store, worker: Worker) -> None:
    """A run that was made long ago and has not ended stays, in whatever state."""
    job = a_job("job", schedule=EVERY_SECOND, keep_runs=0, max_running=1)
    await store.add_jobs([job])
    for n in range(4):
        run_id = RunId(uuid7(days_ago(90 - n), os.urandom))
        await store.add_run(a_request(job, id=run_id, due=later(60) if n == 3 else NOW), NOW)
    await worker.claim()
    before = await kept(store, job)
    await store.hold_run(before[2].id, "wait")
    before = await kept(store, job)
    assert {run.state for run in before} == {RunState.RUNNING, RunState.BLOCKED, RunState.HELD, RunState.WAITING}
    assert await prune(store, expiry(job), expiry_of_deleted(job.id, job.incarnation, NOW)) == 0
    assert await kept(store, job) == before


async def test_two_count_once(store: Store, worker: Worker) -> None:
    """Whoever prunes the same at the same time, each row is counted by one of them."""
    job, runs = await a_past(store, worker, [Past(40, fails=n % 3 == 0) for n in range(60)], keep_runs=5)
    before = await totals(store, job.id)
    await asyncio.gather(*(store.prune([expiry(job)], 10) for _ in range(8)))
    await prune(store, expiry(job))
    assert len(await kept(store, job)) == 5
    assert await totals(store, job.id) == before
    assert sum(each.pruned for each in await store.counts(job.id)) == len(runs) - 5


async def test_a_batch_is_small(store: Store, worker: Worker) -> None:
    """One call takes no more rows than it was asked for, of however many jobs."""
    rest: Sequence[Expiry] = [expiry((await a_past(store, worker, [Past(40)] * 4, keep_runs=0))[0]) for _ in range(3)]
    left = []
    while rest:
        rest = await store.prune(rest, 5)
        left.append(await rows(store))
    assert left == [7, 2, 0]


async def test_what_stays_is_looked_at_once(store: Store, worker: Worker) -> None:
    """Keys that must be known are no reason to look at them again: the next step goes on behind them."""
    past = [*[Past(20, "m")] * 12, Past(15)]
    job, runs = await a_past(store, worker, past, retention="P10D", keep_runs=0)
    steps = [expiry(job)]
    while rest := await store.prune(steps[-1:], 4):
        assert await rows(store) == len(runs)
        steps += rest
    assert [each.after for each in steps[1:]] == [runs[3].id, runs[7].id, runs[11].id]
    assert await kept(store, job) == runs[:12]


async def test_many_newest_runs_are_passed_over_in_steps(store: Store, worker: Worker) -> None:
    """Where a job keeps more than a step passes over, the next step goes on, and the older ones go at last."""
    job, runs = await a_past(store, worker, [Past(90 - n) for n in range(50)], keep_runs=35)
    steps = [expiry(job)]
    while (rest := await store.prune(steps[-1:], 1)) and rest[0].keep_runs:
        assert await rows(store) == len(runs)
        steps += rest
    assert [each.keep_runs for each in steps] == [35, 25, 15, 5]
    assert await prune(store, *rest) in {14, 15}
    assert await kept(store, job) == runs[15:]


async def test_what_a_deleted_job_leaves_goes(store: Store, worker: Worker) -> None:
    """Runs and skips of a job that is gone go after the default time, and then so does the memory of it."""
    job, runs = await a_past(store, worker, [Past(40), Past(20)])
    job = await skipped(store, job, a_skip(40, 3), a_skip(20))
    before = await totals(store, job.id)
    await store.delete_job(job.id, NOW)
    assert await store.deleted_jobs(None, 10) == [(job.incarnation, job.id)]
    assert await totals(store, job.id) == before
    assert await prune(store, expiry_of_deleted(job.id, job.incarnation, NOW)) == 2
    assert [run.id for run in await kept(store, job)] == [runs[1].id]
    assert len(await store.deleted_jobs(None, 10)) == 1
    assert await prune(store, expiry_of_deleted(job.id, job.incarnation, later(86400 * 11))) == 2
    assert await store.deleted_jobs(None, 10) == []
    assert await totals(store, job.id) == before


async def test_an_id_used_again_goes_by_the_job_of_now(store: Store, worker: Worker) -> None:
    """Runs of a deleted job whose id another one has are kept as that one says; its skips go by the default."""
    job, _ = await a_past(store, worker, [Past(40), Past(40)])
    job = await skipped(store, job, a_skip(40))
    await store.delete_job(job.id, NOW)
    again = a_job(str(job.id), schedule=EVERY_SECOND, keep_runs=1)
    await store.add_jobs([again])
    assert await prune(store, expiry_of_deleted(job.id, job.incarnation, NOW)) == 1
    assert await store.deleted_jobs(None, 10) == []
    assert await prune(store, expiry(again)) == 1
    assert len(await kept(store, again)) == 1


async def test_deleted_jobs_come_in_pages(store: Store) -> None:
    """Deleted jobs are told in the order of their incarnations, those after one."""
    jobs = [a_job(f"job-{n}") for n in range(5)]
    await store.add_jobs(jobs)
    for job in jobs:
        await store.delete_job(job.id, NOW)
    pairs = [(job.incarnation, job.id) for job in jobs]
    assert await store.deleted_jobs(None, 2) == pairs[:2]
    assert await store.deleted_jobs(jobs[1].incarnation, 9) == pairs[2:]


async def test_nodes_that_went_are_forgotten(store: Store, worker: Worker, other: Worker) -> None:
    """A node that left or died long ago goes, one that lives or owns a run stays."""
    job = a_job()
    await store.add_jobs([job])
    await store.add_run(a_request(job), NOW)
    await other.claim()
    await other.die(by=worker)
    gone = a_node()
    await store.register(gone)
    assert await store.leave(gone.id, NOW)
    assert await store.prune_nodes(NOW, 10) == 0
    assert await store.prune_nodes(later(1), 10) == 1
    states = {node.id: node.state for node in await store.list_nodes()}
    assert states == {worker.id: NodeState.ALIVE, other.id: NodeState.DEAD}


async def test_nothing_was_counted(store: Store) -> None:
    """A job that nobody knows has no counts."""
    assert await store.counts(JobId("nobody")) == []
