"""What a function may say of its own end."""

from dataclasses import dataclass

from tokimori.clock import Moment


@dataclass(frozen=True, slots=True)
class Finished:
    """It did what it should."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not."""

    error: str


@dataclass(frozen=True, slots=True)
class RetryIn:
    """It is to be tried again after so many seconds; None: when its job says."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class RetryAt:
    """It is to be tried again, not before this moment."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Held:
    """A person is to look at it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Somebody else is to do it."""

    reason: str


End = Finished | Failed | RetryIn | RetryAt | Held | Released
