"""States of a run, and the one table of all transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from tokimori.errors import Bug


class RunState(StrEnum):
    """States of a run."""

    WAITING = "waiting"
    """Not due yet; a retry waits here too."""
    READY = "ready"
    """Due, and claimable."""
    BLOCKED = "blocked"
    """A limit is full; it waits in line."""
    RUNNING = "running"
    HELD = "held"
    """It waits for a person."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """Dropped before it started."""


class RunMove(StrEnum):
    """Events that move a run."""

    PROMOTE = "promote"
    """Its moment has come."""
    CLAIM = "claim"
    """A node takes it."""
    REFUSE = "refuse"
    """A limit was full at its claim."""
    WAKE = "wake"
    """A place is free, and it is next in line."""
    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY = "retry"
    REQUEUE = "requeue"
    """It was released or lost, and may be claimed again."""
    HOLD = "hold"
    PUT_OFF = "put off"
    """A later request of its key names another moment."""
    RESUME = "resume"
    CANCEL = "cancel"
    DROP = "drop"
    """It has not begun in time; its node has claimed it at most."""


_S = RunState
_E = RunMove

TRANSITIONS: Mapping[tuple[RunState, RunMove], RunState] = MappingProxyType(
    {
        (_S.WAITING, _E.PROMOTE): _S.READY,
        (_S.READY, _E.CLAIM): _S.RUNNING,
        (_S.READY, _E.REFUSE): _S.BLOCKED,
        (_S.BLOCKED, _E.WAKE): _S.READY,
        (_S.RUNNING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.RUNNING, _E.FAIL): _S.FAILED,
        (_S.RUNNING, _E.RETRY): _S.WAITING,
        (_S.RUNNING, _E.REQUEUE): _S.READY,
        (_S.RUNNING, _E.HOLD): _S.HELD,
        (_S.WAITING, _E.HOLD): _S.HELD,
        (_S.READY, _E.HOLD): _S.HELD,
        (_S.BLOCKED, _E.HOLD): _S.HELD,
        (_S.WAITING, _E.PUT_OFF): _S.WAITING,
        (_S.READY, _E.PUT_OFF): _S.WAITING,
        (_S.BLOCKED, _E.PUT_OFF): _S.WAITING,
        (_S.RUNNING, _E.CANCEL): _S.CANCELLED,
        (_S.HELD, _E.RESUME): _S.WAITING,
        (_S.HELD, _E.CANCEL): _S.CANCELLED,
        (_S.WAITING, _E.CANCEL): _S.CANCELLED,
        (_S.READY, _E.CANCEL): _S.CANCELLED,
        (_S.BLOCKED, _E.CANCEL): _S.CANCELLED,
        (_S.WAITING, _E.DROP): _S.SKIPPED,
        (_S.READY, _E.DROP): _S.SKIPPED,
        (_S.BLOCKED, _E.DROP): _S.SKIPPED,
        (_S.HELD, _E.DROP): _S.SKIPPED,
        (_S.RUNNING, _E.DROP): _S.SKIPPED,
    }
)
"""(state, event) → state. What is not here does not happen. DESIGN §2."""

ENDS = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.SKIPPED})
"""States that a run never leaves."""

BEFORE_START = frozenset({_S.WAITING, _S.READY, _S.BLOCKED})
"""States before a start, which only the clock and its constraints delay."""
STANDING_STILL = BEFORE_START | {_S.HELD}
"""States of a run that waits for something."""
ACTIVE = BEFORE_START | {_S.RUNNING}
"""States that count against `max_running` when an occurrence is decided. A held run counts for nothing."""


def move(state: RunState, event: RunMove) -> RunState:
    """Return the state after the event. Raises `Bug` for a move that is not in the table."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise Bug(f"a run that is {state} can't {event}") from None


def sources(event: RunMove) -> frozenset[RunState]:
    """Return the states in which the event can happen."""
    return frozenset(state for state, known in TRANSITIONS if known is event)
