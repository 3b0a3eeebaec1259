"""Does what ran fit what was due? Targets are matched with starts, as Jepsen's test of Chronos does. Pure.

Each target takes one start in its window, and no start serves two. All windows are equally long, so giving each start,
in order of time, to the open target with the earliest deadline finds a matching wherever there is one. Unlike in that
test, starts that are left over are told too: they are runs too many.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tokimori.clock import Moment


@dataclass(frozen=True, slots=True)
class Match:
    """Targets without a start, and starts without a target."""

    missed: tuple[Moment, ...]
    extra: tuple[Moment, ...]


def match(targets: Iterable[Moment], starts: Iterable[Moment], window: int) -> Match:
    """Match targets with starts no earlier than they are, and at most `window` microseconds later."""
    waiting, missed, extra = deque(sorted(targets)), [], []
    for start in sorted(starts):
        while waiting and waiting[0] + window < start:
            missed.append(waiting.popleft())
        if waiting and waiting[0] <= start:
            waiting.popleft()
        else:
            extra.append(start)
    return Match((*missed, *waiting), tuple(extra))
