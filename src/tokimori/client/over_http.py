"""The client over the HTTP door of a node: each method is the one of the client on a store, by name."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, Self, TypeVar, Unpack, cast

from tokimori.client.asynchronous import AsyncClient
from tokimori.client.door import Door, address_of
from tokimori.client.opening import this_program
from tokimori.config.settings import load_settings
from tokimori.errors import Refused, TokimoriError
from tokimori.locks.holdings import Held, Owner, Wanted
from tokimori.locks.session import Session
from tokimori.model.ids import check_uuid
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.schedules.zones import check_zone
from tokimori.service.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.calls import Method
from tokimori.service.channels.channels import Channels
from tokimori.service.claims import Claims
from tokimori.service.events.events import Events
from tokimori.service.expectations import Expectations
from tokimori.service.given import Span, check_author, many, seconds_of
from tokimori.service.many import after, batches, read_many
from tokimori.service.orders import Orders
from tokimori.service.queues import Queues
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores
from tokimori.service.tasks import Tasks
from tokimori.service.tokens import Tokens

POLL = 0.25
"""Seconds between two looks at a run for which somebody waits."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Behind = TypeVar("_Behind")


class _Calling(Protocol):
    async def _call(self, method: Method, args: tuple[object, ...], kwargs: dict[str, object]) -> Any: ...


def asked(
    method: Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]]:
    """The same method, carried out by a node."""

    @wraps(method)
    async def call(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result: _T = await cast(_Calling, behind)._call(method, args, kwargs)
        return result

    return call


def not_offered(
    method: Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]]:
    """The same method, which needs the store itself."""

    @wraps(method)
    async def call(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        raise needs_the_store(method.__name__)

    return call


def needs_the_store(what: str) -> Refused:
    """The answer to who asks for what no door offers."""
    return Refused(
        f"{what}: a node's door does not offer this; open the store itself, by its URL",
        field="url",
        allowed="the URL of a store, such as sqlite:///PATH or postgresql://HOST/NAME",
    )


class HttpCalendars(Calendars):
    """See `Calendars`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("calendars")

    add = asked(Calendars.add)
    get = asked(Calendars.get)
    list = asked(Calendars.list)
    update = asked(Calendars.update)
    delete = asked(Calendars.delete)
    jobs = asked(Calendars.jobs)


class HttpChannels(Channels):
    """See `Channels`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("channels")

    publish = asked(Channels.publish)
    read = asked(Channels.read)
    acknowledge = asked(Channels.acknowledge)
    forget = asked(Channels.forget)


class HttpClaims(Claims):
    """See `Claims`: the place is the node's door."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("claims")

    claim = asked(Claims.claim)
    heartbeat = asked(Claims.heartbeat)
    finish = asked(Claims.finish)
    fail = asked(Claims.fail)
    retry = asked(Claims.retry)
    release = asked(Claims.release)
    hold = asked(Claims.hold)


class HttpOrders(Orders):
    """See `Orders`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("orders")

    restart = asked(Orders.restart)
    signal = asked(Orders.signal)
    restart_job = asked(Orders.restart_job)
    cancel_job = asked(Orders.cancel_job)
    drain = asked(Orders.drain)
    resume = asked(Orders.resume)
    stop = asked(Orders.stop)


class HttpQueues(Queues):
    """See `Queues`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("queues")

    list = asked(Queues.list)
    get = asked(Queues.get)
    pauses = asked(Queues.pauses)
    pause = asked(Queues.pause)
    resume = asked(Queues.resume)


class HttpSecrets(Secrets):
    """See `Secrets`: the keys are the node's."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("secrets")

    set = asked(Secrets.set)
    list = asked(Secrets.list)
    delete = asked(Secrets.delete)
    rotate = asked(Secrets.rotate)


class HttpSemaphores(Semaphores):
    """See `Semaphores`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("semaphores")

    list = asked(Semaphores.list)
    get = asked(Semaphores.get)
    set = asked(Semaphores.set)
    delete = asked(Semaphores.delete)


class HttpAudit(Audit):
    """See `Audit`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("audit")

    list = asked(Audit.list)


class HttpTasks(Tasks):
    """See `Tasks`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("tasks")

    put_piece = asked(Tasks.put_piece)
    build = asked(Tasks.build)
    builds = asked(Tasks.builds)
    rollback = asked(Tasks.rollback)
    list = asked(Tasks.list)
    get = asked(Tasks.get)
    state = asked(Tasks.state)
    disable = asked(Tasks.disable)
    enable = asked(Tasks.enable)
    resolve = asked(Tasks.resolve)
    restart = asked(Tasks.restart)
    delete = asked(Tasks.delete)
    log = asked(Tasks.log)


class HttpEvents(Events):
    """See `Events`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("events")

    read = asked(Events.read)


class HttpExpectations(Expectations):
    """See `Expectations`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("expectations")

    set = asked(Expectations.set)
    get = asked(Expectations.get)
    list = asked(Expectations.list)
    delete = asked(Expectations.delete)


class HttpTokens(Tokens):
    """See `Tokens`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("tokens")

    create = asked(Tokens.create)
    list = asked(Tokens.list)
    revoke = asked(Tokens.revoke)


class _NoSession:
    """Where nothing can be locked."""

    async def acquire(self, wanted: Wanted, _owner: Owner) -> Held:
        """Raises `Refused`."""
        raise needs_the_store(f"the semaphore {wanted.name}")


class HttpClient(AsyncClient):
    """See `AsyncClient`. `door` is that of a node."""

    def __init__(self, door: Door) -> None:
        self.time_zone = door.time_zone or ""
        self._through(door)

    def _through(self, door: Door) -> None:
        self._door = door
        self._session = cast(Session, _NoSession())
        self._call = door.part("")
        self.calendars = HttpCalendars(door)
        self.channels = HttpChannels(door)
        self.claims = HttpClaims(door)
        self.orders = HttpOrders(door)
        self.queues = HttpQueues(door)
        self.secrets = HttpSecrets(door)
        self.semaphores = HttpSemaphores(door)
        self.tasks = HttpTasks(door)
        self.tokens = HttpTokens(door)
        self.expectations = HttpExpectations(door)
        self.audit = HttpAudit(door)
        self.events = HttpEvents(door)

    add = asked(AsyncClient.add)
    add_since = asked(AsyncClient.add_since)
    import_all = asked(AsyncClient.import_all)
    get = asked(AsyncClient.get)
    list = asked(AsyncClient.list)
    apply = asked(AsyncClient.apply)
    resources = asked(AsyncClient.resources)
    update = asked(AsyncClient.update)
    edit = asked(AsyncClient.edit)
    refresh = asked(AsyncClient.refresh)
    delete = asked(AsyncClient.delete)
    delete_all = AsyncClient.delete_all
    delete_some = asked(AsyncClient.delete_some)
    pause = disable = asked(AsyncClient.pause)
    resume = enable = asked(AsyncClient.resume)
    resolve = asked(AsyncClient.resolve)
    _trigger = asked(AsyncClient.trigger)
    ask = asked(AsyncClient.ask)
    _trigger_many = asked(AsyncClient.trigger_many)
    backfill = asked(AsyncClient.backfill)
    cancel_backfill = asked(AsyncClient.cancel_backfill)
    next_times = asked(AsyncClient.next_times)
    upcoming = asked(AsyncClient.upcoming)
    explain = asked(AsyncClient.explain)
    explain_job = asked(AsyncClient.explain_job)
    shown = asked(AsyncClient.shown)
    pauses_of = asked(AsyncClient.pauses_of)
    too_heavy = asked(AsyncClient.too_heavy)
    skips = asked(AsyncClient.skips)
    ledger = asked(AsyncClient.ledger)
    verify = asked(AsyncClient.verify)
    statistics = asked(AsyncClient.statistics)
    graph = asked(AsyncClient.graph)
    counts = asked(AsyncClient.counts)
    get_run = asked(AsyncClient.get_run)
    why_run = asked(AsyncClient.why_run)
    why_job = asked(AsyncClient.why_job)
    find_jobs = asked(AsyncClient.find_jobs)
    find_runs = asked(AsyncClient.find_runs)
    list_runs = asked(AsyncClient.list_runs)
    last_runs = asked(AsyncClient.last_runs)
    summaries = asked(AsyncClient.summaries)
    cancel = asked(AsyncClient.cancel)
    hold = asked(AsyncClient.hold)
    resume_run = asked(AsyncClient.resume_run)
    retry_run = asked(AsyncClient.retry_run)
    copy_job = asked(AsyncClient.copy_job)
    rename_job = asked(AsyncClient.rename_job)
    publish, subscribe = AsyncClient.publish, AsyncClient.subscribe
    output = asked(AsyncClient.output)
    now = asked(AsyncClient.now)
    ping = asked(AsyncClient.ping)
    alarms = asked(AsyncClient.alarms)
    nodes = asked(AsyncClient.nodes)
    doctor = asked(AsyncClient.doctor)
    schema = asked(AsyncClient.schema)
    migrate = not_offered(AsyncClient.migrate)
    schema_script = not_offered(AsyncClient.schema_script)
    check_schema = not_offered(AsyncClient.check_schema)
    copy_to = not_offered(AsyncClient.copy_to)

    async def trigger(
        self,
        job_id: str,
        key: str | None = None,
        payload: Payload | None = None,
        *,
        connection: object = None,
        **fields: Unpack[RequestArguments],
    ) -> Run:
        """See `AsyncClient.trigger`. Raises `Refused` for a `connection`: it is to a store."""
        if connection is not None:
            await self._wanted_within()
        return await self._trigger(job_id, key, payload, **fields)

    async def trigger_many(
        self, job_id: str, requests: Sequence[PlainRequest], *, parent: str | None = None
    ) -> Sequence[Run]:
        """See `RunService.trigger_many`. All are checked here, and sent in parts: no door reads a large body."""
        given = many("requests", requests, "requests")
        wanted = read_many(given, parent)
        answers: list[Run] = []
        for batch in batches(wanted):
            part = cast("Sequence[PlainRequest]", [given[number] for number, _ in batch])
            try:
                answers += await self._trigger_many(job_id, part, parent=parent)
            except TokimoriError as fault:
                raise after(len(answers), wanted, fault) from None
        return answers

    async def _wanted_within(self, *_: object) -> NoReturn:
        """Raises `Refused`."""
        raise needs_the_store("a run in a transaction of your own")

    async def wait(self, run_id: str, timeout: Span | None = None) -> Run:
        """See `RunService.wait`. It asks again and again, so that no connection of the node is held."""
        checked = check_uuid(run_id, field="run")
        seconds = None if timeout is None else seconds_of("timeout", timeout)
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        while (run := (await self.get_run(checked)).run).state not in ENDS:
            if ends is not None and loop.time() >= ends:
                raise Refused(
                    f"the run {checked} is still {run.state} after {seconds} s", field="timeout", value=timeout
                )
            await asyncio.sleep(POLL)
        return run

    def acting_as(self, author: str | None) -> Self:
        """See `JobService.acting_as`."""
        check_author(author)
        other = copy(self)
        other._through(self._door.acting_as(author))
        return other

    async def __aenter__(self) -> Self:
        """Make ready. Raises `StoreUnavailable` where the node does not answer, and `Refused` without its secret."""
        await self._door.open()
        try:
            self.time_zone = self.time_zone or (await self.explain("@daily", n=1)).time_zone
        except BaseException:
            await self._door.close()
            raise
        return self

    async def close(self) -> None:
        """Close all connections."""
        await self._door.close()


def new_door(url: str, time_zone: str | None, author: str | None) -> Callable[[], Door]:
    """A function that makes doors at this address, one for each process. Raises `InvalidInput` and `InvalidConfig`."""
    given = {} if time_zone is None else {"time_zone": check_zone(time_zone)}
    loaded = load_settings(given, os.environ, cwd=Path.cwd())
    address, parent = address_of(url, loaded.settings.state_dir), this_program(os.environ).run_id
    return lambda: Door(address, author=author, time_zone=time_zone, parent=parent)
