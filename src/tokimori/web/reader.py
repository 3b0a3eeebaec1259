"""The reader of a page: his name, and what he may do there."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from tokimori.clock import Clock
from tokimori.model.access_token import Role
from tokimori.service.service import table
from tokimori.service.sight import WHOLE, Access

SHARE: Final = 20
"""An answer is kept for so many times as long as it took: to find it anew costs at most a twentieth of the time."""
LONGEST: Final = 30.0
"""Seconds."""
MOST: Final = 200

_T = TypeVar("_T")


class _Answer(NamedTuple):
    """An answer, and until when it is kept; None: it is not there yet."""

    found: "asyncio.Future[Any]"
    until: float | None


class Kept:
    """Answers by question. In a small store all are found anew each time; in a large one they may be seconds old."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    async def get(self, question: Hashable, find: Callable[[], Awaitable[_T]], least: float = 0) -> _T:
        """Return the answer, which is kept for `least` seconds at least. Concurrent callers wait for the same one."""
        known = self._answers.get(question)
        if known is None or (known.until is not None and self._clock.monotonic() >= known.until):
            known = _Answer(asyncio.ensure_future(self._find(question, find, least)), None)
            self._answers[question] = known
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
        answer: _T = await asyncio.shield(known.found)
        return answer

    async def _find(self, question: Hashable, find: Callable[[], Awaitable[_T]], least: float) -> _T:
        began, mine = self._clock.monotonic(), asyncio.current_task()
        lasts = 0.0
        try:
            found = await find()
            lasts = max(min((self._clock.monotonic() - began) * SHARE, LONGEST), least)
            return found
        finally:
            known = self._answers.get(question)
            if known is not None and known.found is mine:
                self._answers[question] = known._replace(until=self._clock.monotonic() + lasts)

    def forget(self) -> None:
        """Forget all: something was changed here."""
        self._answers.clear()


@lru_cache(maxsize=1)
def _roles() -> Mapping[str, Role]:
    """Return the role that each operation needs."""
    return MappingProxyType({name: each.role for name, each in table().items()})


@lru_cache(maxsize=1)
def _of_everybody() -> frozenset[str]:
    """Return the operations on shared things, to which a token for some jobs or queues has no right."""
    return frozenset(name for name, each in table().items() if each.reach is WHOLE)


_AS: Final[Mapping[str, str]] = MappingProxyType(
    {"notifiers.add": "jobs.add", "notifiers.delete": "jobs.delete", "notifiers.test": "jobs.trigger"}
)
"""Acts that are called otherwise than the operation whose role they need."""


class Reader(NamedTuple):
    """Reader with his rights. The service refuses what he may not do; the page draws it as forbidden."""

    access: Access

    @property
    def name(self) -> str:
        """Return his name as the audit log records it."""
        return self.access.author or "owner"

    @property
    def role(self) -> Role:
        """Return his role."""
        return self.access.role

    def lacks(self, operation: str) -> Role | None:
        """Return the role that he lacks for an operation such as `jobs.pause`; None if he may do it."""
        role = _roles()[_AS.get(operation, operation)]
        return None if self.role.includes(role) and not self._is_barred(operation) else role

    def _is_barred(self, operation: str) -> bool:
        return not self.access.scope.is_everything and operation in _of_everybody()

    def needs(self, operation: str) -> str:
        """Return the right for an operation that he lacks, in words."""
        name = _AS.get(operation, operation)
        if self.role.includes(_roles()[name]) and self._is_barred(name):
            return "a token of all jobs and queues"
        return f"the role `{_roles()[name]}`"

    def lacking(self, operations: Iterable[str]) -> Sequence[str]:
        """Return the operations for which he lacks the right."""
        return [each for each in operations if self.lacks(each) is not None]
