"""Log file of several processes: each line stays whole, and a new file begins when the old one is full or too old."""

import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tokimori.logs.reading import Rotation, finish, name_of_old
from tokimori.ownership import PRIVATE

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
FINISHING = 2.0
"""Seconds for which a stop waits for the compression of an old file; the next rotation does the rest."""


class LogFile(logging.Handler):
    """Log file at a path, made for its owner alone; an existing one keeps its rights.

    The file is opened anew after it was moved away. Messages that can't be written are counted, and reported once to
    `report`, and later in the file: a full disk stops no node.

    A writer holds a shared lock for each line, and checks under it that its file still is the one at the path. So the
    holder of the exclusive lock moves the file away while no writer uses it. The first opening raises `OSError`.
    """

    def __init__(
        self,
        path: Path,
        rotation: Rotation | None,
        report: Callable[[str], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._path = path.absolute()
        self._rotation = rotation
        self._report = report
        self._wall_clock = wall_clock
        self._lost = 0
        self._why = ""
        self._torn = False
        self._left = threading.Event()
        self._finishing: threading.Thread | None = None
        self._opened: int | None = os.open(self._path, _FLAGS, PRIVATE)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the whole message, or count it as lost."""
        data = self.format(record).encode(errors="backslashreplace") + b"\n"
        if self._lost:
            data = self._notice().encode() + b"\n" + data
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as fault:
            self._count_lost(fault)
        else:
            self._lost, self._torn = 0, False

    def _notice(self) -> str:
        about = f"{self._lost} messages were not written to this file: {self._why}"
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, about, None, None))

    def _count_lost(self, fault: OSError) -> None:
        self._lost += 1
        self._why = fault.strerror or str(fault)
        if self._lost == 1:
            self._report(
                f"log.file: {self._path} can't be written ({self._why}): messages are lost there until it can; "
                "everything else goes on"
            )

    def _write(self, data: bytes) -> None:
        opened = self._locked()
        try:
            if self._is_over(opened, len(data)):
                opened = self._rotated(opened, len(data))
            while data:
                written = os.write(opened, data)
                data = data[written:]
                self._torn = bool(data)
        finally:
            if self._opened is not None:
                fcntl.flock(self._opened, fcntl.LOCK_UN)

    def _locked(self) -> int:
        """Return the file at the path, locked so that it is not moved away."""
        while True:
            if self._opened is None:
                self._opened = os.open(self._path, _FLAGS, PRIVATE)
            fcntl.flock(self._opened, fcntl.LOCK_SH)
            if self._is_there(self._opened):
                return self._opened
            self._close()

    def _is_there(self, opened: int) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(opened), self._path.stat())
        return False

    def _is_over(self, opened: int, more: int) -> bool:
        if self._rotation is None:
            return False
        found = os.fstat(opened)
        return stat.S_ISREG(found.st_mode) and self._rotation.is_over(
            found.st_size, more, found.st_mtime, self._wall_clock()
        )

    def _rotated(self, opened: int, more: int) -> int:
        """Move the file away, unless another process just did; return the new one, locked."""
        fcntl.flock(opened, fcntl.LOCK_EX)  # others may have been first: the shared lock is given up for it
        if self._is_there(opened) and self._is_over(opened, more):
            with suppress(OSError):  # in a folder where nothing can be renamed the file grows on
                self._path.rename(name_of_old(self._path, self._wall_clock()))
                self._finish()
        return self._locked()

    def _finish(self) -> None:
        """Compress old files and remove the oldest, in the background."""
        self._left.set()
        if self._finishing is None or not self._finishing.is_alive():
            self._finishing = threading.Thread(target=self._tidy, name="tokimori-old-logs", daemon=True)
            self._finishing.start()

    def _tidy(self) -> None:
        while self._rotation is not None and self._left.is_set():
            self._left.clear()
            finish(self._path, self._rotation)

    def _close(self) -> None:
        if self._opened is not None:
            os.close(self._opened)
        self._opened = None

    def close(self) -> None:
        """Close the file."""
        if self._finishing is not None:
            self._finishing.join(FINISHING)
            if not self._finishing.is_alive():
                self._tidy()  # what came just when it ended
        self._close()
        super().close()
