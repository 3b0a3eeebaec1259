"""Output of one attempt: a file of bounded size, and its first and last bytes in memory."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from math import inf
from pathlib import Path

from .complaint import complain
from .kernel import boottime
from .redaction import Redaction

EDGE = 65_536
"""Bytes kept of the beginning, and of the end."""
MOST_MARKS = 1024
"""Marks kept of each."""


class Times:
    """Moments at which an output went on: marks of its size before, each with the milliseconds since the boot.

    Output within one millisecond has one mark. If there are too many marks, the time between two grows.
    """

    __slots__ = ("_first", "_grain", "_last")

    def __init__(self) -> None:
        self._first: list[tuple[int, int]] = []
        self._last: list[tuple[int, int]] = []
        self._grain = 1

    def mark(self, size: int, at: float) -> None:
        """Note the time of the output after this many bytes, in seconds since the boot."""
        now = int(at * 1000)
        marks = self._first if size < EDGE else self._last
        if not marks:
            self._grain = 1
        elif now - marks[-1][1] < self._grain:
            return
        marks.append((size, now))
        if len(marks) > MOST_MARKS:
            self._thin(marks, size - EDGE)

    def _thin(self, marks: list[tuple[int, int]], begin: int) -> None:
        """Drop marks of bytes that are not kept, and then, if there are still too many, some between others."""
        del marks[: max(0, bisect_right(marks, (begin, inf)) - 1)]
        while len(marks) > MOST_MARKS * 7 // 8:
            self._grain *= 2
            kept = marks[:1]
            for mark in marks:
                if mark[1] - kept[-1][1] >= self._grain:
                    kept.append(mark)
            marks[:] = kept

    def encoded(self) -> bytes:
        """Return the marks: the growth of each number, seven bits a byte, the lowest first; the last is < 128."""
        encoded, size, at = bytearray(), 0, 0
        for mark in (*self._first, *self._last):
            for number in (mark[0] - size, mark[1] - at):
                rest = number
                while rest > 127:
                    encoded.append(rest & 127 | 128)
                    rest >>= 7
                encoded.append(rest)
            size, at = mark
        return bytes(encoded)


class Output:
    """Output of one attempt. The file is made with the first byte: without output there is no file.

    The file holds the first `limit` bytes, and at the end the last `EDGE` bytes of the rest, below a line that says how
    many bytes are missing. `hidden` are texts that are stored nowhere.
    """

    __slots__ = ("_broken", "_file", "_folder", "_head", "_hiding", "_limit", "_name", "_tail", "size", "times")

    def __init__(self, folder: Path, name: str, limit: int, hidden: Sequence[str] = ()) -> None:
        self.size = 0
        self.times = Times()
        self._folder = folder
        self._name = name
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._broken = False
        self._hiding = Redaction(text.encode() for text in hidden) if hidden else None

    def write(self, data: bytes) -> None:
        """Store the next piece of output."""
        self._store(data if self._hiding is None else self._hiding.feed(data))

    def _store(self, data: bytes) -> None:
        if data:
            self.times.mark(self.size, boottime())
        room = EDGE - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room else data
        if len(self._tail) > 2 * EDGE:
            del self._tail[:-EDGE]
        if self.size < self._limit:
            self._append(data[: self._limit - self.size])
        self.size += len(data)

    def recent(self, count: int = EDGE) -> bytes:
        """Return the last bytes so far, at most `EDGE`."""
        last = self._tail[-count:]
        missing = count - len(last)
        return bytes(self._head[-missing:] + last if missing else last)

    def finish(self) -> tuple[bytes, bytes]:
        """Complete the file; returns the first bytes, and the last bytes of the rest."""
        if self._hiding is not None:
            self._store(self._hiding.finish())
        beyond = self.size - self._limit
        if beyond > 0:
            kept = min(beyond, EDGE)
            if beyond > kept:
                self._append(b"\n[... %d bytes left out ...]\n" % (beyond - kept))
            self._append(self.recent(kept))
        if self._file is not None:
            self._close(self._file)
            self._file = None
        return bytes(self._head), bytes(self._tail[-EDGE:])

    def _append(self, data: bytes) -> None:
        """Append to the file. If it can't be written it stays incomplete; the run and the keeper go on."""
        if self._broken:
            return
        try:
            if self._file is None:
                self._file = _create(self._folder / self._name)
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as fault:
            self._break(fault)

    def _close(self, file: int) -> None:
        """Close the file. With quotas and file servers only the close may report a full disk."""
        try:
            os.close(file)
        except OSError as fault:
            self._break(fault)

    def _break(self, fault: OSError) -> None:
        complain(f"output {self._name}: {fault.strerror}; the output file of this attempt stays incomplete")
        self._broken = True


def _create(path: Path) -> int:
    """Create the file, readable only by the node's user, as output may hold secrets."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)
