"""How the engine has targets run, and what it hears of them."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Outcome
from tokimori.model.run import Output
from tokimori.model.target import Target


class Task(Struct, frozen=True, kw_only=True):
    """One attempt to be made. `kill_on_lost_lease`: end it when the lease can't be renewed. Durations are seconds.

    `parent_id` is the run after which, or by whose code, this one was asked for. Without `auto_complete_success` the
    attempt has to report how it ended. `permits` are the units that it holds in another store, as
    `tokimori.model.semaphores.permits_text` writes them.
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
    parent_id: RunId | None = None
    auto_complete_success: bool = True
    permits: str = ""


class StopReason(StrEnum):
    """Why an attempt is to end. It decides the outcome that the attempt is reported with."""

    CANCEL = "cancel"
    """Somebody ordered it: outcome cancelled."""
    RELEASE = "release"
    """The node stops, or does not know whether the run is its own: outcome released."""
    DISOWN = "disown"
    """The run is no longer this node's: nothing is reported that anybody will settle."""


class Started(Struct, frozen=True, kw_only=True):
    """The attempt's process runs."""

    run_id: RunId
    token: Token
    pid: int
    at: Moment


class Grew(Struct, frozen=True, kw_only=True):
    """The attempt has written more since it was last told; at most once a second."""

    run_id: RunId
    token: Token
    output: Output


class Ended(Struct, frozen=True, kw_only=True):
    """The attempt has ended, and nothing of it is left. `started` is None where it never began."""

    run_id: RunId
    token: Token
    outcome: Outcome
    at: Moment
    started: Moment | None = None
    pid: int | None = None
    output: Output | None = None


Report = Started | Grew | Ended


class Executor(Protocol):
    """Runs one kind of target. Every method is called on the loop, and none of them blocks it.

    Each started task is reported `Ended` exactly once, whatever happens, the executor's own failures included.
    """

    async def open(self, report: Callable[[Report], None]) -> None:
        """Make ready; from now on tell `report`, on the loop."""
        ...

    def start(self, tasks: Sequence[Task]) -> None:
        """Begin these attempts."""
        ...

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt: TERM, after `grace` seconds (default: the task's `timeout_grace`) KILL.

        Idempotent; unknown attempts are ignored.
        """
        ...

    def renew(self, sent: float) -> None:
        """The lease was renewed by a beat sent at this `CLOCK_BOOTTIME` (seconds): its deadlines count from there."""
        ...

    def forget(self, before: Moment) -> None:
        """Remove what attempts that ended before have left on this machine, their output above all, in its own time."""
        ...

    async def close(self) -> None:
        """End whatever is left, at once, and free everything."""
        ...
