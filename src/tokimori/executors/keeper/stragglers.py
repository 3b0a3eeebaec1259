"""Stragglers: processes that ended commands have left, and that became the keeper's children."""

import signal
from collections.abc import Collection, Set

from .kernel import children, collect, environment, see, send
from .notes import LOCK_MARKS, MARKS

SOON = 0.2
"""Seconds for which an ended command waits for the check of other commands' stragglers."""
LATER = 5.0
"""Seconds for which it waits for the end of its own."""
_MOST = 32
"""New processes that are checked in one step: a command may leave thousands."""
_MOST_READ = 1 << 18
"""Bytes of an environment that are searched."""
_LONGEST = 512
"""Bytes of a mark."""
_NAMES = tuple(f"{name}=".encode() for name in (*MARKS, *LOCK_MARKS))


class Stragglers:
    """Processes without a parent. Each is checked once: its marks change only by its own will.

    `family` is the descriptor that lists the keeper's children, None if there is none; `session` is the keeper's.
    """

    def __init__(self, family: int | None, session: int) -> None:
        self._family = family
        self._session = session
        self._marks: dict[int, tuple[bytes, ...]] = {}

    def found(self, leaders: Set[int]) -> list[int]:
        """Return their pids, zombies included. `leaders` are the children that the keeper has started itself."""
        if self._family is None:
            return []
        return [pid for pid in children(self._family) if pid not in leaders]

    def end(self, found: Collection[int], marks: Set[bytes], leaders: Set[int]) -> float:
        """KILL stragglers with these marks, and collect dead ones; return for how many seconds to look again.

        These have left their group, but not the session: daemons have left both, and are not touched. Children of
        killed ones are orphaned by that, and found the next time.
        """
        self._marks = {pid: self._marks[pid] for pid in found if pid in self._marks}
        strangers = [pid for pid in found if pid not in self._marks]
        for pid in strangers[:_MOST]:
            self._marks[pid] = _marks_of(pid)
        killed = [pid for pid, theirs in self._marks.items() if marks <= set(theirs) and self._strays(pid, leaders)]
        for pid in killed:
            send(pid, signal.SIGKILL)
        for pid in found:
            collect(pid)
        if killed:
            return LATER
        return SOON if len(strangers) > _MOST else 0.0

    def _strays(self, pid: int, leaders: Set[int]) -> bool:
        seen = see(pid)
        return seen is not None and seen.session == self._session and seen.group not in leaders


def _marks_of(pid: int) -> tuple[bytes, ...]:
    if see(pid) is None:
        return ()
    entries = environment(pid, _MOST_READ)
    return tuple(entry for entry in entries if entry.startswith(_NAMES) and len(entry) < _LONGEST)[: len(_NAMES)]
