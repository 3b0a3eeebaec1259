"""What every request has in common: it is checked, and asked again where a reply was lost."""

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.ports.store import Jobs

_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)

MOST_TRIES = 10
"""How often a change is tried that others keep changing under our hands."""
MOST_LISTED = 1_000
"""How many rows one answer has."""


async def retried(act: Callable[[], Awaitable[_T]], *again: type[Exception]) -> _T:
    """Do it again after these errors: `act` starts from what the store says now, so that a lost reply is harmless."""
    for _ in range(MOST_TRIES - 1):
        try:
            return await act()
        except again:
            continue
    return await act()


async def all_jobs(store: Jobs, *, idle: bool = False) -> AsyncIterator[Job]:
    """All jobs by id, however many pages they fill. `idle`: only enabled ones without a next moment."""
    after: JobId | None = None
    while page := await store.list_jobs(after=after, limit=MOST_LISTED, idle=idle):
        for job in page:
            yield job
        after = page[-1].id


def checked(name: str, value: int, most: int) -> int:
    """The number, if it is one of 1 to `most`. Raises `InvalidInput`."""
    if not 1 <= value <= most:
        raise InvalidInput(f"{name}: {value} is out of range", field=name, value=value, allowed=f"1..{most}")
    return value


def chosen(kind: type[_Choice], name: str, word: str) -> _Choice:
    """What the word means. Raises `InvalidInput` naming the choices."""
    try:
        return kind(word)
    except ValueError:
        allowed = ", ".join(kind)
        raise InvalidInput(f"{name}: {word!r} is not allowed", field=name, value=word, allowed=allowed) from None
