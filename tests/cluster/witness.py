"""A witness of attempts: each holds a locked file while its process lives, and reports a limit that is exceeded.

The kernel frees the lock with the process, however that ends. So the count is exact, whatever the clocks say. As a
program, `witness.py FOLDER SECONDS [NAME=LIMIT[:WEIGHT]…]` is the command of a job; functions call `attest`.
"""

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

BEGAN, ENDED, EXCEEDED = "began", "ended", "exceeded"


@contextmanager
def attest(folder: Path, job: str, run_id: str, attempt: int, limits: Sequence[str]) -> Iterator[None]:
    """Write that the attempt began and ended, and each limit that it saw exceeded meanwhile."""
    note(folder, BEGAN, job, run_id, str(attempt))
    with _held(folder, f"{run_id}.{attempt}", limits) as exceeded:
        for name in exceeded:
            note(folder, EXCEEDED, job, run_id, str(attempt), name)
        yield
    note(folder, ENDED, job, run_id, str(attempt))


@contextmanager
def _held(folder: Path, attempt: str, limits: Sequence[str]) -> Iterator[Sequence[str]]:
    files, exceeded = [], []
    try:
        for name, limit, weight in map(_parsed, limits):
            place = folder / "held" / name
            place.mkdir(parents=True, exist_ok=True)
            files.append(_locked(folder, place / f"{attempt}.{weight}"))
            units, holders = _units(place)
            if units > limit:
                exceeded.append(f"{name}:{units}>{limit}:{','.join(holders)}")
        yield exceeded
    finally:
        for file in files:
            file.close()


def _locked(folder: Path, path: Path) -> IO[str]:
    """Create a file that is locked before others can see it: they remove what is not."""
    hidden = folder / f"hidden.{os.getpid()}.{path.name}"
    file = hidden.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    hidden.rename(path)
    return file


def _parsed(text: str) -> tuple[str, int, int]:
    name, _, units = text.partition("=")
    limit, _, weight = units.partition(":")
    return name, int(limit), int(weight or 1)


def _units(place: Path) -> tuple[int, Sequence[str]]:
    """Return the units of all attempts whose processes live, this one included, and their names."""
    units, holders = 0, []
    for file in place.iterdir():
        try:
            with file.open() as other:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look hold up no one
        except FileNotFoundError:
            continue
        except BlockingIOError:
            units += int(file.name.rpartition(".")[2])
            holders.append(file.name)
        else:
            file.unlink(missing_ok=True)
    return units, holders


def note(folder: Path, *words: str) -> None:
    """Append a line, with the pid, in one write."""
    with (folder / "witnessed").open("a") as file:
        file.write(f"{' '.join(words)} {os.getpid()}\n")


def main(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run as the command of a job."""
    job, run_id, attempt = (environment[f"TOKIMORI_{word}"] for word in ("JOB_ID", "RUN_ID", "ATTEMPT"))
    with attest(Path(words[0]), job, run_id, int(attempt), words[2:]):
        time.sleep(float(words[1]))


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
