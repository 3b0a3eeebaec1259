"""Which functions a node claims: those that it serves, and while its app can be loaded."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from tests.unit.node.world import World
from tokimori.executors.functions.wire import Hello
from tokimori.model.ids import Lane
from tokimori.model.lanes import HANDLERS_LABEL, UNABLE_LABEL, serves
from tokimori.model.target import Function, Handler, Noop
from tokimori.model.transitions import RunState
from tokimori.node import membership
from tokimori.node.functions import Functions
from tokimori.node.wiring import _take


async def test_a_node_that_can_start_no_function_claims_none() -> None:
    """It goes on with all else, sleeps meanwhile, and claims them as soon as it is told that it can."""
    world = World()
    function = await world.add("f", target=Function(name="f"), schedule=None)
    other = await world.add("n", target=Noop(), schedule=None)
    member = await world.join(handlers=("f",))
    member.node.able = lambda: False
    waiting, begun = [(await world.trigger(job))[0] for job in (function, other)]
    await world.pass_time(30)
    assert (member.executor.running, (await world.run(waiting)).state) == ([begun], RunState.READY)
    calls = member.link.calls["claim"]
    await world.pass_time(30)
    assert member.link.calls["claim"] == calls
    member.node.able = lambda: True
    member.node.wake()
    await world.pass_time(0)
    assert member.executor.running == [begun, waiting]


async def test_whether_a_lane_is_served_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim asks it of all lanes, of which an app of a thousand functions has as many."""
    asked: list[Lane] = []

    def counted(labels: dict[str, str], lane: Lane, handlers: tuple[Handler, ...]) -> bool:
        asked.append(lane)
        return serves(labels, lane, handlers)

    monkeypatch.setattr(membership, "serves", counted)
    world = World()
    await world.join(handlers=("f0",))
    for n in range(10):
        await world.trigger(await world.add(f"j{n}", target=Function(name=f"f{n}"), schedule=None))
        await world.pass_time(3)
    assert sorted(asked) == [f"default|f{n}|" for n in range(10)]


async def test_a_node_takes_other_places_while_it_works() -> None:
    """With more of them it begins what waits; with fewer nothing that runs ends, and nothing begins beyond them."""
    world = World()
    job = await world.add(target=Function(name="old"), schedule=None)
    member = await world.join(handlers=("old",), concurrency=1)
    runs = await world.trigger(job, 4)
    await world.pass_time(3)
    assert member.executor.running == runs[:1]
    member.node.become(replace(member.node.identity, concurrency=3))
    await world.pass_time(3)
    assert member.executor.running == runs[:3]
    assert [record.concurrency for record in await world.store.list_nodes()] == [3]
    member.node.become(replace(member.node.identity, concurrency=2))
    member.executor.end(runs[0])
    await world.pass_time(3)
    assert member.executor.running == runs[1:3]
    member.executor.end(runs[1])
    await world.pass_time(3)
    assert member.executor.running == runs[2:]


async def test_new_code_counts_with_the_places_of_now() -> None:
    """Those that its settings say since the reload."""
    world = World()
    member = await world.join(handlers=("old",), concurrency=1)
    new = Hello(number=1, pid=1, app="a", handlers=["new"], patterns=[], jobs=[])
    _take(member.node, cast(Functions, SimpleNamespace(concurrency=7)), new)
    assert (member.node.identity.handlers, member.node.identity.concurrency) == (("new",), 7)


@pytest.mark.parametrize(("slow", "other"), [("claim", "settle"), ("settle", "claim")])
async def test_a_node_settles_and_claims_while_the_other_is_under_way(slow: str, other: str) -> None:
    """A claim that takes the store long keeps nobody from settling, nor does a settle from claiming."""
    world = World()
    member = await world.join(handlers=("old",), concurrency=2)
    member.node._worker.work.pace.rate = 50.0  # as measured on a busy node: it claims ahead
    await world.trigger(await world.add(target=Function(name="old"), schedule=None), 30)
    await world.pass_time(0.1)
    go_on, calls = asyncio.Event(), {name: getattr(member.link, name) for name in (slow, other)}

    async def end_all() -> None:
        for task in list(member.executor.tasks):
            member.executor.end(task.run_id)
        for _ in range(5):
            await asyncio.sleep(0)

    async def late(*given: object) -> object:
        await go_on.wait()
        return await calls[slow](*given)

    async def meanwhile(*given: object) -> object:
        answer = await calls[other](*given)
        await end_all()
        if member.link.calls[other] > before + 1:
            go_on.set()
        return answer

    member.link.__dict__ |= {slow: late, other: meanwhile}
    before = member.link.calls[other]
    await end_all()
    async with asyncio.timeout(5):
        await member.cycle()
    assert member.link.calls[other] >= before + 2


async def test_a_node_takes_other_handlers_while_it_works() -> None:
    """Those that are new count from then on, those that have gone no more; the store knows with the next beat."""
    world = World()
    jobs = {name: await world.add(name, target=Function(name=name), schedule=None) for name in ("old", "new")}
    member = await world.join(handlers=("old",))
    (waiting,) = await world.trigger(jobs["new"])
    await world.pass_time(3)
    assert member.executor.running == []
    member.node.become(replace(member.node.identity, handlers=("new",)))
    await world.pass_time(0.1)
    assert member.executor.running == [waiting]
    (left,) = await world.trigger(jobs["old"])
    await world.pass_time(3)
    assert (await world.run(left)).state is RunState.READY
    (record,) = await world.store.list_nodes()
    assert (record.id, record.labels) == (member.node.id, {HANDLERS_LABEL: "new"})
    calls = member.link.calls["register"]
    await world.pass_time(10)
    assert member.link.calls["register"] == calls == 2


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_store_that_does_not_hear_of_other_handlers_costs_no_beat(refuses: bool) -> None:
    """The node goes on under its id and claims by what it has; it tells a store that was away once that is back."""
    world = World()
    job = await world.add("new", target=Function(name="new"), schedule=None)
    member = await world.join(handlers=("old",))
    name = member.node.id
    member.link.lose_call["register"] = 0 if refuses else 1000
    member.link.refuses = lambda asked, _: refuses and asked == "register"
    member.node.become(replace(member.node.identity, handlers=("new",)))
    (waiting,) = await world.trigger(job)
    await world.pass_time(60)
    assert (member.executor.running, member.node.healthy, member.node.id) == ([waiting], True, name)
    member.link.lose_call["register"] = 0
    await world.pass_time(3)
    (record,) = await world.store.list_nodes()
    assert record.labels == {HANDLERS_LABEL: "old" if refuses else "new"}


async def test_what_was_claimed_for_other_handlers_goes_back() -> None:
    """New code may not know it; what has begun goes on."""
    world = World()
    job = await world.add("old", target=Function(name="old"), schedule=None)
    member = await world.join(handlers=("old",), concurrency=1)
    member.node._worker.work.pace.rate = 50.0  # as measured on a busy node: it claims ahead
    begun, *others = await world.trigger(job, 3)
    await world.pass_time(0.1)
    assert {(await world.run(run)).state for run in others} == {RunState.RUNNING}
    member.node.become(replace(member.node.identity, handlers=("new",)))
    await world.pass_time(0.1)
    assert {(await world.run(run)).state for run in others} == {RunState.READY}
    assert (member.executor.running, (await world.run(begun)).state) == ([begun], RunState.RUNNING)


async def test_what_a_claim_brings_for_other_handlers_goes_back() -> None:
    """New code took over while the store was asked."""
    world = World()
    job = await world.add("old", target=Function(name="old"), schedule=None)
    member = await world.join(handlers=("old",))
    (run,) = await world.trigger(job)

    def takes_over(asked: str, _: object) -> bool:
        if asked == "claim":
            member.node.become(replace(member.node.identity, handlers=("new",)))
        return False

    member.link.refuses = takes_over
    await world.pass_time(3)
    assert member.link.calls["claim"] == 1
    found = await world.run(run)
    assert (member.executor.running, found.state, found.attempt) == ([], RunState.READY, 1)


async def test_why_no_function_can_be_started_is_shown() -> None:
    """The first line of it, and not for longer than it holds."""
    world = World()
    member = await world.join(handlers=("f",))
    for unable, shown in (("app: no\nmore", {UNABLE_LABEL: "app: no"}), ("", {})):
        member.node.become(replace(member.node.identity, unable=unable))
        await world.pass_time(3)
        (record,) = await world.store.list_nodes()
        assert record.labels == {HANDLERS_LABEL: "f", **shown}
