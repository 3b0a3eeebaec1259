"""Runs, their attempts and output, and skips: occurrences without a run."""

from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import Refused
from tokimori.model.ids import Incarnation, JobId, Lane, NodeId, RunId, Token, child_id
from tokimori.model.policies import Approval
from tokimori.model.transitions import ENDS, STANDING_STILL, RunState

FIRST_TOKEN = Token(0)
"""Token of a run that was never claimed."""
OF_PARENT = "c:"
"""First letters of the origin of a run of a dependent job."""


def scheduled_origin(nominal: Moment) -> str:
    """Return the origin of the run of an occurrence: at most one run of a job's incarnation has it."""
    return f"s:{format_moment(nominal)}"


def backfill_origin(nominal: Moment) -> str:
    """Return the origin of the run that a backfill made of an occurrence."""
    return f"b:{format_moment(nominal)}"


def child_origin(key: str) -> str:
    """Return the origin of the run of a dependent job, under its parent run or the root of its parents."""
    return f"{OF_PARENT}{key}"


def manual_origin(key: str) -> str:
    """Return the origin of a requested run, from its key or an id made for the request."""
    return f"m:{key}"


def parents_of(run: "Run") -> tuple[RunId, ...]:
    """Return the runs after whose ends this one was made: all of them for a join, else at most one."""
    alone = () if run.parent_id is None or asked_by(run.origin) != "parent" else (run.parent_id,)
    return run.details.parents or alone


def joined_as(run: "Run") -> str:
    """Return how it gets the results of a join: as "runs" in a list, or by their "jobs"; empty for no join."""
    if not run.details.parents:
        return ""
    return "runs" if run.details.listed or run.origin == child_origin(run.id) else "jobs"


_ASKED_BY = {"s:": "schedule", "b:": "backfill", OF_PARENT: "parent"}


def asked_by(origin: str) -> str:
    """Return the origin of a run as a word: `schedule`, `backfill`, `parent` or `request`."""
    return _ASKED_BY.get(origin[:2], "request")


def asked_in_words(run: "Run") -> str:
    """Return who requested a run: `schedule`, `backfill`, `parent`, or `requested by NAME` if the name is known."""
    by = run.details.requested_by
    return asked_by(run.origin) if by is None else f"requested by {by}"


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run that is made when another one has succeeded, or (`on_failure`) failed: both were requested together.

    Its id is known before. With `joins` it is made once so many runs with this step have ended so. Without a payload it
    gets the result of the run, or the list of all that it has waited for.
    """

    id: RunId
    job: JobId
    payload: str | None = None
    on_failure: bool = False
    joins: int = 0
    then: tuple["Step", ...] = ()


NEVER = Moment(7_258_118_400_000_000)
"""Due time (the year 2200) of a run that waits for the runs that its function has spawned: time does not let it go
on."""


class Spawned(Struct, frozen=True, omit_defaults=True):
    """The runs that a function has spawned, for whose ends its own run waits: so many, `at` that moment.

    `due` is that of the waiting run itself, whose row says `NEVER` meanwhile, and `until` the end of its time. Of many
    runs so many are `left` that are kept in documents, and still to be made.
    """

    at: Moment
    count: int
    due: Moment
    until: Moment | None = None
    left: int = 0

    def ids(self, parent: RunId, first: int = 0, many: int | None = None) -> list[RunId]:
        """Return ids of these runs, in the order in which they were spawned; their last digits differ, too."""
        last = self.count if many is None else min(first + many, self.count)
        drawn = (sha256(f"{parent} {place}".encode()).digest() for place in range(first, last))
        return [child_id(self.at, int.from_bytes(each[3:9]), int.from_bytes(each[:3])) for each in drawn]


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a run that no statement uses: they are stored as one text, so that a new fact changes no store.

    `tzdata` is the version of the time zone data by which an occurrence got its moment, None for a request. `payload`
    is that of its first attempt, if it was the job's. `worker` is the worker outside of nodes that had the newest
    attempt. `progress` (0 to 1) and its text were reported last by the newest attempt, `checkpoint` (JSON) goes to the
    next one (`attempt_notes`). `retry_of` is the run that this one repeats, `inherited` says if its payload came
    from a parent. `traceparent` is the place of the requester in a trace (`tokimori.model.cause`), `requested_by` the
    requester. `delay` is the microseconds from the last request to its due time, if the request named a delay.
    `unbegun` counts attempts that never began: their node released them. `begun` is when the first of several attempts
    began. `cause` is that of the failure (`tokimori.model.cause`), `line` its line as it was written, if that differs.
    `parents` are the runs that a join has waited for, whose results a repeated step gets as a
    list (`listed`); `then` are the steps to follow. `unique` is for how long it holds its key; `beside` is the run that
    held it when this one repeated another. `expires` is the moment from which it may not begin, and `approval` who has
    to approve it, or has answered. `spawned` are the runs for whose ends it waits; the parent of one that is `awaited`
    waits so. `as_stored` is the stored text, if another version wrote more than this one reads.
    """

    tzdata: str | None = None
    payload: str | None = None
    worker: str | None = None
    progress: float | None = None
    progress_text: str | None = None
    checkpoint: str | None = None
    retry_of: RunId | None = None
    inherited: bool = False
    traceparent: str | None = None
    requested_by: str | None = None
    delay: int | None = None
    unbegun: int = 0
    begun: Moment | None = None
    cause: str | None = None
    line: str | None = None
    parents: tuple[RunId, ...] = ()
    listed: bool = False
    then: tuple[Step, ...] = ()
    unique: str | None = None
    beside: RunId | None = None
    expires: Moment | None = None
    spawned: Spawned | None = None
    awaited: bool = False
    approval: Approval | None = None
    as_stored: str | None = None


NO_DETAILS = Details()


@lru_cache(maxsize=64)  # most runs have the same few facts
def encode_details(details: Details | None) -> str | None:
    """Return the text that stores keep; None if all facts are defaults."""
    if details is None or details == NO_DETAILS:
        return None
    return msgspec.json.encode(details).decode() if details.as_stored is None else details.as_stored


@lru_cache(maxsize=64)
def decode_details(text: str | None) -> Details:
    """Return the facts in a text of `encode_details`. An unreadable text is kept as it is."""
    if text is None:
        return NO_DETAILS
    try:
        details = msgspec.json.decode(text, type=Details)
    except msgspec.DecodeError:
        return Details(as_stored=text)
    return details if msgspec.json.encode(details).decode() == text else replace(details, as_stored=text)


def shown_due(run: "Run") -> Moment:
    """Return when the run is due, or was before it began to wait for what it has spawned."""
    return run.due if run.details.spawned is None or run.due != NEVER else run.details.spawned.due


class Run(Struct, frozen=True, gc=False):
    """One occurrence or one request, and its state.

    `attempt` counts claims, begun or not; `failures` and `lost` are what the retry budgets have used. `node_id`, `pid`,
    `started`, `exit_code`, `signal` and `error` are those of the newest attempt. `cancel` is the reason of an order to
    end that its node has still to carry out. `lane` is None while the job is paused. `parent_id` is the run whose end,
    or whose code, requested this one, and `root` the first run of that chain (`tokimori.model.dependents`). `result`
    goes to its children as their payload. `concurrency_key` is fixed when the run is made. `blocked_on` is the line in
    which a blocked run waits (`tokimori.model.semaphores`): None is that of its job's `max_running`. `cpu` (in
    microseconds) and `memory` (bytes, at its peak) are what the newest attempt cost; None if that can't be known.
    """

    id: RunId
    job_id: JobId
    incarnation: Incarnation
    origin: str
    nominal: Moment
    due: Moment
    state: RunState
    priority: int
    rank: int
    lane: Lane | None
    created: Moment
    payload: str | None = None
    attempt: int = 0
    failures: int = 0
    lost: int = 0
    token: Token = FIRST_TOKEN
    node_id: NodeId | None = None
    pid: int | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    cancel: str | None = None
    details: Details = NO_DETAILS
    parent_id: RunId | None = None
    root: str | None = None
    result: str | None = None
    concurrency_key: str | None = None
    blocked_on: str | None = None
    cpu: int | None = None
    memory: int | None = None


SHORT = 8
"""Digits of a short id."""


def short_id(run_id: str) -> str:
    """Return the last digits of a run's id: the first ones are shared by all runs of a minute."""
    return run_id[-SHORT:]


def first_begin(run: Run) -> Moment | None:
    """Return when the first attempt of an ended run began, as far as that is known; of another run its newest one."""
    begun = run.details.begun if run.ended is not None else None
    return run.started if begun is None or run.started is None else min(begun, run.started)


LONG = "(long)"
"""Mark in a list of runs for a text that is longer than its reader wants."""


LONGEST_ERROR = 4 * 64 * 1024
"""Bytes: an error or a result has at most 64 Ki characters."""


def brief(run: Run, longest: int | None) -> Run:
    """Return the run without texts longer than so many bytes; 0 or below: without any; None: as it is."""
    if longest is None:
        return run
    texts = {"payload": run.payload, "error": run.error, "details": encode_details(run.details), "result": run.result}
    long = [name for name, text in texts.items() if text is not None and (longest <= 0 or len(text.encode()) > longest)]
    instead: dict[str, Any] = dict.fromkeys(long, LONG if longest > 0 else None)
    if "details" in instead:
        instead["details"] = decode_details(instead["details"])
    return replace(run, **instead)


def is_brief(run: Run) -> bool:
    """Return if a text of the run was left out, or equals the mark for that."""
    return LONG in (run.payload, run.error, run.result, run.details.as_stored)


class Attempt(Struct, frozen=True, kw_only=True):
    """One try at a run. A first attempt that succeeded is kept in the run itself and has no row."""

    run_id: RunId
    number: int
    token: Token
    node_id: NodeId | None
    outcome: str
    pid: int | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    cpu: int | None = None
    memory: int | None = None


_MOST_BITS = 63
"""Of a number in the times of an output."""
_LAST_MOMENT = 253_402_300_799_999_999
"""Of the year 9999."""


class Output(Struct, frozen=True, kw_only=True):
    """Output of an attempt: its first and last bytes (each at most 64 KiB), and the number of all.

    While the attempt runs, `head` is empty and `tail` is the newest output. If all fits into `head`, `tail` is empty.
    `times` says when its bytes came, as `times_since` makes it; empty: unknown.
    """

    run_id: RunId
    attempt: int
    size: int
    head: bytes = b""
    tail: bytes = b""
    times: bytes = b""


def times_since(zero: Moment, marks: bytes) -> bytes:
    """Return the times of an output from a keeper's marks, whose milliseconds count from that moment."""
    return zero.to_bytes(8, "big", signed=True) + marks if marks else b""


def shifted_times(times: bytes, shift: int) -> bytes:
    """Return the times moved by so many microseconds."""
    return times_since(Moment(int.from_bytes(times[:8], "big", signed=True) + shift), times[8:])


def marks_in(times: bytes) -> Iterator[tuple[int, Moment]]:
    """Yield the place and the moment of each byte that came later than the one before it.

    The marks may come from a foreign program: the first invalid one ends them.
    """
    zero = int.from_bytes(times[:8], "big", signed=True)
    place = milliseconds = number = bits = 0
    is_place = True
    for byte in times[8:]:
        number |= (byte & 127) << bits
        bits += 7
        if bits > _MOST_BITS:
            return
        if byte > 127:
            continue
        if is_place:
            place += number
        else:
            milliseconds += number
            if (moment := zero + milliseconds * 1000) > _LAST_MOMENT:
                return
            yield place, Moment(moment)
        is_place, number, bits = not is_place, 0, 0


class SkipReason(StrEnum):
    """Reasons why an occurrence became no run."""

    MISFIRE = "misfire"
    """Missed, and the job's misfire policy does not run it."""
    GRACE = "grace"
    """Later than the job's grace."""
    OVERLAP = "overlap"
    """`max_running` runs were active."""
    FULL = "full"
    """`max_waiting` runs waited beside those that ran."""
    PAUSED = "paused"
    """The job was paused."""
    PARKED = "parked"
    """The job was parked."""


class Skip(Struct, frozen=True, kw_only=True):
    """A range of consecutive occurrences, `first` and `last` included, that became no run for one reason."""

    first: Moment
    last: Moment
    count: int
    reason: SkipReason


def never_begun(run: Run) -> bool:
    """Return if no attempt of the run has begun; the one of a running run is still to begin."""
    return run.attempt - (run.state is RunState.RUNNING) == run.details.unbegun


def expired(run: Run, now: Moment) -> str | None:
    """Return why a run, which has just been claimed or stands still, may not begin any more; None if it may."""
    if run.details.expires is None or run.details.expires > now or not never_begun(run):
        return None
    return f"it had not begun by {format_moment(run.details.expires)}, when its request expired"


def may_drop(run: Run, attempt: int) -> bool:
    """Return if the run does not run after this many attempts, which its caller knows not to have begun."""
    return run.state in STANDING_STILL and run.attempt == attempt


def may_hold(run: Run) -> bool:
    """Return if the run can be held; a held one stays. Raises `Refused` for one that runs or has ended."""
    if run.state in {RunState.RUNNING, *ENDS}:
        allowed = "a run that has not started"
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed=allowed)
    return run.state is not RunState.HELD


def may_resume(run: Run) -> bool:
    """Return if the run is held; other live ones stay as they are. Raises `Refused` for one that has ended."""
    if run.state in ENDS:
        raise Refused(f"run {run.id} is {run.state}", field="state", value=run.state, allowed="a held run")
    return run.state is RunState.HELD
