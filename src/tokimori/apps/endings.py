"""Ends that a function may ask for, its result still a Python value."""

from msgspec import Struct

from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn


class Finished(Struct, frozen=True):
    """Success. The returned value becomes JSON, or a failure if that can't be (`Succeeded`)."""

    result: object = None


End = Finished | Failed | RetryIn | RetryAt | Hold | Released
