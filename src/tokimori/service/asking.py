"""Validation and retry of requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from tokimori.engine.refusals import raise_first
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.ports.store import Jobs

_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)

MOST_TRIES = 10
"""How often a change is tried again while others change the same thing."""
MOST_LISTED = 1_000
"""The most rows that one answer has."""
AT_ONCE = 200
"""So many changes are under way at a time: one by one each would wait for a commit of its own, and for all writers."""


async def retried(
    act: Callable[[], Awaitable[_T]], *again: type[Exception], wanted: Callable[[], bool] = lambda: True
) -> _T:
    """Call `act` again after these errors, while that is `wanted`.

    It starts from what the store says now, so a lost reply does no harm.
    """
    for _ in range(MOST_TRIES - 1):
        try:
            return await act()
        except again:
            if not wanted():
                raise
    return await act()


async def cancel_all(cancel: Callable[[str, str], Awaitable[object]], runs: Sequence[Run], reason: str) -> int:
    """Cancel these runs, some at a time; how many there still were. After an error nothing goes on behind it."""
    found = 0
    for start in range(0, len(runs), AT_ONCE):
        asked = (cancel(run.id, reason) for run in runs[start : start + AT_ONCE])
        results = await asyncio.gather(*asked, return_exceptions=True)
        done = [each for each in results if not isinstance(each, NotFound)]
        raise_first(done)
        found += len(done)
    return found


async def all_jobs(store: Jobs, *, idle: bool = False) -> AsyncIterator[Job]:
    """Yield all jobs by id, read in pages. `idle`: only enabled jobs that have no next moment."""
    after: JobId | None = None
    while page := await store.list_jobs(after=after, limit=MOST_LISTED, idle=idle):
        for job in page:
            yield job
        after = page[-1].id


def checked(name: str, value: object, most: int, least: int = 1) -> int:
    """Return the number itself, if it is from `least` to `most`. Raises `InvalidInput`."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise InvalidInput(f"{name}: {value!r} is out of range", field=name, value=value, allowed=f"{least}..{most}")


def chosen(kind: type[_Choice], name: str, word: object) -> _Choice:
    """Return the member of `kind` that the word names. Raises `InvalidInput` with the words that are allowed."""
    try:
        return kind(str(word))
    except ValueError:
        allowed = ", ".join(kind)
        raise InvalidInput(f"{name}: {word!r} is not allowed", field=name, value=word, allowed=allowed) from None
