"""The client over the HTTP door of a node: each method is the one of the client on a store, by name."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, Self, TypeVar, Unpack, cast

from tokimori.client.asynchronous import AsyncClient
from tokimori.client.door import Calls, Door, address_of
from tokimori.client.opening import this_program
from tokimori.config.settings import load_settings
from tokimori.errors import Forbidden, Refused, TokimoriError
from tokimori.locks.holdings import Held, Owner, Wanted
from tokimori.locks.session import Session
from tokimori.model.ids import check_uuid
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.schedules.zones import check_zone
from tokimori.service.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.calls import KINDS, Method
from tokimori.service.given import Span, check_author, many, seconds_of
from tokimori.service.many import after, batches, read_many
from tokimori.service.operation import Member, through
from tokimori.traces.ambient import ambient, run_in_hand

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
    """Return the same method, carried out by a node."""

    @wraps(method)
    async def call(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result: _T = await cast(_Calling, behind)._call(method, args, kwargs)
        return result

    return call


class DoorVia:
    """The way to a part over HTTP: a node carries out its operations."""

    whole = False

    def __init__(self, call: Calls) -> None:
        self._call = call

    def __call__(self, member: Member[Any, Any], _: str) -> Callable[..., Any]:
        """Return the method, carried out by the node."""

        async def asked(*args: object, **kwargs: object) -> Any:
            return await self._call(member.method, args, kwargs)

        return asked


def not_offered(
    method: Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]]:
    """Return the same method, which needs the store itself."""

    @wraps(method)
    async def call(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        raise needs_the_store(method.__name__)

    return call


def needs_the_store(what: str) -> Refused:
    """Return the answer to who asks for what no door offers."""
    return Refused(
        f"{what}: a node does not offer this over HTTP; open the store itself, by its URL",
        field="url",
        allowed="the URL of a store, such as sqlite:///PATH or postgresql://HOST/NAME",
    )


class _NoSession:
    """Session of a client that can't lock."""

    async def acquire(self, wanted: Wanted, _owner: Owner) -> Held:
        """Raise `Refused`."""
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
        for noun, kind in KINDS.items():
            setattr(self, noun, through(kind, DoorVia(door.part(noun))))

    add = asked(AsyncClient.add)
    add_since = asked(AsyncClient.add_since)
    import_all = asked(AsyncClient.import_all)
    get = asked(AsyncClient.get)
    list = asked(AsyncClient.list)
    apply = asked(AsyncClient.apply)
    resources = asked(AsyncClient.resources)
    sets = asked(AsyncClient.sets)
    update = asked(AsyncClient.update)
    edit = asked(AsyncClient.edit)
    refresh = asked(AsyncClient.refresh)
    delete = asked(AsyncClient.delete)
    delete_all = AsyncClient.delete_all
    delete_some = asked(AsyncClient.delete_some)
    pause = disable = asked(AsyncClient.pause)
    resume = enable = asked(AsyncClient.resume)
    resolve = asked(AsyncClient.resolve)
    rewind = asked(AsyncClient.rewind)
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
        wanted, at = read_many(given, parent), self._door.traceparent()
        usual: PlainRequest = {} if at is None else {"traceparent": at}
        answers: list[Run] = []
        for batch in batches(wanted):
            said = cast("Sequence[PlainRequest]", [given[number] for number, _ in batch])
            part: Sequence[PlainRequest] = [{**usual, **each} for each in said]
            try:
                answers += await self._trigger_many(job_id, part, parent=parent)
            except TokimoriError as fault:
                raise after(len(answers), wanted, fault) from None
        return answers

    async def _wanted_within(self, *_: object) -> NoReturn:
        """Raise `Refused`."""
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
        except Forbidden:  # of a token for pings, which reads nothing: what it may do names no time
            self.time_zone = "UTC"
        except BaseException:
            await self._door.close()
            raise
        return self

    async def close(self) -> None:
        """Close all connections."""
        await self._door.close()


def new_door(url: str, time_zone: str | None, author: str | None) -> Callable[[], Door]:
    """Return a function that makes doors at this address, one for each process. Raises `InvalidInput` and
    `InvalidConfig`.
    """
    given = {} if time_zone is None else {"time_zone": check_zone(time_zone)}
    loaded = load_settings(given, os.environ, cwd=Path.cwd())
    address, parent = address_of(url, loaded.settings.state_dir), run_in_hand(this_program(os.environ).run_id)
    place = ambient(os.environ)
    return lambda: Door(address, author=author, time_zone=time_zone, parent=parent, traceparent=place)
