"""Retention of ended runs and skips. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, HOUR, MILLISECOND, Moment
from tokimori.model.ids import Incarnation, JobId, RunId, uuid7
from tokimori.model.job import Job
from tokimori.model.policies import DEFAULT_KEPT_RUNS, DEFAULT_RETENTION, retention_of
from tokimori.model.target import Unreadable
from tokimori.model.transitions import ENDS

MOST_COUNTED = 50_000
"""Kept runs of a job, and skips, that are counted: those of a month with a run each minute."""
KEYS_KEPT = 30 * DAY
"""Least time that origins of requests, backfills and children are remembered after their run. DESIGN §3."""
ASKED_AGAIN = HOUR
"""The same for jobs that keep nothing: longer than a caller repeats a request after a lost reply."""
NODES_KEPT = 30 * DAY
"""Time for which a node that has left is remembered: attempts of its runs name it, and so their host."""

FIRST_ID, LAST_ID = RunId("00000000-0000-0000-0000-000000000000"), RunId("ffffffff-ffff-ffff-ffff-ffffffffffff")
"""Between them are all ids of runs."""
PASSED = 10
"""Index entries that take as long to pass as one row takes to look at."""


class Expiry(Struct, frozen=True, kw_only=True):
    """Rows of a job that may be pruned, except its newest `keep_runs` finished runs.

    Scheduled runs that ended before `before`, other runs that ended before `keyed_before`, which is never later, and
    skips of `incarnation` whose last moment is before `before`. The newest skip stays: an open range may still grow.
    `deleted`: the job is gone. If another one has its id, only skips are pruned.

    A store goes on where it stopped: first it passes `keep_runs` runs, from the run `kept` downwards. Then it looks,
    upwards, at the runs made after `after` and before both `kept` and `made_before`.
    """

    job_id: JobId
    incarnation: Incarnation
    before: Moment
    keyed_before: Moment
    keep_runs: int
    made_before: RunId
    kept: RunId = LAST_ID
    after: RunId = FIRST_ID
    deleted: bool = False

    def has_expired(self, origin: str, ended: Moment) -> bool:
        """Return if a finished run made before `kept` may go."""
        return ended < (self.before if origin.startswith("s:") else self.keyed_before)

    def passed(self, wanted: int, seen: int, oldest: RunId | None) -> "Expiry":
        """Return the expiry after so many of the newest runs were passed. If there are fewer, none is left."""
        if oldest is None or seen < wanted:
            return replace(self, keep_runs=0, kept=FIRST_ID)
        return replace(self, keep_runs=self.keep_runs - seen, kept=oldest)


def rest_of(expiries: Sequence[Expiry], at: int | None, keep_runs: int, kept: RunId, after: RunId) -> Sequence[Expiry]:
    """Return the expiries that are left if a store stopped in the expiry of this number, from 1; None: at the end."""
    if at is None:
        return ()
    return (replace(expiries[at - 1], keep_runs=keep_runs, kept=kept, after=after), *expiries[at:])


class DailyCount(Struct, frozen=True, kw_only=True):
    """Number of a job's runs with one outcome on one day, or of occurrences skipped for one reason.

    `day` is midnight UTC: of a run's end, of a skip's last moment. `pruned` of the `count` have no row any more.
    `more`: there may be more, as only the newest `MOST_COUNTED` rows were counted.
    """

    day: Moment
    outcome: str
    count: int
    pruned: int
    more: bool = False


def daily_counts(rows: Iterable[tuple[Moment, str, int, int, int]]) -> list[DailyCount]:
    """Return counts from rows of several sources: day, outcome, kept, pruned, and how many rows were looked at."""
    kept: Counter[tuple[Moment, str]] = Counter()
    pruned: Counter[tuple[Moment, str]] = Counter()
    looked: Counter[bool] = Counter()
    for day, outcome, there, gone, seen in rows:
        kept[day, str(outcome)] += int(there)
        pruned[day, str(outcome)] += int(gone)
        looked[outcome in ENDS] += seen
    return [
        DailyCount(
            day=day,
            outcome=outcome,
            count=kept[day, outcome] + pruned[day, outcome],
            pruned=pruned[day, outcome],
            more=looked[outcome in ENDS] > MOST_COUNTED,
        )
        for day, outcome in sorted(kept)
    ]


def expiry_of(job: Job, now: Moment) -> Expiry | None:
    """Return the expiry of the job; None if its definition can't be read, as then its retention is unknown.

    Without a schedule every run is a request or a child. With a retention of zero only counts are kept, unless the job
    sets `keep_runs`.
    """
    definition = job.definition
    if isinstance(definition.target, Unreadable):
        return None
    length = retention_of(definition.retention)
    before = Moment(now - length)
    keyed_before = Moment(min(before, now - KEYS_KEPT) if length else now - ASKED_AGAIN)
    if definition.schedule is None:
        before = keyed_before
    forgets = not length and definition.keep_runs == DEFAULT_KEPT_RUNS
    return Expiry(
        job_id=job.id,
        incarnation=job.incarnation,
        before=before,
        keyed_before=keyed_before,
        keep_runs=0 if forgets else definition.keep_runs,
        made_before=first_id_at(before),
    )


def expiry_of_deleted(job_id: JobId, incarnation: Incarnation, now: Moment) -> Expiry:
    """Return the expiry of a deleted job: the default time, and no number of runs."""
    before = Moment(now - retention_of(DEFAULT_RETENTION))
    return Expiry(
        job_id=job_id,
        incarnation=incarnation,
        before=before,
        keyed_before=Moment(min(before, now - KEYS_KEPT)),
        keep_runs=0,
        made_before=first_id_at(before),
        deleted=True,
    )


def day_of(moment: Moment) -> Moment:
    """Return midnight UTC before it."""
    return Moment(moment - moment % DAY)


def first_id_at(moment: Moment) -> RunId:
    """Return the smallest id of a run made at this moment: by it an index finds older runs.

    It is the smallest of its millisecond: ids that databases make for runs of children are ordered no finer.
    """
    return RunId(uuid7(Moment(max(moment - moment % MILLISECOND, 0)), bytes))
