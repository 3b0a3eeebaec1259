"""What a function may say of its own end: the outcomes that an attempt may ask for, its result still a Python value."""

from dataclasses import dataclass

from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn


@dataclass(frozen=True, slots=True)
class Finished:
    """It did what it should. What it returned becomes JSON, or a failure where that can't be (`Succeeded`)."""

    result: object = None


End = Finished | Failed | RetryIn | RetryAt | Hold | Released
