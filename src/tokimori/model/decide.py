"""Decision about a job's occurrences up to now: runs and skips, as one plan. Pure."""

from collections.abc import Callable, Generator
from hashlib import blake2b
from typing import assert_never

from msgspec import Struct, field

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Incarnation, JobId, Lane
from tokimori.model.job import Definition, Job, JobState, limit_of, most_active, schedule_of
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.policies import AnchoredOn, Misfire, Overlap
from tokimori.model.run import Details, Skip, SkipReason, scheduled_origin
from tokimori.schedules.counting import count_until
from tokimori.schedules.schedule import Bounded, OnDemand, Schedule
from tokimori.schedules.zones import tzdata_version


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
    """Return microseconds in [0, width), evenly spread over jobs and over occurrences.

    A hash and no chance: every node, and every retry, has the same answer for an occurrence.
    """
    if not width:
        return 0
    digest = blake2b(f"{nominal} {job_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) * width >> 64


MOST_OCCURRENCES = 10_000
"""How many occurrences one call decides; the next call goes on."""
MOST_CATCHING_UP = 1_000
"""How many runs of one job may be active while missed occurrences are caught up with."""
PACE = SECOND
"""When a job whose catch-up is full is looked at again."""
REPLACED = "replaced by a newer run"
"""Reason of a run that a newcomer has replaced."""


class Due(Struct, frozen=True, kw_only=True):
    """A due job, with the facts of its runs that `decide` needs.

    `active` is how many runs count against `max_running`; `tail` is the newest row of its ledger, if it is a skip.
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


class Plan(Struct, frozen=True):
    """Decisions that `apply` writes together, if version and `fired_from` are unchanged.

    `skips` are finished rows: one that begins where a known row began replaces it. `replaces`: the active scheduled
    runs from before this plan are to be cancelled. `anchor`, `runs_remaining` and `tzdata` are the job's from now on;
    `tzdata` and `concurrency_key` are those of the runs. `walked` is how many occurrences were decided one by one: what
    the plan cost. `most_active`: the job may not have more active runs than that, those of the plan included; None =
    any number.
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
    walked: int = 0
    concurrency_key: str | None = None
    most_active: int | None = None

    @property
    def details(self) -> Details:
        """Return the details of each run at its birth."""
        return Details(tzdata=self.tzdata)


class _Draft(Struct):
    """A plan in the making, private to `decide`. Occurrences of `asked` up to `until` are decided.

    `is_late` says if the call has taken long enough. `left_off`: the next call goes on behind the cursor.
    """

    due: Due
    asked: Schedule
    until: Moment
    cursor: Moment
    is_late: Callable[[], bool] = lambda: False
    left_off: bool = False
    runs: list[PlannedRun] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    tail: Skip | None = None
    replaces: bool = False
    full: bool = False
    walked: int = 0
    found: tuple[Moment, Moment | None] | None = None

    @property
    def upcoming(self) -> Moment | None:
        """Return the first occurrence after the cursor. No step costs as much: each is looked for once."""
        if self.found is None or self.found[0] != self.cursor:
            self.found = self.cursor, self.asked.next_after(self.cursor)
        return self.found[1]

    @property
    def remaining(self) -> int | None:
        """Return the number of scheduled runs that are left after this plan; only runs count."""
        limit = self.due.job.runs_remaining
        return None if limit is None else max(0, limit - len(self.runs))

    def is_to_leave_off(self) -> bool:
        """Return if the rest is for the next call; never before something is decided."""
        self.left_off = self.cursor > self.due.job.fired_through and self.is_late()
        return self.left_off

    def run(self, nominal: Moment) -> None:
        job = self.due.job
        due = due_of(job, nominal)
        self.runs.append(
            PlannedRun(
                origin=scheduled_origin(nominal),
                nominal=nominal,
                due=due,
                priority=job.definition.priority,
                rank=rank_of(due, job.definition.priority),
                lane=lane_of(job.definition),
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

    def skip_some(self, last: Moment | None, reason: SkipReason) -> None:
        """Skip the occurrences after the cursor up to and including `last`, which is one, until it is late."""
        first = self.upcoming
        if first is None or last is None or first > last:
            return
        number, at = count_until(self.asked, Moment(first - 1), last, self.is_late)
        self.left_off = at < last
        self.skip(first, (self.asked.last_before(Moment(at + 1)) or first) if self.left_off else last, number, reason)


def decide(due: Due, schedule: Schedule, now: Moment, is_late: Callable[[], bool] = lambda: False) -> Plan:
    """Decide every occurrence after `fired_through` whose delay is over: DESIGN §4 (misfire) and §5 (overlap).

    Walks at most `MOST_OCCURRENCES`, and neither walks nor counts more once `is_late` says so. If more are left, or
    catch-up is full, `next_due` says when to call again. The job is finished when its schedule names no more, and when
    `runs_remaining` runs have been made.
    """
    draft = _draft(due, schedule, now)
    draft.is_late = is_late
    _decide_missed(draft)
    if not (draft.full or draft.left_off):
        _decide_young(draft)
    return _plan(draft, schedule, due.job.state, again=Moment(now + PACE) if draft.full else None)


def skip_all(
    due: Due, schedule: Schedule, now: Moment, reason: SkipReason, is_late: Callable[[], bool] = lambda: False
) -> Generator[Skip, None, Plan]:
    """Skip every occurrence whose delay is over: what a job missed while it was paused or parked is not caught up.

    Yield the row of skips as far as it is counted whenever it is late, and go on from there.
    """
    draft = _draft(due, schedule, now)
    draft.is_late = is_late
    last = draft.asked.last_before(Moment(draft.until + 1))
    draft.skip_some(last, reason)
    while draft.left_off:
        yield draft.skips[-1]
        draft.skip_some(last, reason)
    return _plan(draft, schedule, JobState.ENABLED)


def reckoned(job: Job, schedule: Schedule) -> Plan:
    """Return the job with its next moment computed by this program's tzdata, and nothing decided."""
    due = Due(job=job)
    draft = _Draft(due=due, asked=schedule, until=job.fired_through, cursor=job.fired_through)
    return _plan(draft, schedule, job.state)


def unchanged(job: Job) -> Plan:
    """Return a plan that only marks the job as computed by this program's tzdata."""
    return Plan(
        job_id=job.id,
        incarnation=job.incarnation,
        version=job.version,
        fired_from=job.fired_through,
        fired_through=job.fired_through,
        next_due=job.next_due,
        state=job.state,
        anchor=job.anchor,
        runs_remaining=job.runs_remaining,
        tzdata=tzdata_version(),
    )


def next_look(definition: Definition, upcoming: Moment | None, remaining: int | None) -> Moment | None:
    """Return the moment to look at a job whose next occurrence is `upcoming`; None if there are no more."""
    return None if upcoming is None or remaining == 0 else look_at(definition, upcoming)


def has_ended(schedule: Schedule, upcoming: Moment | None) -> bool:
    """Return whether the schedule is over. A schedule that never had a moment does not end: its job runs on demand."""
    return upcoming is None and not isinstance(schedule, OnDemand)


def _draft(due: Due, schedule: Schedule, now: Moment) -> _Draft:
    cursor = due.job.fired_through
    asked = _schedule_to_decide(due.job.definition, schedule, cursor)
    return _Draft(due=due, asked=asked, until=decidable(due.job.definition, now), cursor=cursor, tail=due.tail)


def _schedule_to_decide(definition: Definition, schedule: Schedule, cursor: Moment) -> Schedule:
    """Return the schedule to decide. An interval that counts from the last run has only one moment until it fires."""
    on_grid = definition.anchored_on is AnchoredOn.GRID
    return schedule if on_grid else Bounded(schedule, None, schedule.next_after(cursor))


def _plan(draft: _Draft, schedule: Schedule, state: JobState, again: Moment | None = None) -> Plan:
    job = draft.due.job
    anchor = job.anchor
    if job.definition.anchored_on is AnchoredOn.LAST_RUN and draft.cursor > job.fired_through:
        anchor = draft.until
        schedule = schedule_of(job.definition, anchor, job.id, job.days_off)
    following = draft.upcoming if schedule is draft.asked else schedule.next_after(draft.cursor)
    upcoming = next_look(job.definition, following, draft.remaining)
    return Plan(  # the first ones by position: Python gathers more than 15 keywords in a dictionary
        job.id,
        job.incarnation,
        job.version,
        fired_from=job.fired_through,
        fired_through=draft.cursor,
        next_due=upcoming if again is None else again,
        state=JobState.FINISHED if has_ended(schedule, upcoming) else state,
        anchor=anchor,
        runs_remaining=draft.remaining,
        tzdata=tzdata_version(),
        runs=tuple(draft.runs),
        skips=tuple(draft.skips),
        replaces=draft.replaces,
        walked=draft.walked,
        concurrency_key=job.definition.concurrency_key,
        most_active=most_active(job.definition),
    )


def _decide_missed(draft: _Draft) -> None:
    """Decide occurrences that are later than `grace`, then those that are more than `late_after` late."""
    definition = draft.due.job.definition
    if definition.grace is not None:
        too_late = draft.asked.last_before(Moment(draft.until - round(definition.grace * SECOND)))
        draft.skip_some(too_late, SkipReason.GRACE)
        if draft.left_off or draft.is_to_leave_off():
            return
    late = Moment(draft.until - round(definition.late_after * SECOND))
    some = draft.upcoming is not None and draft.upcoming < late
    newest = draft.asked.last_before(late) if some else None
    if newest is None or draft.remaining == 0:
        return
    match definition.misfire:
        case Misfire.SKIP:
            draft.skip_some(newest, SkipReason.MISFIRE)
        case Misfire.LATEST:
            draft.skip_some(draft.asked.last_before(newest), SkipReason.MISFIRE)
            if not draft.left_off:
                _decide_one(draft, newest)
        case Misfire.ALL:
            _catch_up(draft, newest)
        case _:
            assert_never(definition.misfire)


def _catch_up(draft: _Draft, newest: Moment) -> None:
    most = most_active(draft.due.job.definition)
    room = (MOST_CATCHING_UP if most is None else min(most, MOST_CATCHING_UP)) - draft.due.active
    while (moment := draft.upcoming) is not None and moment <= newest and draft.remaining != 0:
        if len(draft.runs) >= room:
            draft.full = True
            return
        if draft.is_to_leave_off():
            return
        draft.walked += 1
        draft.run(moment)


def _decide_young(draft: _Draft) -> None:
    while draft.walked < MOST_OCCURRENCES:
        moment = draft.upcoming
        if moment is None or moment > draft.until or draft.remaining == 0 or draft.is_to_leave_off():
            return
        draft.walked += 1
        _decide_one(draft, moment)


def _decide_one(draft: _Draft, moment: Moment) -> None:
    """Decide one occurrence that may run, against the runs that are active and those of this plan."""
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
            _queue(draft, moment)
        case Overlap.REPLACE:
            _replace(draft, moment)
        case _:
            assert_never(definition.on_overlap)


def _queue(draft: _Draft, moment: Moment) -> None:
    most = most_active(draft.due.job.definition)
    if most is None or draft.due.active + len(draft.runs) < most:
        draft.run(moment)
    else:
        draft.skip(moment, moment, 1, SkipReason.FULL)


def _replace(draft: _Draft, moment: Moment) -> None:
    """Let the newcomer take the place of the scheduled runs before it, those of this plan included."""
    draft.replaces = draft.replaces or draft.due.active > 0
    replaced, draft.runs = draft.runs, []
    draft.tail = draft.skips[-1] if draft.skips else draft.due.tail
    for run in replaced:
        draft.skip(run.nominal, run.nominal, 1, SkipReason.OVERLAP)
    draft.run(moment)
