"""Output of one attempt: a file of bounded size, and its first and last bytes in memory."""

import os
from collections.abc import Sequence
from pathlib import Path

from .complaint import complain
from .redaction import Redaction

EDGE = 65_536
"""Bytes kept of the beginning, and of the end."""


class Output:
    """Collects one attempt's output. The file is made with the first byte: where nothing is written there is no file.

    The file holds the first `limit` bytes; of what comes after them only the last `EDGE` bytes are added, at the end,
    below a line that says how many bytes are missing. `hidden` are texts that are kept nowhere.
    """

    __slots__ = ("_broken", "_file", "_folder", "_head", "_hiding", "_limit", "_name", "_tail", "size")

    def __init__(self, folder: Path, name: str, limit: int, hidden: Sequence[str] = ()) -> None:
        self.size = 0
        self._folder = folder
        self._name = name
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._broken = False
        self._hiding = Redaction(text.encode() for text in hidden) if hidden else None

    def write(self, data: bytes) -> None:
        """Take what was written next."""
        self._keep(data if self._hiding is None else self._hiding.feed(data))

    def _keep(self, data: bytes) -> None:
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
            self._keep(self._hiding.finish())
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
        """Append to the file. Where it can't be written it stays incomplete; the run and the keeper go on."""
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
        """Close the file. With quotas and file servers only this may report that there was no room."""
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
