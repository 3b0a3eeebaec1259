"""What a node knows of what there is to do."""

import pytest

from tests.unit.examples import seconds
from tokimori.clock import Moment
from tokimori.engine.lookout import Lookout
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import Lane
from tokimori.ports.nodes import Survey
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

A, B, C = Lane("a||"), Lane("b||"), Lane("c||")


class Surveyed(MemoryStore):
    """A store that says what the test wants, and how it was asked."""

    def __init__(self, answer: Survey) -> None:
        super().__init__(VirtualClock())
        self.answer: Survey | None = answer
        self.asked: list[Moment | None] = []

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        self.asked.append(past)
        if self.answer is None:
            raise StoreUnavailable("away")
        return self.answer


async def test_a_look_brings_the_newest_survey() -> None:
    """After it nothing is stale, and the next look is due after the interval."""
    store = Surveyed(Survey(next_due=seconds(5), lanes=(A,)))
    lookout = Lookout(store, 2.0, 100.0)
    assert (lookout.stale, lookout.next_at) == (True, 100.0)
    await lookout.look(seconds(0), 103.0)
    assert (lookout.survey, lookout.stale, lookout.next_at) == (store.answer, False, 105.0)


async def test_what_is_nothing_for_this_node_is_looked_past_until_the_next_tick() -> None:
    """Surveys leave it out, and the tick's shows it again."""
    store = Surveyed(Survey(next_due=seconds(5), lanes=(A,)))
    lookout = Lookout(store, 2.0, 0.0)
    await lookout.look(seconds(0), 1.0)
    lookout.look_past(seconds(5))
    assert lookout.survey == Survey(next_due=None, lanes=(A,))
    await lookout.look(seconds(6), 1.0)
    lookout.receive(Survey(next_due=seconds(5), lanes=()), sent=3.0)
    assert (lookout.survey.next_due, lookout.next_at) == (seconds(5), 5.0)
    await lookout.look(seconds(7), 4.0)
    assert store.asked == [None, seconds(5), None]


def test_lanes_come_and_go() -> None:
    """Each is known once, in order; what is dropped is gone, what is not known can be dropped."""
    lookout = Lookout(Surveyed(Survey(next_due=None, lanes=())), 2.0, 0.0)
    lookout.add([C, A])
    lookout.add([B, A])
    assert list(lookout.survey.lanes) == [A, B, C]
    lookout.drop([B, Lane("other||")])
    assert list(lookout.survey.lanes) == [A, C]


async def test_a_look_that_fails_leaves_what_was_known() -> None:
    """The old survey stays, and the time of the next look too."""
    store = Surveyed(Survey(next_due=None, lanes=(A,)))
    lookout = Lookout(store, 2.0, 0.0)
    await lookout.look(seconds(0), 1.0)
    store.answer = None
    with pytest.raises(StoreUnavailable):
        await lookout.look(seconds(1), 2.0)
    assert (lookout.survey.lanes, lookout.next_at) == ((A,), 3.0)
