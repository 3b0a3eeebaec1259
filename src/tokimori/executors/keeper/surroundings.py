"""Surroundings of a child: what it gets from the keeper, and its process."""

from pathlib import Path
from typing import NamedTuple


class Surroundings(NamedTuple):
    """Setting of every child: an open /dev/null, limits as the node had them, and where output goes.

    `stdin` is the input of a child in the foreground.
    """

    null: int
    stdin: int
    umask: int
    descriptors: tuple[int, int]
    runs: Path
    limit: int


class Begun(NamedTuple):
    """A process. `complaints` is the pipe in which it may report why it can't begin."""

    pid: int
    complaints: int | None = None
