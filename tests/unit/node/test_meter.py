"""What a node's meter is told."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.unit.node.world import World
from tokimori.clock import SECOND, Moment
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.ports.executor import AttemptTask
from tokimori.ports.meter import outcome_of
from tokimori.ports.working import Change, Claimed, Verdict


class Recording:
    """A meter that remembers all that it was told."""

    def __init__(self) -> None:
        self.claims: list[list[str]] = []
        self.lateness: list[float] = []
        self.outcomes: Counter[tuple[str, Verdict]] = Counter()
        self.settles = 0
        self.calls: list[tuple[str, float]] = []

    def claimed(self, runs: Sequence[Claimed]) -> None:
        """See `Meter`."""
        self.claims.append([each.run.id for each in runs])

    def started(self, tasks: Sequence[AttemptTask], now: Moment) -> None:
        """See `Meter`."""
        self.lateness += [(now - task.due) / SECOND for task in tasks]

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """See `Meter`."""
        self.settles += 1
        for change, verdict in zip(changes, verdicts, strict=True):
            self.outcomes[outcome_of(change), verdict] += 1

    def count_call(self, call: str, seconds: float) -> None:
        """See `Meter`."""
        self.calls.append((call, seconds))


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


@pytest.fixture
def meter() -> Recording:
    """A fresh one."""
    return Recording()


async def test_runs_are_counted_by_the_batch(world: World, meter: Recording) -> None:
    """A hundred runs that are ready together are told of in one claim and one settle, each with its outcome."""
    job = await world.add(schedule=None, retry=Retry(attempts=2, delay=60))
    member = await world.join(concurrency=200, meter=meter)
    ids = await world.trigger(job, 100)
    await world.pass_time(0.01)
    assert [claim for claim in meter.claims if claim] == [ids]
    member.executor.end(ids[0], Failed("no"))
    member.executor.end_all()
    await world.pass_time(0.01)
    assert meter.settles == 1
    assert meter.outcomes == {("failed", Verdict.APPLIED): 1, ("succeeded", Verdict.APPLIED): 99}


async def test_attempts_are_late_from_when_they_were_due(world: World, meter: Recording) -> None:
    """On time where there is a place; what waits for one is late by its wait; a wrong clock of the node counts not."""
    job = await world.add(schedule="*/20 * * * * *", max_running=1)
    member = await world.join(offset=-3600, meter=meter)
    await world.pass_time(21)
    await world.trigger(job)
    await world.pass_time(1.5)
    member.executor.end_all()
    await world.pass_time(0.01)
    assert meter.lateness == pytest.approx([0, 1.5], abs=0.001)


async def test_runs_of_a_dead_node_are_settled_as_lost(world: World, meter: Recording) -> None:
    """Whoever takes them over counts them."""
    dead = await world.join()
    await world.trigger(await world.add(schedule=None), 3)
    await world.pass_time(0.1)
    await world.join(meter=meter)
    dead.frozen = True
    await world.pass_time(10)
    assert meter.outcomes == {("lost", Verdict.APPLIED): 3}


async def test_calls_are_timed(world: World, meter: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call to the store is told by its name with the seconds that it took, one that fails too."""
    await world.add(schedule="*/2 * * * * *")
    claim = world.store.claim

    async def slow(*asked: object) -> object:
        world.clock.advance(0.25)
        return await claim(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "claim", slow)
    member = await world.join(meter=meter)
    await world.pass_time(2.5, each=member.executor.end_all)
    took = {call: round(seconds, 6) for call, seconds in meter.calls}
    assert took == {"tick": 0, "survey": 0, "foresee": 0, "fire": 0, "claim": 0.25, "settle": 0}
    told = len(meter.calls)
    member.link.away = True
    await world.pass_time(3)
    assert "tick" in [call for call, _ in meter.calls[told:]]


async def test_what_never_began_is_released(world: World, meter: Recording) -> None:
    """A run that was claimed ahead and goes back when the node stops has no row of its attempt, and is counted."""
    member = await world.join(concurrency=1, meter=meter)
    member.node._worker.work.pace.rate = 50.0  # as measured on a busy node: it claims ahead
    await world.trigger(await world.add(schedule=None), 2)
    await world.pass_time(0.1)
    member.node.stop()
    await world.pass_time(0.1)
    assert meter.outcomes == {("released", Verdict.APPLIED): 1}
