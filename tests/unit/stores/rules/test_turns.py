"""Turns: in which lines somebody else may move when a run goes, or is refused."""

from tokimori.model.ids import Incarnation
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of
from tokimori.model.transitions import RunState
from tokimori.stores.rules.lines import Freed, Turn

JOB = Incarnation(1)
READY = Turn(JOB, RunState.READY, "k", None, ["a", "b"])


def test_a_ready_run_that_goes_passes_on_all_its_turns() -> None:
    """It may have been woken in the line of its limit, of its key, or of any of its semaphores."""
    freed = Freed()
    freed.leave(READY)
    assert (freed.places, freed.keys, freed.semaphores) == ({JOB: 1}, {(JOB, "k")}, {"a", "b"})


def test_a_refused_run_keeps_its_place_where_it_is_refused() -> None:
    """The line that refuses it is the one that it joins: there it passes nothing on."""
    left = {}
    for line in (LIMIT_LINE, KEY_LINE, line_of("a")):
        freed = Freed()
        freed.pass_on(READY, line)
        left[line] = (dict(freed.places), freed.keys, freed.semaphores)
    assert left == {
        LIMIT_LINE: ({}, {(JOB, "k")}, {"a", "b"}),
        KEY_LINE: ({JOB: 1}, set(), {"a", "b"}),
        line_of("a"): ({JOB: 1}, {(JOB, "k")}, {"b"}),
    }


def test_a_blocked_run_that_goes_makes_way_in_its_line() -> None:
    """In the line of a semaphore those behind it may fit now; in the others each wants as much as it did."""
    freed = Freed()
    freed.leave(READY._replace(state=RunState.BLOCKED, blocked_on=line_of("b")))
    freed.leave(READY._replace(state=RunState.BLOCKED, blocked_on=KEY_LINE))
    freed.leave(READY._replace(state=RunState.WAITING))
    assert (freed.places, freed.keys, freed.semaphores) == ({}, set(), {"b"})
