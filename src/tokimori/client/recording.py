"""Audit entries of programs that open the store themselves, like those of doors.

Programs may change a lot: so many changes are recorded as a person can look at, and of all others their number. Runs
that are asked for are not recorded: each is a row that says itself who has asked, and when.
"""

import getpass
import os
from collections import Counter
from typing import Any, Final

from tokimori.clock import Clock
from tokimori.model.rate import Bucket, Rate
from tokimori.service.audit import Audit, record
from tokimori.service.doors.audited import Change, carried_out
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.operation import Inside

MOST: Final = Rate(limit=100, period=100 * 10**9)
"""Number of changes of one client that are recorded: a hundred after a rest, and then one in a second."""
LEFT_OUT: Final = "left_out"
"""In place of a method: changes that were too many to be recorded one by one."""


class Recorder:
    """Recorder of one client's changes, shared by its copies for other authors."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bucket = Bucket()
        self._left_out: Counter[str] = Counter()

    async def carry_out(self, jobs: Jobs[Inside], audit: Audit[Inside], change: Change) -> Any:
        """Carry out a method and return its result; a change is recorded with who, before and after, or counted."""
        if self._has_room():
            await self.record_left_out(audit)
            return await carried_out(jobs, audit, change)
        result = await change.method(*change.args, **change.kwargs)
        self._left_out[change.what] += 1
        return result

    async def record_left_out(self, audit: Audit[Inside]) -> None:
        """Record how many changes were not recorded, by method, if there were any."""
        left_out, self._left_out = self._left_out, Counter()
        if left_out:
            await record(audit, LEFT_OUT, f"{left_out.total()} changes", None, dict(left_out), event="changes.left_out")

    def _has_room(self) -> bool:
        self._bucket, wait = self._bucket.take(MOST, round(self._clock.monotonic() * 10**9))
        return wait == 0


def who(author: str | None) -> str:
    """Return the author of changes: the OS user of the program, and the name that it claims."""
    try:
        import pwd  # noqa: PLC0415  Windows has none

        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in some containers
        user = str(os.geteuid())
    except ImportError:
        user = getpass.getuser()
    return user if author in (None, user) else f"{author} ({user})"
