"""Nodes: who lives, who is dead for good, and what becomes of what the dead owned."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_claim, a_job, a_node, a_request, add_job, add_runs, later
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.model.ids import Lane, NodeId, Token
from tokimori.model.outcome import Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.ports.nodes import Beat, NodeState, StartedRun
from tokimori.ports.store import Store
from tokimori.ports.working import Verdict

NOBODY = NodeId("00000000-0000-7000-8000-000000000000")


async def test_a_node_is_read_as_it_was_registered(store: Store) -> None:
    """Every field of a node comes back."""
    node = a_node(host="there", labels={"disk": "fast"}, concurrency=3, started=later(-5))
    await store.register(node)
    assert await store.list_nodes() == [node]


async def test_a_node_says_its_labels_and_places_anew(store: Store, worker: Worker, other: Worker) -> None:
    """A node that registers again has the labels and places that it has now; it stays what it is, and so do others."""
    await worker.tick()
    before = {node.id: node for node in await store.list_nodes()}
    await store.register(replace(before[worker.id], labels={"disk": "slow"}, concurrency=7, host="elsewhere", beat=0))
    after = {node.id: node for node in await store.list_nodes()}
    assert after == {**before, worker.id: replace(before[worker.id], labels={"disk": "slow"}, concurrency=7)}
    assert (await worker.tick()).peers == ((other.id, 0),)


async def test_a_tick_raises_the_beat_and_tells_of_the_peers(store: Store, worker: Worker, other: Worker) -> None:
    """Each tick raises the node's counter by one, for the others to see."""
    for beats in range(3):
        pulse = await other.tick()
        assert pulse.peers == ((worker.id, beats),)
        await worker.tick()


async def test_a_tick_tells_the_stores_time(store: Store, worker: Worker) -> None:
    """A store that has a clock of its own tells its time; the others know only this machine's."""
    told = (await worker.tick()).now
    assert told == NOW or abs(told - SystemClock().now()) < SECOND


async def test_a_tick_tells_what_the_node_owns(store: Store, worker: Worker, other: Worker) -> None:
    """`owned` are the runs that the store gives this node, with their tokens, and nobody else's."""
    await add_runs(store, await add_job(store), 3)
    mine = await worker.claim(2)
    await other.claim()
    assert (await worker.tick()).owned == frozenset((claimed.run.id, claimed.run.token) for claimed in mine)
    await worker.settle(mine[0])
    assert (await worker.tick()).owned == {(mine[1].run.id, Token(1))}


async def test_a_tick_notes_which_processes_began(store: Store, worker: Worker, other: Worker) -> None:
    """Pid and start are kept with a run while the node owns it with that token."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    began = StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=42, at=later(1))
    for beat in (
        Beat(node=other.id, started=(began,)),
        Beat(node=worker.id, started=(replace(began, token=Token(9)),)),
    ):
        await store.tick(beat, later(2))
        assert (await store.get_run(claimed.run.id)).pid is None
    await store.tick(Beat(node=worker.id, started=(began,)), later(2))
    run = await store.get_run(claimed.run.id)
    assert (run.pid, run.started) == (42, later(1))


async def test_a_survey_tells_the_next_moment_and_the_live_lanes(store: Store, worker: Worker) -> None:
    """The survey names the earliest moment at which anything is due, and the lanes with ready runs."""
    assert (await worker.tick()).survey == await store.survey(NOW)
    assert (await store.survey(NOW)).next_due is None
    await store.add_jobs([a_job("late", schedule="0 0 * * *", next_due=later(60))])
    for queue in ("b", "a", "c"):
        job = await add_job(store, queue, queue=queue)
        await add_runs(store, job, 2)
    survey = (await worker.tick()).survey
    assert (survey.next_due, survey.lanes) == (later(60), ("a||", "b||", "c||"))
    await store.add_run(a_request(job, due=later(5)), NOW)
    assert (await store.survey(NOW)).next_due == later(5)


async def test_a_survey_may_look_past_what_is_due(store: Store) -> None:
    """Jobs and waiting runs up to that moment are left out, those after it are not."""
    await store.add_jobs([a_job(f"job{n}", schedule="0 0 * * *", next_due=later(n)) for n in range(3)])
    assert (await store.survey(NOW)).next_due == later(0)
    assert (await store.survey(NOW, past=later(0))).next_due == later(1)
    assert (await store.survey(NOW, past=Moment(later(1) - 1))).next_due == later(1)
    job = await add_job(store)
    await add_runs(store, job, 1)
    await store.add_run(a_request(job, due=later(1.5)), NOW)
    survey = await store.survey(NOW, past=later(1))
    assert (survey.next_due, survey.lanes) == (later(1.5), ("default||",))
    assert (await store.survey(NOW, past=later(1.5))).next_due == later(2)
    assert (await store.survey(NOW, past=later(2))).next_due is None


async def test_a_node_that_beats_is_not_buried(store: Store, worker: Worker, other: Worker) -> None:
    """Who has beaten since it was looked at is alive."""
    await worker.tick()
    assert not await store.bury(worker.id, 0, other.id, NOW)
    await worker.tick()


async def test_only_the_living_bury(store: Store, worker: Worker, other: Worker) -> None:
    """A dead node, or an unknown one, declares nobody dead."""
    third = await Worker.join(store)
    await other.die(by=third)
    assert not await store.bury(worker.id, 0, other.id, NOW)
    assert not await store.bury(worker.id, 0, NOBODY, NOW)
    assert not await store.bury(NOBODY, 0, worker.id, NOW)
    await worker.tick()


async def test_death_is_final(store: Store, worker: Worker, other: Worker) -> None:
    """A dead node neither beats nor claims nor settles nor comes back under its id."""
    await add_runs(store, await add_job(store), 2)
    (claimed,) = await worker.claim(1)
    await worker.die(by=other)
    before = await store.get_run(claimed.run.id)
    record = next(node for node in await store.list_nodes() if node.id == worker.id)
    assert (record.state, record.left) == (NodeState.DEAD, NOW)
    began = StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=42, at=later(1))
    assert await store.tick(Beat(node=worker.id, started=(began,)), NOW) is None
    assert await worker.claim() == []
    assert await worker.settle(claimed) is Verdict.LOST
    await store.register(replace(record, state=NodeState.ALIVE, left=None))
    assert await store.tick(Beat(node=worker.id), NOW) is None
    assert await store.get_run(claimed.run.id) == before
    assert (await other.tick()).peers == ()


async def test_an_unknown_node_gets_nothing(store: Store) -> None:
    """A node that never registered neither beats nor claims."""
    await add_runs(store, await add_job(store), 1)
    assert await store.tick(Beat(node=NOBODY), NOW) is None
    assert await store.claim(a_claim(NOBODY, [Lane("default||")], 1), NOW) == []


async def test_a_dead_nodes_runs_are_taken_over(store: Store, worker: Worker, other: Worker) -> None:
    """What a dead node owned is seen in the tick, found by `orphans`, and settled by any living node."""
    runs = await add_runs(store, await add_job(store), 3)
    lost = await worker.claim()
    assert not (await other.tick()).orphans
    assert await store.orphans(10) == []
    await worker.die(by=other)
    assert (await other.tick()).orphans
    assert await store.orphans(2) == lost[:2]
    changes = [worker.change(claimed, Lost("its node died")) for claimed in await store.orphans(10)]
    assert await store.settle(changes, other.id, NOW) == [Verdict.APPLIED] * 3
    assert not (await other.tick()).orphans
    again = await other.claim()
    assert sorted(claimed.run.id for claimed in again) == sorted(run.id for run in runs)
    assert [(claimed.run.token, claimed.run.attempt, claimed.run.lost) for claimed in again] == [(2, 2, 1)] * 3
    (attempt,) = await store.attempts(runs[0].id)
    assert (attempt.outcome, attempt.node_id) == ("lost", worker.id)


@pytest.mark.parametrize("outcome", [Lost("stolen"), Succeeded(0), Released("stolen")])
async def test_a_living_nodes_run_is_never_stolen(
    store: Store, worker: Worker, other: Worker, outcome: Outcome
) -> None:
    """Nobody else settles what a living node owns."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    assert await store.settle([worker.change(claimed, outcome)], other.id, NOW) == [Verdict.LOST]
    assert await worker.settle(claimed) is Verdict.APPLIED


@pytest.mark.parametrize("outcome", [Succeeded(0), Released("later"), RetryAt(later(9))])
async def test_what_a_node_settled_before_its_death_stays(
    store: Store, worker: Worker, other: Worker, outcome: Outcome
) -> None:
    """Who takes over from an old list of orphans changes nothing that the dead node itself had settled."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, outcome)
    await worker.die(by=other)
    before = await store.get_run(claimed.run.id)
    assert await store.settle([worker.change(claimed, Lost("dead"))], other.id, NOW) == [Verdict.LOST]
    assert await store.get_run(claimed.run.id) == before


async def test_only_the_living_take_over(store: Store, worker: Worker, other: Worker) -> None:
    """A dead node does not settle another dead node's runs."""
    third = await Worker.join(store)
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    for node in (worker, other):
        await node.die(by=third)
    assert await store.settle([worker.change(claimed, Lost("dead"))], other.id, NOW) == [Verdict.LOST]
    assert await store.settle([worker.change(claimed, Lost("dead"))], third.id, NOW) == [Verdict.APPLIED]


async def test_an_orphan_of_a_deleted_job_has_no_definition(store: Store, worker: Worker, other: Worker) -> None:
    """A run whose job is gone is still found when its node dies, and ends."""
    job = await add_job(store)
    await add_runs(store, job, 1)
    await worker.claim()
    await store.delete_job(job.id, NOW)
    await worker.die(by=other)
    (orphan,) = await store.orphans(1)
    assert orphan.definition is None
    assert await store.settle([worker.change(orphan, Lost("dead"))], other.id, NOW) == [Verdict.APPLIED]
    assert not (await other.tick()).orphans


async def test_a_node_leaves_when_it_owns_nothing(store: Store, worker: Worker) -> None:
    """Leaving is refused while the node owns runs; who has left does nothing more."""
    await add_runs(store, await add_job(store), 2)
    (claimed,) = await worker.claim(1)
    assert not await store.leave(worker.id, NOW)
    await worker.settle(claimed)
    assert await store.leave(worker.id, later(1))
    (record,) = await store.list_nodes()
    assert (record.state, record.left) == (NodeState.LEFT, later(1))
    assert await store.tick(Beat(node=worker.id), NOW) is None
    assert await worker.claim() == []
    assert await store.leave(worker.id, later(2))


@pytest.mark.parametrize("limit", [2, 10])
async def test_living_nodes_are_listed_first(store: Store, limit: int) -> None:
    """Nodes are listed as the living ones, then those that went, newest first."""
    left, dead, old, new = [await Worker.join(store) for _ in range(4)]
    await store.leave(left.id, later(1))
    await store.bury(dead.id, 0, old.id, later(2))
    listed = [node.id for node in await store.list_nodes(limit=limit)]
    assert set(listed[:2]) == {old.id, new.id}
    assert listed[2:] == [dead.id, left.id][: limit - 2]


async def rest(worker: Worker) -> None:
    """Tick until nothing has been to do for a while."""
    for _ in range(3):
        pulse = await worker.tick()
    assert (pulse.survey.lanes, pulse.owned, pulse.cancels, pulse.orphans) == ((), frozenset(), (), False)


async def test_a_node_that_rested_hears_of_whatever_comes(store: Store, worker: Worker, other: Worker) -> None:
    """After ticks at which nothing was to be done the next one tells of moments, lanes, what it owns, and orphans."""
    await rest(worker)
    await add_job(store, "later", schedule="every 1 hour", next_due=later(60))
    job = await add_job(store)
    await store.add_run(a_request(job, due=later(30)), NOW)
    assert (await worker.tick()).survey.next_due == later(30)
    await rest(worker)
    (run,) = await add_runs(store, job, 1)
    assert (await worker.tick()).survey.lanes == (run.lane,)
    (claimed,) = await worker.claim()
    await store.cancel_run(run.id, "enough", NOW)
    pulse = await worker.tick()
    assert (pulse.owned, pulse.cancels) == (frozenset({(run.id, Token(1))}), ((run.id, Token(1), "enough"),))
    await worker.settle(claimed)
    await rest(worker)
    await add_runs(store, job, 1)
    await other.claim()
    await other.die(by=worker)
    assert (await worker.tick()).orphans


async def test_a_node_that_rests_lives_and_dies_like_any_other(store: Store, worker: Worker, other: Worker) -> None:
    """Its beats are seen, it sees those of the others, and it hears that it is dead."""
    await rest(worker)
    await rest(other)
    assert (await worker.tick()).peers == ((other.id, 3),)
    assert (await other.tick()).peers == ((worker.id, 4),)
    await worker.die(by=other)
    assert await store.tick(Beat(node=worker.id), NOW) is None


async def test_who_is_no_node_hears_the_same_time(store: Store, worker: Worker) -> None:
    """The time that doors ask for lies between those of two beats."""
    before = (await worker.tick()).now
    asked = await store.now()
    assert before <= asked <= (await worker.tick()).now
