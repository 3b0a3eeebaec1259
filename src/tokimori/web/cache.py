"""Cache of answers that were costly to find, for readers who ask soon afterwards."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar

from tokimori.clock import Clock

SHARE: Final = 20
"""Factor by which an answer lives longer than it took: to find it anew costs at most a twentieth of the time."""
SELDOM: Final = 400
"""The same factor for answers that change seldom, and mostly here: acts forget all answers."""
LONGEST: Final = 30.0
"""Seconds."""
MOST: Final = 200

_T = TypeVar("_T")


class _Answer(NamedTuple):
    """An answer, and until when it is kept; None: it is not there yet."""

    found: "asyncio.Future[Any]"
    until: float | None


class AnswerCache:
    """Answers by question. In a small store all are found anew each time; in a large one they may be seconds old."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    async def get(
        self, question: Hashable, find: Callable[[], Awaitable[_T]], least: float = 0, share: int = SHARE
    ) -> _T:
        """Return the answer, which is kept for `least` seconds at least, and `share` times as long as it took.

        Concurrent callers wait for the same one.
        """
        known = self._answers.get(question)
        if known is None or (known.until is not None and self._clock.monotonic() >= known.until):
            known = _Answer(asyncio.ensure_future(self._find(question, find, least, share)), None)
            self._answers[question] = known
            self._drop_old()
        answer: _T = await asyncio.shield(known.found)
        return answer

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        for old in [each for each, known in self._answers.items() if known.until is not None and now >= known.until]:
            del self._answers[old]
        while len(self._answers) > MOST:
            self._answers.popitem(last=False)

    async def _find(self, question: Hashable, find: Callable[[], Awaitable[_T]], least: float, share: int) -> _T:
        began, mine = self._clock.monotonic(), asyncio.current_task()
        lasts = 0.0
        try:
            found = await find()
            lasts = max(min((self._clock.monotonic() - began) * share, LONGEST), least)
            return found
        finally:
            known = self._answers.get(question)
            if known is not None and known.found is mine:
                self._answers[question] = known._replace(until=self._clock.monotonic() + lasts)

    def forget(self) -> None:
        """Forget all: something was changed here."""
        self._answers.clear()
