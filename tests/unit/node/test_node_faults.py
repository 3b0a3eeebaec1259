"""A node whose store, clock or neighbours fail it."""

import asyncio

import pytest

from tests.unit.examples import a_definition, seconds
from tests.unit.node.world import Member, World
from tokimori.clock import SECOND
from tokimori.engine.settle import change_of
from tokimori.engine.unfinished import UNFINISHED
from tokimori.errors import StoreError
from tokimori.model.job import JobState
from tokimori.model.lease import LEASE, TICK_IDLE
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.policies import Misfire, Retry
from tokimori.model.transitions import RunState
from tokimori.node.flow import DEAF
from tokimori.ports.executor import StopReason
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Claimed


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_a_lost_reply_to_a_claim_strands_nothing(world: World) -> None:
    """The runs of a claim whose reply was lost are handed back at the next tick, unpenalised, and then run."""
    job = await world.add(schedule=None)
    member = await world.join()
    ids = await world.trigger(job, 3)
    member.link.lose_reply["claim"] = 1
    await member.cycle()
    await member.cycle()
    assert len(await world.runs(RunState.RUNNING)) == 3
    assert member.executor.running == []
    await world.pass_time(2.5)
    assert member.executor.running == ids
    for run in await world.runs():
        assert (run.state, run.failures, run.lost) == (RunState.RUNNING, 0, 0)
        assert await world.store.attempts(run.id) == []


async def test_nobody_works_on_a_part_of_a_copy(world: World) -> None:
    """A node neither joins nor fires where a copy is not whole, also not one that comes back under a new id."""
    await world.add()
    member = await world.join()
    await world.store.put_document(UNFINISHED, None)
    with pytest.raises(StoreError, match="holds a part of a copy"):
        await world.join()
    assert [node.id for node in await world.store.list_nodes() if node.state is NodeState.ALIVE] == [member.node.id]
    await world.store.leave(member.node.id, world.clock.now())
    await world.pass_time(9)
    assert await world.runs() == []
    assert not [node for node in await world.store.list_nodes() if node.state is NodeState.ALIVE]
    await world.store.delete_document(UNFINISHED.kind, UNFINISHED.name, UNFINISHED.version)
    await world.pass_time(9)
    assert await world.runs()


async def test_a_lost_reply_to_a_settle_settles_once(world: World) -> None:
    """The settle is sent again until it is answered, and takes effect once."""
    job = await world.add(schedule=None, retry=Retry(attempts=9, delay=100))
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.link.lose_reply["settle"] = 2
    member.executor.end(run_id, Failed("no"))
    await world.pass_time(0.4)
    assert member.link.calls["settle"] == 3
    run = await world.run(run_id)
    assert (run.state, run.failures, run.attempt) == (RunState.WAITING, 1, 1)
    assert not member.node._worker.work.busy


async def test_a_lost_reply_to_an_apply_fires_once(world: World) -> None:
    """What was fired and not heard of is claimed and run all the same, once."""
    await world.add(schedule="at 2030-01-01T00:00:01Z")
    member = await world.join()
    member.link.lose_reply["apply"] = 1
    await world.pass_time(3)
    assert [run.nominal for run in await world.runs()] == [seconds(1)]
    assert len(member.executor.running) == 1


async def test_a_lost_reply_to_a_tick_loses_no_order(world: World) -> None:
    """An order to cancel whose tick went unheard comes with the next one."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(1)
    await world.store.cancel_run(run_id, "by me", world.clock.now())
    member.link.lose_reply["tick"] = 1
    await world.pass_time(1.5)
    assert [stop.reason for stop in member.executor.stops] == [StopReason.CANCEL]


async def test_a_beat_that_fails_is_repeated_soon(world: World) -> None:
    """A store that fails three beats in a row, and is back at once, costs the node no lease."""
    member = await world.join()
    lease_held = []
    member.link.lose_call["tick"] = 3
    await world.pass_time(10, each=lambda: lease_held.append(member.node.healthy))
    assert all(lease_held)


async def test_every_reply_lost_once(world: World) -> None:
    """Whichever call's reply is lost: each occurrence runs once, and succeeds."""
    await world.add()
    member = await world.join()
    for name in ("tick", "due", "apply", "promote", "claim", "survey", "settle", "get_run", "save_outputs"):
        member.link.lose_reply[name] = 1
        await world.pass_time(3, each=member.executor.end_all)
    await world.pass_time(5, each=member.executor.end_all)
    runs = await world.runs()
    last = int(world.clock.monotonic() - 1000)
    assert [run.nominal for run in runs] == [seconds(n) for n in range(1, last + 1)]
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert {(run.lost, run.failures) for run in runs} == {(0, 0)}


async def test_work_in_hand_outlives_the_stores_absence(world: World) -> None:
    """While the store is away what runs goes on; what ended meanwhile is settled when it is back."""
    job = await world.add(schedule=None)
    member = await world.join()
    first, second = await world.trigger(job, 2)
    await world.pass_time(1)
    member.link.away = True
    await world.pass_time(3)
    member.executor.end(first)
    await world.pass_time(3)
    assert (await world.run(first)).state is RunState.RUNNING
    assert member.executor.running == [second]
    assert member.executor.stops == []
    member.link.away = False
    await world.pass_time(2.1)
    assert (await world.run(first)).state is RunState.SUCCEEDED
    assert (await world.run(second)).state is RunState.RUNNING
    assert member.node.healthy


async def test_firing_catches_up_after_an_absence(world: World) -> None:
    """What was due while the store was away is fired when it is back, by the job's misfire policy."""
    await world.add(misfire=Misfire.ALL)
    member = await world.join()
    member.link.away = True
    await world.pass_time(100, each=member.executor.end_all)
    assert await world.runs() == []
    member.link.away = False
    await world.pass_time(3, each=member.executor.end_all)
    assert await world.nominals() == [seconds(n) for n in range(1, 104)]


async def test_a_node_without_a_lease_starts_nothing(world: World) -> None:
    """Whoever could not renew for 5 s starts nothing until a beat is answered, however ready its store is."""
    job = await world.add(schedule=None)
    member = await world.join()
    await world.pass_time(0.1)
    await world.trigger(job)
    member.link.lose_call["tick"] = 10**6
    world.clock.advance(5.5)
    for _ in range(20):
        await member.cycle()
        world.clock.advance(0.1)
    assert not member.node.healthy
    assert member.executor.running == []
    member.link.lose_call["tick"] = 0
    await world.pass_time(2.1)
    assert len(member.executor.running) == 1


async def test_a_lease_counts_from_when_its_beat_was_sent(world: World) -> None:
    """A beat that was answered late renews the lease from when it was sent: the others may have seen it then."""
    member = await world.join()
    await world.pass_time(0.1)
    tick = world.store.tick

    async def slow_tick(*args: object) -> object:
        pulse = await tick(*args)  # type: ignore[arg-type]
        world.clock.advance(3)
        return pulse

    world.store.tick = slow_tick  # type: ignore[method-assign,assignment]
    world.clock.advance(2.1)
    await member.cycle()
    member.link.lose_call["tick"] = 10**6
    healthy = []
    for passed in (1.9, 0.2):
        world.clock.advance(passed)
        healthy.append(member.node.healthy)
    assert healthy == [True, False]
    assert world.clock.monotonic() - member.executor.renewed[-1] > LEASE


async def test_claimed_runs_do_not_start_after_the_lease(world: World) -> None:
    """A claim whose reply took so long that the lease is over starts nothing; it waits for the next answered beat."""
    job = await world.add(schedule=None)
    member = await world.join()
    await world.trigger(job)
    claim = world.store.claim

    async def slow_claim(*args: object) -> object:
        claimed = await claim(*args)  # type: ignore[arg-type]
        world.clock.advance(5.5)
        return claimed

    world.store.claim = slow_claim  # type: ignore[method-assign,assignment]
    await member.cycle()
    await member.cycle()
    assert len(await world.runs(RunState.RUNNING)) == 1
    assert member.executor.running == []
    await member.settle()
    assert len(member.executor.running) == 1


async def test_a_silent_nodes_runs_are_taken_over(world: World) -> None:
    """Within 10 s of a node's last beat another one has declared it dead and runs what it had."""
    job = await world.add(schedule=None)
    first = await world.join()
    ids = await world.trigger(job, 3)
    await world.pass_time(1)
    assert first.executor.running == ids
    second = await world.join()
    first.frozen = True
    took = 0.0
    while not second.executor.running and took < 15:
        await world.pass_time(0.5)
        took += 0.5
    assert 6 <= took <= 9
    assert second.executor.running == ids
    for run_id in ids:
        assert [row.outcome for row in await world.store.attempts(run_id)] == ["lost"]
    assert (await world.node_states())[first.node.id] == "dead"


async def test_a_node_that_was_declared_dead_changes_nothing(world: World) -> None:
    """It ends its processes, joins under a new id, and whatever its old runs end with is not written."""
    job = await world.add(schedule=None)
    first = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(1)
    old = first.node.id
    second = await world.join()
    first.frozen = True
    await world.pass_time(10)
    assert second.executor.running == [run_id]
    first.frozen = False
    first.executor.end(run_id, Failed("too late"))
    await world.pass_time(2)
    run = await world.run(run_id)
    assert (run.state, run.node_id, run.attempt) == (RunState.RUNNING, second.node.id, 2)
    assert first.node.id != old
    assert await world.node_states() == {old: "dead", first.node.id: "alive", second.node.id: "alive"}
    second.executor.end(run_id)
    await world.pass_time(1)
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_a_node_that_was_declared_dead_ends_its_processes(world: World) -> None:
    """What still runs of its former life is ended, and the node goes on to work under its new id."""
    job = await world.add(schedule=None)
    first = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(1)
    second = await world.join()
    first.frozen = True
    await world.pass_time(10)
    first.frozen = False
    await world.pass_time(1)
    assert [(stop.run_id, stop.token, stop.reason) for stop in first.executor.stops] == [(run_id, 1, StopReason.DISOWN)]
    first.executor.obey()
    second.frozen = True
    await world.pass_time(10)
    assert first.executor.running == [run_id]
    assert first.executor.tasks[0].token == 3


async def test_a_node_that_was_declared_dead_waits_for_the_time_of_the_store(world: World) -> None:
    """Its own clock is an hour behind: under its new id, too, it notes no time before the store has told its own."""
    await world.add()
    first, second = await world.join(-3600), await world.join()
    await world.pass_time(100, each=second.executor.end_all)
    first.frozen = True
    await world.pass_time(10, each=second.executor.end_all)
    first.frozen = False
    await world.pass_time(2, each=second.executor.end_all)
    assert await world.store.list_documents("clock") == []


async def test_a_stopping_node_that_was_declared_dead_leaves_by_the_time_of_the_store(world: World) -> None:
    """Its own clock is an hour behind: the row of its new life says when it left by the store's clock."""
    first, _ = await world.join(-3600), await world.join()
    first.frozen = True
    await world.pass_time(10)
    first.frozen = False
    first.node.stop()
    await world.pass_time(2)
    left = {record.id: record.left for record in await world.store.list_nodes()}
    assert first.node.finished
    assert left[first.node.id] == world.clock.now() - 2 * SECOND


async def test_a_rebirth_survives_a_store_that_is_away(world: World) -> None:
    """Where the registration under the new id fails, or its reply is lost, the node still comes to a living id."""
    await world.add()
    first, second = await world.join(), await world.join()
    first.frozen = True
    await world.pass_time(10, each=second.executor.end_all)
    first.frozen = False
    first.link.lose_call["register"] = 1
    first.link.lose_reply["register"] = 1
    second.frozen = True
    await world.pass_time(20, each=first.executor.end_all)
    assert (await world.node_states())[first.node.id] == "alive"
    assert max(await world.nominals()) == seconds(30)


async def test_a_run_that_was_taken_away_is_ended(world: World) -> None:
    """A run that the store no longer gives to this node is ended here, and what it ends with is not written."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(1)
    claimed = Claimed(run=await world.run(run_id), definition=job.definition)
    change = change_of(claimed, Succeeded(7), owner=member.node.id, now=world.clock.now(), chance=0.0)
    await world.store.settle([change], member.node.id, world.clock.now())
    await world.pass_time(1)
    assert [(stop.run_id, stop.reason) for stop in member.executor.stops] == [(run_id, StopReason.DISOWN)]
    member.executor.end(run_id, Failed("too late"))
    await world.pass_time(1)
    run = await world.run(run_id)
    assert (run.state, run.exit_code) == (RunState.SUCCEEDED, 7)


async def test_an_observer_that_was_away_condemns_nobody(world: World) -> None:
    """A node that could not reach the store itself has not seen the others' silence."""
    first, second = await world.join(), await world.join()
    await world.pass_time(1)
    for member in (first, second):
        member.link.away = True
    await world.pass_time(30)
    for member in (first, second):
        member.link.away = False
    await world.pass_time(30)
    assert set((await world.node_states()).values()) == {"alive"}


async def tick_in_turn(world: World, *members: Member) -> None:
    """Each beats once more; the last one has seen the newest counters of all the others."""
    world.clock.advance(TICK_IDLE + 0.1)
    for member in members:
        await member.settle()


async def test_an_observer_that_froze_condemns_nobody(world: World) -> None:
    """A node that slept for minutes does not take the others' old counters for silence."""
    first, second = await world.join(), await world.join()
    await world.pass_time(1)
    await tick_in_turn(world, second, first)
    for member in (first, second):
        member.frozen = True
    await world.pass_time(300)
    for member in (first, second):
        member.frozen = False
    await world.pass_time(10)
    assert set((await world.node_states()).values()) == {"alive"}


async def test_a_slow_reply_condemns_nobody(world: World) -> None:
    """A tick whose reply took long tells of the past: the store may have kept everybody else waiting as well."""
    first, second = await world.join(), await world.join()
    await world.pass_time(3)
    await tick_in_turn(world, second, first)
    tick = world.store.tick

    async def stuck(*args: object) -> object:
        world.clock.advance(20)  # the store was locked; this node's call is the first that it answers
        return await tick(*args)  # type: ignore[arg-type]

    world.store.tick = stuck  # type: ignore[method-assign,assignment]
    world.clock.advance(2.1)
    await first.cycle()
    world.store.tick = tick  # type: ignore[method-assign]
    await first.cycle()
    await world.pass_time(5)
    assert set((await world.node_states()).values()) == {"alive"}
    assert second.node.healthy


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_nothing_fires_by_a_clock_that_jumped(world: World, jump: float) -> None:
    """When the store's clock jumps, nothing is decided until three ticks in a row agree."""
    await world.add(schedule="*/10 * * * * *")
    member = await world.join()
    await world.pass_time(12, each=member.executor.end_all)
    before = await world.nominals()
    world.store_clock._offset += round(jump * 1_000_000)
    fired_at = None
    for step in range(100):
        await world.pass_time(0.1, each=member.executor.end_all)
        if fired_at is None and await world.nominals() != before:
            fired_at = step / 10
    if jump > 0:
        assert fired_at is not None
        assert fired_at >= 4
    else:
        assert fired_at is None


async def test_a_backward_jump_fires_nothing_again(world: World) -> None:
    """After a jump back the occurrences of that hour are not run a second time."""
    await world.add(schedule="*/10 * * * * *")
    member = await world.join()
    await world.pass_time(60, each=member.executor.end_all)
    before = await world.nominals()
    world.store_clock._offset -= 50_000_000
    await world.pass_time(49, each=member.executor.end_all)
    assert await world.nominals() == before
    await world.pass_time(21, each=member.executor.end_all)
    assert len(set(await world.nominals())) == len(await world.nominals()) == len(before) + 2


@pytest.mark.parametrize("offset", [3600, -3600])
async def test_a_node_goes_by_the_stores_clock(world: World, offset: float) -> None:
    """A node whose own clock is an hour wrong fires at the store's time, and writes the store's time."""
    await world.add(schedule="*/20 * * * * *", retry=Retry(attempts=2, delay=5))
    member = await world.join(offset=offset)
    await world.pass_time(19.9)
    assert await world.runs() == []
    await world.pass_time(0.2)
    (run,) = await world.runs()
    member.executor.end(run.id, Failed("no"))
    await world.pass_time(1)
    waiting = await world.run(run.id)
    assert (waiting.state, waiting.due) == (RunState.WAITING, seconds(25.1))
    assert [(row.started, row.ended) for row in await world.store.attempts(run.id)] == [(seconds(20.1), seconds(20.1))]


async def test_a_job_that_can_not_be_decided_stops_nothing(world: World) -> None:
    """One broken job is parked; the node fires and runs the others."""
    broken = await world.add("broken")
    await world.add("whole")
    member = await world.join()
    schedules = member.node._schedules
    schedules._known[broken.incarnation, broken.version, broken.anchor] = None  # type: ignore[assignment]
    real = type(schedules).__call__

    def picky(self: object, job: object) -> object:
        if job.id == "broken":  # type: ignore[attr-defined]
            raise ValueError("no such schedule")
        return real(self, job)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(schedules), "__call__", picky)
        await world.pass_time(3, each=member.executor.end_all)
    assert (await world.store.get_job(broken.id)).state is JobState.PARKED
    assert [run.job_id for run in await world.runs()] == ["whole"] * 3


async def test_one_failing_duty_does_not_stop_the_others(world: World) -> None:
    """While firing fails, whatever the reason, what is ready is still claimed, started and settled."""
    job = await world.add("asked", schedule=None)
    await world.add("due")
    member = await world.join()
    member.link.lose_call["due"] = 10**6
    await world.pass_time(3)
    (run_id,) = await world.trigger(job)
    await world.pass_time(3, each=member.executor.end_all)
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_an_idle_node_asks_little(world: World) -> None:
    """A node with nothing to do calls the store once in 2 s, its beat, and twice in 10 s for what expires or waits.

    Until it has been up for an hour two duties ask in each minute if the time has leapt.
    """
    await world.add(schedule="at 2031-01-01T00:00:00Z")
    member = await world.join()
    await world.pass_time(2)
    member.link.calls.clear()
    await world.pass_time(60)
    assert member.link.calls == {"tick": 30, "list_documents": 12, "list_runs": 2}


async def test_an_outage_does_not_make_a_node_spin(world: World) -> None:
    """While the store is away a node with work waiting tries now and then; it does not burn the processor."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    await world.trigger(job, 5)
    await world.pass_time(1)
    member.link.away = True
    cycles, end = 0, world.clock.monotonic() + 20
    while world.clock.monotonic() < end:
        world.clock.advance(max(0.001, await member.cycle()))
        cycles += 1
    assert cycles < 400


def test_examples_are_what_they_say() -> None:
    """The jobs of these tests overlap unless they say otherwise."""
    assert a_definition(max_running=0).max_running == 0


@pytest.mark.parametrize("every", [1.7, 2.3, 2.9, 3.4])
async def test_short_jobs_do_not_blind_an_observer(world: World, every: float) -> None:
    """A node that becomes busy long after its last beat beats early; that is no late tick, and hides no death."""
    job = await world.add(schedule=None)
    dead, observer = await world.join(), await world.join()
    await world.pass_time(1)
    dead.frozen = True
    for _ in range(round(10 / every)):
        await world.trigger(job)
        observer.node.wake()
        await world.pass_time(every, each=observer.executor.end_all)
    assert (await world.node_states())[dead.node.id] == "dead"


async def test_a_hint_during_a_tick_is_not_lost(world: World) -> None:
    """What somebody else adds while a tick is under way is looked for at once, not with the next tick."""
    job = await world.add(schedule=None)
    member = await world.join()
    tick = world.store.tick

    async def tick_and_hint(*args: object) -> object:
        pulse = await tick(*args)  # type: ignore[arg-type]
        world.store._watchers.clear()
        await world.trigger(job)
        member.node.wake()
        return pulse

    world.store.tick = tick_and_hint  # type: ignore[method-assign,assignment]
    world.clock.advance(2)
    await member.cycle()
    world.store.tick = tick  # type: ignore[method-assign]
    await member.settle()
    assert len(member.executor.running) == 1


async def test_nodes_beat_at_different_moments(world: World) -> None:
    """Nodes that start together do not tick together (DESIGN §5: different offsets)."""
    members = [await world.join() for _ in range(5)]
    assert len({await member.settle() for member in members}) == 5


async def test_hints_do_not_hurry_a_node_whose_store_has_just_failed(world: World) -> None:
    """What others try in vain is a hint, too: soon after a failure nothing is tried for it, later it is."""
    member = await world.join()
    world.clock.advance(3)
    member.link.away = True
    running = asyncio.create_task(member.node.run())
    tried = await calls_after_hints(member)
    assert await calls_after_hints(member) == tried
    world.clock.advance(DEAF)
    assert await calls_after_hints(member) > tried
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_ends_do_not_hurry_a_node_whose_store_is_away(world: World) -> None:
    """A busy node asks an absent store as seldom as an idle one, and tells of all ends once it is back."""
    job = await world.add(schedule=None)
    member = await world.join()
    for _ in range(8):
        await world.trigger(job)
    member.node.wake()
    await member.settle()
    world.clock.advance(1)
    member.link.away = True
    running = asyncio.create_task(member.node.run())
    tried = await calls_after_hints(member)
    for run_id in member.executor.running:
        member.executor.end(run_id)
        for _ in range(10):
            await asyncio.sleep(0)
    assert member.link.calls.total() == tried
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    member.link.away = False
    await member.settle()
    assert {run.state for run in await world.runs()} == {"succeeded"}


async def calls_after_hints(member: Member) -> int:
    """How often its store was called until now, many hints later. No time passes."""
    for _ in range(50):
        member.node.wake()
        await asyncio.sleep(0)
    return member.link.calls.total()
