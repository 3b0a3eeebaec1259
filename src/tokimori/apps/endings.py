"""What a function may say of its own end: the outcomes that an attempt may ask for, its result still a Python value."""

from msgspec import Struct

from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn


class Finished(Struct, frozen=True):
    """It did what it should. What it returned becomes JSON, or a failure where that can't be (`Succeeded`)."""

    result: object = None


End = Finished | Failed | RetryIn | RetryAt | Hold | Released
