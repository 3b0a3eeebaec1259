"""Mutexes and semaphores of both clients, and locks for `with`: they hold units while a block of code runs."""

import os
import threading
from abc import abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from tokimori.client.facade import Runner
from tokimori.errors import PermitLost
from tokimori.locks.holdings import Held, Wanted
from tokimori.locks.session import Session
from tokimori.service.validation import Span, seconds_of

_Lock = TypeVar("_Lock")


class Locking(Generic[_Lock]):
    """The methods that make locks, for `with` or `async with`."""

    def mutex(self, name: str, *, wait: Span | None = None, on_lost: Callable[[], None] | None = None) -> _Lock:
        """Hold the only unit of a semaphore while a block runs: `with client.mutex("table-x"):`.

        `wait` is in seconds or a timedelta; None means as long as it takes. Entering raises `NotGranted` (not in time),
        `Refused` (the semaphore has another limit) and `InvalidInput`; leaving raises `PermitLost`. `on_lost` is called
        on the client's loop as soon as the unit is lost.
        """
        return self.semaphore(name, limit=1, wait=wait, on_lost=on_lost)

    def semaphore(
        self,
        name: str,
        *,
        limit: int | None = None,
        weight: int = 1,
        wait: Span | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> _Lock:
        """Hold `weight` units of a semaphore while a block runs.

        A missing semaphore is made with `limit` units. Everything else is as with `mutex`. The block gets an object
        with a `token`, which grows with each grant, and `lost`. A thread or task may enter a semaphore again that it
        holds.
        """
        seconds = None if wait is None else seconds_of("wait", wait)
        return self._lock(Wanted(name=name, weight=weight, limit=limit, wait=seconds, on_lost=on_lost))

    @abstractmethod
    def _lock(self, wanted: Wanted) -> _Lock:
        """Return a lock that holds the units while a block runs."""


class SyncLock:
    """A lock that holds units between enter and exit. It may be used repeatedly, nested and by many threads."""

    def __init__(self, run: Runner[Session], wanted: Wanted) -> None:
        self._run = run
        self._wanted = wanted
        self._process = os.getpid()

    def __enter__(self) -> Held:
        """Acquire the units. Raises what `Session.acquire` does."""
        self._process = os.getpid()
        thread = threading.current_thread()
        return self._run(lambda session: session.acquire(self._wanted, thread))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the units. Raises `PermitLost`, unless the block has raised an error itself."""
        if os.getpid() != self._process:
            return  # a child that was forked within the block: its parent holds the units
        thread = threading.current_thread()
        try:
            self._run(lambda session: session.release(thread, self._wanted.name))
        except PermitLost:
            if error is None:
                raise
