"""Outcomes of an attempt."""

from collections.abc import Sequence

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import check_json
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.policies import Approval


class Succeeded(Struct, frozen=True):
    """Success. `result` goes to the run's children."""

    exit_code: int | None = None
    result: str | None = None


class Failed(Struct, frozen=True):
    """Failure; `signal` is the one that ended a process. `final`: a retry is of no use.

    `wait`: seconds before the next attempt, if there is one; None: as the job says.
    """

    error: str
    exit_code: int | None = None
    signal: int | None = None
    final: bool = False
    wait: float | None = None


class RetryAt(Struct, frozen=True):
    """Request for a retry, not before this moment."""

    moment: Moment


class RetryIn(Struct, frozen=True):
    """Request for a retry this many seconds after its end, or later; None: as its job says."""

    seconds: float | None


class Hold(Struct, frozen=True):
    """Request for a person; with `approval`, in place of a beginning, if the run may begin."""

    reason: str
    approval: Approval | None = None


class Released(Struct, frozen=True):
    """Release by its node, or (`asked`) by itself. It uses up no budget, unless no attempt may be lost.

    `short`: it did not begin, because the machine lacked processes, threads, files or memory.
    """

    reason: str
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False
    short: bool = False


class Expired(Struct, frozen=True):
    """End without a beginning: the request of the run has expired."""

    reason: str


class Cancelled(Struct, frozen=True):
    """End by order."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None


class TimedOut(Struct, frozen=True):
    """End by a time-out."""

    error: str
    exit_code: int | None = None
    signal: int | None = None


class Lost(Struct, frozen=True):
    """Loss: its node died or fell silent, or its keeper was killed.

    `counts`: the attempts that this takes from its budget; none if another job may be at fault, see
    `tokimori.model.suspicion`.
    """

    reason: str
    counts: int = 1


MOST_SPAWNED, MOST_SPAWNED_BYTES = 10_000, 4 * 2**20
"""Runs that a function spawns at once, and the bytes of all their payloads."""


class Spawns:
    """Success once the runs have ended that the function has spawned: (job, payload) of each.

    No struct: one within a list would be written as JSON, and its runs never made.
    """

    __slots__ = ("children",)

    def __init__(self, children: tuple[tuple[JobId, str | None], ...]) -> None:
        self.children = children


def spawns_of(children: Sequence[tuple[str, str | None]]) -> Spawns:
    """Return the outcome that spawns these runs: the job of each, and its payload as JSON. Raises `InvalidInput`."""
    size = sum(len((payload or "").encode()) for _, payload in children)
    for name, value, most in (("runs", len(children), MOST_SPAWNED), ("bytes of payloads", size, MOST_SPAWNED_BYTES)):
        if value > most or not children:
            allowed = f"at least one run, at most {most} {name}"
            message = f"spawn: {value} {name} (allowed: {allowed})"  # a failed run shows the message alone
            raise InvalidInput(message, field="spawn", value=value, allowed=allowed)
    for _, payload in children:
        if payload is not None:
            check_json(payload)
    return Spawns(tuple((check_job_id(job), payload) for job, payload in children))


Outcome = Succeeded | Spawns | Failed | RetryAt | RetryIn | Hold | Released | Expired | Cancelled | TimedOut | Lost
