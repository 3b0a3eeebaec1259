"""Hooks of an app: around its worker processes, and around its functions."""

import asyncio
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, cast

from tokimori.apps.json_text import error_traceback
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput

Act = Callable[[Task], Any]
"""Does the work of a task: what it returns may have to be awaited. Raises what the function raises."""
_ROUNDS = (
    "def it(task, call) for functions, async def it(task, call) for coroutine functions, "
    "or a generator def it(task) with one yield for both"
)


class Hooks:
    """Hooks in the order of their declarations. The first `around` is the outermost, the last stop comes first."""

    def __init__(self) -> None:
        self.starts: list[Callable[[], object]] = []
        self.stops: list[Callable[[], object]] = []
        self._rounds: list[Callable[..., Any]] = []
        self._failures: list[Callable[[Task, Exception], object]] = []

    def add_around(self, hook: Callable[..., Any]) -> None:
        """Add a middleware. Raises `InvalidInput`."""
        count = 1 if inspect.isgeneratorfunction(hook) else 2
        try:
            inspect.signature(hook).bind(*range(count))
        except (TypeError, ValueError):
            message = f"around: {hook!r} can't be called with {'the task' if count == 1 else 'a task and a call'}"
            raise InvalidInput(message, field="around", value=repr(hook), allowed=_ROUNDS) from None
        if inspect.isasyncgenfunction(hook):
            message = f"around: {hook!r} is an asynchronous generator"
            raise InvalidInput(message, field="around", value=repr(hook), allowed=_ROUNDS)
        self._rounds.append(hook)

    def add_failure(self, hook: Callable[[Task, Exception], object]) -> None:
        """Add a hook that is called with each error of a function."""
        self._failures.append(hook)

    async def start(self) -> None:
        """Call the start hooks, one after the other. Their errors are raised."""
        for hook in self.starts:
            await _called(hook)

    async def stop(self) -> None:
        """Call the stop hooks, the last one first. Their errors are printed, and stop none of the others."""
        for hook in reversed(self.stops):
            try:
                await _called(hook)
            except Exception:
                traceback.print_exc(file=sys.stderr)

    def around(self, act: Act) -> Act:
        """Return the act with all that is around it; itself if nothing is."""
        if not self._rounds and not self._failures:
            return act
        if inspect.iscoroutinefunction(act):
            return partial_async(reduce(_wrapped_async, reversed(self._rounds), self._watched_async(act)))
        return reduce(_wrapped, reversed(self._rounds), self._watched(act))

    def _watched(self, act: Act) -> Act:
        def watched(task: Task) -> Any:
            try:
                return act(task)
            except Exception as error:
                for hook in self._failures:
                    with _noting(task):
                        done = hook(task, error)
                        if inspect.iscoroutine(done):
                            asyncio.run(done)
                raise

        return watched

    def _watched_async(self, act: Act) -> Act:
        async def watched(task: Task) -> Any:
            try:
                return await act(task)
            except Exception as error:
                for hook in self._failures:
                    with _noting(task):
                        await _called(partial(hook, task, error))
                raise

        return watched


@contextmanager
def _noting(task: Task) -> Any:
    """Write the error of a hook to the output of the run, whose own error counts."""
    try:
        yield
    except Exception as fault:
        task.write(error_traceback(fault))


async def _called(hook: Callable[[], object]) -> object:
    done = hook()
    return await done if inspect.isawaitable(done) else done


def partial_async(act: Act) -> Act:
    """Return the act as a coroutine function: those share the loop."""

    async def act_async(task: Task) -> Any:
        return await act(task)

    return act_async


def _wrapped(act: Act, hook: Callable[..., Any]) -> Act:
    if inspect.isgeneratorfunction(hook):
        around = contextmanager(hook)

        def within(task: Task) -> Any:
            with around(task):
                return act(task)

        return within
    return act if inspect.iscoroutinefunction(hook) else lambda task: hook(task, partial(act, task))


def _wrapped_async(act: Act, hook: Callable[..., Any]) -> Act:
    if inspect.isgeneratorfunction(hook):
        around = contextmanager(hook)

        async def within(task: Task) -> Any:
            with around(task):
                return await act(task)

        return within
    return (lambda task: hook(task, partial(act, task))) if inspect.iscoroutinefunction(hook) else act


Hook = Callable[[], object]
DJANGO = "django.db"
"""The module without which there are none."""


def hooks() -> tuple[Hook, ...]:
    """Return the hooks of now: a function may have loaded a library since the last call."""
    if DJANGO not in sys.modules:
        return ()
    db, conf = (cast("Any", sys.modules.get(f"django.{name}")) for name in ("db", "conf"))
    if conf is None or not conf.settings.configured:
        return ()
    hook: Hook | None = getattr(db, "close_old_connections", None)  # none while it is being imported
    return () if hook is None else (hook,)


def called_async(hook: Hook) -> Awaitable[object]:
    """Call a hook in the thread in which Django does what coroutines await."""
    from asgiref.sync import sync_to_async  # noqa: PLC0415  a part of Django

    called: Awaitable[object] = sync_to_async(hook, thread_sensitive=True)()
    return called
