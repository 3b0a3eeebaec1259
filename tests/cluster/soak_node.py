"""A node that looks for old rows every few seconds: `python -m tests.cluster.soak_node`.

So ten minutes show what takes days with a retention of days. All else is as with `tokimori serve`, its settings come
from the environment.
"""

import asyncio
import os
import sys
from pathlib import Path

from tokimori.cli.output import announce
from tokimori.clock import SystemClock
from tokimori.config.settings import load_settings
from tokimori.engine import prune
from tokimori.logs.setup import start_logging
from tokimori.node.wiring import serve


async def live() -> int:
    """Take part."""
    prune.EVERY, prune.REST = 5.0, 0.5
    settings = load_settings({"http.enabled": False}, os.environ, cwd=Path.cwd()).settings
    log = start_logging(level=settings.log.level, format=settings.log.format, file=None)
    try:
        return await serve(settings, announce, SystemClock())
    finally:
        log.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(live()))
