"""Redaction of secrets in the output of a process, piece by piece. Pure.

A byte is hidden if it belongs to an occurrence of any needle; each stretch of overlapping occurrences becomes one mask.
The result does not depend on how the bytes were cut.
"""

from collections.abc import Iterable, Iterator, Sequence

MASK = b"***"
_QUICK = 8
"""First bytes of a needle that are searched at once; only the last places are checked one by one."""


class Redaction:
    """One stream of bytes, in which the needles are hidden. None of them is empty."""

    __slots__ = ("_covered", "_held", "_needles")

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = tuple(needles)
        self._held = b""
        """Bytes that may begin a needle: they wait for the next piece."""
        self._covered = 0
        """Bytes of `_held` that belong to a mask already written."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that can be shown after this piece."""
        seen = self._held + data
        return self._redacted(seen, min((_open_at(seen, needle) for needle in self._needles), default=len(seen)))

    def finish(self) -> bytes:
        """Return the rest."""
        return self._redacted(self._held, len(self._held))

    def _redacted(self, seen: bytes, end: int) -> bytes:
        """Return all bytes up to `end`, behind which a needle may have begun; the rest is held."""
        shown, at = bytearray(), self._covered
        for start, stop in _merged(_occurrences(seen, self._needles)):
            if start >= end:
                break
            if start >= at:
                shown += seen[at:start] + MASK
            at = max(at, stop)
        shown += seen[at:end]
        self._held = seen[end:]
        self._covered = max(0, at - end)
        return bytes(shown)


def redacted(data: bytes, needles: Sequence[bytes]) -> bytes:
    """Return the bytes with the needles hidden."""
    if not any(needle in data for needle in needles):
        return data
    stream = Redaction(needles)
    return stream.feed(data) + stream.finish()


def _open_at(seen: bytes, needle: bytes) -> int:
    """Return the earliest place of a beginning of the needle that more bytes may complete; else the end."""
    at = max(0, len(seen) - len(needle) + 1)
    first, last = needle[:_QUICK], max(at, len(seen) - _QUICK + 1)
    while 0 <= (found := seen.find(first, at)) < last:
        if needle.startswith(seen[found:]):
            return found
        at = found + 1
    return next((place for place in range(last, len(seen)) if needle.startswith(seen[place:])), len(seen))


def _occurrences(seen: bytes, needles: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Yield enough occurrences to cover all: among overlapping ones only the last is needed."""
    for needle in needles:
        size, at = len(needle), seen.find(needle)
        while at >= 0:
            yield at, at + size
            last = seen.rfind(needle, at + 1, at + 2 * size - 1)
            at = last if last >= 0 else seen.find(needle, at + size)


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the stretches in order, overlapping ones as one."""
    start = stop = -1
    for one in sorted(spans):
        if one[0] < stop:
            stop = max(stop, one[1])
            continue
        if start >= 0:
            yield start, stop
        start, stop = one
    if start >= 0:
        yield start, stop
