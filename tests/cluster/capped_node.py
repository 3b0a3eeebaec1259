"""A node whose file can be kept from growing: `python -m tests.cluster.capped_node`.

SIGRTMIN: the file may have no more pages than it has. The signal after it: it may grow again. The node says so once it
holds. All else is as with `tokimori serve`, which uses the other signals; its settings come from the environment.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from tokimori.cli.output import announce
from tokimori.clock import Clock, SystemClock
from tokimori.config.settings import load_settings
from tokimori.errors import StoreUnavailable
from tokimori.logs.setup import start_logging
from tokimori.node.wiring import serve
from tokimori.stores.open import file_of
from tokimori.stores.sqlite.store import SqliteStore

CAP, UNCAP = signal.SIGRTMIN, signal.SIGRTMIN + 1
CAPPED = "The file may not grow."
FREE = "The file may grow."
_PRESENT, _MOST = 1, 1_073_741_823
"""Pages. SQLite takes a limit below the present size for the present size."""


class CappedStore(SqliteStore):
    """A store that can be held to its size: by each node for itself, for SQLite keeps the limit with the connection."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(file_of(url), clock)
        self._asked: set[asyncio.Task[None]] = set()

    def limit(self, pages: int, told: str) -> None:
        """Soon have at most so many pages, and then say so."""
        task = asyncio.get_running_loop().create_task(self._limit(pages, told))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _limit(self, pages: int, told: str) -> None:
        while True:
            try:
                await self._write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchall())
                return announce(told)
            except StoreUnavailable:  # another of its group found the file full
                await asyncio.sleep(0.01)


async def live() -> int:
    """Take part, with this store."""
    settings = load_settings({"http.enabled": False}, os.environ, cwd=Path.cwd()).settings
    store = CappedStore(settings.job_store, SystemClock())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(CAP, store.limit, _PRESENT, CAPPED)
    loop.add_signal_handler(UNCAP, store.limit, _MOST, FREE)
    log = start_logging(level=settings.log.level, format=settings.log.format, file=None)
    try:
        with patch("tokimori.client.opening.open_store", lambda _url, _clock, _again: store):
            return await serve(settings, announce, SystemClock())
    finally:
        log.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(live()))
