"""Lists of runs: the same on every store by every filter, and by indexes however many others there are."""

from itertools import product

from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.outcome import Cancelled, Failed
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store

KINDS = (
    frozenset[RunState](),
    *(frozenset({state}) for state in RunState),
    ENDS,
    frozenset({RunState.READY, RunState.FAILED}),
    frozenset({RunState.RUNNING, RunState.HELD, RunState.SUCCEEDED}),
)


async def _filled(store: Store) -> list[Run]:
    """Runs of two jobs in all states that there are, newest first."""
    worker = await Worker.join(store)
    for name in ("a", "b"):
        job = await add_job(store, name, max_running=3)
        await add_runs(store, job, 4)
        for outcome in (None, Failed("no"), Cancelled("enough")):
            (claimed,) = await worker.claim(1)
            await worker.settle(claimed, outcome)
        await worker.claim(1)
        await _leave_open(store, worker, job)
    found = [await store.list_runs(RunFilter(job_id=JobId(name), limit=1000)) for name in ("a", "b")]
    return sorted((run for runs in found for run in runs), key=lambda run: run.id, reverse=True)


async def _leave_open(store: Store, worker: Worker, job: Job) -> None:
    await add_runs(store, job, 4)
    await worker.claim(4)  # two run, two are blocked
    await store.hold_run((await store.add_run(a_request(job), NOW)).id, "look")
    await store.add_run(a_request(job, due=later(60)), NOW)
    await add_runs(store, job, 2)


async def test_every_filter_finds_the_newest_that_it_wants(store: Store) -> None:
    """By job, states and from any run on, a list has what a look at all runs finds."""
    runs = await _filled(store)
    assert {run.state for run in runs} == set(RunState) - {RunState.SKIPPED}
    assert len(runs) == 24
    for job_id, states, before in product((None, JobId("a"), JobId("c")), KINDS, (None, runs[7].id)):
        wanted = [
            run
            for run in runs
            if (job_id is None or run.job_id == job_id)
            and (not states or run.state in states)
            and (before is None or run.id < before)
        ]
        asked = RunFilter(job_id=job_id, states=states, before=before, limit=3)
        assert await store.list_runs(asked) == wanted[:3], (job_id, states, before)


async def test_queues_are_those_that_jobs_are_in(store: Store) -> None:
    """By name, each with the number of its jobs, from any name on; a job that is edited or deleted leaves its queue."""
    for job_id, queue in (("a", "mail"), ("b", "mail"), ("c", "mail-2"), ("d", "Mail"), ("e", "mail.x"), ("f", "web")):
        await add_job(store, job_id, queue=queue)
    assert await store.list_queues("", 9) == [("Mail", 1), ("mail", 2), ("mail-2", 1), ("mail.x", 1), ("web", 1)]
    assert await store.list_queues("", 2) == [("Mail", 1), ("mail", 2)]
    assert await store.list_queues("mail", 1) == [("mail", 2)]
    assert await store.list_queues("mail!", 2) == [("mail-2", 1), ("mail.x", 1)]
    moved = await store.get_job(JobId("b"))
    await store.replace_job(moved, replace(moved, version=2, definition=replace(moved.definition, queue="web")))
    await store.delete_job(JobId("c"), NOW)
    assert await store.list_queues("", 9) == [("Mail", 1), ("mail", 1), ("mail.x", 1), ("web", 2)]
    assert await store.list_queues("wec", 9) == []
