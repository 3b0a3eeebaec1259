"""Of threads that only wait for each other all but one rest."""

from collections.abc import Sequence

import pytest

from tokimori.apps.threads import FAIR, HOLDS, LATELY, LEAST, MOST, OWN, PROBES, Advice, Contention, Use

WINDOW = 0.05


def _uses(*shares: float, took: bool = True) -> list[Use]:
    """What threads that used these shares of a core did within `WINDOW`."""
    return [Use(share * WINDOW, took=took) for share in shares]


def _advise(contention: Contention, uses: Sequence[Use], at: float = 100.0) -> Advice:
    contention._asked_at = at - WINDOW  # else it would not know since when these were used
    share = sum(use.cpu for use in uses) / WINDOW
    return contention.advise(share, share, uses, at)


@pytest.mark.parametrize("shares", [(), (0.01,) * 8, (LEAST - 0.01,), (MOST / 2 + 0.01,) * 2])
def test_threads_that_wait_for_other_things_or_need_no_lock_are_all_let_go(shares: Sequence[float]) -> None:
    """Each thing that waits gets a thread where that helps: nothing rests."""
    assert _advise(Contention(), _uses(*shares)) == Advice()


def test_functions_that_wait_beside_something_else_that_burns_cpu_go_on() -> None:
    """A thread of the app's own may compute all day: it would not be done sooner if functions that sleep rested."""
    contention = Contention()
    contention.advise(0.9, 0.0, [], 99.9)
    assert contention.advise(0.9, OWN * 0.9 - 0.01, _uses(*(0.01,) * 16), 100.0) == Advice()
    assert contention.advise(0.9, OWN * 0.9, _uses(*(0.02,) * 16), 100.1).rest


def test_what_was_used_before_it_was_asked_is_no_reason_to_rest() -> None:
    """It may have been used an hour ago: one more is woken, and the next answer counts."""
    contention = Contention()
    assert contention.advise(0.9, 0.9, _uses(0.45, 0.45), 100.0) == Advice(wake=1)
    assert contention.advise(0.9, 0.9, _uses(0.45, 0.45), 100.0 + LATELY) == Advice(wake=1)
    assert contention.advise(0.9, 0.9, _uses(0.45, 0.45), 100.0 + 1.9 * LATELY).rest == {1}


def test_it_is_known_for_a_moment_that_more_would_only_wait() -> None:
    """What comes then is looked after less often; not after something else was seen."""
    contention = Contention()
    assert not contention.lately(100.0)
    _advise(contention, _uses(0.9))
    assert [contention.lately(at) for at in (100.0, 100.0 + LATELY)] == [True, False]
    _advise(contention, _uses(0.1), 100.1)
    assert not contention.lately(100.1)


def test_of_threads_that_burn_cpu_one_goes_on() -> None:
    """Sixteen would hand on the lock all the time; those that rest are told so, and none is woken."""
    advice = _advise(Contention(), _uses(*(0.9 / 16,) * 16))
    assert advice == Advice(rest=frozenset(range(1, 16)), wake=0)


def test_what_is_at_something_long_makes_no_room() -> None:
    """Two that burn for a minute, and took nothing new, can't rest: another thread is woken for what waits."""
    contention = Contention()
    assert _advise(contention, _uses(0.5, 0.5, took=False)) == Advice(wake=1)
    with_short = [*_uses(0.33, 0.33, took=False), *_uses(0.33)]
    assert _advise(contention, with_short, 100.0 + PROBES[0]) == Advice(wake=1)


def test_beside_one_that_burns_those_that_wait_for_other_things_become_more() -> None:
    """Each of them brings another one: what waits may be like them."""
    contention = Contention()
    uses = [*_uses(0.9, took=False), *_uses(0.001, 0.001, 0.001)]
    assert _advise(contention, uses) == Advice(wake=4)


def test_one_more_is_tried_now_and_then() -> None:
    """It may work without the lock, which shows when two go: then all are let go."""
    contention = Contention()
    assert _advise(contention, _uses(0.45, 0.45), 100.0).rest == {1}
    assert _advise(contention, _uses(0.9), 100.0 + PROBES[0] / 2) == Advice(wake=0)
    assert _advise(contention, _uses(0.9), 100.0 + PROBES[0]) == Advice(wake=1)
    assert _advise(contention, _uses(0.9, 0.9), 100.0 + PROBES[0] + WINDOW) == Advice()


def _seconds_until_a_probe(contention: Contention, at: float) -> float:
    """From a look on that tells one of two to rest."""
    assert _advise(contention, _uses(0.45, 0.45), at).rest == {1}
    looks = [at + 0.01 * number for number in range(1, 200)]
    return next(look for look in looks if _advise(contention, _uses(0.9), look).wake) - at


def _pauses(contention: Contention, number: int, at: float = 100.0) -> list[float]:
    """Seconds until each of so many probes in vain."""
    pauses = list[float]()
    for _ in range(number):
        pauses.append(_seconds_until_a_probe(contention, at))
        at += pauses[-1] + WINDOW
    return pauses


def test_it_is_tried_ever_less_often_while_it_is_in_vain() -> None:
    """Two threads wait for each other while both go, so the pause doubles with each probe, up to 1 s."""
    assert _pauses(Contention(), 5) == pytest.approx([0.25, 0.5, 1.0, 1.0, 1.0], abs=0.011)


@pytest.mark.parametrize("seen", [(0.9, 0.9), (0.1,)])
def test_when_something_else_was_seen_it_is_tried_as_often_as_at_first(seen: Sequence[float]) -> None:
    """Functions that work without the lock, or wait, may come in turn with those that burn CPU."""
    contention = Contention()
    _pauses(contention, 3)
    assert _advise(contention, _uses(*seen), 102.0) == Advice()
    assert _pauses(contention, 2, 102.1) == pytest.approx([0.25, 0.5], abs=0.011)


@pytest.mark.parametrize("seen", [(0.9, 0.9), (0.1,)])
def test_when_something_else_was_seen_the_next_try_comes_as_soon_as_at_first(seen: Sequence[float]) -> None:
    """One that burns CPU then is another function than those that were tried in vain."""
    contention = Contention()
    _pauses(contention, 3)
    assert _advise(contention, _uses(0.45, 0.45), 102.0).rest
    assert _advise(contention, _uses(*seen), 102.1) == Advice()
    assert _advise(contention, _uses(0.9), 102.1 + 0.9 * PROBES[0]) == Advice(wake=0)
    assert _advise(contention, _uses(0.9), 102.1 + PROBES[0]) == Advice(wake=1)


def test_one_try_in_vain_lengthens_the_pause_once() -> None:
    """Two threads may be told to rest one look after the other."""
    contention = Contention()
    at = 100.0 + _seconds_until_a_probe(contention, 100.0)
    for look in (0.05, 0.1):
        assert _advise(contention, _uses(0.45, 0.45), at + look).rest
    assert _seconds_until_a_probe(contention, at + 0.15) == pytest.approx(0.5, abs=0.011)


def test_after_a_rest_it_is_tried_as_often_as_at_first() -> None:
    """What burns CPU then are other functions."""
    contention = Contention()
    _pauses(contention, 3)
    assert contention.advise(0.9, 0.9, _uses(0.45, 0.45), 102.0 + LATELY) == Advice(wake=1)
    assert _pauses(contention, 2, 102.3) == pytest.approx([0.25, 0.5], abs=0.011)


def test_threads_that_rest_before_any_probe_lengthen_no_pause() -> None:
    """Of sixteen some are at something, and rest a look later."""
    contention = Contention()
    assert _advise(contention, _uses(0.3, 0.3, 0.3), 100.0).rest
    assert _pauses(contention, 2, 100.1) == pytest.approx([0.25, 0.5], abs=0.011)


def test_where_fewer_use_less_all_go_on_for_ever_longer() -> None:
    """Functions that need a core for a third of their time fill it together, not alone."""
    contention, at, holds = Contention(), 100.0, list[float]()
    for _ in range(7):
        assert _advise(contention, _uses(0.3, 0.3, 0.3), at).rest == {1, 2}
        at += WINDOW
        began = at
        assert _advise(contention, _uses(0.3), at) == Advice()
        while _advise(contention, _uses(0.9, took=False), at) == Advice():
            at += 0.01
        holds.append(at - began)
    assert holds == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6], abs=0.011)


def test_what_was_seen_before_nothing_waited_is_forgotten() -> None:
    """Else the first functions of the next day would seem to be slowed down by those of today that rest."""
    contention = Contention()
    assert _advise(contention, _uses(0.5, 0.5)).rest
    assert _advise(contention, _uses(0.65), 200.0).wake is not None


def test_after_a_success_it_is_held_no_longer_than_at_first() -> None:
    """What was worse once, for another kind of functions, is forgotten."""
    contention = Contention()
    for at in (100.0, 100.3):
        _advise(contention, _uses(0.5, 0.5), at)
        _advise(contention, _uses(0.3), at + WINDOW)
    _advise(contention, _uses(0.5, 0.5), 101.0)
    assert _advise(contention, _uses(0.9), 101.1) != Advice()
    _advise(contention, _uses(0.5, 0.5), 102.0)
    assert _advise(contention, _uses(0.3), 102.1) == Advice()
    assert _advise(contention, _uses(0.9), 102.1 + HOLDS[0] - 0.01) == Advice()
    assert _advise(contention, _uses(0.9), 102.1 + HOLDS[0]) != Advice()


def test_a_thread_burns_that_used_half_of_an_equal_share() -> None:
    """On a busy core an equal share is one of what was used there, not of the whole core."""
    used = 0.7
    other = used * FAIR / 2
    assert _advise(Contention(), _uses(used - other, other)).rest == {1}
    assert _advise(Contention(), _uses(used - other + 0.01, other - 0.01)) == Advice(wake=2)
