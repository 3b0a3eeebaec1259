"""The line that `ps` shows of a worker process: what it runs, at most half a second late."""

import asyncio
from collections.abc import Mapping
from itertools import islice

from tokimori.apps.attempt import RunningAttempt
from tokimori.executors.keeper.kernel import Title

EVERY = 0.5
"""Seconds between two looks, while it does something."""
_SHOWN = 3


class WorkerTitle:
    """Shows the runs among `attempts`, by number; `name` says which worker process of which app this is."""

    def __init__(self, name: str, attempts: Mapping[int, RunningAttempt], loop: asyncio.AbstractEventLoop) -> None:
        self._name, self._attempts, self._loop = name, attempts, loop
        self._title, self._waits = Title(), False
        self._show()

    def touch(self) -> None:
        """Look soon: something may have begun."""
        if not self._waits:
            self._waits = True
            self._loop.call_later(EVERY, self._show)

    def _show(self) -> None:
        runs = [f"{each.begin.job_id} {each.begin.run_id}" for each in islice(self._attempts.values(), _SHOWN)]
        more = len(self._attempts) - len(runs)
        told = ", ".join([*runs, *([f"{more} more"] if more else [])])
        self._title.show(f"tokimori: worker {self._name}: {told or 'idle'}")
        self._waits = False
        if self._attempts:
            self.touch()
