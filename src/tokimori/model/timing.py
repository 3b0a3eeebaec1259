"""From an occurrence to the moment at which its run is due: delay and jitter. Pure.

`delay`, as in PerfectSched, is added to the nominal time, and lateness counts from there: `late_after`, `grace` and the
misfire policy compare now with nominal + delay. So does the decision itself: whether an occurrence is missed, or
overlaps, is decided when its delay is over, not before. Jitter comes on top, and makes no run late.
"""

from hashlib import blake2b

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job


def decidable(definition: Definition, now: Moment) -> Moment:
    """Return the newest nominal time whose delay is over."""
    return Moment(now - round(definition.delay * SECOND))


def look_at(definition: Definition, nominal: Moment) -> Moment:
    """Return the moment at which to decide the occurrence: nominal + delay."""
    return Moment(nominal + round(definition.delay * SECOND))


def due_of(job: Job, nominal: Moment) -> Moment:
    """Return the moment at which the run of the occurrence is due: nominal + delay + its part of the jitter."""
    definition = job.definition
    return Moment(look_at(definition, nominal) + spread(job.id, nominal, round(definition.jitter * SECOND)))


def spread(job_id: JobId, nominal: Moment, width: int) -> int:
    """Microseconds in [0, width), evenly spread over jobs and over occurrences.

    A hash and no chance: every node, and every retry, has the same answer for an occurrence.
    """
    if not width:
        return 0
    digest = blake2b(f"{nominal} {job_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) * width >> 64
