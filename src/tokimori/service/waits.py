"""Waits for the ends of runs. Notices of the store end them, and one reading of the store for all waits together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Protocol

from tokimori.errors import RunNotEnded, StoreError, StoreUnavailable
from tokimori.model.ids import RunId
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.ports.ends import Endings
from tokimori.service.validation import Span, seconds_of

FIRST_LOOK = 0.025
"""Seconds after which a new wait is looked at: its run may have ended before any node knew that somebody waits."""
LOOKS, LOOKS_AT_MARK = 0.05, 0.02
"""Seconds between two looks if no notices come; if a mark of the store says if anything has changed, at that."""
KEEN, KEENLY = 1.0, 0.004
"""Seconds for which a new wait is one of a quick run, and between two looks at the mark meanwhile: it costs 4 µs."""
RARELY = 2.0
"""Seconds between two looks at all waits beside notices: one may be missing."""
STOPS_WITHIN = 0.5
"""Seconds after which waiting callers notice that their program stops."""
MOST = 500
"""Runs in one look."""
LONGEST_OUTAGE, AGAIN = 60.0, 0.5
"""Seconds for which a wait outlasts that nobody answers, and between two tries."""
LONGEST_WAIT = 20.0
"""Seconds of one wait at a node's door."""


class WaitStore(Endings, Protocol):
    """Questions of the waits to the store."""

    async def get_run(self, run_id: RunId) -> Run:
        """See `Runs`."""
        ...

    def mark(self) -> object:
        """See `Store`."""
        ...


class Waits:
    """Waits of one program for the ends of runs, one reader for all of them. It belongs to one loop.

    `stops` returns whether the program is about to end; then all waits return.
    """

    def __init__(self, store: WaitStore, stops: Callable[[], bool] = lambda: False) -> None:
        self._store, self._stops = store, stops
        self._bells: dict[RunId, set[asyncio.Event]] = {}
        self._new: list[RunId] = []
        self._come = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._mark: object = None

    async def ended(self, run_id: RunId, seconds: float) -> Run:
        """Return the run when it has ended, or in its present state after `seconds`. Raises `NotFound`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if seconds <= 0:
            return await self._store.get_run(run_id)
        with self._waiting(run_id) as bell:
            while True:
                bell.clear()
                run = await self._store.get_run(run_id)
                if run.state in ENDS or loop.time() >= until or self._stops():
                    return run
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await bell.wait()

    @contextmanager
    def _waiting(self, run_id: RunId) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.setdefault(run_id, set()).add(bell)
        self._new.append(run_id)
        self._come.set()
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._look_for_ends(), name="tokimori-waits")
        try:
            yield bell
        finally:
            self._bells[run_id].discard(bell)
            if not self._bells[run_id]:
                del self._bells[run_id]
            if not self._bells and self._work is not None:
                self._work.cancel()
                self._work = None

    def _ring(self, run_ids: Sequence[RunId]) -> None:
        for run_id in run_ids:
            for bell in self._bells.get(run_id, ()):
                bell.set()

    async def _look_for_ends(self) -> None:
        """Ring for runs that have ended: look at new waits soon, and at all that wait in turn."""
        loop, notifies, next_turn, keen_until = asyncio.get_running_loop(), False, 0.0, 0.0
        while True:
            ids = self._take_new()
            if ids:
                notifies, keen_until = self._store.expect(ids, self._ring), loop.time() + KEEN
                await asyncio.sleep(FIRST_LOOK if notifies or self._store.mark() is None else 0)
            else:
                await self._nap(min(STOPS_WITHIN, max(0.0, next_turn - loop.time())))
                if self._stops():
                    self._ring(list(self._bells))
            if loop.time() >= next_turn:
                ids = list(dict.fromkeys(ids + self._in_turn(notifies=notifies)))
                next_turn = loop.time() + self._between(notifies=notifies, keen=loop.time() < keen_until)
            if ids:
                with suppress(StoreError):
                    self._ring(await self._store.ended_among(ids[:MOST]))

    def _take_new(self) -> list[RunId]:
        """Return the first new waits, but those that are over."""
        new, self._new = self._new[:MOST], self._new[MOST:]
        return [run_id for run_id in new if run_id in self._bells]

    async def _nap(self, seconds: float) -> None:
        """Sleep for `seconds`, or until another caller waits."""
        self._come.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._come.wait()

    def _between(self, *, notifies: bool, keen: bool) -> float:
        """Return the seconds between two looks at those that wait longest for one."""
        if notifies:
            return RARELY / (1 + len(self._bells) // MOST)
        if self._mark is None:
            return LOOKS
        return KEENLY if keen else LOOKS_AT_MARK

    def _in_turn(self, *, notifies: bool) -> list[RunId]:
        """Return the runs that have waited longest for a look; none if nothing has changed in the store."""
        if not notifies:
            mark, self._mark = self._mark, self._store.mark()
            if mark is not None and mark == self._mark and len(self._bells) <= MOST:
                return []
        ids = list(islice(self._bells, MOST))
        for run_id in ids:
            self._bells[run_id] = self._bells.pop(run_id)
        if notifies:
            self._store.expect(ids, self._ring)
        return ids


async def wait_for_end(await_end: Callable[[str, float], Awaitable[Run]], run_id: str, timeout: Span | None) -> Run:
    """Return the run when it has ended. `await_end` waits for a number of seconds. Raises `RunNotEnded`."""
    loop = asyncio.get_running_loop()
    seconds = LONGEST_WAIT if timeout is None else seconds_of("timeout", timeout)
    ends = None if timeout is None else loop.time() + seconds
    answered = loop.time()
    while True:
        left = LONGEST_WAIT if ends is None else max(0.0, ends - loop.time())
        asked = loop.time()
        try:
            run = await await_end(run_id, min(LONGEST_WAIT, left))
        except StoreUnavailable:
            if left == 0 or loop.time() - answered > LONGEST_OUTAGE:
                raise
            await asyncio.sleep(min(AGAIN, left))
            continue
        answered = loop.time()
        if run.state in ENDS:
            return run
        if left == 0:
            message = f"the run {run_id} is still {run.state} after {round(seconds, 3):g} s"
            allowed = f"more time: it goes on, and `tokimori run why {run_id}` says what holds it"
            raise RunNotEnded(message, field="timeout", value=timeout, allowed=allowed)
        if loop.time() - asked < min(AGAIN, left):  # the store stops
            await asyncio.sleep(min(AGAIN, left))
