"""What a child gets from the keeper, and what the keeper has of one that it has begun."""

from pathlib import Path
from typing import NamedTuple


class Surroundings(NamedTuple):
    """What every child gets from the keeper: an open /dev/null, limits as the node had them, and where output goes.

    `stdin` is the input of a child in the foreground.
    """

    null: int
    stdin: int
    umask: int
    descriptors: tuple[int, int]
    runs: Path
    limit: int


class Begun(NamedTuple):
    """A process. `complaints` is the pipe in which it says why it can't begin, where that is not known yet."""

    pid: int
    complaints: int | None = None
