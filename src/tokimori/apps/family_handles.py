"""Handles of the runs of a family: some of them are made when others have ended."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, cast

from tokimori.apps.clients import Ways
from tokimori.apps.handle import Decode, Handle, RunError, failed
from tokimori.client.asynchronous import Way
from tokimori.client.facade import done, is_on_loop
from tokimori.errors import NotFound, RunFailed
from tokimori.model.ids import RunId
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.validation import Span, seconds_of
from tokimori.service.views.runs import Run

_T = TypeVar("_T")


class Handles(tuple[Handle[Any], ...], Generic[_T]):
    """Handles of the runs of a family, in the order of its requests."""

    _last: Sequence[Handle[Any]]

    def __new__(cls, handles: Iterable[Handle[Any]], last: Sequence[Handle[Any]]) -> "Handles[_T]":
        """Return the handles; `last` are those of the runs that end the family."""
        made = super().__new__(cls, handles)
        made._last = last
        return made

    def __reduce__(self) -> tuple[Callable[..., "Handles[_T]"], tuple[Any, ...]]:
        return Handles, (tuple(self), self._last)

    def result(self, timeout: Span | None = None) -> _T:
        """Wait for the end of the family; return the result of its last run, or of `tokimori.all` the list of them.

        Raises `RunFailed` if a run before it has not succeeded, and `RunNotEnded` after `timeout`.
        """
        return done(self._result(self._last[0]._ways.blocking("`await handles.aresult(…)`"), timeout))

    async def aresult(self, timeout: Span | None = None) -> _T:
        """Wait for the end of the family, and hold up no event loop: see `result`."""
        return await self._result(self._last[0]._ways.awaiting, timeout)

    async def _result(self, way: Way, timeout: Span | None) -> _T:
        left = _Left(timeout)
        found = [await each._result(way, left()) for each in self._last]
        return cast("_T", found[0] if len(found) == 1 else found)

    def cancel(self, reason: str = "cancelled by hand") -> None:
        """Cancel all its runs that are made and have not ended: what would have followed them is not made."""
        done(self._cancel(self._last[0]._ways.blocking("`await handles.acancel(…)`"), reason))

    async def acancel(self, reason: str = "cancelled by hand") -> None:
        """Cancel all its runs, and hold up no event loop: see `cancel`."""
        await self._cancel(self._last[0]._ways.awaiting, reason)

    async def _cancel(self, way: Way, reason: str) -> None:
        for each in self:
            with suppress(NotFound):
                await each._cancel(way, reason)


class _Left:
    """Rest of a time-out."""

    def __init__(self, timeout: Span | None) -> None:
        self._end = None if timeout is None else time.monotonic() + seconds_of("timeout", timeout)

    def __call__(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())


class StepHandle(Handle[_T]):
    """A handle of a run that is made when others have ended. Before that its state is `waiting`."""

    def __init__(self, ways: Ways, run: RunId, decode: Decode[_T], before: Sequence[tuple[Handle[Any], bool]]) -> None:
        super().__init__(ways, run, decode)
        self._before, self._was_read = before, False

    def __reduce__(self) -> tuple[Callable[..., Handle[_T]], tuple[Any, ...]]:
        (_, given), function = super().__reduce__(), getattr(self._decode, "__self__", None)
        return _following, (function, *given, self._before)

    @property
    def run(self) -> Run:
        """Return the run as it was seen last. Raises `NotFound` if it is not made yet."""
        if not self._is_made():
            message = f"the run {self.id} is not made: it is {self._known()}"
            raise NotFound(message, field="run", value=self.id, allowed="`state`, `refresh()` or `result()`")
        return super().run

    @property
    def job_id(self) -> str:
        """Return the job."""
        function = getattr(self._decode, "__self__", None)
        return super().job_id if function is None else str(function.job_id)

    @property
    def attempt(self) -> int:
        """Return the number of the newest attempt; 0 before the first one."""
        return super().attempt if self._is_made() else 0

    @property
    def started(self) -> datetime | None:
        """Return the moment at which its newest attempt began (UTC); None if the run is not made yet."""
        return super().started if self._is_made() else None

    @property
    def ended(self) -> datetime | None:
        """Return the moment at which its newest attempt ended (UTC); None if the run is not made yet."""
        return super().ended if self._is_made() else None

    @property
    def error(self) -> RunError | None:
        """Return the error of the newest attempt; None if there is none, or the run is not made yet."""
        return super().error if self._is_made() else None

    def _is_made(self) -> bool:
        return self._seen is not None or self.refresh()._seen is not None

    @property
    def state(self) -> RunState:
        """Return the state; `skipped` if it is never made, because the runs before it have ended otherwise."""
        if self._seen is None and not (self._was_read and is_on_loop()):
            self.refresh()
        return self._known()

    def _known(self) -> RunState:
        if self._seen is not None:
            return self._seen.state
        is_off = _is_off([(each._known(), failing) for each, failing in self._before])
        return RunState.SKIPPED if is_off else RunState.WAITING

    async def _refresh(self, way: Way) -> Self:
        self._was_read = True
        try:
            return await super()._refresh(way)
        except NotFound:
            for each, _ in self._before:
                if each._known() not in ENDS:
                    await each._refresh(way)
            return self

    async def _await_end(self, way: Way, timeout: Span | None) -> None:
        left, states, faults = _Left(timeout), list[tuple[RunState, bool]](), list[RunFailed]()
        for each, failing in self._before:
            try:
                await each._await_end(way, left())
                states.append((each.run.state, failing))
                if each.run.state is not RunState.SUCCEEDED:
                    faults.append(failed(each.run, each.error))
            except RunFailed as fault:  # that run was not made: the error is that of an earlier one
                faults.append(fault)
                states.append((RunState.SKIPPED, failing))
        if _is_off(states):
            message = f"the run {self.id} was not made: none before it has failed"
            raise faults[0] if faults else RunFailed(message, field="run", value=self.id)
        try:
            await super()._await_end(way, left())
        except NotFound:
            message = f"the run {self.id} was not made: its job is paused, parked, full or deleted"
            raise RunFailed(message, field="run", value=self.id) from None


def _following(function: Any, run_id: RunId, before: Sequence[tuple[Handle[Any], bool]]) -> StepHandle[Any]:
    """Return a handle that was pickled, or copied."""
    return StepHandle(function._ways, run_id, function.result_of, before)


def _is_off(states: Sequence[tuple[RunState, bool]]) -> bool:
    """Return if these ends of the runs before it leave it out."""
    wanted = [RunState.FAILED if failing else RunState.SUCCEEDED for _, failing in states]
    fits = [state is want for (state, _), want in zip(states, wanted, strict=True)]
    over = [state in ENDS for state, _ in states]
    if any(failing for _, failing in states):
        return all(over) and not any(fits)
    return any(end and not fit for end, fit in zip(over, fits, strict=True))
