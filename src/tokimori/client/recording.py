"""Audit entries of programs that open the store themselves, like those of doors.

Programs may change a lot: so many changes are recorded as a person can look at, and of all others their number. Runs
that are asked for are not recorded: each is a row that says itself who has asked, and when.
"""

import getpass
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from tokimori.clock import Clock
from tokimori.model.rate import Bucket, Rate
from tokimori.service.audit import Audit, record
from tokimori.service.audited import Change, carried_out, root_change
from tokimori.service.operation import Async
from tokimori.service.service import Service

MOST: Final = Rate(limit=100, period=100 * 10**9)
"""So many changes of one client are recorded: a hundred after a rest, and then one in a second."""
LEFT_OUT: Final = "left_out"
"""In place of a method: changes that were too many to be recorded one by one."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Behind = TypeVar("_Behind")
_is_within: ContextVar[bool] = ContextVar("tokimori_is_within", default=False)
"""Whether a change is being carried out, of which what is called now is a part."""


class Recorder:
    """Records what one client changes; its copies for other authors share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bucket = Bucket()
        self._left_out: Counter[str] = Counter()

    async def carry_out(self, client: "_Client", change: Change) -> Any:
        """Carry out a method and return its result; a change is recorded with who, before and after, or else
        counted.
        """
        if _is_within.get():
            return await change.method(*change.args, **change.kwargs)
        outside = _is_within.set(True)
        try:
            if not self._has_room():
                result = await change.method(*change.args, **change.kwargs)
                self._left_out[change.what] += 1
                return result
            await self.tell_left_out(client._log)
            return await carried_out(cast(Service, client), client._log, change)
        finally:
            _is_within.reset(outside)

    async def tell_left_out(self, audit: Audit[Async]) -> None:
        """Record how many changes were not recorded, by method, if there were any."""
        told, self._left_out = self._left_out, Counter()
        if told:
            await record(audit, LEFT_OUT, f"{told.total()} changes", None, dict(told), event="changes.left_out")

    def _has_room(self) -> bool:
        self._bucket, wait = self._bucket.take(MOST, round(self._clock.monotonic() * 10**9))
        return wait == 0


class _Client(Protocol):
    """A client that records: as whom, and with which recorder."""

    _log: Audit[Async]
    _recorder: Recorder


def recorded(
    method: Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]]:
    """Return the same method of a client, whose changes are recorded."""

    @wraps(method)
    async def changed(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        client = cast(_Client, behind)
        change = root_change(cast(Service, behind), method.__name__, partial(method, behind), args, kwargs)
        result: _T = await client._recorder.carry_out(client, change)
        return result

    return changed


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
