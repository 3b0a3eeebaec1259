"""Backfills: an occurrence becomes at most one run, whoever asks how often, and no more are under way than may be."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, fire, later, random_bytes
from tokimori.clock import Moment, SystemClock
from tokimori.errors import Refused
from tokimori.model.backfill import LeftOutReason
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run, backfill_origin, scheduled_origin
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.copying import Kind
from tokimori.ports.store import RunFilter, Store
from tokimori.service.jobs import backfill
from tokimori.service.service import Service, service_on


async def a_minute_later() -> Moment:
    """00:01:00, for whatever server."""
    return later(60)


async def an_hour_later() -> Moment:
    """Of the same day, 01:06:40."""
    return later(4000)


def a_service(store: Store) -> Service:
    """A door of its own."""
    return service_on(store, SystemClock(), random_bytes, now=a_minute_later)


async def a_job_that_skipped(store: Store, **terms: object) -> Job:
    """A job of every second that ran at 1 and 2, and was decided up to 10 with the others skipped for overlap."""
    job = a_job(schedule=EVERY_SECOND, next_due=later(1), **{"max_running": 2, **terms})  # type: ignore[arg-type]
    await store.add_jobs([job])
    await fire(store, later(10))
    return job


async def nominals(store: Store, kind: str) -> Counter[Moment]:
    """How many runs of this kind of origin each moment has."""
    runs = await store.list_runs(RunFilter(limit=1000))
    return Counter(run.nominal for run in runs if run.origin.startswith(kind))


async def test_only_what_has_no_run_is_made(store: Store) -> None:
    """Runs of the schedule are left alone, live or ended; the others are made ready, in line by their moments."""
    job = await a_job_that_skipped(store)
    done = await a_service(store).jobs.backfill(job.id, later(1), later(11))
    assert [each.reason for each in done.left_out] == [LeftOutReason.HAS_RUN] * 2 + [LeftOutReason.NOT_DECIDED]
    assert done.missing == []
    assert [(run.origin, run.state) for run in done.runs] == [
        (backfill_origin(later(n)), RunState.READY) for n in range(3, 11)
    ]
    ranks = [run.rank for run in done.runs]
    assert ranks == sorted(set(ranks))
    assert min(ranks) >= later(60)


async def test_a_second_backfill_makes_nothing_twice(store: Store, worker: Worker) -> None:
    """Not while the first one's runs are live, and not after their end."""
    job = await a_job_that_skipped(store, max_running=0)
    service = a_service(store)
    await service.jobs.backfill(job.id, later(-5), later(-3))
    await service.jobs.backfill(job.id, later(-5), later(0))
    for claimed in await worker.claim():
        await worker.settle(claimed)
    done = await service.jobs.backfill(job.id, later(-5), later(0))
    assert done.states == {RunState.SUCCEEDED: 6}
    assert await nominals(store, "b:") == Counter(later(n) for n in range(-5, 1))


async def test_a_stale_request_makes_nothing_twice(store: Store, worker: Worker) -> None:
    """The store itself knows an origin again, whoever has looked before: live, and after the run's end."""
    job = await a_job_that_skipped(store)
    service = a_service(store)
    done = await service.jobs.backfill(job.id, later(3), later(3))
    (made,) = done.runs
    twice = backfill._run(job, later(3), later(60), 0, random_bytes)
    assert (await store.add_run(twice, later(60))).id == made.id
    for _ in range(3):
        for claimed in await worker.claim():
            await worker.settle(claimed)
    assert (await store.get_run(made.id)).state is RunState.SUCCEEDED
    assert (await store.add_run(twice, later(60))).id == made.id
    assert await nominals(store, "b:") == {later(3): 1}


async def test_many_at_once_make_each_run_once(store: Store) -> None:
    """Five who begin the same backfill at the same moment make each run once."""
    job = await a_job_that_skipped(store)
    await asyncio.gather(*(a_service(store).jobs.backfill(job.id, later(-50), later(10)) for _ in range(5)))
    assert await nominals(store, "b:") == Counter(later(n) for n in range(-50, 11) if n not in (1, 2))


async def test_overlap_never_skips_them(store: Store, worker: Worker) -> None:
    """A job that may run once at a time runs them one after the other, and skips none."""
    job = await a_job_that_skipped(store, max_running=1)
    service = a_service(store)
    await service.jobs.backfill(job.id, later(-4), later(0))
    order = []
    while claimed := await worker.claim():
        (one,) = claimed
        order.append(one.run.nominal)
        await worker.settle(one)
    assert order == [later(1), *(later(n) for n in range(-4, 1))]
    assert (await service.jobs.backfill(job.id, later(-4), later(0))).states == {RunState.SUCCEEDED: 5}


async def test_no_more_are_active_than_may_be(store: Store, worker: Worker) -> None:
    """With several makers and a worker all at once, never more than two of the backfill are under way; all end."""
    job = await a_job_that_skipped(store, max_running=0)
    first, last = later(-20), later(0)
    most = (await a_service(store).jobs.backfill(job.id, first, last, max_running=2)).active

    async def make(service: Service) -> None:
        while (await service.jobs.backfill(job.id, first, last, max_running=2)).missing:  # noqa: ASYNC110 - who makes polls
            await asyncio.sleep(0.001)

    async def work() -> None:
        nonlocal most
        while True:
            done = await a_service(store).jobs.backfill(job.id, first, last, dry_run=True)
            most = max(most, done.active)
            if not done.missing and not done.active:
                return
            for claimed in await worker.claim():
                await worker.settle(claimed)

    await asyncio.wait_for(asyncio.gather(*(make(a_service(store)) for _ in range(3)), work()), 60)
    assert most == 2
    assert sum((await nominals(store, "b:")).values()) == 21


async def test_a_dry_run_makes_nothing(store: Store) -> None:
    """It says what it would make, and leaves no trace."""
    job = await a_job_that_skipped(store)
    before = await store.list_runs(RunFilter())
    done = await a_service(store).jobs.backfill(job.id, later(1), later(10), dry_run=True)
    assert done.missing == [later(n) for n in range(3, 11)]
    assert await store.list_runs(RunFilter()) == before


async def test_a_cancelled_backfill_ends(store: Store, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not started ends, what runs is ordered to, and the runs of the schedule go on."""
    monkeypatch.setattr(backfill, "QUIET", 0.01)
    job = await a_job_that_skipped(store, max_running=0)
    scheduled = await worker.claim()
    service = a_service(store)
    before = await service.jobs.backfill(job.id, later(-5), later(0), max_running=3)
    (running,) = await worker.claim(1)
    done = await service.jobs.cancel_backfill(job.id, later(-5), later(0))
    assert done.states == {RunState.RUNNING: 1, RunState.CANCELLED: 2}
    assert (await worker.tick()).cancels == ((running.run.id, running.run.token, backfill.CANCELLED),)
    assert backfill.was_cancelled(before, done)
    assert {(await store.get_run(one.run.id)).cancel for one in scheduled} == {None}
    assert len(done.missing) == 3


async def test_whoever_still_makes_is_overtaken(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill that another one is making ends with its cancellation: what comes late is cancelled too."""
    monkeypatch.setattr(backfill, "QUIET", 0.2)
    job = await a_job_that_skipped(store, max_running=0)
    service = a_service(store)

    async def make() -> None:
        before = await service.jobs.backfill(job.id, later(-100), later(0), dry_run=True)
        while not backfill.was_cancelled(  # noqa: ASYNC110 - who makes polls
            before, await service.jobs.backfill(job.id, later(-100), later(0), max_running=2)
        ):
            await asyncio.sleep(0.01)

    making = asyncio.create_task(make())
    await asyncio.sleep(0.05)
    done = await a_service(store).jobs.cancel_backfill(job.id, later(-100), later(0))
    await making
    assert (done.active, set(done.states)) == (0, {RunState.CANCELLED})
    assert len(done.missing) > 50


async def test_a_paused_job_is_not_backfilled(store: Store) -> None:
    """It is refused, and nothing is made."""
    job = await a_job_that_skipped(store)
    service = a_service(store)
    await service.jobs.pause(job.id)
    with pytest.raises(Refused):
        await service.jobs.backfill(job.id, later(1), later(10))
    assert await nominals(store, "b:") == {}
    assert (await store.get_job(JobId("job"))).state is JobState.PAUSED


async def test_an_earlier_job_of_that_id_counts_for_nothing(store: Store) -> None:
    """A job added again under its id is another one: its occurrences have no runs yet."""
    job = await a_job_that_skipped(store)
    await store.delete_job(job.id, NOW)
    again = await a_job_that_skipped(store)
    done = await a_service(store).jobs.backfill(again.id, later(1), later(10), dry_run=True)
    assert len(done.missing) == 8


async def test_a_backfill_obeys_the_bound_on_what_waits(store: Store, worker: Worker) -> None:
    """Where as many wait as may it is refused, and goes on from there when it is asked again."""
    job = await a_job_that_skipped(store, max_waiting=2)
    service = a_service(store)
    with pytest.raises(Refused, match="no more may wait"):
        await service.jobs.backfill(job.id, later(3), later(8))
    assert (await store.get_due(job.id)).active == 4
    for _ in range(2):
        for claimed in await worker.claim(now=later(60)):
            await worker.settle(claimed, now=later(60))
    with pytest.raises(Refused, match="no more may wait"):
        await service.jobs.backfill(job.id, later(3), later(9))
    for _ in range(2):
        for claimed in await worker.claim(now=later(60)):
            await worker.settle(claimed, now=later(60))
    done = await service.jobs.backfill(job.id, later(3), later(8))
    assert (len(done.missing), len(done.runs)) == (0, 6)


async def a_history(store: Store, job: Job, decided: Mapping[int, int]) -> None:
    """Scheduled runs that have ended: of the occurrence of this second, decided in that one."""
    await store.import_rows(Kind.HISTORY, [ended(job, scheduled_origin(later(n)), n, at) for n, at in decided.items()])


def ended(job: Job, origin: str, nominal: int, made: int) -> Run:
    """A run of this second that was made in that one, and has ended."""
    run = a_request(job, origin=origin, nominal=later(nominal), created=later(made), ended=later(made))
    return replace(run, id=RunId(uuid7(later(made), os.urandom)), state=RunState.SUCCEEDED, attempt=1, token=1)


def loaded(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs that the store was asked for from now on."""
    seen: list[Run] = []

    def watched(method: Callable[..., Awaitable[list[Run]]]) -> Callable[..., Awaitable[list[Run]]]:
        async def ask(*asked: object) -> list[Run]:
            answer = await method(*asked)
            seen.extend(answer)
            return answer

        return ask

    for name in ("list_runs", "runs_of"):
        monkeypatch.setattr(store, name, watched(getattr(store, name)))
    return seen


async def test_what_came_later_is_not_loaded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at ten seconds reads the runs about them, not all that the job has had since."""
    job = replace(a_job(schedule=EVERY_SECOND, next_due=later(5001)), fired_through=later(5000))
    await store.add_jobs([job])
    await a_history(store, job, {n: n for n in range(-5, 3000) if n != 7})
    await store.import_rows(Kind.HISTORY, [ended(job, f"m:{n}", n, n) for n in range(3000, 4000)])
    service = service_on(store, SystemClock(), random_bytes, now=an_hour_later)
    seen = loaded(store, monkeypatch)
    done = await service.jobs.backfill(job.id, later(1), later(10), dry_run=True)
    assert done.missing == [later(7)]
    assert len(seen) < 300


async def test_what_was_decided_late_is_seen(store: Store) -> None:
    """Runs of occurrences that were decided an hour late, and after a night of requests, are known as theirs."""
    job = replace(a_job(schedule=EVERY_SECOND, next_due=later(5001)), fired_through=later(5000))
    await store.add_jobs([job])
    await store.import_rows(Kind.HISTORY, [ended(job, f"m:{n}", 10 * n, 10 * n) for n in range(300)])
    await a_history(store, job, {n: 3000 + n // 10 for n in range(1, 30)} | {n: n for n in range(3003, 3300)})
    service = service_on(store, SystemClock(), random_bytes, now=an_hour_later)
    done = await service.jobs.backfill(job.id, later(1), later(30), dry_run=True)
    assert ([each.nominal for each in done.left_out], done.missing) == ([later(n) for n in range(1, 30)], [later(30)])


async def test_runs_are_found_by_origin(store: Store, worker: Worker) -> None:
    """Those that a backfill made are found live and ended, and none of another life of the job."""
    old = await a_job_that_skipped(store)
    await a_service(store).jobs.backfill(old.id, later(3), later(4))
    await store.delete_job(old.id, NOW)
    job = await a_job_that_skipped(store, max_running=0)
    made = (await a_service(store).jobs.backfill(job.id, later(-2), later(0))).runs
    (claimed,) = [each for each in await worker.claim() if each.run.id == made[0].id]
    await worker.settle(claimed)
    origins = [backfill_origin(later(n)) for n in range(-2, 5)]
    found = {run.origin: (run.id, run.state in ENDS) for run in await store.runs_of(job.incarnation, origins)}
    assert found == {run.origin: (run.id, run is made[0]) for run in made}
    assert await store.runs_of(job.incarnation, []) == []


async def test_a_backfill_is_known_beside_more_runs_than_a_page_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More runs than are read at once, asked for since, hide none of it: what it has made is not made again."""
    monkeypatch.setattr(backfill, "PAGE", 10)
    job = await a_job_that_skipped(store, max_running=0)
    service = a_service(store)
    made = await service.jobs.backfill(job.id, later(-5), later(0))
    for key in range(2 * backfill.PAGE + 1):
        await service.jobs.trigger(job.id, f"k{key}", force=True)
    again = await service.jobs.backfill(job.id, later(-5), later(0))
    assert (len(made.runs), [run.id for run in again.runs]) == (6, [run.id for run in made.runs])
    assert set((await nominals(store, "b:")).values()) == {1}


@pytest.mark.prove
@pytest.mark.parametrize("store", ["memory"], indirect=True)  # it is not asked for more, and they take seconds
async def test_a_million_occurrences_are_looked_at_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked for the first ones before the others are reckoned: a look never holds the loop for long."""
    job = replace(a_job(schedule=EVERY_SECOND, next_due=later(1)), fired_through=later(0))
    await store.add_jobs([job])
    asked: list[int] = []

    async def stop(_: object, origins: list[str], _longest: object) -> list[Run]:
        asked.append(len(origins))
        raise Refused("seen")

    monkeypatch.setattr(store, "runs_of", stop)
    with pytest.raises(Refused, match="seen"):
        await a_service(store).jobs.backfill(job.id, later(-999_999), later(0), dry_run=True)
    assert asked == [backfill.PAGE]


async def test_a_cancellation_stops_a_backfill_in_the_midst(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes many runs sees between two batches that what it has made was cancelled, and makes no more."""
    monkeypatch.setattr(backfill, "BATCH", 5)
    job = await a_job_that_skipped(store, max_running=0)
    service, add_run = a_service(store), store.add_run

    async def add_then_cancel(run: Run, *rest: object) -> Run:
        added: Run = await add_run(run, *rest)  # type: ignore[arg-type]
        return await store.cancel_run(added.id, backfill.CANCELLED, NOW)

    before = await service.jobs.backfill(job.id, later(-50), later(0), dry_run=True)
    monkeypatch.setattr(store, "add_run", add_then_cancel)
    done = await service.jobs.backfill(job.id, later(-50), later(0))
    assert backfill.was_cancelled(before, done)
    assert (done.states, len(done.missing)) == ({RunState.CANCELLED: 5}, 46)
