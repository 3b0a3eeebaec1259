"""What an attempt returned."""

from dataclasses import dataclass

from tokimori.clock import Moment


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It did what it should. `result` is handed on to the run's children."""

    exit_code: int | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It ended otherwise; `signal` is the one that ended a process. `final`: trying again can't help."""

    error: str
    exit_code: int | None = None
    signal: int | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class RetryAt:
    """It asks to be tried again, not before this moment."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class RetryIn:
    """It asks to be tried again, not before so many seconds have passed since its end; None: as its job says."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Hold:
    """It asks for a person."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Its node gave it back, or (`asked`) it did so itself; it counts for nothing."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody ended it."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It took longer than its job allows."""

    error: str
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Its node died or fell silent, or its keeper was killed.

    `counts`: how many of the attempts that it may lose this takes. None, where somebody else may be at fault: see
    `tokimori.model.suspicion`.
    """

    reason: str
    counts: int = 1


Outcome = Succeeded | Failed | RetryAt | RetryIn | Hold | Released | Cancelled | TimedOut | Lost
