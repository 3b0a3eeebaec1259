"""What is noted of running attempts: a row among the outputs that only a later attempt's replaces."""

from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, later
from tokimori.engine.settle import change_of
from tokimori.model.attempt_notes import NUMBER, Notes, details_after, notes_in, notes_row
from tokimori.model.cause import cause_in
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store


async def test_notes_of_an_earlier_attempt_never_come_back(store: Store, worker: Worker) -> None:
    """The newest of an attempt stay, whatever their length, and beside them the output of each attempt."""
    job = await add_job(store, retry=Retry(attempts=2))
    run = await store.add_run(a_request(job), NOW)
    (first,) = await worker.claim()
    for notes in (Notes(attempt=1, checkpoint='"long"'), Notes(attempt=1, checkpoint="1")):
        await store.save_outputs([notes_row(run.id, notes)])
    assert notes_in(await store.output(run.id, NUMBER), first.run) == notes
    output = Output(run_id=run.id, attempt=1, size=3, head=b"end")
    kept = details_after(first.run, first.definition, notes, RunState.WAITING)
    change = replace(worker.change(first, Failed("no"), output=output), details=kept)
    await store.settle([change], worker.id, NOW)
    await store.promote(later(1), 10)
    (second,) = await worker.claim()
    assert (second.run.attempt, second.run.details.checkpoint) == (2, "1")
    newer = Notes(attempt=2, progress=0.5)
    await store.save_outputs([notes_row(run.id, newer)])
    await store.save_outputs([notes_row(run.id, replace(notes, checkpoint='"of a stale worker"'))])
    assert notes_in(await store.output(run.id, NUMBER), second.run) == newer
    assert await store.output(run.id, 1) == output
    await worker.settle(second)
    assert (await store.get_run(run.id)).details.checkpoint is None


async def test_the_cause_of_a_failure_stays_with_the_run(store: Store, worker: Worker) -> None:
    """A failed run has the cause that its end brought; one that was cancelled meanwhile shows none."""
    for cancelled in (False, True):
        job = await add_job(store, f"job-{cancelled}", retry=Retry(attempts=1))
        run = await store.add_run(a_request(job), NOW)
        (claimed,) = await worker.claim()
        if cancelled:
            await store.cancel_run(run.id, "stop", NOW)
        change = change_of(claimed, Failed("exit code 3", 3), owner=worker.id, now=NOW, chance=0, started=NOW)
        await store.settle([change], worker.id, NOW)
        ended = await store.get_run(run.id)
        assert cause_in(ended) == (None if cancelled else "exit 3")
