"""The client for asynchronous programs: the service on one store, with locks."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from msgspec.structs import replace

from tokimori.client.door import is_address
from tokimori.client.locks import Locking
from tokimori.client.opening import Stores, load_store, missing_file, session_on, this_program
from tokimori.client.recording import Recorder, recorded, who
from tokimori.client.transactions import add_within, check_asked, check_connection, check_job, outside_of
from tokimori.clock import Clock, SystemClock
from tokimori.config.secrets import keyring_of
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.locks.holdings import Wanted
from tokimori.locks.lock import Lock
from tokimori.locks.program import Program
from tokimori.model.ids import RandomBytes, RunId
from tokimori.model.job import JobState
from tokimori.model.message import Message
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text
from tokimori.ports.outside import Outside
from tokimori.ports.secrets import Cipher
from tokimori.randomness import Randomness
from tokimori.service.arguments import Payload, RequestArguments
from tokimori.service.audit import Audit
from tokimori.service.audited import RecordedVia
from tokimori.service.claim_place import ClaimPlace
from tokimori.service.claims import Claims
from tokimori.service.copying import KindCopied, copy_store
from tokimori.service.given import check_author
from tokimori.service.operation import Async
from tokimori.service.schema import open_whole
from tokimori.service.service import PARTS, Service
from tokimori.service.timekeeping import Timekeeper
from tokimori.stores.open import open_store
from tokimori.traces.ambient import ambient, run_in_hand

log = logging.getLogger(__name__)


class AsyncClient(Service, Locking[Lock]):
    """Jobs, runs and locks of one store: `async with tokimori.open_async(url) as client:`.

    Entering opens the store, leaving closes it. With its first lock this program becomes a member of the cluster, until
    the client is closed. In a program that was started by a run, that run is the parent of runs for which it asks.
    What it changes is in the audit log, under the name of the OS user (`client/recording.py`).
    """

    add = recorded(Service.add)
    add_since = recorded(Service.add_since)
    import_all = recorded(Service.import_all)
    apply = recorded(Service.apply)
    update = recorded(Service.update)
    edit = recorded(Service.edit)
    refresh = recorded(Service.refresh)
    delete = recorded(Service.delete)
    delete_some = recorded(Service.delete_some)
    pause = disable = recorded(Service.pause)
    resume = enable = recorded(Service.resume)
    resolve = recorded(Service.resolve)
    rewind = recorded(Service.rewind)
    backfill = recorded(Service.backfill)
    cancel_backfill = recorded(Service.cancel_backfill)
    cancel = recorded(Service.cancel)
    hold = recorded(Service.hold)
    resume_run = recorded(Service.resume_run)
    copy_job = recorded(Service.copy_job)
    rename_job = recorded(Service.rename_job)

    _log: Audit[Async]

    def __init__(
        self,
        stores: Stores,
        clock: Clock,
        random: RandomBytes,
        *,
        program: Program,
        time_zone: str = "UTC",
        author: str | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        self._recorder = Recorder(clock)
        super().__init__(
            stores.job,
            clock,
            random,
            time_zone=time_zone,
            author=author,
            parent=run_in_hand(program.run_id),
            traceparent=ambient(os.environ),
            semaphore_store=stores.semaphore,
            cipher=cipher,
        )
        self._has_warned = False
        self._session = session_on(stores, clock, random, program)
        timekeeper = Timekeeper(stores.job, clock, random)
        self._place = ClaimPlace(stores.job, clock, random, program, timekeeper=timekeeper)
        self.claims: Claims[Async] = Claims(self._place, random)

    async def trigger(
        self,
        job_id: str,
        key: str | None = None,
        payload: Payload | None = None,
        *,
        connection: object = None,
        **fields: Unpack[RequestArguments],
    ) -> Run:
        """Ask for a run of a job, now or at a moment, as `RunService.trigger` does.

        With a `connection` of sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient, SQLAlchemy or Django the run is made in
        its transaction, and exists exactly if that commits. It has to be one to the store's own database, in
        PostgreSQL, MariaDB, MySQL or SQLite. Such a request can't `force`, `debounce`, `throttle` or `replace`. Errors
        of the driver come as they are.
        """
        if connection is None:
            return await super().trigger(job_id, key, payload, **fields)
        check_connection(connection)
        run, outside = await self._wanted_within(job_id, key, payload, fields)
        if outside is None:
            return run
        if hasattr(connection, "run_sync"):  # an asynchronous connection or session of SQLAlchemy
            found = await connection.run_sync(lambda given: add_within(given, run, outside))
        else:
            found = add_within(connection, run, outside)
        return await self._answering(run, found)

    async def _wanted_within(
        self, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> tuple[Run, Outside | None]:
        """Return the run that is to be made in a transaction of the program, and the statements for that.

        None of them where the key has its run already: of a transaction that has begun before, the program may not see
        it, and would keep it locked.
        """
        outside = await outside_of(self._store)
        if outside.driver == "sqlite" and not self._has_warned:
            self._has_warned = True
            for fault in self._store.faults():
                log.warning("%s", fault)
        check_asked(fields)
        _, job, run = await self._wanted(job_id, key, payload, fields)
        if job.state is not JobState.ENABLED and job.state is not JobState.FINISHED:
            raise Refused(f"the job {job_id!r} is {job.state}", field="id", value=job_id, allowed="one that is not")
        check_job(job)
        for known in [] if key is None else await self._store.runs_of(job.incarnation, [run.origin]):
            return known, None
        return replace(run, state=RunState.WAITING, lane=None), outside

    async def _answering(self, run: Run, found: RunId) -> Run:
        """Return the run of that id; one that was made in the same transaction nobody else sees yet."""
        if found == run.id:
            return run
        try:
            return await self._store.get_run(found)
        except NotFound:
            return replace(run, id=found)

    async def publish(self, topic: str, message: Any, key: str | None = None) -> Message:
        """Publish a message to the topic: see `Channels.publish`."""
        return await self.channels.publish(topic, message, key)

    async def subscribe(self, topic: str, name: str | None = None, after: int | None = None) -> AsyncIterator[Message]:
        """Yield the messages of the topic, for ever: see `Channels.subscribe`."""
        async with aclosing(self.channels.subscribe(topic, name, after)) as messages:
            async for message in messages:
                yield message

    def _act_as(self, author: str | None) -> None:
        super()._act_as(author)
        self._log = Audit(self._store, self._now, self._random, who(author))
        self.audit = self._log
        carry_out = partial(self._recorder.carry_out, self)
        for noun in PARTS:
            plain = getattr(self, noun)
            recorded = copy(plain)
            recorded._via = RecordedVia(plain, carry_out)
            setattr(self, noun, recorded)

    async def copy_to(self, url: str) -> Sequence[KindCopied]:
        """Copy everything to the store at `url`, which must be empty or hold a part of this copy. See `copy_store`."""
        check_text("url", url)
        target = open_store(url, self._clock)
        await target.open()
        try:
            return await copy_store(self._store, target, lambda _step: None)
        finally:
            await target.close()

    def _lock(self, wanted: Wanted) -> Lock:
        return Lock(self._session, wanted)

    async def __aenter__(self) -> Self:
        """Open the store. Raises `StoreError`, and `SchemaMismatch` if its tables are too old or too new."""
        await open_whole(self._store)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what is held, and close the store."""
        try:
            await self._recorder.tell_left_out(self._log)
            await self._place.close("the program of its worker stops")
            await self._session.close()
            if self._semaphore_store is not None:
                await self._semaphore_store.close()
        finally:
            await self._store.close()


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
    """Return a function that makes clients for the store at `url`, one for each process. Raises what `open_async`
    does.
    """
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
        return AsyncClient(
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
    from tokimori.client.over_http import HttpClient, new_door  # noqa: PLC0415  it is a client, too

    if semaphore_store is not None:
        message = "semaphore_store: a node has one of its own settings; over HTTP none can be named"
        raise InvalidInput(message, field="semaphore_store", value=semaphore_store, allowed="None with http://")
    door = new_door(url, time_zone, author)
    return lambda: HttpClient(door())
