"""The synchronous client: one generic façade over the asynchronous service, never a hand-written twin.

The service lives in a thread with an event loop of its own, which the first call starts. After a fork neither exists in
the child, so the first call there starts new ones.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from tokimori.client.asynchronous import AsyncClient
from tokimori.client.locks import SyncLock
from tokimori.client.opening import Stores, load_store, this_program
from tokimori.clock import SystemClock
from tokimori.errors import Refused
from tokimori.locks.holdings import Wanted
from tokimori.model.calendar import Calendar
from tokimori.model.ids import RandomBytes
from tokimori.model.job import Job
from tokimori.model.pause import Pause
from tokimori.model.run import Run
from tokimori.ports.store import Store
from tokimori.service.asking import MOST_LISTED
from tokimori.service.copying import KindCopied
from tokimori.service.queues import Queue
from tokimori.service.requests import Asked, Request, RequestFields
from tokimori.service.schema import open_prepared
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.service.service import Service
from tokimori.stores.open import open_store

_P = ParamSpec("_P")
_T = TypeVar("_T")


def open(
    url: str | None = None,
    *,
    time_zone: str | None = None,
    author: str | None = None,
    semaphore_store: str | None = None,
) -> "Client":
    """A client of the store at `url`; what is not given comes from the environment and the configuration file.

    `semaphore_store` is the URL of another store, in which semaphores are. Nothing is connected before the first call.
    Raises `InvalidConfig`, `InvalidInput` for a URL that names no store, and `StoreError` where its driver is not
    installed.
    """
    loaded, new_stores = load_store(url, time_zone, semaphore_store)
    return Client(new_stores, os.urandom, time_zone=loaded.settings.time_zone, author=author)


def synchronous(
    method: Callable[Concatenate[Service, _P], Awaitable[_T]],
) -> Callable[Concatenate["Client", _P], _T]:
    """The same method, for callers that wait for its result in their own thread."""

    @wraps(method)
    def call(client: "Client", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return client._run(lambda service: method(service, *args, **kwargs))

    return call


async def _add(service: Service, job_id: str | None = None, /, **fields: object) -> Job:
    """Add a job, said in the fields of `JobFields`. Raises `InvalidInput` and `AlreadyExists`."""
    return await service.add(fields, job_id)


async def _update(service: Service, job_id: str, /, **changes: object) -> Job:
    """Change fields of `JobFields`; None brings a default back. Raises `InvalidInput`, `NotFound` and `Conflict`."""
    return await service.update(job_id, changes)


async def _add_calendar(service: Service, name: str, /, **fields: object) -> Calendar:
    """Keep named days off: `dates`, `weekdays`, `description`. Raises `InvalidInput` and `AlreadyExists`."""
    return await service.calendars.add(name, fields)


async def _get_calendar(service: Service, name: str) -> Calendar:
    """The calendar. Raises `NotFound`."""
    return await service.calendars.get(name)


async def _list_calendars(service: Service) -> Sequence[Calendar]:
    """All calendars, by name."""
    return await service.calendars.list()


async def _update_calendar(service: Service, name: str, /, **changes: object) -> Calendar:
    """Change fields of a calendar; None empties one. The jobs that name it take over its days. Raises `NotFound`."""
    return await service.calendars.update(name, changes)


async def _delete_calendar(service: Service, name: str) -> None:
    """Forget a calendar. Raises `NotFound`, and `Refused` where a job names it."""
    await service.calendars.delete(name)


async def _list_semaphores(
    service: Service, after: str | None = None, limit: int = MOST_LISTED
) -> Sequence[SemaphoreDetails]:
    """Semaphores by name, those greater than `after`, with who holds what."""
    return await service.semaphores.list(after, limit)


async def _get_semaphore(service: Service, name: str) -> SemaphoreDetails:
    """The semaphore. Raises `NotFound`."""
    return await service.semaphores.get(name)


async def _set_semaphore(service: Service, name: str, limit: int) -> SemaphoreDetails:
    """Make it, or give it another limit. Raises `Refused` where somebody in its line wants more units than that."""
    return await service.semaphores.set(name, limit)


async def _delete_semaphore(service: Service, name: str) -> None:
    """Forget it. Raises `NotFound`, and `Refused` while somebody holds units or waits for them."""
    await service.semaphores.delete(name)


async def _list_queues(service: Service) -> Sequence[Queue]:
    """The queues that jobs name or that are paused, by name."""
    return await service.queues.list()


async def _pauses(service: Service) -> Sequence[Pause]:
    """What is paused; everything (`*`) comes first."""
    return await service.queues.pauses()


async def _pause_queue(service: Service, queue: str, reason: str | None = None, *, now: bool = False) -> Pause:
    """From now on nothing of the queue is claimed; with `now` what runs is cancelled, too. Raises `InvalidInput`."""
    return await service.queues.pause(queue, reason, now=now)


async def _resume_queue(service: Service, queue: str) -> Pause | None:
    """Let the queue go on; the pause that it had. Raises `InvalidInput`."""
    return await service.queues.resume(queue)


async def _pause_all(service: Service, reason: str | None = None, *, now: bool = False) -> Pause:
    """From now on nothing at all is claimed; with `now` what runs is cancelled, too."""
    return await service.queues.pause(None, reason, now=now)


async def _resume_all(service: Service) -> Pause | None:
    """Let everything go on but queues with a pause of their own; the pause that it had."""
    return await service.queues.resume(None)


async def _trigger(
    service: Service, job_id: str, key: str | None = None, payload: str | None = None, **fields: Unpack[RequestFields]
) -> Run:
    """Ask for a run, now or at a moment: `Request` says what the fields mean. Raises `InvalidInput` and `Refused`.

    The run within which this program runs is the parent, unless `parent` says another one, or None.
    """
    return (await _ask(service, job_id, key, payload, **fields)).run


async def _ask(
    service: Service, job_id: str, key: str | None = None, payload: str | None = None, **fields: Unpack[RequestFields]
) -> Asked:
    """As `trigger`, and says what became of the request."""
    fields.setdefault("parent", os.environ.get("TOKIMORI_RUN_ID"))
    return await service.ask(job_id, Request(key=key, payload=payload, **fields))


async def _copy_to(service: Service, url: str) -> Sequence[KindCopied]:
    """Copy everything to the store at `url`, which is empty or holds a part of this copy. See `copy_store`."""
    target = open_store(url, SystemClock())
    await target.open()
    try:
        return await service.copy_to(target)
    finally:
        await target.close()


class Client:
    """The service's methods, one by one, for synchronous programs. Safe to share between threads; survives a fork."""

    def __init__(
        self, stores: Callable[[], Stores], random: RandomBytes, *, time_zone: str = "UTC", author: str | None = None
    ) -> None:
        def client_on(opened: Stores) -> AsyncClient:
            return AsyncClient(
                opened.job,
                SystemClock(),
                random,
                program=this_program(os.environ),
                time_zone=time_zone,
                author=author,
                semaphore_store=opened.semaphore,
            )

        self._stores = stores
        self._client_on = client_on
        self._by_process: dict[int, _Background] = {}

    add = synchronous(_add)
    import_all = synchronous(Service.import_all)
    get = synchronous(Service.get)
    list = synchronous(Service.list)
    update = synchronous(_update)
    delete = synchronous(Service.delete)
    pause = synchronous(Service.pause)
    resume = synchronous(Service.resume)
    disable, enable = pause, resume
    resolve = synchronous(Service.resolve)
    trigger = synchronous(_trigger)
    ask = synchronous(_ask)
    backfill = synchronous(Service.backfill)
    cancel_backfill = synchronous(Service.cancel_backfill)
    next_times = synchronous(Service.next_times)
    upcoming = synchronous(Service.upcoming)
    explain = synchronous(Service.explain)
    explain_job = synchronous(Service.explain_job)
    skips = synchronous(Service.skips)
    graph = synchronous(Service.graph)
    counts = synchronous(Service.counts)
    get_run = synchronous(Service.get_run)
    list_runs = synchronous(Service.list_runs)
    cancel = synchronous(Service.cancel)
    hold = synchronous(Service.hold)
    resume_run = synchronous(Service.resume_run)
    wait = synchronous(Service.wait)
    output = synchronous(Service.output)
    add_calendar = synchronous(_add_calendar)
    get_calendar = synchronous(_get_calendar)
    list_calendars = synchronous(_list_calendars)
    update_calendar = synchronous(_update_calendar)
    delete_calendar = synchronous(_delete_calendar)
    list_semaphores = synchronous(_list_semaphores)
    get_semaphore = synchronous(_get_semaphore)
    set_semaphore = synchronous(_set_semaphore)
    delete_semaphore = synchronous(_delete_semaphore)
    list_queues = synchronous(_list_queues)
    pauses = synchronous(_pauses)
    pauses_of = synchronous(Service.pauses_of)
    too_heavy = synchronous(Service.too_heavy)
    pause_queue = synchronous(_pause_queue)
    resume_queue = synchronous(_resume_queue)
    pause_all = synchronous(_pause_all)
    resume_all = synchronous(_resume_all)
    nodes = synchronous(Service.nodes)
    schema = synchronous(Service.schema)
    migrate = synchronous(Service.migrate)
    schema_script = synchronous(Service.schema_script)
    check_schema = synchronous(Service.check_schema)
    copy_to = synchronous(_copy_to)

    def mutex(self, name: str, *, wait: float | None = None, on_lost: Callable[[], None] | None = None) -> SyncLock:
        """Hold the only unit of a semaphore while a block runs: `with client.mutex("table-x"):`. See `AsyncClient`.

        `on_lost` is called in the client's own thread.
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
    ) -> SyncLock:
        """Hold `weight` units of a semaphore while a block runs. A thread may take again what it holds."""
        wanted = Wanted(name=name, weight=weight, limit=limit, wait=wait, on_lost=on_lost)
        return SyncLock(self._run, wanted)

    def close(self) -> None:
        """Free everything. Calls of other threads that have not returned raise `Refused`."""
        background = self._by_process.get(os.getpid())
        if background is not None:
            background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, act: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
        # The parent's entry stays, unused: closing a database's files in a child would drop the parent's locks.
        process = os.getpid()
        if process not in self._by_process:
            self._by_process.setdefault(process, _Background(self._stores, self._client_on))
        return self._by_process[process].run(act)


class _Background:
    """A thread with an event loop, in which the asynchronous client lives."""

    def __init__(self, new_stores: Callable[[], Stores], new_client: Callable[[Stores], AsyncClient]) -> None:
        self._new_stores = new_stores
        self._new_client = new_client
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._client: AsyncClient | None = None
        self._calls: set[Future[Any]] = set()
        self._closed = False

    def run(self, act: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
        """What `act` returns or raises, when it is done."""
        with self._lock:
            if self._closed:
                raise Refused("this client is closed")
            loop = self._started()
            if self._client is None:
                stores = _wait(_begun(loop, self._opened()))
                self._store = stores.job
                self._client = self._new_client(stores)
            call = _begun(loop, act(self._client))
            self._calls.add(call)
        try:
            return _wait(call)
        finally:
            self._calls.discard(call)

    def close(self) -> None:
        """Close the store and end the thread; calls of other threads that still wait are given up. Idempotent."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None:
                return
            for call in list(self._calls):  # once the loop has stopped nobody would ever answer them
                call.cancel()
            if self._client is not None:
                _wait(_begun(loop, self._client.close()))
            if self._store is not None:
                _wait(_begun(loop, self._store.close()))
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="tokimori-client", daemon=True)
            self._thread.start()
        return self._loop

    async def _opened(self) -> Stores:
        stores = self._new_stores()
        await open_prepared(stores.job)
        return stores


def _begun(loop: asyncio.AbstractEventLoop, work: Awaitable[_T]) -> "Future[_T]":
    async def do() -> _T:
        return await work

    return asyncio.run_coroutine_threadsafe(do(), loop)


def _wait(future: "Future[_T]") -> _T:
    try:
        return future.result()
    except CancelledError:
        raise Refused("this client was closed meanwhile") from None
    except BaseException:  # a caller that is interrupted gives the work up
        future.cancel()
        raise
