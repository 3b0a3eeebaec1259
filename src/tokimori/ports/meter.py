"""Counter of a node's work, for metrics."""

from collections.abc import Sequence
from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask
from tokimori.ports.working import Change, Claimed, Verdict


class Meter(Protocol):
    """Counter of a node's work, called once for a whole batch, on the node's loop: it must neither wait nor raise."""

    def claimed(self, runs: Sequence[Claimed]) -> None:
        """Count runs that the node has claimed, perhaps none."""
        ...

    def started(self, tasks: Sequence[AttemptTask], now: Moment) -> None:
        """Count attempts that begin at this moment. The lateness of a task counts from its `due`."""
        ...

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """Count changes that the store has judged, a verdict each. `outcome_of` says how each attempt ended."""
        ...

    def count_call(self, call: str, seconds: float) -> None:
        """Count the time of a call, whether the store answered or failed: tick, survey, fire, foresee, claim or settle.

        `fire` and `foresee` each include a read, a decision and a write.
        """
        ...


class Unmetered:
    """Counter that counts nothing."""

    def claimed(self, runs: Sequence[Claimed]) -> None:
        """See `Meter`."""

    def started(self, tasks: Sequence[AttemptTask], now: Moment) -> None:
        """See `Meter`."""

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """See `Meter`."""

    def count_call(self, call: str, seconds: float) -> None:
        """See `Meter`."""


UNMETERED = Unmetered()


def outcome_of(change: Change) -> str:
    """Return the outcome of the attempt that the change ends, as the rows of attempts name it.

    Two kinds of attempt have no row: a first one that succeeded, and one that was released before it began.
    """
    if change.attempt is not None:
        return change.attempt.outcome
    return "succeeded" if change.state is RunState.SUCCEEDED else "released"
