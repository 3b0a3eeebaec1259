"""How long what has ended is kept. Pure."""

from msgspec import Struct

from tokimori.clock import DAY, MILLISECOND, Moment
from tokimori.model.ids import Incarnation, JobId, RunId, uuid7
from tokimori.model.job import Job
from tokimori.model.policies import DEFAULT_RETENTION, retention_of
from tokimori.model.target import Unreadable

KEYS_KEPT = 30 * DAY
"""How long at least the origins of requests, backfills and children are known after the end of their run. DESIGN §3."""
NODES_KEPT = 30 * DAY
"""How long a node that went is known: the attempts of its runs name it, and by it their host."""


class Expiry(Struct, frozen=True, kw_only=True):
    """What of a job may be pruned, but for its newest `keep_runs` finished runs.

    Scheduled runs that ended before `before`, other runs that ended before `keyed_before`, which is never later, and
    skips of `incarnation` whose last moment is before `before`. The newest skip stays: an open range may still grow.
    `deleted`: the job is gone. Where another one has its id, only the skips are concerned.
    """

    job_id: JobId
    incarnation: Incarnation
    before: Moment
    keyed_before: Moment
    keep_runs: int
    deleted: bool = False


class DailyCount(Struct, frozen=True, kw_only=True):
    """How many runs of a job ended so on one day, or how many occurrences were skipped for that reason.

    `day` is midnight UTC: of a run's end, of a skip's last moment. `pruned` of the `count` have no row any more.
    """

    day: Moment
    outcome: str
    count: int
    pruned: int


def expiry_of(job: Job, now: Moment) -> Expiry | None:
    """What of the job may go; None where its definition can't be read: nobody here knows how long it stays.

    Of a job without a schedule every run is a request or a child.
    """
    definition = job.definition
    if isinstance(definition.target, Unreadable):
        return None
    before = Moment(now - retention_of(definition.retention))
    keyed_before = Moment(min(before, now - KEYS_KEPT))
    return Expiry(
        job_id=job.id,
        incarnation=job.incarnation,
        before=keyed_before if definition.schedule is None else before,
        keyed_before=keyed_before,
        keep_runs=definition.keep_runs,
    )


def expiry_of_deleted(job_id: JobId, incarnation: Incarnation, now: Moment) -> Expiry:
    """What is left of a job that is gone: it keeps the default time, and no number of runs."""
    before = Moment(now - retention_of(DEFAULT_RETENTION))
    return Expiry(
        job_id=job_id,
        incarnation=incarnation,
        before=before,
        keyed_before=Moment(min(before, now - KEYS_KEPT)),
        keep_runs=0,
        deleted=True,
    )


def day_of(moment: Moment) -> Moment:
    """Midnight UTC before it."""
    return Moment(moment - moment % DAY)


def first_id_at(moment: Moment) -> RunId:
    """No run made at this moment or later has a smaller id: by it an index finds old runs.

    The smallest of its millisecond: ids that databases make for runs of children are ordered no finer.
    """
    return RunId(uuid7(Moment(max(moment - moment % MILLISECOND, 0)), bytes))
