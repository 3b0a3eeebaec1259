"""What a backfill makes, and when."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import Every, a_definition, a_job, a_run, seconds
from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.backfill import Backfill, LeftOutReason, backfill_of, next_to_make, occurrences
from tokimori.model.job import Job
from tokimori.model.run import Run, backfill_origin, scheduled_origin
from tokimori.model.transitions import RunState
from tokimori.schedules.schedule import OnDemand


def decided(through: float) -> Job:
    """A job of every second, decided so far."""
    return a_job(a_definition(), fired_through=seconds(through))


def fired(at: float, state: RunState = RunState.SUCCEEDED) -> Run:
    """The run that the schedule made of that second."""
    return a_run(origin=scheduled_origin(seconds(at)), nominal=seconds(at), state=state)


def made(at: float, state: RunState = RunState.READY) -> Run:
    """The run that a backfill made of that second."""
    return a_run(origin=backfill_origin(seconds(at)), nominal=seconds(at), state=state)


def test_what_has_no_run_is_missing() -> None:
    """Both ends are included; what the schedule ran or has yet to fire is left out, with the reason."""
    job = decided(6)
    runs = [fired(3), made(4, RunState.CANCELLED), made(2), fired(99), made(99)]
    backfill = backfill_of(job, seconds(1), seconds(7), [*occurrences(Every(SECOND), seconds(1), seconds(7))], runs)
    assert backfill.missing == [seconds(1), seconds(5), seconds(6)]
    assert [run.nominal for run in backfill.runs] == [seconds(2), seconds(4)]
    assert [(each.nominal, each.reason, each.run) for each in backfill.left_out] == [
        (seconds(3), LeftOutReason.HAS_RUN, runs[0]),
        (seconds(7), LeftOutReason.NOT_DECIDED, None),
    ]
    assert (backfill.active, backfill.states) == (1, {RunState.READY: 1, RunState.CANCELLED: 1})


def test_times_before_the_job_are_backfilled_too() -> None:
    """A job added at the new year can be made to run for the year before."""
    moments = [*occurrences(Every(SECOND), seconds(-2), seconds(0))]
    backfill = backfill_of(decided(0), seconds(-2), seconds(0), moments, [])
    assert backfill.missing == [seconds(-2), seconds(-1), seconds(0)]


def test_a_schedule_without_moments_leaves_nothing_to_do() -> None:
    """A job on demand has no occurrences."""
    assert (
        backfill_of(decided(9), seconds(0), seconds(9), [*occurrences(OnDemand(), seconds(0), seconds(9))], []).missing
        == []
    )


@pytest.mark.parametrize("state", list(RunState))
def test_what_takes_up_room(state: RunState) -> None:
    """Whatever waits, is ready, blocked or running does; what has ended or is held does not."""
    backfill = backfill_of(
        decided(9), seconds(1), seconds(9), [*occurrences(Every(SECOND), seconds(1), seconds(9))], [made(1, state)]
    )
    active = state in {RunState.WAITING, RunState.READY, RunState.BLOCKED, RunState.RUNNING}
    assert len(next_to_make(backfill, 3)) == (2 if active else 3)
    assert len(next_to_make(backfill, 1)) == (0 if active else 1)
    assert len(next_to_make(backfill, 0)) == 8


@pytest.mark.parametrize("last", [seconds(-1), seconds(1_000)])
def test_a_range_that_can_not_be(last: Moment) -> None:
    """Backwards, or with too many occurrences: refused, saying what is allowed, without walking them."""
    with pytest.raises(InvalidInput) as caught:
        backfill_of(decided(9), seconds(0), last, [*occurrences(Every(SECOND), seconds(0), last, 1_000)], [])
    assert (caught.value.field, bool(caught.value.allowed)) == ("to", True)


class Making:
    """Several who carry out one backfill, each from a look that may be old."""

    def __init__(self, size: int, most: int) -> None:
        self._job = decided(size)
        self._most = most
        self.runs: dict[str, Run] = {}
        self._last = seconds(size)

    def look(self) -> Backfill:
        """What somebody sees now."""
        return backfill_of(
            self._job,
            seconds(1),
            self._last,
            [*occurrences(Every(SECOND), seconds(1), self._last)],
            list(self.runs.values()),
        )

    def begin(self) -> list[Moment]:
        """What somebody who looks now wants to make, in any order, later."""
        return list(next_to_make(self.look(), self._most))

    def add(self, moment: Moment) -> None:
        """As a store does: an origin that is known stays as it is."""
        self.runs.setdefault(backfill_origin(moment), a_run(origin=backfill_origin(moment), state=RunState.RUNNING))

    def end(self, origin: str) -> None:
        """A run ends."""
        self.runs[origin] = a_run(origin=origin, state=RunState.SUCCEEDED)

    @property
    def running(self) -> list[str]:
        """Those that have not ended."""
        return [origin for origin, run in self.runs.items() if run.state is RunState.RUNNING]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4))
def test_several_at_once_keep_the_bound(seed: int, most: int, makers: int) -> None:
    """However the steps of several makers and the ends of runs mix, no more are under way than may be, and all end."""
    chance, making = random.Random(seed), Making(12, most)
    hands: list[list[Moment]] = [[] for _ in range(makers)]
    for _ in range(2_000):
        hand = chance.choice(hands)
        if hand:
            making.add(hand.pop(chance.randrange(len(hand))))
        else:
            hand.extend(making.begin())
        assert len(making.running) <= most
        for origin in islice(list(making.running), chance.choice([0, 0, 1, 2])):
            making.end(origin)
        if not making.look().missing:
            break
    assert len(making.runs) == 12
