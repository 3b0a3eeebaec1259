"""What a store keeps of a job's terms: the rest of its runs, its anchor, and the tzdata of its moments."""

from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, add_job, later, planned
from tokimori.model.run import NO_DETAILS, Details
from tokimori.ports.store import RunFilter, Store
from tokimori.schedules.zones import tzdata_version

TERMS = {"runs_remaining": 3, "tzdata": "2026a", "days_off": '{"holidays":["2030-01-01"]}'}


async def test_a_job_keeps_its_terms(store: Store) -> None:
    """The rest of its runs, its tzdata and its days off come back as they were added, and as an edit left them."""
    plain, job = a_job("plain"), replace(a_job("job"), **TERMS)
    await store.add_jobs([plain, job])
    assert await store.list_jobs() == [job, plain]
    new = replace(plain, version=2, **TERMS)
    await store.replace_job(plain, new)
    bare = replace(job, version=2, runs_remaining=None, tzdata="", days_off=None)
    await store.replace_job(job, bare)
    assert await store.list_jobs() == [bare, new]


async def test_a_plan_moves_the_terms_of_its_job(store: Store) -> None:
    """Anchor, rest and tzdata of the plan are the job's once it took effect; a refused plan changes none of them."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(1), 1)
    plan, ids = planned(due, later(1))
    plan = replace(plan, anchor=later(0.5), runs_remaining=7, tzdata="2029z")
    assert await store.apply([(plan, ids)], later(1)) == [True]
    written = await store.get_job(job.id)
    assert (written.anchor, written.runs_remaining, written.tzdata) == (later(0.5), 7, "2029z")
    stale = replace(plan, anchor=later(9), runs_remaining=1, tzdata="2031a", runs=(), fired_through=later(9))
    assert await store.apply([(stale, [])], later(9)) == [False]
    assert await store.get_job(job.id) == written
    open_ended = replace(plan, fired_from=later(1), fired_through=later(2), runs=(), runs_remaining=None, next_due=None)
    assert await store.apply([(open_ended, [])], later(2)) == [True]
    assert (await store.get_job(job.id)).runs_remaining is None


async def test_a_run_tells_by_which_tzdata_it_got_its_moment(store: Store, worker: Worker) -> None:
    """A scheduled run has the tzdata of its plan while it lives, at its claim and in the history; a request its own."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=0)
    (due,) = await store.due(later(2), 1)
    plan, ids = planned(due, later(2))
    await store.apply([(replace(plan, tzdata="2029z"), ids)], later(2))
    asked = await store.add_run(a_request(job), NOW)
    backfilled = await store.add_run(a_request(job, details=Details(tzdata="2028a")), NOW)
    kept = {run.id: run.details for run in await store.list_runs(RunFilter())}
    planned_by = Details(tzdata="2029z")
    assert kept == {
        ids[0]: planned_by,
        ids[1]: planned_by,
        asked.id: NO_DETAILS,
        backfilled.id: Details(tzdata="2028a"),
    }
    claimed = await worker.claim()
    assert {each.run.id: each.run.details for each in claimed} == kept
    first = next(each for each in claimed if each.run.id == ids[0])
    await worker.settle(first)
    assert (await store.get_run(ids[0])).details == Details(tzdata="2029z")
    await store.delete_job(job.id, NOW)
    await store.cancel_run(ids[1], "enough", NOW)
    assert (await store.get_run(ids[1])).details == Details(tzdata="2029z")


async def test_a_cancelled_run_keeps_its_tzdata(store: Store) -> None:
    """A run that never started is in the history with the tzdata of its plan."""
    await add_job(store, schedule=EVERY_SECOND, next_due=later(1))
    (due,) = await store.due(later(1), 1)
    plan, ids = planned(due, later(1))
    await store.apply([(plan, ids)], later(1))
    assert (await store.cancel_run(ids[0], "enough", NOW)).details.tzdata == tzdata_version()


async def test_outdated_jobs_are_those_with_a_moment_from_an_older_tzdata(store: Store) -> None:
    """Enabled jobs with a next moment whose tzdata is older, the oldest first, as many as asked for."""
    names = {"unknown": "", "old": "2024a", "older": "2023c", "same": "2026a", "newer": "2026b"}
    jobs = [
        replace(a_job(name, schedule=EVERY_SECOND, next_due=later(1)), tzdata=tzdata) for name, tzdata in names.items()
    ]
    resting = replace(a_job("idle"), tzdata="2020a")
    await store.add_jobs([*jobs, resting])
    assert [job.id for job in await store.outdated("2026a", 10)] == ["unknown", "older", "old"]
    assert [job.id for job in await store.outdated("2026a", 2)] == ["unknown", "older"]
    assert await store.outdated("2020a", 10) == await store.outdated("2020b", 10) == jobs[:1]


async def test_a_plan_without_occurrences_brings_a_job_up_to_date(store: Store) -> None:
    """A plan that moves nothing but next moment and tzdata takes effect while the job is what it was made from."""
    job = replace(a_job(schedule=EVERY_SECOND, next_due=later(5)), tzdata="2020a")
    await store.add_jobs([job])
    (due,) = await store.due(later(5), 1)
    plan = replace(planned(due, NOW)[0], next_due=later(3))
    assert await store.apply([(plan, [])], NOW) == [True]
    assert await store.apply([(plan, [])], NOW) == [True], "asked again, it is the same"
    assert await store.get_job(job.id) == replace(job, next_due=later(3), tzdata=tzdata_version())
    assert await store.outdated(tzdata_version(), 10) == []
