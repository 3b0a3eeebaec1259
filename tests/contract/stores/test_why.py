"""What holds a run, told by every store alike: who has the place, the key, the units, and that nodes are full."""

import os

from tests.contract.stores.actors import NOW, Worker, a_node, a_request, add_job, add_runs, fire, later
from tests.contract.stores.conftest import StoppedClock
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Failed
from tokimori.model.policies import OnExhausted, Retry
from tokimori.model.run import Run, SkipReason
from tokimori.ports.store import Store
from tokimori.service.reasons import Cause, Reason
from tokimori.service.service import Service, service_on


async def reasons(service: Service, run: Run) -> dict[Cause, Reason]:
    """Why this run does not start, by cause."""
    return {reason.cause: reason for reason in (await service.runs.why(run.id)).reasons}


async def test_who_holds_it_is_named(store: Store, worker: Worker) -> None:
    """A place, a key and units by the run that has them, units also by the program; a stopped job by its error."""
    service = service_on(store, StoppedClock(), os.urandom, author="ada")
    one = await add_runs(store, await add_job(store, "one", max_running=1), 2)
    keyed = await add_job(store, "keyed", concurrency_key="k")
    two = [await store.add_run(a_request(keyed, concurrency_key="k", due=later(n - 9)), NOW) for n in range(2)]
    await store.put_semaphore("db", 2, NOW)
    await worker.acquire("db", rank=NOW - 100)
    three = await add_runs(store, await add_job(store, "wants", semaphores=("db",)), 2)
    parks = await add_job(store, "parks", on_exhausted=OnExhausted.PARK, max_running=1)
    four = await add_runs(store, parks, 2)
    claimed = {each.run.id: each for each in await worker.claim()}
    assert claimed.keys() == {runs[0].id for runs in (one, two, three, four)}
    for runs, cause in ((one, Cause.PLACE), (two, Cause.KEY), (three, Cause.SEMAPHORE)):
        found = await reasons(service, runs[1])
        holders = found[cause].holders
        assert (runs[0].id, runs[0].job_id) in [(each.run_id, each.job_id) for each in holders]
        assert [each.pid for each in holders if each.run_id is None] == ([1] if cause is Cause.SEMAPHORE else [])
    await worker.settle(claimed[four[0].id], Failed(error="no luck"))
    assert "parks is parked (no luck)" in (await reasons(service, four[1]))[Cause.PARKED].text
    assert Cause.PARKED in {reason.cause for reason in (await service.jobs.why("parks")).reasons}


async def test_nodes_and_what_was_said(store: Store) -> None:
    """Pauses, a missing label, a full node, a moment that has not come, epsilon, and the newest skip."""
    service = service_on(store, StoppedClock(), os.urandom, author="ada")
    free, bound = await add_job(store, "free"), await add_job(store, "bound", labels={"gpu": "yes"})
    runs = await add_runs(store, free, 2)
    assert [*await reasons(service, runs[0])] == [Cause.NO_NODE]
    small = a_node(concurrency=1)
    await store.register(small)
    worker = Worker(store, NodeId(small.id))
    (labelled,) = await add_runs(store, bound, 1)
    assert "gpu=yes" in (await reasons(service, labelled))[Cause.NO_SUCH_NODE].text
    (claimed,) = await worker.claim(1)
    assert [*await reasons(service, runs[1])] == [Cause.NODES_FULL]
    await service.queues.pause("default", "repairs")
    paused = (await reasons(service, runs[1]))[Cause.QUEUE_PAUSED]
    assert (paused.text.endswith("by ada: repairs"), paused.mend) == (True, "`tokimori queue resume default` ends that")
    assert claimed.run.id == runs[0].id
    waits = await store.add_run(a_request(free, due=later(60)), NOW)
    assert Cause.NOT_DUE in await reasons(service, waits)
    await service.queues.resume("default")
    late = await add_job(store, "late", retry=Retry(attempts=2, delay=60, epsilon=30), priority=100)
    (failing,) = await add_runs(store, late, 1)
    (attempt,) = await worker.claim(1)
    await worker.settle(attempt, Failed(error="no luck"))
    assert [*await reasons(service, failing)] == [Cause.EPSILON]


async def test_the_newest_occurrence_became_no_run(store: Store, worker: Worker) -> None:
    """The ledger's newest row is told with its reason, and the run that was in the way."""
    service = service_on(store, StoppedClock(), os.urandom)
    job = await add_job(store, "timed", schedule="* * * * * *", next_due=later(1))
    await fire(store, later(1))
    (claimed,) = await worker.claim(now=later(1))
    await fire(store, later(2))
    (skipped,) = [r for r in (await service.jobs.why(job.id)).reasons if r.cause is Cause.SKIPPED]
    assert [holder.run_id for holder in skipped.holders] == [claimed.run.id]
    assert (await store.skips(job.id))[0].reason is SkipReason.OVERLAP
