"""Locks for `async with`: they hold units of a semaphore while a block of code runs."""

import asyncio
from types import TracebackType

from tokimori.errors import PermitLost, Refused
from tokimori.locks.holdings import Held, Owner, Wanted
from tokimori.locks.session import Session


class Lock:
    """A lock that holds units between enter and exit. It may be used repeatedly, nested and by many tasks."""

    def __init__(self, session: Session, wanted: Wanted) -> None:
        self._session = session
        self._wanted = wanted

    async def __aenter__(self) -> Held:
        """Acquire the units. Raises what `Session.acquire` does."""
        return await self._session.acquire(self._wanted, _task())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the units. Raises `PermitLost`, unless the block has raised an error itself."""
        try:
            await self._session.release(_task(), self._wanted.name)
        except PermitLost:
            if error is None:
                raise


def _task() -> Owner:
    task = asyncio.current_task()
    if task is None:
        raise Refused("semaphore: only a task can hold one: enter the block within a task")
    return task
