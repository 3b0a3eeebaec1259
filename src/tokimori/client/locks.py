"""What both clients offer of semaphores, and `with`: units of one for as long as a block of a program runs."""

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

_Lock = TypeVar("_Lock")


class Locking(Generic[_Lock]):
    """Mutexes and semaphores, for `with` or `async with`."""

    def mutex(self, name: str, *, wait: float | None = None, on_lost: Callable[[], None] | None = None) -> _Lock:
        """Hold the only unit of a semaphore while a block runs: `with client.mutex("table-x"):`.

        `wait`: seconds, None for as long as it takes. Entering raises `NotGranted` (not in time), `Refused` (its limit
        is another one) and `InvalidInput`; leaving raises `PermitLost`. `on_lost` is called at once when it is lost, on
        the client's loop.
        """
        return self.semaphore(name, limit=1, wait=wait, on_lost=on_lost)

    def semaphore(
        self,
        name: str,
        *,
        limit: int | None = None,
        weight: int = 1,
        wait: float | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> _Lock:
        """Hold `weight` units of a semaphore while a block runs; made with `limit` units if nobody has made it yet.

        Otherwise like `mutex`; what the block gets has a `token`, which grows with each grant, and says whether it is
        `lost`. A thread or task may take again what it holds.
        """
        return self._lock(Wanted(name=name, weight=weight, limit=limit, wait=wait, on_lost=on_lost))

    @abstractmethod
    def _lock(self, wanted: Wanted) -> _Lock:
        """What holds the units while a block runs."""


class SyncLock:
    """Holds the units between enter and exit. It may be used again and again, nested and by many threads at once."""

    def __init__(self, run: Runner[Session], wanted: Wanted) -> None:
        self._run = run
        self._wanted = wanted
        self._process = os.getpid()

    def __enter__(self) -> Held:
        """Raises what `Session.acquire` does."""
        self._process = os.getpid()
        thread = threading.current_thread()
        return self._run(lambda session: session.acquire(self._wanted, thread))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises `PermitLost`, unless the block has raised something itself."""
        if os.getpid() != self._process:
            return  # a child that was forked within the block: its parent holds the units
        thread = threading.current_thread()
        try:
            self._run(lambda session: session.release(thread, self._wanted.name))
        except PermitLost:
            if error is None:
                raise
