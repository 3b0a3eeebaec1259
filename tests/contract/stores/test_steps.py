"""Steps: runs that others name as what follows them are made when these end, once, with what they were given."""

import os

from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, later
from tests.contract.stores.test_dependents import runs_of
from tokimori.clock import SystemClock
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Details, Run, SkipReason, Step, parents_of
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.service.service import service_on

NUMBER = "01b8dac5-b400-7000-8000-{:012d}"


def step(number: int, job: str, **fields: object) -> Step:
    """A step of the id of this number."""
    return Step(id=RunId(NUMBER.format(number)), job=JobId(job), **fields)  # type: ignore[arg-type]


async def requested(store: Store, *then: Step, runs: int = 1) -> None:
    """Runs of the job `a` with these steps."""
    job = await store.get_job(JobId("a"))
    for _ in range(runs):
        await store.add_run(replace(a_request(job), details=Details(then=then)), NOW)


async def settle(
    store: Store, worker: Worker, *ended: Claimed, result: str | None = None, outcome: Outcome | None = None
) -> None:
    """End these in one transaction, and again."""
    changes = [worker.change(each, outcome or Succeeded(0, result), now=later(1)) for each in ended]
    assert set(await store.settle(changes, worker.id, later(1))) == {Verdict.APPLIED}
    assert set(await store.settle(changes, worker.id, later(1))) == {Verdict.ALREADY_APPLIED}


async def only(store: Store, job: str) -> Run:
    """The only run of a job."""
    (run,) = await runs_of(store, job)
    return run


async def test_a_step_follows_a_success(store: Store, worker: Worker) -> None:
    """It has its id, its own payload or the result, and its own steps; that of a failure is not made."""
    for name in "abcd":
        await add_job(store, name, max_running=0)
    further = step(3, "c")
    await requested(store, step(1, "b", then=(further,)), step(2, "d", on_failure=True), step(4, "c", payload="9"))
    (parent,) = await worker.claim()
    await settle(store, worker, parent, result="7")
    child = await only(store, "b")
    assert (child.id, child.payload, child.parent_id, child.details.then) == (
        NUMBER.format(1),
        "7",
        parent.run.id,
        (further,),
    )
    assert parents_of(child) == (parent.run.id,)
    assert (await only(store, "c")).payload == "9" and not await runs_of(store, "d")
    await settle(store, worker, *(each for each in await worker.claim(now=later(2)) if each.run.job_id == "b"))
    assert {run.id for run in await runs_of(store, "c")} == {NUMBER.format(3), NUMBER.format(4)}


async def test_a_step_follows_a_failure(store: Store, worker: Worker) -> None:
    """Only that which says so; a job that there is not any more brings none, and hinders nothing."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    await requested(store, step(1, "b"), step(2, "b", on_failure=True), step(3, "gone", on_failure=True))
    await settle(store, worker, *await worker.claim(), outcome=Failed("no"))
    assert (await only(store, "b")).id == NUMBER.format(2)


async def test_a_step_joins_runs_of_one_job(store: Store, worker: Worker) -> None:
    """It is made once, when all have ended, whether together or apart, and knows them in the order of their ids."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    further = step(2, "b")
    await requested(store, step(1, "b", joins=3, then=(further,)), runs=3)
    first, *others = await worker.claim()
    await settle(store, worker, first, result="7")
    assert not await runs_of(store, "b")
    await settle(store, worker, *others, result="8")
    ids = tuple(sorted(each.run.id for each in (first, *others)))
    run = await only(store, "b")
    assert (run.id, run.origin, run.payload) == (NUMBER.format(1), f"c:{NUMBER.format(1)}", None)
    assert run.details == Details(parents=ids, then=(further,))


async def test_a_family_is_read_and_made_anew(store: Store, worker: Worker) -> None:
    """From any of its runs; the new first runs have one root together, as those before, and new steps."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    job = await store.get_job(JobId("a"))
    asked = [replace(a_request(job), root="one", details=Details(then=(step(1, "b", joins=3),))) for _ in range(3)]
    await store.add_runs(asked, NOW)
    await settle(store, worker, *await worker.claim())
    await settle(store, worker, *await worker.claim(now=later(2)))
    runs = service_on(store, SystemClock(), os.urandom).runs
    for run_id in (asked[1].id, RunId(NUMBER.format(1))):
        family = await runs.family(run_id)
        assert [(each.job_id, len(each.after)) for each in family] == [*[("a", 0)] * 3, ("b", 3)]
    made = [(await store.get_run(each.run.id)) for each in await runs.retry_family(asked[2].id)]
    assert {run.root for run in made} == {made[0].id} and len(made) == 3
    (new,) = {run.details.then for run in made}
    assert (new[0].job, new[0].joins) == ("b", 3) and new[0].id != NUMBER.format(1)


async def test_a_step_of_a_paused_job_is_skipped(store: Store, worker: Worker) -> None:
    """As a child is whose job is paused."""
    await add_job(store, "a", max_running=0)
    job = await add_job(store, "b", max_running=0)
    await store.replace_job(job, replace(job, state=JobState.PAUSED))
    await requested(store, step(1, "b"))
    await settle(store, worker, *await worker.claim())
    assert not await runs_of(store, "b")
    (skip,) = await store.skips(job.id)
    assert skip.reason is SkipReason.PAUSED


async def test_a_step_takes_no_run_away(store: Store, worker: Worker) -> None:
    """One that names a run which there is, live or ended, is not made: that run stays as it is."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    other = await add_job(store, "other", max_running=0)
    live = await store.add_run(a_request(other), NOW)
    await settle(store, worker, *await worker.claim(), result="7")
    ended = await store.get_run(live.id)
    waiting = await store.add_run(replace(a_request(other), due=later(900), state=RunState.WAITING), NOW)
    named = [Step(id=each.id, job=JobId("b")) for each in (ended, waiting)]
    await requested(store, *named)
    await settle(store, worker, *await worker.claim(now=later(1)))
    assert [await store.get_run(each.id) for each in (ended, waiting)] == [ended, waiting]
    assert not await runs_of(store, "b")


async def test_a_step_is_made_once_whatever_has_its_id(store: Store, worker: Worker) -> None:
    """A run that fails, is repeated and fails again brings one run, also if that has ended meanwhile."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    for moment in (1, 2):
        await requested(store, step(1, "b", on_failure=True))
        ended = [each for each in await worker.claim(now=later(moment)) if each.run.job_id == "a"]
        await settle(store, worker, *ended, outcome=Failed("no"))
        for each in await worker.claim(now=later(moment)):
            await settle(store, worker, each)
        assert (await only(store, "b")).state is RunState.SUCCEEDED


async def test_a_step_follows_a_run_whose_job_is_deleted(store: Store, worker: Worker) -> None:
    """It is no child of the job, but of the request: the run goes on, and so does its family."""
    for name in "ab":
        await add_job(store, name, max_running=0)
    await requested(store, step(1, "b"))
    claimed = await worker.claim()
    await store.delete_job(JobId("a"), NOW)
    await settle(store, worker, *claimed)
    assert (await only(store, "b")).id == NUMBER.format(1)
