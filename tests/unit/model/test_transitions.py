"""The one table of states."""

import pytest

from tokimori.errors import Bug
from tokimori.model.transitions import ACTIVE, ENDS, TRANSITIONS, RunMove, RunState, move, sources

S, E = RunState, RunMove

ALLOWED = {
    S.WAITING: {
        E.PROMOTE: S.READY,
        E.HOLD: S.HELD,
        E.PUT_OFF: S.WAITING,
        E.CANCEL: S.CANCELLED,
        E.DROP: S.SKIPPED,
    },
    S.READY: {
        E.CLAIM: S.RUNNING,
        E.REFUSE: S.BLOCKED,
        E.HOLD: S.HELD,
        E.PUT_OFF: S.WAITING,
        E.CANCEL: S.CANCELLED,
        E.DROP: S.SKIPPED,
    },
    S.BLOCKED: {
        E.WAKE: S.READY,
        E.HOLD: S.HELD,
        E.PUT_OFF: S.WAITING,
        E.CANCEL: S.CANCELLED,
        E.DROP: S.SKIPPED,
    },
    S.RUNNING: {
        E.SUCCEED: S.SUCCEEDED,
        E.FAIL: S.FAILED,
        E.RETRY: S.WAITING,
        E.REQUEUE: S.READY,
        E.HOLD: S.HELD,
        E.CANCEL: S.CANCELLED,
        E.DROP: S.SKIPPED,
    },
    S.HELD: {E.RESUME: S.WAITING, E.CANCEL: S.CANCELLED, E.DROP: S.SKIPPED},
}
"""Written out a second time, by state: a change of the table has to be made twice, and so thought about twice."""


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("event", RunMove)
def test_every_state_and_event(state: RunState, event: RunMove) -> None:
    """Each event leads from each state exactly where the table says, or is a bug."""
    expected = ALLOWED.get(state, {}).get(event)
    if expected is None:
        with pytest.raises(Bug, match=f"a run that is {state} can't {event}"):
            move(state, event)
    else:
        assert move(state, event) is expected


def test_ends_are_never_left() -> None:
    """No event leads out of an end, and every state that is no end can be left."""
    assert {state for state, _ in TRANSITIONS} == set(RunState) - ENDS


def test_every_state_is_reached() -> None:
    """Every state but those in which runs are born is the result of some event."""
    assert set(TRANSITIONS.values()) == set(RunState)


def test_skipped_is_for_runs_that_did_not_start() -> None:
    """A run that has not ended may be dropped: a claimed one by its node alone, before it begins."""
    assert sources(RunMove.DROP) == {S.WAITING, S.READY, S.BLOCKED, S.HELD, S.RUNNING}


@pytest.mark.parametrize("event", RunMove)
def test_sources_are_the_table_read_backwards(event: RunMove) -> None:
    """`sources` names exactly the states from which the event can happen."""
    assert sources(event) == {state for state, events in ALLOWED.items() if event in events}


def test_what_counts_as_active() -> None:
    """Against `max_running` count all runs that have not ended, except held ones (DESIGN §5)."""
    assert set(RunState) - ENDS - {S.HELD} == ACTIVE


def test_the_table_is_read_only() -> None:
    """Nobody can change the table while the program runs."""
    with pytest.raises(TypeError):
        TRANSITIONS[S.FAILED, E.RETRY] = S.WAITING  # type: ignore[index]
