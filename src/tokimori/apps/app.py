"""Apps: functions of a program, some of which are jobs.

    import tokimori

    app = tokimori.App("reports")

    @app.job("0 3 * * *", time_zone="Europe/Paris", attempts=3)
    def nightly() -> None:
        print("a report")

`tokimori serve --app reports:app` runs them. An import does nothing: a node that starts puts the jobs in the store.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from tokimori.apps.arguments import is_awaited, name_of
from tokimori.apps.clients import Places, Ways
from tokimori.apps.failures import Backoffs, Errors, rule_of
from tokimori.apps.function import AsyncJobFunction, JobFunction, Requestable
from tokimori.apps.handle import Handle
from tokimori.apps.json_text import value_of
from tokimori.apps.own_jobs import OwnJobs
from tokimori.apps.parents import Reads
from tokimori.apps.program import become_node, name_of_module
from tokimori.apps.routes import AppFunctions, checked
from tokimori.apps.task import Task
from tokimori.apps.unique import Merge, UniqueBy
from tokimori.client.asynchronous import AsyncClient, Way
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.client.transactions import outside_of
from tokimori.clock import Moment
from tokimori.config.value import check_linux
from tokimori.errors import AlreadyExists, InvalidInput, NotFound, Refused, TokimoriError
from tokimori.executors.functions.wire import Declared
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import schedule_of
from tokimori.model.job_fields import OF_RETRY
from tokimori.ports.store import Outside
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.definitions.definitions import definition_from, fields_of, no_such_term, term_meant
from tokimori.service.definitions.differences import AppVersion, app_version
from tokimori.service.sets.app_jobs import check_circles, check_newest, check_vanished, named_in
from tokimori.service.validation import Ahead, Span, job_fields
from tokimori.service.views.runs import Run

if TYPE_CHECKING:
    from tokimori.apps.running import Running

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_H = TypeVar("_H", bound=Callable[[], object])
_E = TypeVar("_E", bound=Callable[[Task, Exception], object])
_A = TypeVar("_A", bound=Callable[[Task], Iterator[None]] | Callable[[Task, Callable[[], Any]], object])
MOST_JOBS = 10_000
"""Number of jobs that an app may declare: what the store keeps of them has room for as many, with the longest ids."""


class DeclaredArguments(JobArguments, total=False):
    """Terms of a job beside its schedule: the fields of a job (`help(tokimori.JobArguments)`), and those of
    its `retry` by themselves.

    With `retry_on` the errors of these classes alone are tried again; those of `never_on` never are. `backoff` is a
    function of attempt and error that returns the next wait, called within the attempt and its `timeout`; or fixed,
    linear, exponential, or the factor by which each wait grows. All three need `attempts` of at least 2. `raise
    tokimori.Permanent(…)` ends a run for good.

    `unique`, "until_start" or "until_end": so long there is one run of the key, which `unique_by`, a function of the
    arguments by name, returns (None: not unique); without it of the same arguments. Of a second request the same run
    answers; or (`on_duplicate`) it is a `Duplicate`; or it replaces the run, with the arguments that `merge` makes of
    both, which are dicts; if that has begun it is a new run. A run that has not begun after `expires` is skipped.

    Values of a `payload` are those of the function's arguments, which JSON can hold: dates, dataclasses, models.
    """

    attempts: int | None
    retry_delay: Span | None
    retry_backoff: float | None
    retry_cap: Span | None
    retry_jitter: float | None
    epsilon: Span | None
    lost_attempts: int | Literal["unlimited"] | None
    asked_delay: Span | None
    asked_retries: int | None
    retry_wait: Span | None
    retry_on: Errors | None
    never_on: Errors | None
    backoff: Backoffs | None
    unique: Literal["until_start", "until_end"] | None
    unique_by: UniqueBy | None
    on_duplicate: Literal["same", "refuse", "replace"] | None
    merge: Merge | None
    expires: Ahead | None


class Declare(Protocol):
    """A decorator that declares a function as a job."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> AsyncJobFunction[_P, _R]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> JobFunction[_P, _R]: ...


class App(AppFunctions):
    """Functions of a program, by name. `name` is the owner of the jobs that it declares.

    An app that is not given one has that of its module.

    `url` is that of the store for `enqueue`; if it is not given the environment and the configuration say it, and a
    worker process has that of its node.

    `prune` says what becomes of jobs that the code does not declare any more: they are reported, and stay enabled; or
    they are paused, or deleted. `version` is a number or a date: of two deploys at the same time the jobs follow the
    one with the greater version, whichever starts last.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        url: str | None = None,
        prune: Literal["report", "pause", "delete"] = "report",
        version: AppVersion | None = None,
    ) -> None:
        name = name_of_module(sys._getframe(1).f_globals) if name is None else name  # who makes it
        super().__init__(name, check_vanished(prune), app_version(version))
        self.url = url
        self.ways = Ways(lambda: self.client)
        self.own = OwnJobs(self._function_of)
        self._client: Client | None = None
        self._made: dict[str | None, Client] = {}
        self._functions: dict[str, Requestable[..., Any, Any]] = {}

    @property
    def client(self) -> Client:
        """Return a client for the store, opened when it is first used: one for all threads of a process."""
        if self._client is None:  # no lock: a child may be forked while another thread holds it
            self._client = self._made.setdefault(self.url, open_client(self.url, author=f"app {self.name}"))
        return self._client

    def _transaction(self) -> object:
        """Return a connection in whose transaction its requests are to be made; None: they are none of any."""
        return None

    def _reads(self) -> Reads:
        """Return the way by which functions read of the parents of their runs."""
        return self.ways

    def _take_places(self, number: int) -> None:
        """Note how many functions this process runs at a time: one that waits for others leaves its place."""
        self.ways.places = Places(number)

    def handle(self, run: str) -> Handle[Any]:
        """Return a handle of the run of this id. Nothing is read until the handle is used."""
        return Handle(self.ways, run, self._result_of)

    def _result_of(self, run: Run) -> Any:
        """Return the result of a run, of the type that its function says if this app declares it."""
        made = self._functions.get(run.job_id)
        if made is not None:
            return made.result_of(run)
        return None if run.result is None else value_of(run.result)

    @overload
    def job(  # type: ignore[overload-overlap]
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> AsyncJobFunction[_P, _R]: ...

    @overload
    def job(self, function: Callable[_P, _R], /) -> JobFunction[_P, _R]: ...

    @overload
    def job(
        self, schedule: str | None = None, /, *, id: str | None = None, **fields: Unpack[DeclaredArguments]
    ) -> Declare: ...

    def job(
        self,
        schedule: str | Callable[..., Any] | None = None,
        /,
        *,
        id: str | None = None,
        **fields: Unpack[DeclaredArguments],
    ) -> Any:
        """Declare a function as a job. Without a schedule it runs on request (`enqueue`).

        `id` is the job's, by default the name of the function; `fields` are those of `client.jobs.add`, and `attempts`,
        `retry_delay` and the like. Raises `InvalidInput`.
        """
        if callable(schedule):
            return self.job(None, id=id, **fields)(schedule)
        if schedule is not None and not isinstance(schedule, str):
            raise InvalidInput(
                f"schedule: {schedule!r} is neither a schedule nor a function",
                field="schedule",
                value=schedule,
                allowed="a text, or a function; a method is declared for its object: app.job()(Reports().nightly)",
            )

        def declare(function: Callable[..., Any]) -> Requestable[..., Any, Any]:
            job_id = check_job_id(name_of(function) if id is None else id)
            if job_id in self._jobs:
                raise InvalidInput(
                    f"id: the app {self.name!r} has two jobs {job_id!r}", field="id", value=job_id, allowed="another id"
                )
            if len(self._jobs) == MOST_JOBS:
                message = f"id: the app {self.name!r} declares {MOST_JOBS} jobs, and {job_id!r} is one more"
                allowed = f"at most {MOST_JOBS} jobs of an app; `tokimori apply FILE` puts others in the store"
                raise InvalidInput(message, field="id", value=job_id, allowed=allowed)
            handler = self._function_of(job_id)
            terms: dict[str, Any] = _checked_terms(fields)
            made = (AsyncJobFunction if is_awaited(function) else JobFunction)(function, job_id, self, terms)
            rule = rule_of(terms)
            declaration = {**spread(terms), "function": handler}
            declaration |= {"payload": made._check_payload(fields.get("payload"), is_scheduled=schedule is not None)}
            if schedule is not None:
                declaration["schedule"] = schedule
            definition = definition_from(job_fields(cast("Any", declaration)))
            schedule_of(definition, Moment(0), job_id)
            kept = msgspec.to_builtins(fields_of(definition))
            if fields.get("time_zone") is None:
                kept.pop("time_zone", None)  # the settings of the node say it
            if fields.get("runs_remaining") is not None:
                kept["runs_remaining"] = fields["runs_remaining"]
            self.routes.add(handler, function)
            self.rules[handler] = rule
            self._jobs[job_id] = Declared(id=job_id, fields=kept)
            self._functions[job_id] = made
            return made

        return declare

    @overload
    def handler(self, target: _F, /) -> _F: ...

    @overload
    def handler(self, name: "str | re.Pattern[str]", route: str) -> None: ...

    @overload
    def handler(self, name: "str | re.Pattern[str]", route: None = None) -> Callable[[_F], _F]: ...

    def handler(self, name: "str | re.Pattern[str] | _F", route: str | None = None) -> Callable[[_F], _F] | _F | None:
        """Declare the handler of runs of jobs whose `function` is this name, or matches this pattern as a whole.

        A decorator for a function or a class, by default under its own name; with `route`, `package.module:Name`, that
        is imported when it is first needed. The first that fits is taken. Raises `InvalidInput`.
        """
        if callable(name):
            self.routes.add(name_of(name), name)
            return name
        checked(name)
        if route is not None:
            self.routes.add(name, route)
            return None

        def declare(target: _F) -> _F:
            self.routes.add(name, target)
            return target

        return declare

    def on_start(self, hook: _H) -> _H:
        """Call this in each worker process, before it takes a run: `@app.on_start`, on any function.

        Coroutine functions are awaited on the loop of the process, so that what they open serves those that run there.
        An error keeps the process from taking runs, and is reported as one of the app.
        """
        self.hooks.starts.append(hook)
        return hook

    def on_stop(self, hook: _H) -> _H:
        """Call this in each worker process when it has ended its last run: `@app.on_stop`, the last one first.

        It gets five seconds. A process that is killed calls none.
        """
        self.hooks.stops.append(hook)
        return hook

    def around(self, hook: _A) -> _A:
        """Wrap this around each function of the app: `@app.around`, the first one outermost.

            @app.around
            def timed(task):            # a generator: around all functions
                began = time.monotonic()
                yield
                print(task.job_id, time.monotonic() - began)

        `def it(task, call)` returns the result of `call()`, or another one, of functions that do not wait, and
        `async def it(task, call)` does so of coroutine functions. Raises `InvalidInput`.
        """
        self.hooks.add_around(hook)
        return hook

    def on_failure(self, hook: _E) -> _E:
        """Call this with the task and the error if a function raises one: `@app.on_failure`, after each attempt.

        What becomes of the run is the job's: see `on_failure_job` for a job that runs when all attempts have failed.
        """
        self.hooks.add_failure(hook)
        return hook

    def running(self, *, concurrency: int = 16) -> "Running":
        """Return a context in which this program runs the app: `with app.running():`, or `async with`.

        So many runs at a time; functions that wait share a loop of their own thread, others get a thread each.
        """
        check_linux("an app at work")
        from tokimori.apps.running import Running  # noqa: PLC0415  worker processes need it not

        return Running(self, self.url, concurrency)

    def run(self, *options: str) -> None:
        """Run a node for this app: the last line of the program that declares it.

        It does what `tokimori serve --app FILE.py:NAME` does with these options (`"--no-http"`), in this very process.
        If the file is imported it does nothing. Raises `Refused` if the program's own file has no name for it.
        """
        become_node(self, self.url, options)

    def _function_of(self, job_id: str) -> str:
        """Return the name under which workers know the function of a job of the app."""
        return f"{self.name}.{job_id}"

    async def _ask(self, way: Way, job_id: JobId, ask: Callable[[Way], Awaitable[_T]], connection: object = None) -> _T:
        """Return the result of `ask`. A job that no node has declared yet is stored first; its runs wait for a node."""
        await self.own.meet(way, job_id)
        try:
            return await ask(way)
        except NotFound as missing:
            if missing.value != job_id:
                raise
        if job_id in self._jobs:  # no version declares a task of Django: its first request does
            await way(lambda client: check_newest(client._shared_or_none, self.name, self._version, job_id))
        try:
            if connection is not None and (await way(_outside_of)).driver == "sqlite":
                raise Refused("your transaction may have locked the file of the store")
            wanted = self._with_named(job_id).values()
            check_circles({each.id: each.fields for each in wanted})
            for each in wanted:
                with suppress(AlreadyExists):
                    await way(partial(_declare, each=each, owner=self.name))
        except TokimoriError as fault:
            raise NotFound(
                f"there is no job {job_id!r} yet, and it can't be declared here: {fault.message}",
                field="id",
                value=job_id,
                allowed=f"start a node that has the app, and ask again: tokimori worker MODULE:APP (app {self.name})",
            ) from None
        return await ask(way)

    def _with_named(self, job_id: str, below: tuple[str, ...] = ()) -> dict[str, Declared]:
        """Return the job, and before it those which it names, as they are declared."""
        known = self._jobs.get(job_id)
        if known is None or job_id in below:
            return {}
        found: dict[str, Declared] = {}
        for each in named_in(known.fields):
            found |= self._with_named(each, (*below, job_id))
        return found | {job_id: known}


async def _outside_of(client: AsyncClient) -> Outside:
    return await outside_of(client._shared.store)


async def _declare(client: AsyncClient, *, each: Declared, owner: str) -> None:
    await client.jobs.add(each.id, **cast("Any", {"owner": owner, **each.fields}))


def _checked_terms(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the terms of a function's job. Raises `InvalidInput` for one that there is not."""
    known = DeclaredArguments.__annotations__
    for name, value in fields.items():
        if name not in known:
            raise no_such_term(name, value, term_meant(name, known), known, "fn.asked({}=…)")
    return {**fields}


def spread(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields, those of `retry` gathered."""
    given = fields.get("retry") or {}
    if not isinstance(given, Mapping):
        return {**fields}  # which is refused
    retry = {**given, **{OF_RETRY[name]: value for name, value in fields.items() if name in OF_RETRY}}
    retry = {name: value for name, value in retry.items() if value is not None}
    rest = {name: value for name, value in fields.items() if name not in OF_RETRY and name != "retry"}
    return {**rest, "retry": retry} if retry else rest
