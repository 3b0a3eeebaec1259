"""Random bytes of the machine, which ids and versions are made of: fetched some at a time."""

import os
from collections.abc import Callable, Iterator

BLOCK = 16
"""Bytes of the longest text made from the cached bytes; longer ones, such as secrets, are fetched by themselves."""
BLOCKS = 256


class Randomness:
    """`os.urandom`, which asks the system once for 256 ids: each call takes some 15 µs, more than most of what asks.

    Threads may share one. A process that was forked fetches its own: else it would use the bytes of its parent again.
    """

    def __init__(self, fetch: Callable[[int], bytes] = os.urandom, pid: Callable[[], int] = os.getpid) -> None:
        self._fetch = fetch
        self._pid = pid
        self._blocks: tuple[int, Iterator[bytes]] = 0, iter(())

    def __call__(self, number: int) -> bytes:
        """Return this many bytes, which nobody else gets."""
        if number > BLOCK:
            return self._fetch(number)
        here = self._pid()
        while True:
            pid, blocks = self._blocks
            # One step of the interpreter: no two threads get the same block.
            if pid == here and (block := next(blocks, None)) is not None:
                return block[:number]
            pool = self._fetch(BLOCK * BLOCKS)
            self._blocks = here, iter([pool[start : start + BLOCK] for start in range(0, len(pool), BLOCK)])
