"""What the statements on documents look for: the same for all stores with tables."""

from typing import NamedTuple

from tokimori.model.document import LONGEST_NAME


class Span(NamedTuple):
    """Names that a page is read from: those that are greater than (`>`) `first`, or not less (`>=`), up to `last`."""

    comparison: str
    first: str
    last: str


def span(prefix: str, after: str) -> Span:
    """Names that begin with `prefix` and are greater than `after`; one bound on each side, so that an index serves it.

    No name that begins with `prefix` is greater than the last: names are not as long.
    """
    last = prefix + "\U0010ffff" * LONGEST_NAME
    return Span(">", after, last) if after >= prefix else Span(">=", prefix, last)
