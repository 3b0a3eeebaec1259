"""When a node looks: at aligned ticks, and how soon it knows what nobody tells it."""

import pytest
from msgspec.structs import replace

from tests.unit.node.world import World, second
from tokimori.engine.lookout import WHENEVER_DUE, Rhythm
from tokimori.model.policies import Misfire
from tokimori.model.transitions import RunState
from tokimori.ports.working import LARGE

MINUTELY = Rhythm(interval_minutes=1)


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_a_node_fires_at_its_ticks_only(world: World) -> None:
    """A node started at :02:55 fires what is due then, at :03:25, and from then on at whole minutes (Koyomi)."""
    await world.add(schedule="*/10 * * * * *", misfire=Misfire.ALL)
    world.clock.advance(175)
    member = await world.join(rhythm=MINUTELY, concurrency=100)
    await world.pass_time(130, each=member.executor.end_all)
    runs = sorted(await world.runs(), key=lambda run: run.nominal)
    assert [second(run.nominal) for run in runs] == list(range(10, 301, 10))
    last_of = {second(run.created): second(run.nominal) for run in runs}
    assert last_of == {175: 170, 205: 200, 240: 240, 300: 300}


async def test_nothing_else_waits_for_a_tick(world: World) -> None:
    """Between two ticks a requested run starts at once."""
    job = await world.add(schedule=None)
    await world.join(rhythm=MINUTELY)
    await world.pass_time(10)
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.1)
    assert (await world.run(run_id)).state is RunState.RUNNING


async def test_a_node_with_ticks_rests_between_them(world: World) -> None:
    """What is due and has to wait for the tick keeps nobody busy."""
    await world.add(schedule="* * * * * *", misfire=Misfire.ALL)
    member = await world.join(rhythm=MINUTELY)
    await world.pass_time(10, each=member.executor.end_all)
    before = member.link.calls.total()
    await world.pass_time(40, each=member.executor.end_all)
    assert member.link.calls.total() - before <= 50
    assert member.link.calls["apply"] == 0


@pytest.mark.parametrize(
    ("rhythm", "longest"), [(Rhythm(update_interval_seconds=0.3), 0.3), (WHENEVER_DUE, 2.0), (MINUTELY, 2.0)]
)
async def test_an_edit_is_known_without_notifications(
    world: World, rhythm: Rhythm, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store tells nobody of a change, a node knows it after `update_interval_seconds`, or the next beat."""
    monkeypatch.setattr(world.store, "watch", lambda _wake: None)
    member = await world.join(rhythm=rhythm)
    job = await world.add(schedule=None)
    latest = 0.0
    for n in range(7):
        await world.pass_time(2.03 + n * 0.31, each=member.executor.end_all)
        (run_id,) = await world.trigger(job)
        asked = world.clock.monotonic()
        while (await world.run(run_id)).state is RunState.READY:
            await world.pass_time(0.05)
        latest = max(latest, world.clock.monotonic() - asked)
    assert longest / 3 < latest <= longest + 0.05


async def test_a_node_that_stops_does_not_look(world: World) -> None:
    """A node that waits for its last run to end does so at rest, however often it looked before."""
    job = await world.add(schedule=None)
    member = await world.join(rhythm=Rhythm(update_interval_seconds=0.1))
    await world.trigger(job)
    await world.pass_time(1)
    member.node.stop()
    before = member.link.calls.total()
    await world.pass_time(5)
    assert member.link.calls.total() - before <= 30


async def test_a_claim_that_payloads_have_cut_goes_on_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store gives fewer runs than asked for, as their payloads are large, the node asks for more at once."""
    claim = world.store.claim
    monkeypatch.setattr(world.store, "claim", lambda asked, now: claim(replace(asked, limit=1), now))
    job = await world.add(schedule=None)
    await world.join(concurrency=10)
    await world.pass_time(10)
    await world.trigger(job, 3, payload="x" * LARGE)
    await world.pass_time(0.1)
    assert [run.state for run in await world.runs()] == [RunState.RUNNING] * 3
