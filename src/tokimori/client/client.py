"""The client for synchronous programs: the parts of the asynchronous one, which return when they are done.

Both clients are opened here.
"""

import logging
import os
from collections.abc import Callable, Sequence
from copy import copy
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from tokimori.client.asynchronous import Act, AsyncClient, client_on, trigger_within, wants
from tokimori.client.door import is_address
from tokimori.client.facade import ASYNC_CLIENT, Background, Beginner, Runner, SyncVia, done
from tokimori.client.locks import Locking, SyncLock
from tokimori.client.opening import load_store, missing_file, this_program
from tokimori.client.transactions import check_connection
from tokimori.clock import SystemClock
from tokimori.config.secrets import keyring_of
from tokimori.errors import InvalidInput
from tokimori.locks.holdings import Wanted
from tokimori.model.words import check_text
from tokimori.randomness import Randomness
from tokimori.service.copying import KindCopied
from tokimori.service.definitions.arguments import Payload, RequestArguments
from tokimori.service.operation import Part, Sync, through
from tokimori.service.service import Parts
from tokimori.service.validation import check_author
from tokimori.service.views.runs import Run

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Client(Parts[Sync], Locking[SyncLock]):
    """Jobs, runs and locks of one store: `with tokimori.open(url) as client:`. See `AsyncClient`.

    It may be shared between threads, and survives a fork.
    """

    def __init__(self, new_client: Callable[[], AsyncClient]) -> None:
        self._background = Background(new_client)
        self._act_through(self._background.run, self._background.begin)

    def _act_through(self, run: Runner[AsyncClient], begin: Beginner[AsyncClient]) -> None:
        self._run, self._begin = run, begin

        def part_of(kind: type[Part[Any]]) -> Part[Any]:
            def behind(act: Callable[[Any], Any], instead: str = ASYNC_CLIENT) -> Any:
                return run(lambda client: act(getattr(client, kind.noun)), instead)

            return through(kind, SyncVia(behind))

        self._take(part_of)

    def within(self, connection: object) -> "Within":
        """See `AsyncClient.within`. The statements run in this thread: a connection is for the one that opened it."""
        check_connection(connection)
        return Within(self, connection)

    def copy_to(self, url: str) -> Sequence[KindCopied]:
        """See `AsyncClient.copy_to`."""
        return self._run(lambda client: client.copy_to(url))

    @property
    def time_zone(self) -> str:
        """Return the time zone of jobs that do not name one."""

        async def zone(client: AsyncClient) -> str:
            return client.time_zone

        return self._run(zone)

    def acting_as(self, author: str | None) -> Self:
        """Return the same client with another author for its orders. Nothing is opened."""
        check_author(author)
        run, begin, other = self._run, self._begin, copy(self)
        other._act_through(
            lambda act, instead=ASYNC_CLIENT: run(lambda client: act(client.acting_as(author)), instead),
            lambda act: begin(lambda client: act(client.acting_as(author))),
        )
        return other

    def _lock(self, wanted: Wanted) -> SyncLock:
        return SyncLock(
            lambda act, instead=ASYNC_CLIENT: self._run(lambda client: act(client._behind.session), instead), wanted
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release all locks, and close the store. Calls of other threads that have not returned raise `Refused`."""
        self._background.close()


class Within:
    """A transaction of the program, in which `jobs.trigger` makes runs."""

    def __init__(self, client: Client, connection: object) -> None:
        self._run, self._connection = client._run, connection

    @property
    def jobs(self) -> Self:
        """Return the jobs that can be triggered."""
        return self

    def trigger(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> Run:
        """Request a run of a job as `jobs.trigger` does, in the transaction."""

        async def way(act: Act[_T], /) -> _T:
            return self._run(act)

        return done(trigger_within(way, self._connection, wants(job_id, key, payload, fields)))


def open(
    url: str | None = None,
    *,
    time_zone: str | None = None,
    author: str | None = None,
    semaphore_store: str | None = None,
) -> Client:
    """Return a client for the store at `url`. Arguments that are not given come from the environment and the settings.

    `semaphore_store` is the URL of a separate store for semaphores. Nothing is connected before the first call, which
    also creates a missing SQLite file, with a warning in the log. Raises `InvalidConfig`, `InvalidInput` for a URL that
    names no store, and `StoreError` if its driver is not installed.
    """
    return Client(client_maker(url, time_zone=time_zone, author=author, semaphore_store=semaphore_store))


def open_async(
    url: str | None = None,
    *,
    time_zone: str | None = None,
    author: str | None = None,
    semaphore_store: str | None = None,
) -> AsyncClient:
    """Return a client for the store at `url` in asynchronous programs, which `async with` opens; else like
    `tokimori.open`.

    An SQLite file that does not exist is made, as `sqlite3.connect` does, and a warning is logged.

    Raises `InvalidConfig`, `InvalidInput` for a URL that names no store, and `StoreError` if its driver is not
    installed.
    """
    return client_maker(url, time_zone=time_zone, author=author, semaphore_store=semaphore_store)()


def client_maker(
    url: str | None, *, time_zone: str | None, author: str | None, semaphore_store: str | None
) -> Callable[[], AsyncClient]:
    """Return a function that makes clients for the store at `url`, one a process. Raises what `open_async` does."""
    for name, given in (("url", url), ("time_zone", time_zone), ("semaphore_store", semaphore_store)):
        if given is not None:
            check_text(name, given)
    check_author(author)
    if url is not None and is_address(url):
        return _http_maker(url, time_zone, author, semaphore_store)
    loaded, new_stores = load_store(url, time_zone, semaphore_store)

    def new() -> AsyncClient:
        if (file := missing_file(loaded.settings.job_store)) is not None:
            log.warning("the store %s does not exist: it is made, and is empty", file)
        return client_on(
            new_stores(),
            SystemClock(),
            Randomness(),
            program=this_program(os.environ),
            time_zone=loaded.settings.time_zone,
            author=author,
            cipher=keyring_of(loaded.settings.secrets, os.environ),
        )

    return new


def _http_maker(
    url: str, time_zone: str | None, author: str | None, semaphore_store: str | None
) -> Callable[[], AsyncClient]:
    from tokimori.client.over_http import http_maker  # noqa: PLC0415  a program on a store needs none of it

    if semaphore_store is not None:
        message = "semaphore_store: a node has one of its own settings; over HTTP none can be named"
        raise InvalidInput(message, field="semaphore_store", value=semaphore_store, allowed="None with http://")
    return http_maker(url, time_zone, author)
