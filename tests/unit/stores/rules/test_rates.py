"""Turns at a semaphore with a rate."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import SECOND, Moment
from tokimori.model.claim_rate import ClaimRate, Taken, cut, last_in_the_way, opens_at, window_of
from tokimori.model.ids import Lane
from tokimori.stores.rules.lines import LinePlace
from tokimori.stores.rules.rates import PATIENCE, Line, Rated, Turns, serve_in_turn

NOW = Moment(10**15)
A, B, C = Lane("a||"), Lane("b||"), Lane("c||")


def opens(rated: Rated, taken: list[Taken], weight: int, before: int) -> Moment:
    """When so many units fit, by what is taken."""
    in_the_way = last_in_the_way(rated.rate, taken, weight + before, rated.now)
    return opens_at(rated.rate, rated.window, in_the_way, rated.now, before)


def served(
    lanes: dict[Lane, list[int]], *, rate: ClaimRate, taken: list[Taken], turns: Turns, now: Moment = NOW
) -> tuple[list[str], Turns]:
    """Who is woken of lines of these weights: `a0` is the first of lane a."""
    places = {
        lane: [LinePlace(rank, f"{lane[0]}{rank}", weight) for rank, weight in enumerate(weights)]
        for lane, weights in lanes.items()
    }
    rated = Rated(rate, window_of(rate, taken, now), now, turns)
    return serve_in_turn(Line(10**6, places), rated, partial(opens, rated, taken))


def test_lanes_are_served_one_after_the_other() -> None:
    """One run of each, from the lane on that is next; the one that has to wait is next then."""
    rate = ClaimRate(4, SECOND)
    woken, turns = served({A: [1, 1, 1], B: [1], C: [1]}, rate=rate, taken=[], turns=Turns(turn=B))
    assert woken == ["b0", "c0", "a0", "a1"]
    assert (turns.turn, turns.woken, turns.kept) == (A, 4, False)
    assert turns.wakes == NOW + SECOND


def test_units_of_woken_runs_are_theirs_for_a_while() -> None:
    """Nobody else is woken for them, until they have been claimed or a second has passed."""
    rate, lanes = ClaimRate(4, SECOND), {A: [1, 1]}
    promised = Turns(woken=4, until=Moment(NOW + PATIENCE))
    woken, turns = served(lanes, rate=rate, taken=[], turns=promised)
    assert (woken, turns.wakes) == ([], NOW + SECOND)
    assert served(lanes, rate=rate, taken=[], turns=promised, now=Moment(NOW + PATIENCE))[0] == ["a0", "a1"]


def test_units_are_kept_for_a_head_that_wants_more() -> None:
    """If it is next and too little is free, no other lane takes any until a second after its moment."""
    rate, taken = ClaimRate(3, SECOND), [Taken(NOW, 2)]
    woken, turns = served({A: [3], B: [1]}, rate=rate, taken=taken, turns=Turns())
    assert (woken, turns.turn, turns.kept, turns.wakes) == ([], A, True, NOW + SECOND)
    woken, turns = served({A: [3], B: [1]}, rate=rate, taken=taken, turns=turns, now=Moment(NOW + SECOND))
    assert (woken, turns.kept, turns.woken) == (["a0"], True, 3)
    rated = Rated(rate, window_of(rate, taken, NOW), NOW, turns)
    assert rated.kept_for == A
    assert not rated.after(3, by=A).kept
    assert rated.after(3, by=None).kept


def test_units_are_kept_for_no_head_that_has_gone() -> None:
    """If its lane has no run any more, or one that can never fit, the others take what was kept."""
    rate, taken = ClaimRate(3, SECOND), [Taken(NOW, 2)]
    kept = Turns(turn=A, kept=True, until=Moment(NOW + SECOND))
    for gone in ([], [5]):
        woken, turns = served({A: gone, B: [1]}, rate=rate, taken=taken, turns=kept)
        assert (woken, turns.kept, turns.wakes) == (["b0"], False, None)
    claiming = kept._replace(woken=1)
    assert served({A: [], B: [1]}, rate=rate, taken=taken, turns=claiming) == ([], claiming._replace(wakes=kept.until))


def test_a_head_that_can_never_fit_keeps_nobody_waiting() -> None:
    """Its limit or its rate was lowered: the other lanes go on."""
    woken, turns = served({A: [5, 1], B: [1]}, rate=ClaimRate(3, SECOND), taken=[], turns=Turns())
    assert (woken, turns.wakes) == (["b0"], None)


weights = st.lists(st.integers(1, 5), max_size=12)


@given(
    st.builds(ClaimRate, st.integers(5, 12), st.integers(1_000, 3 * SECOND), st.booleans()),
    st.fixed_dictionaries({A: weights, B: weights, C: weights}),
)
def test_nobody_starves_and_no_window_has_more(rate: ClaimRate, lanes: dict[Lane, list[int]]) -> None:
    """Whatever they want, all in line have had their units after as many moments, in the order of their lane."""
    taken, ever, turns, now = list[Taken](), list[Taken](), Turns(), NOW
    left = {lane: list(line) for lane, line in lanes.items() if line}
    for _ in range(4 * sum(map(len, lanes.values())) + 4):
        if not left:
            break
        woken, turns = served(left, rate=rate, taken=taken, turns=turns, now=now)
        units = 0
        for name in woken:
            lane = next(lane for lane in left if lane[0] == name[0])
            units += left[lane].pop(0)
            turns = Rated(rate, window_of(rate, taken, now), now, turns).after(0, by=lane)
        left = {lane: line for lane, line in left.items() if line}
        turns = turns._replace(woken=turns.woken - units)
        if units:
            ever = cut([*ever, Taken(now, units)], now)
            taken = [each for each in ever if each.moment > now - rate.period]
        if left:
            assert turns.wakes is not None and turns.wakes >= now
            now = turns.wakes
    assert not left
    for first in ever:
        assert (
            sum(each.units for each in ever if first.moment <= each.moment < first.moment + rate.period) <= rate.units
        )
