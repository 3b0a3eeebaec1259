"""Outcomes of an attempt."""

from msgspec import Struct

from tokimori.clock import Moment


class Succeeded(Struct, frozen=True):
    """Success. `result` goes to the run's children."""

    exit_code: int | None = None
    result: str | None = None


class Failed(Struct, frozen=True):
    """Failure; `signal` is the one that ended a process. `final`: a retry is of no use.

    `wait`: seconds before the next attempt, if there is one; None: as the job says.
    """

    error: str
    exit_code: int | None = None
    signal: int | None = None
    final: bool = False
    wait: float | None = None


class RetryAt(Struct, frozen=True):
    """Request for a retry, not before this moment."""

    moment: Moment


class RetryIn(Struct, frozen=True):
    """Request for a retry, not before so many seconds have passed since its end; None: as its job says."""

    seconds: float | None


class Hold(Struct, frozen=True):
    """Request for a person."""

    reason: str


class Released(Struct, frozen=True):
    """Release by its node, or (`asked`) by itself. It uses up no budget, unless no attempt may be lost.

    `short`: it did not begin, because the machine lacked processes, threads, files or memory.
    """

    reason: str
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False
    short: bool = False


class Expired(Struct, frozen=True):
    """End without a beginning: the request of the run has expired."""

    reason: str


class Cancelled(Struct, frozen=True):
    """End by order."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None


class TimedOut(Struct, frozen=True):
    """End by a time-out."""

    error: str
    exit_code: int | None = None
    signal: int | None = None


class Lost(Struct, frozen=True):
    """Loss: its node died or fell silent, or its keeper was killed.

    `counts`: the attempts that this takes from its budget; none if another job may be at fault, see
    `tokimori.model.suspicion`.
    """

    reason: str
    counts: int = 1


Outcome = Succeeded | Failed | RetryAt | RetryIn | Hold | Released | Expired | Cancelled | TimedOut | Lost
