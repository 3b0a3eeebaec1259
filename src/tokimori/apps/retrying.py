"""Trying a call again within one attempt, as Keiji's `retry` does; a job's own `attempts` begin anew on any node."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from tokimori.errors import InvalidInput
from tokimori.service.given import Span, seconds_of

_P = ParamSpec("_P")
_R = TypeVar("_R")


def retry(attempts: int = 3, delay: Span = 0.0, backoff: float = 1.0) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator: a call that raises is tried again, `attempts` times in all.

    It waits for `delay` before the second try, and `backoff` times as long before each further one. The last error is
    raised. Raises `InvalidInput`.
    """
    seconds = seconds_of("delay", delay)
    for name, value, least in (("attempts", attempts, 1), ("backoff", backoff, 1)):
        if value < least:
            raise InvalidInput(f"{name}: {value!r} is too small", field=name, value=value, allowed=f"from {least}")

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for number in range(attempts - 1):
                try:
                    return function(*args, **kwargs)
                except Exception:
                    time.sleep(seconds * backoff**number)
            return function(*args, **kwargs)

        @wraps(function)
        async def call_async(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            for number in range(attempts - 1):
                try:
                    return await cast("Awaitable[Any]", function(*args, **kwargs))
                except Exception:
                    await asyncio.sleep(seconds * backoff**number)
            return await cast("Awaitable[Any]", function(*args, **kwargs))

        return cast("Callable[_P, _R]", call_async) if inspect.iscoroutinefunction(function) else call

    return decorate
