"""Ways of an app to its client: one blocks the caller's thread, the other is awaited on the caller's event loop."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from tokimori.apps.places import Places
from tokimori.apps.task import task_in_hand
from tokimori.client.asynchronous import Act, Way
from tokimori.client.client import Client
from tokimori.client.facade import awaited

_T = TypeVar("_T")


class Ways:
    """Ways to the client that `client` returns, one pool of connections for both: its loop has a thread of its own.

    So the caller's event loop goes on, even if the store does not answer.
    """

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self.places: Places | None = None
        """Places of the worker process that this is, if it is one."""
        self.pass_time: Callable[[str, float | None], None] | None = None
        """Lets so many seconds pass in a rehearsal, at most until a run has ended."""

    @property
    def are_counted(self) -> bool:
        """Return if the caller is a run of this worker process, whose waits are counted."""
        return self.places is not None and task_in_hand() is not None

    @contextmanager
    def waiting(self, *waits_for: str) -> Iterator[None]:
        """Wait for runs, in the context. A run that does so leaves its worker process a place: raises `Refused`."""
        task = task_in_hand()
        if task is None or self.places is None:
            yield
        else:
            with self.places.waiting(task.run_id, *waits_for):
                yield

    def blocking(self, instead: str) -> Way:
        """Return the way that waits in the calling thread. On an event loop it warns, and says what to write."""

        async def way(act: Act[_T], /) -> _T:
            return self._client()._run(act, instead)

        return way

    def warn(self, instead: str) -> None:
        """Warn once if a caller is about to block an event loop, with the call to write instead."""
        self._client()._background.warn(instead)

    async def awaiting(self, act: Act[_T], /) -> _T:
        """Await the result or error of `act`, while the caller's loop goes on."""
        return await awaited(self.begin(act))

    def begin(self, act: Act[_T]) -> "Future[_T]":
        """Begin `act` and return its future."""
        return self._client()._begin(act)


def named_elsewhere(words: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    """Return a `__getattr__` that says what to write here for the names that other libraries have."""

    def absent(it: object, name: str) -> NoReturn:
        here = f": write {words[name]}" if name in words else ""
        raise AttributeError(f"{type(it).__name__!r} object has no attribute {name!r}{here}", name=name, obj=it)

    return absent
