"""Readers of the log files of nodes, rotated ones included: the last lines, and following ones."""

import errno
import fcntl
import gzip
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import IO

import msgspec

from tokimori.ownership import PRIVATE

MOST_READ = 16 * 2**20
"""Bytes at the end of a file that are searched."""
_TEXT = re.compile(rb"\d{4}-\d\d-\d\dT\S+ [A-Z]+ (?P<logger>[\w.]+): ", re.ASCII)
_DOOR = ("tokimori.api", "tokimori.foreign", "tokimori.web", "uvicorn")
"""Loggers of the door."""

Wanted = Callable[[bytes], bool]
"""Filter that says if a line is wanted."""


class _Named(msgspec.Struct):
    logger: str = ""


def every_line(_: bytes) -> bool:
    """Return true for every line."""
    return True


class Lines:
    """Filter of lines: those of the door, or all others. Lines that follow a message belong to it."""

    def __init__(self, *, of_the_door: bool) -> None:
        self._of_the_door = of_the_door
        self._last = not of_the_door

    def __call__(self, line: bytes) -> bool:
        """Return whether the line is wanted."""
        logger = _logger_of(line)
        if logger is not None:
            self._last = logger.startswith(_DOOR) == self._of_the_door
        return self._last


def _logger_of(line: bytes) -> str | None:
    """Return the logger of the line, of text or JSON; None: the line continues a message."""
    if (found := _TEXT.match(line)) is not None:
        return found["logger"].decode()
    try:
        return msgspec.json.decode(line, type=_Named).logger
    except msgspec.DecodeError:
        return None


def last_lines(path: Path, most: int, wanted: Wanted) -> list[bytes]:
    """Return the last wanted lines of the file and of the newest old one. Raises `OSError`."""
    files = [*old_files(path)[-1:], *([path] if path.exists() else [])]
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return _last([_lines_of(file) for file in files], most, wanted)


def _last(texts: Iterable[Iterable[bytes]], most: int, wanted: Wanted) -> list[bytes]:
    found: deque[bytes] = deque(maxlen=most)
    for lines in texts:
        found += filter(wanted, lines)
    return list(found)


def _lines_of(file: Path) -> Iterator[bytes]:
    if file.suffix == ".gz":
        yield from _end_of_packed(file).splitlines(keepends=True)
        return
    with file.open("rb") as opened:
        yield from _tail(opened)


def _end_of_packed(file: Path) -> bytes:
    text = b""
    with gzip.open(file) as packed:
        while part := packed.read(MOST_READ):
            text = (text + part)[-MOST_READ:]
    return text


def _tail(opened: IO[bytes]) -> list[bytes]:
    size = opened.seek(0, os.SEEK_END)
    opened.seek(max(0, size - MOST_READ))
    if size > MOST_READ:
        opened.readline()  # a part of one
    return _whole_lines(opened)


def new_lines(path: Path, most: int, wanted: Wanted) -> Iterator[list[bytes]]:
    """Yield the last lines, as `last_lines` does, and then in each step the new lines, each once.

    It continues with a new file at the path. The first opening raises `OSError`.
    """
    old = old_files(path)[-1:]
    opened: IO[bytes] = path.open("rb")
    try:
        yield _last([*map(_lines_of, old), _tail(opened)], most, wanted)
        while True:
            lines = _whole_lines(opened)
            if not lines and (newer := _other(path, opened)) is not None:
                opened.close()
                opened = newer
                continue
            yield [line for line in lines if wanted(line)]
    finally:
        opened.close()


def _whole_lines(opened: IO[bytes]) -> list[bytes]:
    begin = opened.tell()
    text = opened.read(MOST_READ)
    whole = text[: text.rfind(b"\n") + 1]
    opened.seek(begin + len(whole))
    return whole.splitlines(keepends=True)


def _other(path: Path, opened: IO[bytes]) -> IO[bytes] | None:
    """Return the file that is at the path now, if it is another one."""
    try:
        if os.path.samestat(os.fstat(opened.fileno()), path.stat()):
            return None
        return path.open("rb")
    except FileNotFoundError:
        return None


_STAMP = "%Y%m%d%H%M%S"
_OLD = re.compile(r"\.\d{14}(-\d+)?(\.gz)?\Z", re.ASCII)
_AT_ONCE = 1 << 20
"""Bytes that are compressed at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Rotation: when a new file begins, and how many old ones are kept.

    `max_size` is in bytes. `max_age`: a new file begins at each whole multiple of so many seconds since 1970 (86,400:
    at midnight UTC); 0: never. `keep`: the number of old files that are kept; 0: all.
    """

    max_size: int
    max_age: float
    keep: int
    compress: bool

    def is_over(self, size: int, more: int, modified: float, now: float) -> bool:
        """Return whether to leave a file of that size, last written at `modified`, before `more` bytes are added."""
        if not size:
            return False
        return size + more > self.max_size or (self.max_age > 0 and modified // self.max_age < now // self.max_age)


def name_of_old(path: Path, now: float) -> Path:
    """Return the path for an old file: its name with the time (UTC), and a number if that second has others."""
    stamp = time.strftime(_STAMP, time.gmtime(now))
    taken = [number for when, number in map(_order, old_files(path)) if when == stamp]
    return path.with_name(f"{path.name}.{stamp}{f'-{max(taken) + 1}' if taken else ''}")


def old_files(path: Path) -> list[Path]:
    """Return the old files, oldest first."""
    named = (each for each in path.parent.glob(f"{escape(path.name)}.*") if _OLD.fullmatch(each.name[len(path.name) :]))
    return sorted(named, key=_order)


def _order(old: Path) -> tuple[str, int]:
    stamp, _, number = old.name.removesuffix(".gz").rpartition(".")[2].partition("-")
    return stamp, int(number or 1)


def finish(path: Path, rotation: Rotation) -> None:
    """Compress old files, and remove the oldest. A failure is retried at the next rotation."""
    if rotation.keep:
        for old in old_files(path)[: -rotation.keep]:
            with suppress(OSError):
                old.unlink()
    if rotation.compress:
        for old in old_files(path):
            if old.suffix != ".gz":
                with suppress(OSError):
                    _compress(old)


def _compress(old: Path) -> None:
    partial = old.with_name(f".{old.name}.{os.getpid()}")
    try:
        with old.open("rb") as source:
            fcntl.flock(source, fcntl.LOCK_EX)  # writers have finished by now, or use the new file
            fcntl.flock(source, fcntl.LOCK_UN)
            opened = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
            with os.fdopen(opened, "wb") as raw, gzip.GzipFile(old.name, "wb", fileobj=raw) as packed:
                shutil.copyfileobj(source, packed, _AT_ONCE)
        partial.rename(old.with_name(f"{old.name}.gz"))
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    old.unlink(missing_ok=True)
