"""Refusals: whether what was asked is at fault, and when it is asked again."""

from collections.abc import Sequence
from logging import Logger

from tokimori.errors import StoreError, StoreRefused, StoreTooSlow

PATIENCE = 3
"""So often something is asked as it is, before it counts as refused: the store as a whole may have been ill."""
PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds between two tries, more with each."""
MOST_WORDS = 2_000
"""Characters of the store's words that are kept."""


def blames_the_asked(fault: Exception) -> bool:
    """Return whether the request is at fault, though the store may be.

    Not so where the store is away or a person has to mend it, nor where this machine lacks something.
    """
    return isinstance(fault, StoreTooSlow) or refuses_for_good(fault)


def refuses_for_good(fault: Exception) -> bool:
    """Return whether the same request would be refused again while others are taken."""
    return isinstance(fault, StoreRefused) or not isinstance(fault, StoreError | OSError | MemoryError | RuntimeError)


def pause_after(tries: int) -> float:
    """Seconds until something that was refused so often is asked again."""
    return float(min(LONGEST_PAUSE, PAUSE * 2 ** (tries - 1)))


def tell(log: Logger, text: str, fault: Exception) -> None:
    """Log what a refusal leads to. A store's words say enough, a bug of ours needs its traceback."""
    log.error(text, exc_info=None if isinstance(fault, StoreError) else fault)


def raise_first(results: Sequence[object]) -> None:
    """Raise the first failure among the results of what was done at once."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
