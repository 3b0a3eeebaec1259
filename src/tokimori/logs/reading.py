"""Readers of the log files of nodes: the last lines, and following ones."""

import errno
import gzip
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from tokimori.logs.rotation import old_files

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
