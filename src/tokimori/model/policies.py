"""What a job may ask for: how it is late, overlaps, retries and is lost."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

LONGEST = 3_155_760_000
"""A hundred years: the most seconds that a policy may name, so that every sum of moments stays a date.

Infinity has no form in JSON: a stored one could not be read back."""
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]


class Misfire(StrEnum):
    """What becomes of occurrences that are later than `late_after`."""

    LATEST = "latest"
    """One run for the newest missed occurrence, skips for the rest."""
    ALL = "all"
    """A run for each, oldest first, paced."""
    SKIP = "skip"
    """A skip for each."""


class Overlap(StrEnum):
    """What becomes of a scheduled occurrence while `max_running` runs of its job are active."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class AnchoredOn(StrEnum):
    """From where an interval is counted.

    `grid`: its start, or when the job was added; the moments stay what they are, whatever runs. `last run`: when the
    last occurrence was decided; there is only ever one next moment, one interval later.
    """

    GRID = "grid"
    LAST_RUN = "last run"


class OnLostLease(StrEnum):
    """What a node does with its processes when it can't renew its lease."""

    KILL = "kill"
    CONTINUE = "continue"


class OnExhausted(StrEnum):
    """What becomes of a job whose run has used up its retries. DESIGN §5."""

    FAIL = "fail"
    """The run failed, and the job goes on."""
    PARK = "park"
    """The job stops, too, until somebody resolves it."""


class Retry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a failed attempt is tried again.

    The nth retry waits `delay × backoff^(n-1)` seconds, at most `cap`, plus up to `jitter` of itself; none comes later
    than nominal time + `epsilon`. `attempts` counts the first try; lost attempts have a budget of their own.
    """

    attempts: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    delay: Seconds = 0
    backoff: Annotated[float, Meta(ge=1, le=1_000_000)] = 1
    cap: Seconds | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0
    epsilon: Seconds | None = None
    lost_attempts: Annotated[int, Meta(ge=0, le=1_000_000)] = 3
