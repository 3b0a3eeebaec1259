"""Interface between the engine and the executors of targets."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.notes import Notes
from tokimori.model.outcome import Outcome
from tokimori.model.run import Output
from tokimori.model.target import Target


class Builds(Protocol):
    """Gives the pieces of builds, which nobody has checked: `tokimori.model.build.content_of` does."""

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """Return all pieces of a build of a task, in order. Raises `NotFound` where there is none, and `StoreError`."""
        ...


class AttemptTask(Struct, frozen=True, gc=False):
    """One attempt to be made. `kill_on_lost_lease`: end it when the lease can't be renewed. Durations are seconds.

    `is_inherited`: the payload is what a parent run left. `parent_id` is the run after whose end, or by whose code,
    this one was asked for. `checkpoint` is what an earlier attempt has kept. Without `auto_complete_success` the
    attempt has to report how it ended. With `own_process` no other run is in the worker process of its function.
    `permits` are the units that it holds in another store, as `tokimori.model.semaphores.permits_text` writes them.
    `secrets` are the values of those that its target names; `hidden` is what of them is to be hidden in all that is
    told of the attempt. `traceparent` is where in a trace the attempt goes on (`tokimori.model.trace`). `client` is the
    queue of a job whose attempts may ask their node, and `server` the address, with a token, by which this one may.
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
    secrets: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    traceparent: str | None = None


class StopReason(StrEnum):
    """Reasons to end an attempt. They decide the outcome that it is reported with."""

    CANCEL = "cancel"
    """Somebody ordered it. Outcome: cancelled."""
    RELEASE = "release"
    """The node stops, or does not know whether the run is its own. Outcome: released."""
    RESTART = "restart"
    """It is to begin anew. Outcome: released."""
    DISOWN = "disown"
    """The run is no longer this node's, so that nobody will settle what is reported."""


class Signal(NamedTuple):
    """A word that somebody tells an attempt, with data as JSON."""

    name: str
    data: str | None


Signalling = Callable[[RunId, Token, Signal], None]
"""Tells an attempt a signal; one that nobody knows is to begin soon, or has ended."""


def unheard(_run_id: RunId, _token: Token, _signal: Signal) -> None:
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
    """The attempt has told how far it is, or what is to be kept; at most about once a second."""

    run_id: RunId
    token: Token
    notes: Notes


class Ended(Struct, frozen=True, kw_only=True, gc=False):
    """The attempt has ended, and nothing of it is left. `started` is None where it never began."""

    run_id: RunId
    token: Token
    outcome: Outcome
    at: Moment
    started: Moment | None = None
    pid: int | None = None
    output: Output | None = None


Report = Started | Grew | Noted | Ended


class Executor(Protocol):
    """Runs one kind of target. Every method is called on the loop, and none of them blocks it.

    Each started task is reported as `Ended` exactly once, whatever happens, even if the executor itself fails.
    """

    async def open(self, report: Callable[[Report], None]) -> None:
        """Get ready. From now on `report` is called, on the loop."""
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
        """Begin to remove what attempts that ended before that moment left on this machine, such as their output."""
        ...

    async def close(self) -> None:
        """End at once whatever still runs, and free all resources."""
        ...
