"""Rotation of log files: when a new one begins, and the old files that are kept."""

import fcntl
import gzip
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from tokimori.ownership import PRIVATE

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
        partial.rename(_compressed(old))
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    old.unlink(missing_ok=True)


def _compressed(old: Path) -> Path:
    return old.with_name(f"{old.name}.gz")
