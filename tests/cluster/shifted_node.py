"""A node whose wall clock is wrong: `python -m tests.cluster.shifted_node SECONDS…`.

It begins with the first offset; each SIGRTMIN sets its clock to the next one, and it says so. All else is as with
`tokimori serve`, which uses the other signals; its settings come from the environment.
It has a door if a port is given.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokimori.cli.output import announce
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.config.settings import load_settings
from tokimori.logs.setup import start_logging
from tokimori.node.wiring import serve

JUMP = signal.SIGRTMIN
JUMPED = "This clock is wrong now by"


class ShiftedClock(SystemClock):
    """This machine's clocks, the wall clock wrong by so many seconds."""

    def __init__(self, offsets: Iterator[float]) -> None:
        self._offsets = offsets
        self._offset = next(offsets)

    def now(self) -> Moment:
        """The wall clock."""
        return Moment(super().now() + round(self._offset * SECOND))

    def jump(self) -> None:
        """On to the next offset."""
        self._offset = next(self._offsets, self._offset)
        announce(f"{JUMPED} {self._offset:g} s")


async def live(offsets: Sequence[float]) -> int:
    """Take part, with this clock."""
    settings = load_settings({"http.enabled": "TOKIMORI_HTTP_PORT" in os.environ}, os.environ, cwd=Path.cwd()).settings
    clock = ShiftedClock(iter(offsets))
    asyncio.get_running_loop().add_signal_handler(JUMP, clock.jump)
    log = start_logging(level=settings.log.level, format=settings.log.format, file=None)
    try:
        return await serve(settings, announce, clock)
    finally:
        log.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(live([float(word) for word in sys.argv[1:]])))
