"""A node on a machine that lacks processes, threads, files or memory."""

from math import inf

import pytest

from tests.unit.node.world import World
from tokimori.clock import Moment
from tokimori.model.ids import RunId, Token
from tokimori.model.lanes import SHORT_LABEL
from tokimori.model.outcome import Failed, Outcome, Released, Succeeded
from tokimori.model.transitions import RunState
from tokimori.node.worker import FIRST, LONGEST, OVER, Shortage
from tokimori.ports.executor import Ended

SHORT = Released("no more processes", short=True)


def an_end(outcome: Outcome, *, began: bool = False) -> Ended:
    """Of any attempt."""
    started = Moment(0) if began else None
    return Ended(run_id=RunId("r"), token=Token(1), outcome=outcome, at=Moment(0), started=started)


def test_pauses_grow_to_a_bound_and_are_short_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """What could not begin together makes one pause; what failed for another reason makes none."""
    shortage, at, pauses = Shortage(), 0.0, list[float]()
    assert not shortage.receive([an_end(Failed("no such program")), an_end(Released("it stops"))], at)
    for _ in range(8):
        assert shortage.receive([an_end(Failed("x")), an_end(SHORT)], at)
        assert not shortage.receive([an_end(SHORT)], at + FIRST / 2)
        began = at
        while not shortage.room(at):
            assert not shortage.over(at)
            at += FIRST
        pauses.append(at - began)
        assert [shortage.over(at), shortage.over(at), shortage.why] == [True, False, ""]
    assert pauses == [0.5, 1, 2, 4, 8, 16, LONGEST, LONGEST]
    assert caplog.messages[0] == "for 0.5 s the node begins no more runs than end: no more processes"
    shortage.receive([an_end(SHORT)], at + OVER)
    assert shortage.room(at + OVER + FIRST) == inf


def test_within_a_pause_as_many_are_begun_as_have_ended() -> None:
    """What ends gives back what it took; what could not begin does not."""
    shortage = Shortage()
    shortage.receive([an_end(Succeeded(0), began=True), an_end(SHORT)], 0)
    shortage.receive([an_end(Succeeded(0), began=True)] * 2, 0.1)
    assert shortage.room(0.1) == 2
    shortage.took(1)
    assert shortage.room(0.1) == 1
    shortage.receive([an_end(SHORT)], 0.2)
    assert shortage.room(0.2) == 0


async def test_what_could_not_begin_goes_back_and_the_node_pauses() -> None:
    """Nothing is counted against the run, what waits on the node goes back too, and others are shown why."""
    world = World()
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    first, second = await world.trigger(job, 2)
    await world.pass_time(1)
    (begun,) = member.executor.running
    member.executor.end(begun, SHORT)
    await world.pass_time(0.4)
    assert member.executor.running == []
    for run_id in (first, second):
        run = await world.run(run_id)
        assert (run.state, run.failures, run.lost) == (RunState.READY, 0, 0)
    (record,) = await world.store.list_nodes()
    assert record.labels == {SHORT_LABEL: "no more processes"}
    await world.pass_time(3)
    assert len(member.executor.running) == 1
    (record,) = await world.store.list_nodes()
    assert record.labels == {}
