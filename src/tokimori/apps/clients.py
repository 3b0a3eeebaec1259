"""Ways of an app to its client: one blocks the caller, the other is awaited; and the places of runs that wait so."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import NoReturn, TypeVar

from tokimori.apps.task import task_in_hand
from tokimori.client.asynchronous import Act, Way
from tokimori.client.client import Client
from tokimori.client.facade import awaited
from tokimori.errors import Refused

_MORE = "more places (app.concurrency); or a job that names the other one in `parents`"


class Places:
    """Places of a worker process.

    Runs that wait for other runs may hold all but one of them. The last place keeps each process able to begin the runs
    that are waited for.
    """

    def __init__(self, number: int, allowed: str = _MORE) -> None:
        self._number, self._allowed = number, allowed
        self._lock = Lock()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def waiting(self, run_id: str, *waits_for: str) -> Iterator[None]:
        """Count the run among those that wait, while the context lasts.

        Raises `Refused` for the last place, and for a run that waits for itself.
        """
        if run_id in waits_for:
            raise Refused(
                f"the run {run_id} can't wait for its own end",
                field="run",
                value=run_id,
                allowed="another run: `tokimori.current_task().run_id` is the one that is running",
            )
        with self._lock:
            if run_id not in self._waiting and len(self._waiting) + 1 >= self._number:
                raise Refused(
                    f"the run {run_id} can't wait for the run {waits_for[0]}, which may need the last free place of "
                    f"this worker process: runs that wait hold {len(self._waiting)} of {self._number}",
                    field="run",
                    value=waits_for[0],
                    allowed=self._allowed,
                )
            self._waiting[run_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[run_id] -= 1
                if not self._waiting[run_id]:
                    del self._waiting[run_id]


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
        """Function that lets these seconds pass in a rehearsal, at most until a run has ended."""

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
