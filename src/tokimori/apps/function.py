"""Functions that are jobs: called as before, and requested with arguments of their own signature; calls tried again."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import update_wrapper, wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from tokimori.apps.arguments import Arguments, arguments_of
from tokimori.apps.clients import Ways, named_elsewhere
from tokimori.apps.families import FunctionRequest
from tokimori.apps.handle import Handle
from tokimori.apps.own_jobs import OwnJobs
from tokimori.apps.task import task_in_hand
from tokimori.apps.unique import ask_merged, uniqueness_of
from tokimori.client.asynchronous import Way, trigger_within, wants
from tokimori.client.facade import done
from tokimori.client.transactions import check_connection
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.service.definitions.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.definitions.requests import check_names
from tokimori.service.jobs.requesting import numbered
from tokimori.service.validation import Ahead, Span, moment_ahead, payload_of, seconds_of
from tokimori.service.views.runs import Run

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


class AskArguments(RequestArguments, total=False):
    """Terms of a request, beside its arguments.

    With a `connection` it exists exactly if the transaction of that commits, as `Client.within` says.
    """

    key: str | None
    connection: object


_OWN = ("key", "connection")
_ASKED = AskArguments.__annotations__.keys()


class Asks(Protocol):
    """An app, as its functions know it when they are requested."""

    ways: Ways
    own: OwnJobs

    def _transaction(self) -> object:
        """Return a connection in whose transaction requests are made that name none; None: in no transaction."""
        ...

    async def _ask(self, way: Way, job_id: JobId, ask: Callable[[Way], Awaitable[_T]], connection: object = None) -> _T:
        """Return or raise what `ask` does. The job is declared first if no node has done so yet."""
        ...


class Requestable(Generic[_P, _R, _T]):
    """A function that an app has declared as a job: a call returns an R, and a run of it has the result T."""

    def __init__(self, function: Callable[_P, _R], job_id: JobId, asks: Asks, terms: dict[str, Any]) -> None:
        update_wrapper(self, function, updated=("__dict__",) if isfunction(function) else ())
        self.job_id = job_id
        self._function = function
        self._asks = asks
        self._arguments = arguments_of(function)
        self.unique = uniqueness_of(terms, self._arguments)
        self._has_payload = False

    if not TYPE_CHECKING:  # or every name would be one
        __getattr__ = named_elsewhere(
            {
                **dict.fromkeys(("delay", "send", "defer", "enqueue_job", "trigger", "submit"), "enqueue(…)"),
                **dict.fromkeys(("kiq", "defer_async", "adefer"), "await fn.aenqueue(…)"),
                **dict.fromkeys(("apply_async", "schedule", "send_with_options"), 'after("10s").enqueue(…)'),
                **dict.fromkeys(("s", "si", "signature", "message"), "request(…)"),
            }
        )

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_id}>"

    def __reduce__(self) -> str:
        return self._arguments.name  # as a function: by its module and name

    def _check_payload(self, payload: Payload | None, *, is_scheduled: bool) -> str | None:
        """Return the payload of the job as JSON. Raises `InvalidInput` if it does not fit, or a schedule needs one."""
        self._has_payload = payload is not None
        if payload is not None:
            return self._arguments.text_of(payload)
        if is_scheduled:
            self._arguments.decode(None)
        return None

    def enqueue(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle[_T]:
        """Request a run with these arguments, on whatever node has the app: `fn.enqueue(7).result(timeout=60)`.

        Raises `InvalidInput`, and what `client.jobs.trigger` does. On an event loop write `await fn.aenqueue(…)`.
        """
        return self._asking({}).enqueue(*args, **kwargs)

    async def aenqueue(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle[_T]:
        """Request a run with these arguments, and hold up no event loop: see `enqueue`."""
        return await self._asking({}).aenqueue(*args, **kwargs)

    @property
    def _ways(self) -> Ways:
        """Return the ways to the client of its app."""
        return self._asks.ways

    @overload
    def request(self, *args: _P.args, **kwargs: _P.kwargs) -> FunctionRequest[_T]: ...
    @overload
    def request(self) -> FunctionRequest[_T]: ...  # type: ignore[overload-cannot-match]
    def request(self, *args: Any, **kwargs: Any) -> FunctionRequest[_T]:
        """Return a request with these arguments, one of many for `enqueue_many`, or for a family: see `RunFamily.then`.

        Without arguments it gets the result of the run before it. Raises `InvalidInput`.
        """
        return self._asking({}).request(*args, **kwargs)

    def _transaction(self) -> object:
        """Return a connection in whose transaction its requests are to be made; None: in none."""
        return self._asks._transaction()

    async def _meet(self, way: Way) -> None:
        """Check that its job is not another app's. Raises `Refused`."""
        await self._asks.own.meet(way, self.job_id)

    async def _known(self, way: Way, job_id: str) -> None:
        """Declare the job, if no node has done so yet."""
        await self._asks._ask(way, JobId(job_id), lambda way: way(lambda client: client.jobs.get(job_id)))

    def enqueue_many(self, requests: Iterable[PlainRequest | FunctionRequest[Any]]) -> list[Handle[_T]]:
        """Request many runs at once: `fn.enqueue_many(fn.request(n) for n in numbers)`. See `jobs.trigger_many`."""
        return done(self._enqueue_many(self._asks.ways.blocking("`await fn.aenqueue_many(…)`"), requests))

    async def aenqueue_many(self, requests: Iterable[PlainRequest | FunctionRequest[Any]]) -> list[Handle[_T]]:
        """Request many runs at once, and hold up no event loop: see `enqueue_many`."""
        return await self._enqueue_many(self._asks.ways.awaiting, requests)

    async def _enqueue_many(
        self, way: Way, requests: Iterable[PlainRequest | FunctionRequest[Any]]
    ) -> list[Handle[_T]]:
        task, wanted = task_in_hand(), cast("list[PlainRequest]", list(requests))
        for number, each in enumerate(wanted):
            self._check_request(number, each)
        parent, connection = None if task is None else task.run_id, self._asks._transaction()

        async def ask(way: Way) -> list[Handle[_T]]:
            if connection is not None:
                return [self.handle(await self._within(way, connection, {"parent": parent, **each})) for each in wanted]
            runs = await way(lambda client: client.jobs.trigger_many(self.job_id, wanted, parent=parent))
            return [self.handle(run) for run in runs]

        return await self._asks._ask(way, self.job_id, ask, connection)

    async def _within(self, way: Way, connection: object, said: PlainRequest) -> Run:
        rest = {name: value for name, value in said.items() if name not in ("key", "payload")}
        wanted = wants(self.job_id, said.get("key"), said.get("payload"), cast("RequestArguments", rest))
        return await trigger_within(way, connection, wanted)

    def handle(self, run: Run | str) -> Handle[_T]:
        """Return a handle of a run of this function, or of this id. Nothing is read before the handle is asked."""
        return Handle(self._asks.ways, run, self.result_of)

    def result_of(self, run: Run) -> Any:
        """Return the result of a run, of the type that the function's annotation says. Raises `InvalidInput`."""
        return self._arguments.result_of(run.result)

    def _check_request(self, number: int, request: object) -> None:
        """Refuse a request with arguments that the function would not take, such as one of another function."""
        payload = request.get("payload") if isinstance(request, Mapping) else None
        if payload is None and (self._has_payload or not isinstance(request, Mapping)):
            return
        try:
            self._arguments.decode(payload_of(payload))
        except InvalidInput as fault:
            raise numbered(number, fault) from None

    def at(self, when: Ahead) -> "Asking[_P, _T]":
        """Return a request at a moment: `fn.at("2030-01-01T00:00:00Z").enqueue(…)`, `fn.at(timedelta(hours=2))`."""
        return self._asking({"at": when})

    def after(self, delay: Span) -> "Asking[_P, _T]":
        """Return a request in a while: `fn.after("10m").enqueue(…)`, `fn.after(90)`, `fn.after(timedelta(hours=2))`."""
        return self._asking({"at": timedelta(seconds=seconds_of("delay", delay))})

    def asked(self, **how: Unpack[AskArguments]) -> "Asking[_P, _T]":
        """Return a request with a `key`, `priority`, `debounce`, `unique`, `expires`, `connection`, …:
        `fn.asked(key="order-17").enqueue(…)`.
        """
        return self._asking(how)

    def _asking(self, how: AskArguments) -> "Asking[_P, _T]":
        return Asking(self, self._arguments, self._asks, how)


class JobFunction(Requestable[_P, _R, _R]):
    """A function that an app has declared as a job. Calling it runs it here and now, as any function."""


class AsyncJobFunction(Requestable[_P, Coroutine[Any, Any, _R], _R]):
    """A coroutine function that an app has declared as a job. Awaiting its call runs it here and now."""


class Asking(Generic[_P, _T]):
    """A way to request runs of a function."""

    def __init__(self, function: Requestable[_P, Any, _T], arguments: Arguments, asks: Asks, how: AskArguments) -> None:
        self._of = function
        self._arguments = arguments
        self._asks = asks
        if (at := how.get("at")) is not None:
            moment_ahead("at", at, "UTC", Moment(0))
        if "payload" in how:
            raise InvalidInput("payload: the arguments are the payload", field="payload", allowed="enqueue(arguments)")
        check_names(how, _ASKED)
        self._how = how

    def asked(self, **how: Unpack[AskArguments]) -> "Asking[_P, _T]":
        """Return the same request with these terms, too: `fn.after("10m").asked(key="order-17").enqueue(…)`."""
        return Asking(self._of, self._arguments, self._asks, cast("AskArguments", {**self._how, **how}))

    def at(self, when: Ahead) -> "Asking[_P, _T]":
        """Return the same request at a moment."""
        return self.asked(at=when)

    def after(self, delay: Span) -> "Asking[_P, _T]":
        """Return the same request in a while."""
        return self.asked(at=timedelta(seconds=seconds_of("delay", delay)))

    @overload
    def request(self, *args: _P.args, **kwargs: _P.kwargs) -> FunctionRequest[_T]: ...
    @overload
    def request(self) -> FunctionRequest[_T]: ...  # type: ignore[overload-cannot-match]
    def request(self, *args: Any, **kwargs: Any) -> FunctionRequest[_T]:
        """Return a request with these arguments, for `enqueue_many` or a family. Raises `InvalidInput`."""
        try:
            payload = self._payload(args, kwargs)
        except InvalidInput:
            if args or kwargs:
                raise
            return FunctionRequest(self._of, {**self._how, "payload": None}, self._how)
        terms = self._terms(payload)
        if self._of.unique.merges(terms):
            message = "merge: of many requests none is merged with one that waits"
            raise InvalidInput(message, field="merge", allowed="enqueue them one by one, or asked(on_duplicate=…)")
        return FunctionRequest(self._of, {**terms, "payload": payload}, self._how)

    def _terms(self, payload: str | None) -> dict[str, Any]:
        return self._of.unique.terms(self._how, payload, self._arguments)

    def enqueue(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle[_T]:
        """Request a run with these arguments. Raises `InvalidInput`, and what `client.jobs.trigger` raises."""
        if hasattr(connection := self._how.get("connection"), "run_sync"):
            raise InvalidInput(
                "connection: an asynchronous one can't be used by a call that blocks",
                field="connection",
                value=connection,
                allowed="`await fn.asked(connection=…).aenqueue(…)`",
            )
        way = self._asks.ways.blocking("`await fn.aenqueue(…)`")
        return done(self._enqueue(way, self._payload(args, kwargs)))

    async def aenqueue(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle[_T]:
        """Request a run with these arguments, and hold up no event loop: see `enqueue`."""
        return await self._enqueue(self._asks.ways.awaiting, self._payload(args, kwargs))

    async def _enqueue(self, way: Way, payload: str | None) -> Handle[_T]:
        terms, merge = self._terms(payload), self._of.unique.merge
        rest = cast("RequestArguments", {name: value for name, value in terms.items() if name not in _OWN})
        if (task := task_in_hand()) is not None:
            rest.setdefault("parent", task.run_id)
        job_id, key, connection = self._of.job_id, terms.get("key"), terms.get("connection")
        connection = self._asks._transaction() if connection is None else connection

        async def ask(way: Way) -> Run:
            if connection is None and merge is not None and self._of.unique.merges(terms):
                known = {**rest, "key": key}
                return await ask_merged(way, job_id, payload, terms=known, merge=merge, arguments=self._arguments)
            if connection is None:
                return await way(lambda client: client.jobs.trigger(job_id, key, payload, **rest))
            check_connection(connection)
            return await trigger_within(way, connection, wants(job_id, key, payload, rest))

        return self._of.handle(await self._asks._ask(way, job_id, ask, connection))

    def _payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        if self._arguments.wants_task:
            raise InvalidInput(
                f"{self._arguments.name}: a function that takes the task as its argument can't be asked for so",
                field="arguments",
                allowed="`tokimori.current_task()` within the function, or `client.jobs.trigger(…, payload=…)`",
            )
        return self._arguments.encode(args, kwargs)


def retry(attempts: int = 3, delay: Span = 0.0, backoff: float = 1.0) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator: a call that raises is tried again, `attempts` times in all.

    It waits for `delay` before the second try, and `backoff` times as long before each further one. The last error is
    raised. Raises `InvalidInput`.
    """
    seconds = seconds_of("delay", delay)
    for name, value, least in (("attempts", attempts, 1), ("backoff", backoff, 1)):
        if value < least:
            raise InvalidInput(f"{name}: {value!r} is too small", field=name, value=value, allowed=f"from {least}")

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for number in range(attempts - 1):
                try:
                    return function(*args, **kwargs)
                except Exception:
                    time.sleep(seconds * backoff**number)
            return function(*args, **kwargs)

        @wraps(function)
        async def call_async(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            for number in range(attempts - 1):
                try:
                    return await cast("Awaitable[Any]", function(*args, **kwargs))
                except Exception:
                    await asyncio.sleep(seconds * backoff**number)
            return await cast("Awaitable[Any]", function(*args, **kwargs))

        return cast("Callable[_P, _R]", call_async) if inspect.iscoroutinefunction(function) else call

    return decorate
