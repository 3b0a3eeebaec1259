"""Orders reach a node by polling alone: within a second while it runs something, else within two."""

import asyncio
import os
from collections.abc import Sequence
from itertools import count

import pytest
from msgspec.structs import replace

from tests.unit.node.world import Member, World
from tokimori.errors import InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.order import RestartRun
from tokimori.model.policies import Retry
from tokimori.model.run import Run
from tokimori.model.target import Function
from tokimori.model.transitions import RunState
from tokimori.node.stopping import Phase
from tokimori.ports.executor import Signal, StopReason
from tokimori.ports.nodes import NodeRecord, Pulse
from tokimori.service.doors.audited import audited
from tokimori.service.service import Service, service_on


def orders_of(world: World) -> Service:
    """Somebody elsewhere, who knows the store alone."""
    service = service_on(world.store, world.clock, os.urandom, author="ada")
    service.nodes._rest = world.pass_time
    return service


async def one_running(world: World, member: Member) -> Run:
    """A run that the node works on."""
    [run_id] = await world.trigger(await world.add(schedule=None))
    await world.pass_time(2)
    assert member.executor.running == [run_id]
    return await world.run(run_id)


async def test_a_restarted_run_begins_anew_within_a_second() -> None:
    """Its attempt is told to end, counts for nothing, and the same run is claimed again."""
    world = World()
    member = await world.join()
    run = await one_running(world, member)
    await orders_of(world).runs.restart(run.id)
    await world.pass_time(1)
    assert [(stop.run_id, stop.reason) for stop in member.executor.stops] == [(run.id, StopReason.RESTART)]
    member.executor.obey()
    await world.pass_time(1)
    again = await world.run(run.id)
    assert (again.state, again.attempt, again.failures, again.lost) == (RunState.RUNNING, 2, 0, 0)


async def test_what_is_never_begun_again_is_not_restarted() -> None:
    """It is refused with what to do; an order that was under way ends the run."""
    world = World()
    member = await world.join()
    [run_id] = await world.trigger(await world.add(schedule=None, retry=Retry(lost_attempts=0)))
    await world.pass_time(2)
    service, run = orders_of(world), await world.run(run_id)
    with pytest.raises(Refused, match="never begun again") as refused:
        await service.runs.restart(run_id)
    assert f"tokimori run cancel {run_id}" in (refused.value.allowed or "")
    with pytest.raises(Refused, match="never begun again"):
        await service.jobs.restart(run.job_id)
    await service.runs._orders.give(RestartRun(run_id=run.id, token=run.token))
    await world.pass_time(1)
    member.executor.obey()
    await world.pass_time(1)
    assert (await world.run(run_id)).state is RunState.FAILED


async def test_an_order_means_one_attempt() -> None:
    """Whoever restarts twice before a node hears it restarts once; the next attempt is not meant."""
    world = World()
    member = await world.join()
    run = await one_running(world, member)
    service = orders_of(world)
    await service.runs.restart(run.id)
    await service.runs.restart(run.id)
    await world.pass_time(1)
    member.executor.obey()
    member.executor.stops.clear()
    await world.pass_time(3)
    assert member.executor.stops == []
    assert member.executor.running == [run.id]


async def test_a_signal_reaches_the_attempt_that_runs() -> None:
    """With its data, within a second, and no other node."""
    world = World()
    heard = list[tuple[str, Signal]]()
    for _ in range(2):
        member = await world.join(handlers=("f",))
        told = member.node.id
        member.node.signalling = lambda run_id, _token, signal, told=told: heard.append((told, signal))  # type: ignore[misc]
    [run_id] = await world.trigger(await world.add(schedule=None, target=Function(name="f")))
    await world.pass_time(2)
    run = await world.run(run_id)
    await orders_of(world).runs.signal(run_id, "reload", {"level": 3})
    await world.pass_time(1)
    assert heard == [(run.node_id, Signal("reload", '{"level":3}'))]


async def test_only_functions_hear_signals() -> None:
    """What nobody would hear is refused."""
    world = World()
    run = await one_running(world, await world.join())
    with pytest.raises(Refused, match="is no function"):
        await orders_of(world).runs.signal(run.id, "reload")
    with pytest.raises(InvalidInput, match="is not a word"):
        await orders_of(world).runs.signal(run.id, "re load")


@pytest.mark.parametrize("data", ["\ud800", {"\udfff": 1}, "x" * 2**16, float("nan")])
async def test_what_no_store_keeps_is_no_data_of_a_signal(data: object) -> None:
    """Half of a surrogate pair too: it is refused with its field, and nobody is told anything."""
    world = World()
    member = await world.join(handlers=("f",))
    heard = list[Signal]()
    member.node.signalling = lambda _run_id, _token, signal: heard.append(signal)
    [run_id] = await world.trigger(await world.add(schedule=None, target=Function(name="f")))
    await world.pass_time(2)
    with pytest.raises(InvalidInput, match=r"^data: "):
        await orders_of(world).runs.signal(run_id, "reload", data)
    await world.pass_time(2)
    assert heard == []


async def test_a_drained_node_takes_nothing_until_it_is_resumed() -> None:
    """What it runs goes on; it is not ready for more, and others see that it is drained."""
    world = World()
    member = await world.join()
    run = await one_running(world, member)
    service = orders_of(world)
    [told] = await service.nodes.drain(member.node.id)
    assert (told.id, told.drained) == (member.node.id, True)
    [waiting] = await world.trigger(await world.add("other", schedule=None))
    await world.pass_time(5)
    assert member.executor.running == [run.id]
    assert "takes no new runs" in str(member.node.unready)
    assert [node.drained for node in await service.nodes.list()] == [True]
    [reason] = (await service.runs.why(waiting)).reasons
    assert "told to take no new runs" in reason.text
    await service.nodes.resume()
    await world.pass_time(2)
    assert member.executor.running == [run.id, waiting]
    assert (member.node.unready, [node.drained for node in await service.nodes.list()]) == (None, [False])


@pytest.mark.parametrize("resumes_first", [True, False])
async def test_what_is_shown_of_a_node_is_what_it_does(resumes_first: bool) -> None:
    """Also where one person drains it while another one's order to resume is under way."""
    world = World()
    member = await world.join()
    orders = orders_of(world).nodes
    await orders.drain()
    both = [orders.resume(), orders.drain()]
    await asyncio.gather(*(both if resumes_first else reversed(both)))
    await world.pass_time(3)
    assert [node.drained for node in await orders_of(world).nodes.list()] == [member.node.unready is not None]


async def test_an_order_is_recorded_before_it_is_heard() -> None:
    """Once, with its author: who is killed while he waits has given it all the same."""
    world = World()
    member = await world.join()
    service = orders_of(world)
    waits: list[int] = []

    async def rest(seconds: float) -> None:
        waits.append(len(await service.audit.list()))
        await world.pass_time(seconds)

    service.nodes._rest = rest
    audited_orders = audited(service).nodes
    await audited_orders.drain(member.node.id)
    await audited_orders.resume()
    entries = [each.entry for each in await service.audit.list()]
    assert [(each.what, each.of, each.who, each.after) for each in entries] == [
        ("nodes.resume", "node *", "ada", {"nodes": 1}),
        ("nodes.drain", f"node {member.node.id}", "ada", {"nodes": 1}),
    ]
    assert {*waits} == {1, 2}


async def test_nodes_that_come_later_are_not_meant() -> None:
    """All nodes are those that lived when it was ordered."""
    world = World()
    await world.join()
    await orders_of(world).nodes.drain()
    late = await world.join()
    await world.trigger(await world.add(schedule=None))
    await world.pass_time(3)
    assert len(late.executor.running) == 1


async def test_a_node_that_was_dead_meanwhile_is_not_meant() -> None:
    """It has a new id: an order to all that it would hear late was to others, and nobody would see that it obeys."""
    world = World()
    frozen, living = await world.join(), await world.join()
    await world.pass_time(1)
    frozen.frozen = True
    await world.pass_time(10)
    await orders_of(world).nodes.drain()
    frozen.frozen = False
    await world.trigger(await world.add(schedule=None))
    await world.pass_time(5)
    assert (len(frozen.executor.running), frozen.node.unready) == (1, None)
    assert "takes no new runs" in str(living.node.unready)


async def test_a_drained_node_that_was_declared_dead_stays_drained() -> None:
    """Under its new id, and everybody sees it there: whoever drained it is about to work on its machine."""
    world = World()
    frozen, _ = await world.join(), await world.join()
    await world.pass_time(1)
    service, old = orders_of(world), frozen.node.id
    await service.nodes.drain(old)
    frozen.frozen = True
    await world.pass_time(10)
    frozen.frozen = False
    await world.pass_time(3)
    assert frozen.node.id != old
    assert "takes no new runs" in str(frozen.node.unready)
    assert [node.id for node in await service.nodes.list() if node.drained and node.runs_jobs] == [frozen.node.id]
    await service.nodes.resume(frozen.node.id)
    assert (frozen.node.unready, [node for node in await service.nodes.list() if node.drained and node.runs_jobs]) == (
        None,
        [],
    )


@pytest.mark.parametrize(("resumes", "stops"), [(False, False), (True, False), (False, True)])
async def test_what_was_ordered_of_a_node_before_it_was_declared_dead(resumes: bool, stops: bool) -> None:
    """By its id, while it was frozen: it is the same process."""
    world = World()
    frozen, _ = await world.join(), await world.join()
    await world.pass_time(1)
    frozen.frozen = True
    orders = orders_of(world).nodes
    await orders.drain(frozen.node.id)
    if resumes:
        await orders.resume(frozen.node.id)
    if stops:
        await orders.stop(frozen.node.id)
    await world.pass_time(10)
    frozen.frozen = False
    await world.pass_time(3)
    assert (frozen.node.unready is None, frozen.node.finished) == (resumes, stops)


@pytest.mark.parametrize("now", [False, True])
async def test_a_node_is_stopped_from_elsewhere(now: bool) -> None:
    """It lets its runs finish, or hands them back at once; ordered twice it does no more."""
    world = World()
    member = await world.join()
    run = await one_running(world, member)
    service = orders_of(world)
    for _ in range(2):
        await service.nodes.stop(now=now)
    await world.pass_time(1)
    assert member.node.phase is (Phase.RELEASING if now else Phase.DRAINING)
    assert [stop.reason for stop in member.executor.stops] == ([StopReason.RELEASE] if now else [])
    member.executor.end(run.id)
    await world.pass_time(2)
    assert member.node.finished


@pytest.mark.parametrize("many", [1, 3])
async def test_idle_nodes_hear_orders_too(many: int) -> None:
    """Within two seconds, though they ask the store for nothing but their beat; nothing is left of who ordered."""
    world = World()
    members = [await world.join() for _ in range(many)]
    await world.pass_time(3)
    began = world.clock.monotonic()
    await orders_of(world).nodes.stop()
    assert world.clock.monotonic() - began <= 2.5
    await world.pass_time(0.5)
    assert all(member.node.finished for member in members)
    assert len(await world.store.list_nodes()) == many


async def test_a_beat_in_the_moment_of_an_order_does_not_miss_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked for its peers before, and is counted behind: databases show what a transaction did when it is over."""
    world = World()
    member = await world.join()
    await world.pass_time(3)
    real, asked = world.store.list_nodes, count()

    async def late(*, limit: int = 1000) -> list[NodeRecord]:
        shown = await real(limit=limit)
        return shown if next(asked) > 1 else [replace(each, beat=max(0, each.beat - 1)) for each in shown]

    monkeypatch.setattr(world.store, "list_nodes", late)
    await orders_of(world).nodes.stop()
    await world.pass_time(0.5)
    assert member.node.finished


async def test_an_idle_node_shows_at_once_that_it_has_heard() -> None:
    """Whoever drains it waits for one more beat of it, which would come two seconds later."""
    world = World()
    await world.join()
    await world.pass_time(3)
    asked = world.clock.monotonic()
    await orders_of(world).nodes.drain()
    assert world.clock.monotonic() - asked < 2


async def test_an_idle_node_that_was_cut_off_hears_what_was_ordered() -> None:
    """With its first beat, though whoever ordered it has not waited for so long."""
    world = World()
    member = await world.join()
    await world.pass_time(3)
    member.link.away = True
    await orders_of(world).nodes.stop()
    member.link.away = False
    await world.pass_time(2)
    assert member.node.finished


async def test_what_else_a_beat_fails_at_keeps_no_order_from_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ordered it takes part no longer when the next beat comes."""
    world = World()
    member = await world.join()
    await world.pass_time(3)
    compare, failing = member.node._worker.compare, iter([True, True])

    async def fails(pulse: Pulse) -> None:
        if next(failing, False):
            raise StoreUnavailable("not now")
        await compare(pulse)

    monkeypatch.setattr(member.node._worker, "compare", fails)
    await orders_of(world).nodes.stop()
    await world.pass_time(2)
    assert member.node.finished


async def test_what_else_a_beat_fails_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no success for that orders were heard behind it: the log and `fault` of the node say it."""
    world = World()
    member = await world.join()

    async def fails(_: Pulse) -> None:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(member.node._worker, "compare", fails)
    with pytest.raises(StoreUnavailable, match="not now"):
        await member.node._tick()


async def test_who_is_cancelled_amid_a_beat_asks_the_store_for_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may never answer again, as for a process that is killed: looking for orders would keep it for ever."""
    world = World()
    member = await world.join()
    never, asked = asyncio.get_running_loop().create_future(), list[str]()

    async def compares(_: Pulse) -> None:
        await never

    async def hears(*_: object, **__: object) -> Sequence[object]:
        asked.append("orders")
        return ()

    monkeypatch.setattr(member.node._worker, "compare", compares)
    monkeypatch.setattr(member.node._orders, "received", hears)
    beat = asyncio.ensure_future(member.node._tick())
    await world.pass_time(1)
    beat.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beat
    assert asked == []


async def test_an_order_needs_somebody_who_hears_it() -> None:
    """A run that does not run, and a node that does not live, are named."""
    world = World()
    member = await world.join()
    run = await one_running(world, member)
    member.executor.end(run.id)
    await world.pass_time(2)
    service = orders_of(world)
    with pytest.raises(Refused, match="it is succeeded: `tokimori run retry"):
        await service.runs.restart(run.id)
    with pytest.raises(NotFound, match="no node"):
        await service.nodes.stop(run.id)


async def test_all_runs_of_a_job_are_restarted_or_cancelled() -> None:
    """Those of others are left alone."""
    world = World()
    member = await world.join()
    job = await world.add(schedule=None)
    await world.trigger(job, 3)
    [other] = await world.trigger(await world.add("other", schedule=None))
    await world.pass_time(2)
    service = orders_of(world)
    assert len(await service.jobs.restart(job.id)) == 3
    await world.pass_time(1)
    assert {stop.reason for stop in member.executor.stops} == {StopReason.RESTART}
    assert other not in [stop.run_id for stop in member.executor.stops]
    assert await service.jobs.cancel(job.id, "wrong data") == 3
    await world.pass_time(1)
    member.executor.obey()
    await world.pass_time(2)
    assert [run.error for run in await world.runs(RunState.CANCELLED)] == ["wrong data"] * 3
    assert member.executor.running == [other]


async def test_many_runs_of_a_job_are_cancelled_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request cancels a bounded number, and says where the next one goes on; runs of others are left alone."""
    monkeypatch.setattr("tokimori.service.jobs.requesting.MOST_CANCELLED", 2)
    world = World()
    job = await world.add(schedule=None)
    await world.trigger(job, 5)
    [other] = await world.trigger(await world.add("other", schedule=None))
    service = orders_of(world)
    first = await service.jobs.cancel_some(job.id, "wrong data")
    assert (first.cancelled, len(await world.runs(RunState.CANCELLED))) == (2, 2)
    second = await service.jobs.cancel_some(job.id, "wrong data", first.next)
    third = await service.jobs.cancel_some(job.id, "wrong data", second.next)
    assert (second.cancelled, third.cancelled, third.next) == (2, 1, None)
    await world.trigger(job, 3)
    assert await service.jobs.cancel(job.id) == 3
    assert [run.id for run in await world.runs(RunState.READY)] == [other]
    with pytest.raises(InvalidInput, match="before"):
        await service.jobs.cancel_some(job.id, before="none")
