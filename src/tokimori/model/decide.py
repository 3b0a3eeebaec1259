"""What becomes of a job's occurrences up to now: runs and skips, as one plan. Pure."""

from dataclasses import dataclass, field
from typing import assert_never

from msgspec import Struct

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Incarnation, JobId, Lane
from tokimori.model.job import Job, JobState, lane_of, limit_of, rank_of
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Skip, SkipReason, scheduled_origin
from tokimori.schedules.schedule import OnDemand, Schedule
from tokimori.schedules.zones import tzdata_version

MOST_OCCURRENCES = 10_000
"""How many occurrences one call decides; the next call goes on."""
MOST_CATCHING_UP = 1_000
"""How many runs of one job may be active while missed occurrences are caught up with."""
PACE = SECOND
"""When a job whose catch-up is full is looked at again."""


class Due(Struct, frozen=True, kw_only=True):
    """A job that wants to be looked at, and what `decide` has to know of its runs.

    `active` is how many runs count against `max_running`; `tail` is the newest row of its ledger, where that is a skip.
    """

    job: Job
    active: int = 0
    tail: Skip | None = None


class PlannedRun(Struct, frozen=True, kw_only=True):
    """A run to be; the shell adds the id."""

    origin: str
    nominal: Moment
    due: Moment
    priority: int
    rank: int
    lane: Lane


class Plan(Struct, frozen=True, kw_only=True):
    """What `apply` writes together, if version and `fired_from` are still what they were.

    `skips` are finished rows: one that begins where a known row began replaces it. `replaces`: the active scheduled
    runs from before this plan are to be cancelled. `anchor`, `runs_remaining` and `tzdata` are the job's from now on;
    `tzdata` is that of the runs too.
    """

    job_id: JobId
    incarnation: Incarnation
    version: int
    fired_from: Moment
    fired_through: Moment
    next_due: Moment | None
    state: JobState
    anchor: Moment
    runs_remaining: int | None
    tzdata: str
    runs: tuple[PlannedRun, ...] = ()
    skips: tuple[Skip, ...] = ()
    replaces: bool = False


@dataclass(slots=True)
class _Draft:
    """A plan in the making: the walk's own notes, never seen outside."""

    due: Due
    now: Moment
    cursor: Moment
    runs: list[PlannedRun] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    tail: Skip | None = None
    replaces: bool = False
    full: bool = False

    def run(self, nominal: Moment) -> None:
        definition = self.due.job.definition
        self.runs.append(
            PlannedRun(
                origin=scheduled_origin(nominal),
                nominal=nominal,
                due=nominal,
                priority=definition.priority,
                rank=rank_of(nominal, definition.priority),
                lane=lane_of(definition),
            )
        )
        self.cursor = nominal
        self.tail = None

    def skip(self, first: Moment, last: Moment, count: int, reason: SkipReason) -> None:
        """Note a range; equal neighbours are one."""
        self.cursor = last
        if self.tail is not None and self.tail.reason is reason:
            first, count = self.tail.first, self.tail.count + count
            if self.skips and self.skips[-1].first == first:
                self.skips.pop()
        self.tail = Skip(first=first, last=last, count=count, reason=reason)
        self.skips.append(self.tail)

    def skip_through(self, schedule: Schedule, last: Moment | None, reason: SkipReason) -> None:
        """Note every occurrence after the cursor up to and including `last`, which is one, without walking."""
        first = schedule.next_after(self.cursor)
        if first is not None and last is not None and first <= last:
            self.skip(first, last, schedule.count(self.cursor, last), reason)


def decide(due: Due, schedule: Schedule, now: Moment) -> Plan:
    """Decide every occurrence after `fired_through` up to now: DESIGN §4 (misfire) and §5 (overlap).

    Walks at most `MOST_OCCURRENCES`; if more are left, or catch-up is full, `next_due` says when to call again.
    """
    job = due.job
    draft = _Draft(due=due, now=now, cursor=job.fired_through, tail=due.tail)
    _decide_missed(draft, schedule)
    if not draft.full:
        _decide_young(draft, schedule)
    upcoming = schedule.next_after(draft.cursor)
    return Plan(
        job_id=job.id,
        incarnation=job.incarnation,
        version=job.version,
        fired_from=job.fired_through,
        fired_through=draft.cursor,
        next_due=Moment(now + PACE) if draft.full else upcoming,
        state=JobState.FINISHED if has_ended(schedule, upcoming) else job.state,
        anchor=job.anchor,
        runs_remaining=job.runs_remaining,
        tzdata=tzdata_version(),
        runs=tuple(draft.runs),
        skips=tuple(draft.skips),
        replaces=draft.replaces,
    )


def skip_all(due: Due, schedule: Schedule, now: Moment, reason: SkipReason) -> Plan:
    """Skip every occurrence up to now: what a job that was paused or parked missed is not caught up with."""
    draft = _Draft(due=due, now=now, cursor=due.job.fired_through, tail=due.tail)
    draft.skip_through(schedule, schedule.last_before(Moment(now + 1)), reason)
    job = due.job
    upcoming = schedule.next_after(draft.cursor)
    return Plan(
        job_id=job.id,
        incarnation=job.incarnation,
        version=job.version,
        fired_from=job.fired_through,
        fired_through=draft.cursor,
        next_due=upcoming,
        state=JobState.FINISHED if has_ended(schedule, upcoming) else JobState.ENABLED,
        anchor=job.anchor,
        runs_remaining=job.runs_remaining,
        tzdata=tzdata_version(),
        skips=tuple(draft.skips),
    )


def has_ended(schedule: Schedule, upcoming: Moment | None) -> bool:
    """Whether the schedule has no more. One that never had any does not end: the job runs on demand."""
    return upcoming is None and not isinstance(schedule, OnDemand)


def _decide_missed(draft: _Draft, schedule: Schedule) -> None:
    """Occurrences that are later than `grace`, then those that are more than `late_after` late."""
    definition = draft.due.job.definition
    if definition.grace is not None:
        too_late = schedule.last_before(Moment(draft.now - round(definition.grace * SECOND)))
        draft.skip_through(schedule, too_late, SkipReason.GRACE)
    newest = schedule.last_before(Moment(draft.now - round(definition.late_after * SECOND)))
    if newest is None or newest <= draft.cursor:
        return
    match definition.misfire:
        case Misfire.SKIP:
            draft.skip_through(schedule, newest, SkipReason.MISFIRE)
        case Misfire.LATEST:
            draft.skip_through(schedule, schedule.last_before(newest), SkipReason.MISFIRE)
            _decide_one(draft, newest)
        case Misfire.ALL:
            _catch_up(draft, schedule, newest)
        case _:
            assert_never(definition.misfire)


def _catch_up(draft: _Draft, schedule: Schedule, newest: Moment) -> None:
    room = MOST_CATCHING_UP - draft.due.active
    while (moment := schedule.next_after(draft.cursor)) is not None and moment <= newest:
        if len(draft.runs) >= room:
            draft.full = True
            return
        draft.run(moment)


def _decide_young(draft: _Draft, schedule: Schedule) -> None:
    for _ in range(MOST_OCCURRENCES - len(draft.runs)):
        moment = schedule.next_after(draft.cursor)
        if moment is None or moment > draft.now:
            return
        _decide_one(draft, moment)


def _decide_one(draft: _Draft, moment: Moment) -> None:
    """One occurrence that may run, against the runs that are active and those of this plan."""
    definition = draft.due.job.definition
    limit = limit_of(definition)
    active = 0 if draft.replaces else draft.due.active
    if not limit or active + len(draft.runs) < limit:
        draft.run(moment)
        return
    match definition.on_overlap:
        case Overlap.SKIP:
            draft.skip(moment, moment, 1, SkipReason.OVERLAP)
        case Overlap.QUEUE:
            draft.run(moment)
        case Overlap.REPLACE:
            _replace(draft, moment)
        case _:
            assert_never(definition.on_overlap)


def _replace(draft: _Draft, moment: Moment) -> None:
    """The newcomer takes the place of the scheduled runs before it, those of this plan included."""
    draft.replaces = draft.replaces or draft.due.active > 0
    replaced, draft.runs = draft.runs, []
    draft.tail = draft.skips[-1] if draft.skips else draft.due.tail
    for run in replaced:
        draft.skip(run.nominal, run.nominal, 1, SkipReason.OVERLAP)
    draft.run(moment)
