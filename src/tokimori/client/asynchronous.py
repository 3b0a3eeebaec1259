"""The client for asynchronous programs: all parts of the service, with locks."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial, wraps
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack, cast

from msgspec.structs import replace

from tokimori.client.facade import signature_of
from tokimori.client.locks import Locking
from tokimori.client.opening import Stores, session_on
from tokimori.client.recording import Recorder, who
from tokimori.client.transactions import add_within, check_asked, check_connection, check_job, outside_of
from tokimori.clock import Clock
from tokimori.errors import NotFound, Refused
from tokimori.locks.holdings import Wanted
from tokimori.locks.membership import Program
from tokimori.locks.session import Lock, Session
from tokimori.model.ids import RandomBytes, RunId
from tokimori.model.job import JobState
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text
from tokimori.ports.secrets import Cipher
from tokimori.ports.store import Outside
from tokimori.service.audit import Audit
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.claims.timekeeping import Timekeeper
from tokimori.service.copying import KindCopied, copy_store
from tokimori.service.definitions.arguments import Payload, RequestArguments
from tokimori.service.doors.audited import RecordedVia
from tokimori.service.jobs.requesting import RunRequests
from tokimori.service.operation import Async, Inside, Member, Part, Stream, through
from tokimori.service.schema import open_whole
from tokimori.service.service import Service, Serving, service_for
from tokimori.service.shared import Caller, shared_on
from tokimori.service.views.runs import Run as RunView
from tokimori.stores.open import open_store
from tokimori.traces.ambient import ambient, run_of_caller

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Behind(Protocol):
    """Base of a client: a store, or the door of a node."""

    session: Session

    def service(self, caller: Caller) -> Service:
        """Return the service for a caller."""
        ...

    async def open(self, client: "AsyncClient") -> None:
        """Make ready."""
        ...

    async def close(self) -> None:
        """Release and close all."""
        ...

    async def copy_to(self, url: str) -> Sequence[KindCopied]:
        """Copy everything to the store at `url`."""
        ...

    async def wanted(
        self, caller: Caller, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> tuple[Run, Outside | None]:
        """Return the run to make in the program's transaction, and the statements for it."""
        ...

    async def answering(self, run: Run, found: RunId) -> Run:
        """Return the run of that id. One made in the same transaction is invisible elsewhere, and returned as made."""
        ...


class OutsideVia:
    """The way to a part of a service for programs: they get values whose moments are datetimes."""

    whole = True

    def __init__(self, part: Part[Any]) -> None:
        self._part = part

    def __call__(self, member: Member[Any, Any, Any], _: str) -> Callable[..., Any]:
        """Return the method of the part, or one that gives what programs get."""
        method, gives = getattr(self._part, member.name), member.gives
        if gives is None:
            return cast(Callable[..., Any], method)

        @wraps(method)
        async def given(*args: object, **kwargs: object) -> Any:
            return gives(await method(*args, **kwargs))

        @wraps(method)
        async def yielded(*args: object, **kwargs: object) -> AsyncGenerator[Any, None]:
            async with aclosing(method(*args, **kwargs)) as steps:
                async for step in steps:
                    yield gives(step)

        made: Any = yielded if isinstance(member, Stream) else given
        made.__signature__ = signature_of(member)
        return cast(Callable[..., Any], made)


class AsyncClient(Serving[Async], Locking[Lock]):
    """Jobs, runs and locks of one store: `async with tokimori.open_async(url) as client:`.

    Entering opens the store, leaving closes it. With its first lock this program becomes a member of the cluster, until
    the client is closed. In a program that was started by a run, that run is the parent of the runs that it triggers.
    Its changes are in the audit log under the name of the OS user (`client/recording.py`).
    """

    def __init__(self, behind: Behind, caller: Caller) -> None:
        self._behind, self._inside = behind, behind.service(caller)

        def part_of(kind: type[Part[Any]]) -> Part[Any]:
            return through(kind, OutsideVia(getattr(self._inside, kind.noun)))

        super().__init__(self._inside._shared_or_none, self._inside._caller, part_of, partial(AsyncClient, behind))

    def within(self, connection: object) -> "AsyncWithin":
        """Return the operations that your own transaction can contain: `client.within(connection).jobs.trigger("j")`.

        The `connection` is one of sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient, SQLAlchemy or Django to the store's
        own database, in PostgreSQL, MariaDB, MySQL or SQLite. The run exists exactly if its transaction commits. Such a
        request can't `force`, `debounce`, `throttle`, `replace` or be `unique`. Errors of the driver come as they are.
        """
        check_connection(connection)
        return AsyncWithin(self, connection)

    async def copy_to(self, url: str) -> Sequence[KindCopied]:
        """Copy everything to the store at `url`, which must be empty or hold a part of this copy. See `copy_store`."""
        check_text("url", url)
        return await self._behind.copy_to(url)

    def _lock(self, wanted: Wanted) -> Lock:
        return Lock(self._behind.session, wanted)

    async def __aenter__(self) -> Self:
        """Open the store. Raises `StoreError`, and `SchemaMismatch` if its tables are too old or too new."""
        await self._behind.open(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release all locks, and close the store."""
        await self._behind.close()


class AsyncWithin:
    """A transaction of the program, in which `jobs.trigger` makes runs."""

    def __init__(self, client: AsyncClient, connection: object) -> None:
        self._client, self._connection = client, connection

    @property
    def jobs(self) -> Self:
        """Return the jobs that can be triggered."""
        return self

    async def trigger(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> RunView:
        """Request a run of a job as `jobs.trigger` does, in the transaction."""

        async def way(act: Act[_T], /) -> _T:
            return await act(self._client)

        return await trigger_within(way, self._connection, wants(job_id, key, payload, fields))


Act = Callable[[AsyncClient], Awaitable[_T]]


class Way(Protocol):
    """A way to a client, the same for blocking and for awaited calls."""

    async def __call__(self, act: Act[_T], /) -> _T:
        """Return or raise what `act` does with the client."""
        ...


async def trigger_within(way: Way, connection: Any, wanted: Act[tuple[Run, Outside | None]]) -> RunView:
    """Request a run in the transaction of the connection, whose statements run where this is called.

    `wanted` returns the run and these statements, as `wants` makes it.
    """
    run, outside = await way(wanted)
    if outside is None:
        return RunView.made(run)
    if hasattr(connection, "run_sync"):  # an asynchronous connection or session of SQLAlchemy
        found = await connection.run_sync(lambda given: add_within(given, run, outside))
    else:
        found = add_within(connection, run, outside)
    return RunView.made(await way(lambda client: client._behind.answering(run, found)))


def wants(
    job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
) -> Act[tuple[Run, Outside | None]]:
    """Return a function that returns the run which a client is to make in a transaction, and the statements."""
    return lambda client: client._behind.wanted(client._caller, job_id, key, payload, fields)


class OnStore:
    """A store that a program opens itself. One recorder records the changes of every author."""

    def __init__(
        self, stores: Stores, clock: Clock, random: RandomBytes, program: Program, cipher: Cipher | None
    ) -> None:
        self.session = session_on(stores, clock, random, program)
        self._place = ClaimPlace(stores.job, clock, random, program, timekeeper=Timekeeper(stores.job, clock, random))
        self._shared = shared_on(
            stores.job, clock, random, semaphore_store=stores.semaphore, cipher=cipher, place=self._place
        )
        self._recorder = Recorder(clock)
        self._has_warned = False
        self._log: Audit[Inside] | None = None

    def service(self, caller: Caller) -> Service:
        """Return the service for a caller."""
        caller = replace(caller, recorded_as=who(caller.author))
        shared, plain = self._shared, service_for(self._shared, caller)
        audit = plain.audit
        self._log = self._log or audit
        carry_out = partial(self._recorder.carry_out, plain.jobs, audit)

        def part_of(kind: type[Part[Any]]) -> Part[Any]:
            return through(kind, RecordedVia(getattr(plain, kind.noun), carry_out, of_requests=False))

        return Service(shared, caller, part_of, self.service)

    async def open(self, _: AsyncClient) -> None:
        """Open the store."""
        await open_whole(self._shared.store)

    async def close(self) -> None:
        """Release all locks, and close the store."""
        try:
            if self._log is not None:
                await self._recorder.record_left_out(self._log)
            await self._place.close("the program of its worker stops")
            await self.session.close()
            if self._shared.semaphore_store is not None:
                await self._shared.semaphore_store.close()
        finally:
            await self._shared.store.close()

    async def copy_to(self, url: str) -> Sequence[KindCopied]:
        """Copy everything to the store at `url`."""
        target = open_store(url, self._shared.clock)
        await target.open()
        try:
            return await copy_store(self._shared.store, target, lambda _step: None)
        finally:
            await target.close()

    async def wanted(
        self, caller: Caller, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> tuple[Run, Outside | None]:
        """Return the run to make in the program's transaction, and the statements for it.

        There are none if the key has its run already: the program's transaction may have begun before it, and would
        only lock it.
        """
        store = self._shared.store
        outside = await outside_of(store)
        if outside.driver == "sqlite" and not self._has_warned:
            self._has_warned = True
            for fault in store.faults():
                log.warning("%s", fault)
        check_asked(fields)
        _, job, run = await RunRequests(self._shared, caller).wanted(job_id, key, payload, fields)
        if job.state is not JobState.ENABLED and job.state is not JobState.FINISHED:
            raise Refused(f"the job {job_id!r} is {job.state}", field="id", value=job_id, allowed="one that is not")
        check_job(job)
        known = () if key is None else await store.runs_of(job.incarnation, [run.origin])
        if known:
            return known[0], None
        return replace(run, state=RunState.WAITING, lane=None), outside

    async def answering(self, run: Run, found: RunId) -> Run:
        """Return the run of that id. One made in the same transaction is invisible elsewhere, and returned as made."""
        if found == run.id:
            return run
        try:
            return await self._shared.store.get_run(found)
        except NotFound:
            return replace(run, id=found)


def client_on(
    stores: Stores,
    clock: Clock,
    random: RandomBytes,
    *,
    program: Program,
    time_zone: str = "UTC",
    author: str | None = None,
    cipher: Cipher | None = None,
) -> AsyncClient:
    """Return a client on these stores, which `async with` opens."""
    parent, place = run_of_caller(program.run_id), ambient(os.environ)
    caller = Caller(author=author, time_zone=time_zone, parent=parent, traceparent=place)
    return AsyncClient(OnStore(stores, clock, random, program, cipher), caller)
