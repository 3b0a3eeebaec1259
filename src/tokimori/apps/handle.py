"""Handles of requested runs: what became of them, their results, and how to wait for these."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from tokimori.apps.clients import Ways, named_elsewhere
from tokimori.client.asynchronous import Act, AsyncClient, Way
from tokimori.client.facade import done
from tokimori.errors import InvalidInput, RunFailed, TokimoriError
from tokimori.model.ids import RunId, check_uuid
from tokimori.model.run import Output
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.runs.family import all_cancelled
from tokimori.service.validation import Span, seconds_of
from tokimori.service.views.runs import Run

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_TRACEBACK = re.compile(r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE)
_CHAIN = re.compile(r"\n\n(The above exception was the direct|During handling of the above) [^\n]*:\n\n\Z")
"""What Python writes between an exception and the one that followed it."""
_TYPE = re.compile(r"[A-Za-z_][\w.<>]*")
Decode = Callable[[Run], _T]
"""How the result of a run becomes a value of the function's type."""


class RunError(str):
    """Text of an attempt's error. `type` is the name of the exception, "" if none was raised; `traceback` is Python's.

    The traceback is taken from the attempt's output, of which the first and the last 64 KiB are stored.
    """

    __slots__ = ("traceback", "type")
    type: str
    traceback: str


def error_in(run: Run, output: Output | None) -> RunError | None:
    """Return the error of the run's newest attempt, which has this output."""
    if run.error is None:
        return None
    error = RunError(run.error)
    text = "" if output is None else (output.tail or output.head).decode(errors="replace")
    begins = [found.start() for found in _TRACEBACK.finditer(text)]
    first = last = begins.pop() if begins else len(text)
    while begins and _CHAIN.search(text[:first][-200:]):
        first = begins.pop()
    error.traceback, kind = text[first:].rstrip(), _TYPE.match(run.error)
    raised = kind and re.search(rf"^[| ]*(?:[\w.<>]+\.)?{re.escape(kind[0])}(?::|$)", text[last:], re.MULTILINE)
    error.type = kind[0] if kind and raised else ""
    return error


class Handle(Generic[_T_co]):
    """A requested run, and its result of the type that its function returns.

        handle = resize.enqueue("a.png")            # await resize.aenqueue("a.png")
        path = handle.result(timeout=60)            # await handle.aresult(timeout=60)

    What the properties say is as of the request, the last `refresh` or the last wait for the result. A method with an
    `a` before its name is the same for programs on an event loop.
    """

    def __init__(self, ways: Ways, run: Run | str, decode: Decode[_T_co]) -> None:
        self._ways, self._decode = ways, decode
        self._seen = run if isinstance(run, Run) else None
        self.id = run.id if isinstance(run, Run) else RunId(check_uuid(run, field="run"))
        self._error: RunError | None = None

    @property
    def run(self) -> Run:
        """Return the run as it was seen last. That of `app.handle(id)` is read first; on a loop call `arefresh`."""
        return self._seen or self.refresh().run

    @property
    def job_id(self) -> str:
        """Return the job."""
        return self.run.job_id

    @property
    def state(self) -> RunState:
        """Return the state of the run."""
        return self.run.state

    def _known(self) -> RunState:
        return RunState.WAITING if self._seen is None else self._seen.state

    @property
    def fresh_state(self) -> RunState:
        """Return the state of the run as it is now: see `refresh`."""
        return self._seen.state if self._seen is not None and self._seen.state in ENDS else self.refresh().state

    @property
    def attempt(self) -> int:
        """Return the number of the newest attempt; 0 before the first one."""
        return self.run.attempt

    @property
    def due(self) -> datetime:
        """Return the moment at which it may begin (UTC)."""
        return self.run.due

    @property
    def started(self) -> datetime | None:
        """Return the moment at which its newest attempt began (UTC)."""
        return self.run.started

    @property
    def ended(self) -> datetime | None:
        """Return the moment at which its newest attempt ended (UTC)."""
        return self.run.ended

    @property
    def error(self) -> RunError | None:
        """Return the error of the newest attempt, a text with `type` and `traceback`; None if there is none."""
        return self._error if self._error is not None else error_in(self.run, None)

    def result(self, timeout: Span | None = None) -> _T_co:
        """Wait for the end of the run and return its result, of the type that the function's annotation says.

        Raises `RunFailed` for a run that has not succeeded, and `RunNotEnded`, a `TimeoutError`, if it has not ended
        after `timeout`.
        """
        return done(self._result(self._ways.blocking("`await handle.aresult(…)`"), timeout))

    async def aresult(self, timeout: Span | None = None) -> _T_co:
        """Wait for the end of the run: see `result`."""
        return await self._result(self._ways.awaiting, timeout)

    def __await__(self) -> Generator[Any, Any, _T_co]:
        """Wait for the end of the run: see `result`."""
        return self.aresult().__await__()

    async def _result(self, way: Way, timeout: Span | None) -> _T_co:
        if self._seen is None or self._seen.state is not RunState.SUCCEEDED:
            await self._await_end(way, timeout)
        run = self.run
        if run.state is RunState.SUCCEEDED:
            return self._decode(run)
        raise failed(run, self.error)

    async def _await_end(self, way: Way, timeout: Span | None) -> None:
        if self._ways.are_counted and (await self._refresh(way)).run.state in ENDS:
            return
        with self._ways.waiting(self.id):
            self._see(*await way(self._waited(timeout)))

    def _waited(self, timeout: Span | None) -> Act[tuple[Run, Output | None]]:
        return partial(_waited, run_id=self.id, timeout=timeout, pass_time=self._ways.pass_time)

    def refresh(self) -> Self:
        """Read the run again, and return this handle."""
        return done(self._refresh(self._ways.blocking("`await handle.arefresh()`")))

    async def arefresh(self) -> Self:
        """Read the run again: see `refresh`."""
        return await self._refresh(self._ways.awaiting)

    async def _refresh(self, way: Way) -> Self:
        return self._see(*await way(partial(_read, run_id=self.id)))

    def cancel(self, reason: str = "cancelled by hand", *, family: bool = False) -> Self:
        """Cancel the run, and return this handle. Its node ends it if it runs; one that has ended stays as it is.

        `family`: so are what it has spawned and all other runs before and after it.
        """
        return done(self._cancel(self._ways.blocking("`await handle.acancel(…)`"), reason, family=family))

    async def acancel(self, reason: str = "cancelled by hand", *, family: bool = False) -> Self:
        """Cancel the run: see `cancel`."""
        return await self._cancel(self._ways.awaiting, reason, family=family)

    async def _cancel(self, way: Way, reason: str, *, family: bool = False) -> Self:
        if family:
            await all_cancelled(
                lambda run, why: way(lambda client: client.runs.cancel_family(run, why)), self.id, reason
            )
        return self._see(await way(lambda client: client.runs.cancel(self.id, reason)), None)

    def logs(self) -> str:
        """Return the output of the newest attempt, as far as the store knows it: its beginning and its end."""
        return done(self._logs(self._ways.blocking("`await handle.alogs()`")))

    async def alogs(self) -> str:
        """Return the output of the newest attempt: see `logs`."""
        return await self._logs(self._ways.awaiting)

    async def _logs(self, way: Way) -> str:
        output = await way(lambda client: client.runs.output(self.id))
        return "" if output is None else text_in(output)

    def _see(self, run: Run, output: Output | None) -> Self:
        self._seen, self._error = run, error_in(run, output)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[Callable[[str], "Handle[_T_co]"], tuple[str]]:
        function = getattr(self._decode, "__self__", None)
        if not hasattr(function, "job_id"):
            raise TypeError("a handle of an app can't be pickled: send its `id`, and make it anew with app.handle(id)")
        return cast("Any", function).handle, (self.id,)

    if not TYPE_CHECKING:  # or every name would be one
        __getattr__ = named_elsewhere(
            {
                **dict.fromkeys(("get", "get_result", "return_value", "wait", "wait_result"), "result(timeout=…)"),
                **dict.fromkeys(("done", "is_finished", "is_ready", "ready", "status", "successful"), "fresh_state"),
                **dict.fromkeys(("abort", "revoke", "delete"), "cancel()"),
                **dict.fromkeys(("traceback", "exception"), "error"),
            }
        )

    def __repr__(self) -> str:
        known = "" if self._seen is None else f" of {self._seen.job_id}, {self._seen.state}"
        return f"<Handle {self.id}{known}>"


async def _waited(
    client: AsyncClient,
    *,
    run_id: RunId,
    timeout: Span | None,
    pass_time: Callable[[str, float | None], None] | None,
) -> tuple[Run, Output | None]:
    """Return the run when it has ended, with the output of an attempt that failed."""
    if pass_time is not None:
        await asyncio.to_thread(pass_time, run_id, None if timeout is None else seconds_of("timeout", timeout))
        timeout = 0.0
    run = await client.runs.wait(run_id, timeout)
    return run, None if run.state is RunState.SUCCEEDED else await client.runs.output(run_id)


async def _read(client: AsyncClient, *, run_id: RunId) -> tuple[Run, Output | None]:
    run = await client.runs.get(run_id)
    return run, None if run.error is None else await client.runs.output(run_id)


def failed(run: Run, error: RunError | None) -> RunFailed:
    """Return the exception that says how a run has ended."""
    text = error or ""
    message = f"run {run.id} of {run.job_id} ended as {run.state}{text and f': {text}'}"
    made = RunFailed(message, field="run", value=run.id)
    made.error, made.state, made.run_id = text, run.state.value, run.id
    made.type, made.traceback = ("", "") if error is None else (error.type, error.traceback)
    return made


def text_in(output: Output) -> str:
    """Return an output as a text, which says how many bytes in its middle are not known."""
    left_out = output.size - len(output.head) - len(output.tail)
    head, tail = (each.decode(errors="replace") for each in (output.head, output.tail))
    return f"{head}\n[... {left_out} bytes left out ...]\n{tail}" if left_out > 0 else head + tail


# Several handles


def _listed(handles: Any) -> list[Any]:
    """Return the handles. Raises `InvalidInput` for what is none, as a call of `aenqueue` that is not awaited."""
    given = list(handles) if isinstance(handles, Iterable) else [handles, None]
    if isinstance(handles, Handle) or not all(isinstance(each, Handle) for each in given):
        allowed = "one iterable of handles: gather([fn.enqueue(1), await fn.aenqueue(2)])"
        raise InvalidInput(f"handles: {handles!r} is not what is gathered", field="handles", allowed=allowed)
    return given


class Completed(Generic[_T]):
    """Handles in the order in which their runs end: for `for` and, on an event loop, for `async for`."""

    def __init__(self, handles: Iterable[Handle[_T]], timeout: Span | None) -> None:
        self._handles, self._timeout = _listed(handles), None if timeout is None else seconds_of("timeout", timeout)

    def __iter__(self) -> Iterator[Handle[_T]]:
        with self._waiting():
            yield from self._ended()

    def _waiting(self) -> AbstractContextManager[None]:
        return self._handles[0]._ways.waiting(*(each.id for each in self._handles)) if self._handles else nullcontext()

    def _ended(self) -> Iterator[Handle[_T]]:
        begun = {each._ways.begin(each._waited(self._timeout)): each for each in self._handles}
        for each in self._handles[:1]:
            each._ways.warn("`async for handle in tokimori.as_completed(…)`, `await tokimori.agather(…)`")
        try:
            for future in futures.as_completed(begun):
                yield begun[future]._see(*future.result())
        finally:
            for future in begun:
                future.cancel()

    async def __aiter__(self) -> AsyncIterator[Handle[_T]]:
        with self._waiting():
            async for each in self._aended():
                yield each

    async def _aended(self) -> AsyncIterator[Handle[_T]]:
        ended: asyncio.Queue[asyncio.Task[tuple[Run, Output | None]]] = asyncio.Queue()
        begun = {
            asyncio.ensure_future(each._ways.awaiting(each._waited(self._timeout))): each for each in self._handles
        }
        for task in begun:
            task.add_done_callback(ended.put_nowait)
        try:
            for _ in begun:
                future = await ended.get()
                yield begun[future]._see(*future.result())
        finally:
            for task in begun:
                task.cancel()


def as_completed(handles: Iterable[Handle[_T]], timeout: Span | None = None) -> Completed[_T]:
    """Return the handles in the order in which their runs end, for `for` or `async for`.

        for handle in tokimori.as_completed([resize.enqueue(name) for name in names]):
            print(handle.result())

    Iterating raises `RunNotEnded` if one has not ended after `timeout`.
    """
    return Completed(handles, timeout)


@overload
def gather(handles: Iterable[Handle[_T]], timeout: Span | None = None) -> list[_T]: ...
@overload
def gather(
    handles: Iterable[Handle[_T]], timeout: Span | None = None, *, return_exceptions: bool
) -> list[_T | TokimoriError]: ...
def gather(handles: Iterable[Handle[Any]], timeout: Span | None = None, *, return_exceptions: bool = False) -> Any:
    """Wait for the ends of all these runs, and return their results in the order of the handles.

    Raises `RunFailed` as soon as one has not succeeded: the others go on. With `return_exceptions` it waits for all of
    them, and such errors stand among the results. Raises `RunNotEnded` after `timeout`.
    """
    given, results = _listed(handles), dict[RunId, Any]()
    for each in as_completed(given, timeout):
        try:
            results[each.id] = each.result()
        except TokimoriError as fault:
            if not return_exceptions:
                raise
            results[each.id] = fault
    return [results[each.id] for each in given]


@overload
async def agather(handles: Iterable[Handle[_T]], timeout: Span | None = None) -> list[_T]: ...
@overload
async def agather(
    handles: Iterable[Handle[_T]], timeout: Span | None = None, *, return_exceptions: bool
) -> list[_T | TokimoriError]: ...
async def agather(
    handles: Iterable[Handle[Any]], timeout: Span | None = None, *, return_exceptions: bool = False
) -> Any:
    """Wait for the ends of all these runs: see `gather`."""
    given, results = _listed(handles), dict[RunId, Any]()
    async for each in as_completed(given, timeout):
        try:
            results[each.id] = await each.aresult()
        except TokimoriError as fault:
            if not return_exceptions:
                raise
            results[each.id] = fault
    return [results[each.id] for each in given]
