"""Policies of a job: misfire, overlap, approval, retry and lost lease."""

from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.job_fields import LONGEST
from tokimori.schedules.duration import parse_duration

Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
Within = Annotated[float, Meta(ge=1, le=LONGEST)]
"""Seconds within which something is expected: nodes look only every few seconds."""
DEFAULT_RETENTION = "P30D"
DEFAULT_KEPT_RUNS = 1_000
MOST_KEPT_RUNS = 100_000
"""Largest value of `keep_runs`: pruning walks over that many index entries to find the oldest run to keep."""


class Misfire(StrEnum):
    """Policies for occurrences that are later than `late_after`."""

    LATEST = "latest"
    """One run for the newest missed occurrence, skips for the rest."""
    ALL = "all"
    """A run for each, oldest first, paced."""
    SKIP = "skip"
    """A skip for each."""


class Overlap(StrEnum):
    """Policies for a scheduled occurrence that comes while `max_running` runs of its job are active."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class AnchoredOn(StrEnum):
    """Beginnings from which intervals are counted.

    `grid`: the start of the schedule, or when the job was added; the moments stay what they are, whatever runs.
    `last run`: when the last occurrence was decided; there is only ever one next moment, one interval later.
    """

    GRID = "grid"
    LAST_RUN = "last run"


class Approver(StrEnum):
    """Roles of people who may approve a run, and refuse it."""

    OPERATE = "operate"
    ADMIN = "admin"


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question if a run may begin, and the answer: `approved` is None while there is none.

    The answer needs the role `approver`; with `four_eyes` nobody approves a run that he asked for. Without an answer
    `until` then the run counts as refused, `by` nobody.
    """

    approver: Approver = Approver.OPERATE
    four_eyes: bool = False
    asked: Moment
    until: Moment | None = None
    approved: bool | None = None
    by: str | None = None
    at: Moment | None = None
    reason: str | None = None

    @property
    def refusal(self) -> str:
        """Return the words for a refusal."""
        return f"refused{f' by {self.by}' if self.by else ''}{f': {self.reason}' if self.reason else ''}"


class OnLostLease(StrEnum):
    """Policies for processes of a node that can't renew its lease."""

    KILL = "kill"
    CONTINUE = "continue"


class OnExhausted(StrEnum):
    """Policies for a job whose run has used up its retries. DESIGN §5."""

    FAIL = "fail"
    """The run failed, and the job goes on."""
    PARK = "park"
    """The job stops, too, until a person resolves it."""


class Retry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Retry policy of a failed attempt.

    The nth retry waits `delay × backoff^(n-1)` seconds, at most `cap`, plus up to `jitter` of itself; none comes later
    than nominal time + `epsilon`. Lost attempts have a budget of their own.

    With `lost_attempts` = 0 nothing from outside begins a run a second time: no lost node, process or lease, no
    stopping node and no neighbour. Its own failures and requests are retried as ever.
    """

    attempts: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    delay: Seconds = 0
    backoff: Annotated[float, Meta(ge=1, le=1_000_000)] = 1
    cap: Seconds | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0
    epsilon: Seconds | None = None
    lost_attempts: Annotated[int, Meta(ge=0, le=1_000_000)] | Literal["unlimited"] = 3
    asked_delay: Seconds = 1
    asked_retries: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    wait: Seconds = 0

    @property
    def once_begun(self) -> bool:
        """Return if nothing from outside may begin a run a second time."""
        return self.lost_attempts == 0

    def may_lose(self, lost: int) -> bool:
        """Return if a run is begun again that has lost this many attempts."""
        return self.lost_attempts == "unlimited" or 0 < self.lost_attempts >= lost


@lru_cache(maxsize=256)
def retention_of(text: str) -> int:
    """Return the microseconds of a retention; a month counts 31 days: nothing goes too early. 0: nothing is kept.

    Raises `InvalidInput`.
    """
    try:
        duration = parse_duration(text, field="retention", above_zero=False)
    except InvalidSchedule as fault:
        allowed = "a duration such as P7D, 12h or P1Y2M10DT2H30M; PT0S keeps nothing"
        raise InvalidInput(fault.message, field=fault.field, value=fault.value, allowed=allowed) from None
    length = (duration.months * 31 + duration.days) * DAY + duration.exact
    if length > LONGEST * SECOND:
        allowed = "at most a hundred years"
        raise InvalidInput(f"retention: {text!r} is too long", field="retention", value=text, allowed=allowed)
    return length
