"""`with`: units of a semaphore for as long as a block of a synchronous program runs."""

import os
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeVar

from tokimori.client.asynchronous import AsyncClient
from tokimori.errors import PermitLost
from tokimori.locks.holdings import Held, Wanted

_T = TypeVar("_T")


class Runner(Protocol):
    """Runs something of the asynchronous client, and waits for it in the caller's thread."""

    def __call__(self, act: Callable[[AsyncClient], Awaitable[_T]], /) -> _T:
        """What `act` returns or raises."""
        ...


class SyncLock:
    """Holds the units between enter and exit. It may be used again and again, nested and by many threads at once."""

    def __init__(self, run: Runner, wanted: Wanted) -> None:
        self._run = run
        self._wanted = wanted
        self._process = os.getpid()

    def __enter__(self) -> Held:
        """Raises what `Session.acquire` does."""
        self._process = os.getpid()
        thread = threading.current_thread()
        return self._run(lambda client: client.session.acquire(self._wanted, thread))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises `PermitLost`, unless the block has raised something itself."""
        if os.getpid() != self._process:
            return  # a child that was forked within the block: its parent holds the units
        thread = threading.current_thread()
        try:
            self._run(lambda client: client.session.release(thread, self._wanted.name))
        except PermitLost:
            if error is None:
                raise
