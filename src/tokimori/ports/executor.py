"""Interface between the engine and the executors of targets."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.attempt_notes import Notes
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Outcome
from tokimori.model.parents import ParentRun
from tokimori.model.run import Output
from tokimori.model.target import Target


class Builds(Protocol):
    """Source of the pieces of builds, unchecked: `tokimori.model.build.content_of` checks them."""

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """Return all pieces of a build of a task, in order. Raises `NotFound` if there is none, and `StoreError`."""
        ...


ReadParents = Callable[[Sequence[RunId]], Awaitable[Sequence[ParentRun]]]
"""Reads the runs of these ids with their results, as far as they are kept. Raises `StoreError`."""


NO_SECRETS: Mapping[str, str] = MappingProxyType({})


class AttemptTask(Struct, frozen=True, gc=False):
    """One attempt to be made. `kill_on_lost_lease`: end it when the lease can't be renewed. Durations are seconds.

    `is_inherited`: the payload came from a parent run. `parent_id` is the run whose end, or whose code, requested this
    one. `checkpoint` was stored by an earlier attempt. Without `auto_complete_success` the attempt has to report how it
    ended. With `own_process` no other run is in the worker process of its function. `permits` are the units that it
    holds in another store, as `tokimori.model.semaphores.permits_text` writes them. `secrets` are the values of the
    secrets that its target names; `hidden` are texts to hide in its output and reports. `traceparent` is its place in a
    trace (`tokimori.model.cause`). `parents` are the runs after whose ends it was made (`joined`: it waited for all of
    them, as "jobs" or as "runs"), and `parent_runs` these with their results, if its target wants them. `client` is the
    queue of a job whose attempts may call their node, and `server` the address, with a token, for this one. It fails
    with more than `max_cpu` seconds of processors, or `max_memory` MiB.
    """

    run_id: RunId
    token: Token
    attempt: int
    job_id: JobId
    target: Target
    nominal: Moment
    due: Moment
    timeout: float | None
    timeout_grace: float
    kill_on_lost_lease: bool
    time_zone: str = "UTC"
    payload: str | None = None
    is_inherited: bool = False
    checkpoint: str | None = None
    parent_id: RunId | None = None
    auto_complete_success: bool = True
    own_process: bool = False
    client: str | None = None
    server: str = ""
    permits: str = ""
    secrets: Mapping[str, str] = NO_SECRETS
    hidden: tuple[str, ...] = ()
    traceparent: str | None = None
    parents: tuple[RunId, ...] = ()
    joined: str = ""
    parent_runs: tuple[ParentRun, ...] = ()
    max_cpu: float | None = None
    max_memory: int | None = None


class StopReason(StrEnum):
    """Reasons to end an attempt. They decide the outcome that it is reported with."""

    CANCEL = "cancel"
    """It was ordered. Outcome: cancelled."""
    RELEASE = "release"
    """The node stops, or is not sure that it owns the run. Outcome: released."""
    RESTART = "restart"
    """It is to begin anew. Outcome: released."""
    DISOWN = "disown"
    """The run is no longer this node's: the report will not be settled."""


class Signal(NamedTuple):
    """A signal for an attempt, with data as JSON."""

    name: str
    data: str | None


Signalling = Callable[[RunId, Token, Signal], None]
"""Passes a signal to an attempt; an unknown attempt will begin soon, or has ended."""


def ignore_signal(_run_id: RunId, _token: Token, _signal: Signal) -> None:
    """Ignore a signal, as no attempt receives any."""


class Started(Struct, frozen=True, kw_only=True):
    """The attempt's process runs."""

    run_id: RunId
    token: Token
    pid: int
    at: Moment


class Grew(Struct, frozen=True, kw_only=True):
    """The attempt has written more since the last such report; at most once a second."""

    run_id: RunId
    token: Token
    output: Output


class Noted(Struct, frozen=True, kw_only=True):
    """The attempt has reported progress or a checkpoint; at most about once a second."""

    run_id: RunId
    token: Token
    notes: Notes


class Ended(Struct, frozen=True, kw_only=True, gc=False):
    """The attempt has ended, with all its processes. `started` is None if it never began.

    `cpu` (microseconds of processors) and `memory` (bytes at its peak) are its cost, None if unknown.
    """

    run_id: RunId
    token: Token
    outcome: Outcome
    at: Moment
    started: Moment | None = None
    pid: int | None = None
    output: Output | None = None
    cpu: int | None = None
    memory: int | None = None


Report = Started | Grew | Noted | Ended


class Executor(Protocol):
    """Executor of one kind of target. Every method is called on the loop, and none of them blocks it.

    Each started task is reported as `Ended` exactly once, whatever happens, even if the executor itself fails.
    """

    async def open(self, report: Callable[[Report], None]) -> None:
        """Get ready, and call `report` from now on, on the loop."""
        ...

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Begin these attempts."""
        ...

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt: TERM, and KILL after `grace` seconds (default: the task's `timeout_grace`).

        May be repeated; unknown attempts are ignored.
        """
        ...

    def renew(self, sent: float) -> None:
        """Count the lease from `sent` on, when the beat that renewed it was sent (seconds of CLOCK_BOOTTIME)."""
        ...

    def forget(self, before: Moment) -> None:
        """Begin to remove files of attempts that ended before that moment, such as their output."""
        ...

    async def close(self) -> None:
        """End all running attempts at once, and free all resources."""
        ...


class ExecutorAround:
    """Executor around another one: it passes on orders and reports, and a subclass changes some of them."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._report: Callable[[Report], None] = lambda _: None

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report
        await self._executor.open(self._receive_report)

    def _receive_report(self, report: Report) -> None:
        self._report(report)

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        self._executor.start(tasks)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`."""
        self._executor.stop(run_id, token, reason, grace=grace)

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self._executor.renew(sent)

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""
        self._executor.forget(before)

    async def close(self) -> None:
        """See `Executor.close`."""
        await self._executor.close()
