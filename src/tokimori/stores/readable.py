"""Jobs that this program can read, from a store that knows nothing of the text of their definitions."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tokimori.model.decide import Due
from tokimori.model.job import Job
from tokimori.stores.rules.plans import is_readable

T = TypeVar("T", Job, Due)


async def readable(page: Callable[[Job | None], Awaitable[list[T]]], limit: int) -> list[T]:
    """Return the first `limit` that this program can read; `page` gives up to `limit` of those after a job.

    What it can't read counts for nothing: however much of it is in front, the others are found.
    """
    found: list[T] = []
    after: Job | None = None
    while len(found) < limit:
        rows = await page(after)
        found += [row for row in rows if is_readable(_job(row))]
        if len(rows) < limit:
            break
        after = _job(rows[-1])
    return found[:limit]


def _job(row: Job | Due) -> Job:
    return row.job if isinstance(row, Due) else row
