"""Claim and settle: who owns a run, and whose word about it counts."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    NOW,
    Worker,
    a_claim,
    add_job,
    add_runs,
    later,
    state_of,
)
from tokimori.clock import Moment
from tokimori.engine.settle import change_of
from tokimori.model.ids import Lane, Token
from tokimori.model.outcome import Cancelled, Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.ends import EndPlace
from tokimori.ports.store import Store
from tokimori.ports.working import Verdict


async def test_a_claimed_run_is_owned_by_one_node(store: Store, worker: Worker, other: Worker) -> None:
    """A run that one node has claimed is not given to another."""
    await add_runs(store, await add_job(store), 3)
    assert len(await worker.claim(2)) == 2
    assert len(await other.claim()) == 1
    assert await worker.claim() == []


async def test_a_claim_counts_attempt_and_token(store: Store, worker: Worker) -> None:
    """Each claim raises token and attempt by one, and names the owner."""
    (run,) = await add_runs(store, await add_job(store), 1)
    for n in (1, 2):
        (claimed,) = await worker.claim()
        assert (claimed.run.id, claimed.run.token, claimed.run.attempt) == (run.id, n, n)
        assert (claimed.run.state, claimed.run.node_id) == (RunState.RUNNING, worker.id)
        assert claimed.run == await store.get_run(run.id)
        await worker.settle(claimed, Released("later"))


async def test_what_is_once_begun_is_never_begun_again(store: Store, worker: Worker, other: Worker) -> None:
    """Released by its node, or orphaned, a begun run of a job that allows no lost attempt fails, and nobody gets it."""
    job = await add_job(store, retry=Retry(attempts=2, lost_attempts=0))
    runs = await add_runs(store, job, 3)
    released, unbegun, orphan = await worker.claim()
    given_back = change_of(unbegun, Released("its node stops"), owner=worker.id, now=NOW, chance=0)
    await store.settle([worker.change(released, Released("its node stops")), given_back], worker.id, NOW)
    await worker.die(by=other)
    (left,) = await store.orphans(10)
    await store.settle([worker.change(left, Lost("its node died"))], other.id, NOW)
    assert [claimed.run.id for claimed in await other.claim()] == [unbegun.run.id]
    assert await state_of(store, released) is await state_of(store, orphan) is RunState.FAILED
    assert len(runs) == 3


async def test_a_run_comes_with_its_jobs_definition(store: Store, worker: Worker) -> None:
    """Whoever claims a run is told what to do."""
    job = await add_job(store)
    await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    assert claimed.definition == job.definition


async def test_smaller_rank_is_first_across_lanes(store: Store, worker: Worker) -> None:
    """Runs are claimed by rank, whatever lane they wait in."""
    jobs = [await add_job(store, name, queue=name) for name in ("a", "b")]
    runs = [run for pair in zip(*[await add_runs(store, job, 3) for job in jobs], strict=True) for run in pair]
    runs.sort(key=lambda run: (run.rank, run.id))
    assert [claimed.run.id for n in (2, 1, 3) for claimed in await worker.claim(n)] == [run.id for run in runs]


async def test_only_the_lanes_that_are_asked_for_are_served(store: Store, worker: Worker) -> None:
    """A node gets no run of a lane that it did not name."""
    await add_runs(store, await add_job(store, queue="a"), 1)
    assert await store.claim(a_claim(worker.id, [Lane("b||")], 1), NOW) == []
    assert await store.claim(a_claim(worker.id, [], 1), NOW) == []


async def test_waiting_and_finished_runs_are_not_claimed(store: Store, worker: Worker) -> None:
    """Only ready runs are claimed."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    first, second = await worker.claim()
    await worker.settle(first)
    await worker.settle(second, RetryAt(later(60)))
    assert await worker.claim() == []


async def test_a_settled_run_tells_what_its_attempt_did(store: Store, worker: Worker) -> None:
    """What an attempt reported is what the finished run says."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    assert await worker.settle(claimed, Failed("broken", exit_code=3), later(5)) is Verdict.APPLIED
    run = await store.get_run(claimed.run.id)
    assert (run.state, run.exit_code, run.error) == (RunState.FAILED, 3, "broken")
    assert (run.started, run.ended, run.pid, run.failures) == (later(5), later(5), 7, 1)
    (attempt,) = await store.attempts(run.id)
    assert (attempt.number, attempt.outcome, attempt.node_id, attempt.token) == (1, "failed", worker.id, 1)


async def test_a_first_success_needs_no_attempt_row(store: Store, worker: Worker) -> None:
    """A first success is told by the run alone."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert await store.attempts(claimed.run.id) == []
    assert await state_of(store, claimed) is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Succeeded(0), RunState.SUCCEEDED),
        (Failed("broken"), RunState.FAILED),
        (Cancelled("no more"), RunState.CANCELLED),
        (RetryAt(later(1)), RunState.WAITING),
        (Hold("look at it"), RunState.HELD),
        (Released("later"), RunState.READY),
        (Lost("its node died"), RunState.READY),
    ],
)
async def test_every_outcome_leads_to_its_state(
    store: Store, worker: Worker, outcome: Succeeded, state: RunState
) -> None:
    """Each outcome leaves the run in the state that the table of transitions names."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    assert await worker.settle(claimed, outcome) is Verdict.APPLIED
    run = await store.get_run(claimed.run.id)
    assert run.state is state
    assert (run.ended is not None) is (state in {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})


async def test_a_retry_waits_and_runs_again(store: Store, worker: Worker) -> None:
    """A failed attempt with attempts left waits for its moment, then runs as the second attempt."""
    await add_runs(store, await add_job(store, retry=Retry(attempts=2, delay=10)), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("broken"))
    assert (await store.survey(NOW)).next_due == later(10)
    assert await store.promote(later(9), 10) == 0
    assert await store.promote(later(10), 10) == 1
    (again,) = await worker.claim()
    assert (again.run.attempt, again.run.failures, again.run.error, again.run.started) == (2, 1, None, None)
    assert [attempt.outcome for attempt in await store.attempts(again.run.id)] == ["failed"]


@pytest.mark.parametrize("outcome", [None, Released("late")])
async def test_a_stale_token_changes_nothing(
    store: Store, worker: Worker, other: Worker, outcome: Outcome | None
) -> None:
    """Whose run was taken over can't change it any more, nor can anybody with a token that is not the newest."""
    await add_runs(store, await add_job(store), 1)
    (stale,) = await worker.claim()
    await worker.die(by=other)
    await store.settle([worker.change(stale, Lost("its node died"))], other.id, NOW)
    owner = await Worker.join(store)
    (fresh,) = await owner.claim()
    attempts = await store.attempts(fresh.run.id)
    assert await worker.settle(stale, Failed("late")) is Verdict.LOST
    assert await owner.settle(replace(fresh, run=replace(fresh.run, token=Token(1))), outcome) is Verdict.LOST
    assert await owner.settle(replace(fresh, run=replace(fresh.run, token=Token(3))), outcome) is Verdict.LOST
    assert await store.get_run(fresh.run.id) == fresh.run
    assert await store.attempts(fresh.run.id) == attempts


async def test_the_owner_asking_again_hears_already_applied(store: Store, worker: Worker) -> None:
    """A settle that is repeated changes nothing and says that it was done."""
    await add_runs(store, await add_job(store), 2)
    done, retried = await worker.claim()
    changes = [worker.change(done), worker.change(retried, RetryAt(later(9)))]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.APPLIED] * 2
    before = [await store.get_run(claimed.run.id) for claimed in (done, retried)]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.ALREADY_APPLIED] * 2
    assert [await store.get_run(claimed.run.id) for claimed in (done, retried)] == before


async def test_one_change_twice_in_a_batch_is_applied_once(store: Store, worker: Worker) -> None:
    """Of two equal changes in one batch the second finds the first one done."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    changes = [worker.change(claimed, Released("later"))] * 2
    assert await store.settle(changes, worker.id, NOW) == [Verdict.APPLIED, Verdict.ALREADY_APPLIED]


async def test_a_refused_change_hinders_no_other(store: Store, worker: Worker, other: Worker) -> None:
    """In a batch, the changes that hold are written though others don't."""
    await add_runs(store, await add_job(store), 2)
    mine, *_ = await worker.claim(1)
    theirs, *_ = await other.claim(1)
    changes = [replace(worker.change(theirs), owner=worker.id), worker.change(mine)]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.LOST, Verdict.APPLIED]


async def test_output_is_kept_by_attempt(store: Store, worker: Worker) -> None:
    """What an attempt wrote is kept: the newest while it runs, for ever what came with its end."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    run_id = claimed.run.id
    assert await store.output(run_id, 1) is None
    outputs = [Output(run_id=run_id, attempt=1, size=size, tail=b"x" * size, times=bytes(9)) for size in (1, 5, 3)]
    for output in outputs:
        await store.save_outputs([output])
    assert await store.output(run_id, 1) == outputs[1]
    final = Output(run_id=run_id, attempt=1, size=4, head=b"done", times=b"\x00\xff'\n")
    await store.settle([worker.change(claimed, output=final)], worker.id, NOW)
    await store.save_outputs(outputs)
    assert await store.output(run_id, 1) == final


async def test_an_order_to_cancel_wins_over_a_change_made_before_it(store: Store, worker: Worker) -> None:
    """A run that was ordered to end does not go on, though its node had not heard of the order."""
    await add_runs(store, await add_job(store), 2)
    released, succeeded = await worker.claim()
    for claimed in (released, succeeded):
        run = await store.cancel_run(claimed.run.id, "enough", NOW)
        assert (run.state, run.cancel) == (RunState.RUNNING, "enough")
    await worker.settle(released, Released("later"))
    await worker.settle(succeeded, Succeeded(0))
    assert await state_of(store, released) is RunState.CANCELLED
    assert (await store.get_run(released.run.id)).error == "enough"
    assert await state_of(store, succeeded) is RunState.SUCCEEDED


async def test_what_an_attempt_cost_stays_with_it(store: Store, worker: Worker) -> None:
    """The run, its attempts and its event have the cost of an attempt, and a new attempt begins without."""
    await add_runs(store, await add_job(store), 1)
    (first,) = await worker.claim()
    await worker.settle(first, Released("later"), cost=(2**40, 3 * 2**40))
    waits = await store.get_run(first.run.id)
    assert (waits.state, waits.cpu, waits.memory) == (RunState.READY, 2**40, 3 * 2**40)
    (second,) = await worker.claim()
    assert (second.run.cpu, second.run.memory) == (None, None)
    await worker.settle(second, cost=(0, None))
    ended = await store.get_run(first.run.id)
    assert (ended.state, ended.cpu, ended.memory) == (RunState.SUCCEEDED, 0, None)
    told = [(each.cpu, each.memory) for each in await store.attempts(ended.id)]
    assert sorted(told, key=str) == [(0, None), (2**40, 3 * 2**40)]
    (event,) = (await store.ended_since(EndPlace(written=Moment(0)), 10)).found
    assert (event.cpu, event.memory) == (0, None)
