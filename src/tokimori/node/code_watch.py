"""For development: the code of an app is looked at now and then, and a change of it is told."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two looks."""
MOST_FILES = 5_000
"""Of which the changes are seen: a look at so many takes a tenth of a second, in a thread."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})


def stamps_of(folders: Sequence[Path], most: int = MOST_FILES) -> dict[Path, int]:
    """Return when each of at most so many Python files below these folders was changed: nanoseconds of the file system.

    Hidden folders, and those of installed packages, are passed over.
    """
    found: dict[Path, int] = {}
    for path in _files_of(folders):
        if len(found) == most:
            break
        with suppress(OSError):  # it may be replaced just now
            found[path] = path.stat().st_mtime_ns
    return found


def _files_of(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        for place, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if name not in _PASSED_OVER and not name.startswith("."))
            yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))


def changed_of(before: Mapping[Path, int], after: Mapping[Path, int]) -> list[Path]:
    """Return the files that were made, changed or removed between two looks, in order."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@asynccontextmanager
async def told_of_changes(folders: Sequence[Path], changed: Callable[[], None]) -> AsyncIterator[None]:
    """Within it `changed` is called after each change of a Python file below these folders."""
    watching = asyncio.get_running_loop().create_task(_watch(folders, changed))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(folders: Sequence[Path], changed: Callable[[], None]) -> None:
    before = await asyncio.to_thread(stamps_of, folders)
    while True:
        await asyncio.sleep(EVERY)
        after = await asyncio.to_thread(stamps_of, folders)
        if files := changed_of(before, after):
            others = f" and {len(files) - 1} others" if len(files) > 1 else ""
            log.warning("%s%s changed: new worker processes with the code of now take over", files[0], others)
            changed()
        before = after
