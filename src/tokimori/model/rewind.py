"""Rewind: a cursor that a clock ahead has moved past now goes back to now, and no moment comes twice. Pure.

Moments behind the new cursor that already have a run are left out of the schedule from then on
(`Definition.fired_ahead`), as otherwise only the cursor says which scheduled runs exist.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, Moment
from tokimori.model.decide import decidable, has_ended, next_look
from tokimori.model.job import Job, JobState, moments_in, schedule_of
from tokimori.model.policies import AnchoredOn
from tokimori.model.run import NEVER, OF_PARENT, Run, Skip, asked_by
from tokimori.model.transitions import RunState
from tokimori.schedules.counting import count_until
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.zones import tzdata_version

MARGIN = MINUTE
"""Lead, besides its period, from which a cursor counts as ahead."""
MOST_FIRED = 10_000
"""Most moments with a run that are remembered."""


class Ahead(Struct, frozen=True, kw_only=True):
    """Records of a job after now: the nominal times of scheduled runs, and the skips that end there.

    `lost`: why the records are incomplete; None: they are complete. `pruned`: some were of a day to come.
    """

    fired: Sequence[Moment] = ()
    skips: Sequence[Skip] = ()
    lost: str | None = None
    pruned: bool = False


def is_ahead(job: Job, schedule: Schedule, now: Moment) -> bool:
    """Return whether the job has decided moments that are to come, farther than its period and `MARGIN`."""
    ahead = job.fired_through - decidable(job.definition, now)
    return ahead > MARGIN and ahead > MARGIN + _period(schedule, now)


def rewound(job: Job, schedule: Schedule, ahead: Ahead, now: Moment) -> tuple[Job, list[Skip]] | None:
    """Return the job with its cursor at now, and the skips that are cut there.

    If its grid was not changed since then, it begins right before the first decided moment, as its author wanted. None:
    nothing was decided.
    """
    through = decidable(job.definition, now)
    starts = [*ahead.fired, *(skip.first for skip in ahead.skips)]
    is_unchanged = job.updated <= now + MARGIN
    if not starts and is_unchanged and not ahead.pruned:
        return None
    if starts and is_unchanged and job.definition.anchored_on is AnchoredOn.GRID:
        through = Moment(max(through, min(starts) - 1))
    known = (*moments_in(job.definition.fired_ahead), *ahead.fired)
    kept = sorted({moment for moment in known if moment > through})[:MOST_FIRED]
    definition = replace(job.definition, fired_ahead=tuple(rows_of(kept)))
    anchor = _anchor(job, schedule, now)
    after = schedule_of(definition, anchor, job.id, job.days_off)
    upcoming = next_look(definition, after.next_after(through), job.runs_remaining)
    stopped = job.state in (JobState.PAUSED, JobState.PARKED)
    new = replace(
        job,
        version=job.version + 1,
        definition=definition,
        state=job.state if stopped else JobState.FINISHED if has_ended(after, upcoming) else JobState.ENABLED,
        created=min(job.created, now),
        updated=now,
        anchor=anchor,
        fired_through=through,
        next_due=None if stopped else upcoming,
        tzdata=tzdata_version(),
    )
    return new, [_cut(skip, schedule, through) for skip in ahead.skips if skip.first <= through < skip.last]


def brought_forward(run: Run, now: Moment, ended: Moment | None = None) -> tuple[Moment, Moment] | None:
    """Return the due and the nominal time of a run that a clock ahead has put off, or made ready too early.

    A retry is due now; its attempt may have begun before the clock was ahead: `ended` is when it ended. A request with
    a delay waits so long from now; one for a moment keeps it, and waits for it.
    """
    if run.due == NEVER:
        return None
    if run.started is not None:
        was_ahead = max(run.started, ended or run.started) > now + MARGIN
        return (now, run.nominal) if was_ahead and run.due > now else None
    delay = run.details.delay
    if delay is not None and run.due - delay > now + MARGIN:
        return Moment(now + delay), Moment(now + delay)
    is_early = run.state is not RunState.WAITING and asked_by(run.origin) == "request" and run.due > now + MARGIN
    return at_once(run, now) or ((run.due, run.nominal) if is_early else None)


def at_once(run: Run, now: Moment) -> tuple[Moment, Moment] | None:
    """Return the due and the nominal time of a run that a clock ahead was asked for at once; None: it was not.

    One that is held is ready then no sooner than it is due. An occurrence keeps its moment.
    """
    if run.origin.startswith(("s:", "b:")) or run.details.delay is not None:
        return None
    is_child = run.origin.startswith(OF_PARENT)  # its moment lies microseconds behind its making, for the order alone
    if (run.due > run.created and not is_child) or run.due <= now + MARGIN:
        return None
    return now, run.nominal if is_child else now


def lasting_from(run: Run, until: int, now: Moment) -> Moment | None:
    """Return when a run has to have begun, or to be approved, that may take so long: from now on instead of from a
    moment to come. None: it was given its time by the right clock, or the time is not `until`.
    """
    asked, since = run.details.approval, None
    if run.details.expires == until:
        since = run.created
    elif asked is not None and asked.until == until:
        since = asked.asked
    return None if since is None or since <= now + MARGIN else Moment(now + until - since)


def by_the_right_time(run: Run, wrong: int, right: int) -> Run:
    """Return the run with the `right` moment for the `wrong` one, by which it has to have begun or be approved."""
    details, asked = run.details, run.details.approval
    if details.expires == wrong:
        details = replace(details, expires=Moment(right))
    if asked is not None and asked.until == wrong:
        details = replace(details, approval=replace(asked, until=Moment(right)))
    return replace(run, details=details)


def without_passed(job: Job) -> Job | None:
    """Return the job without the moments of `fired_ahead` that the cursor has passed; None if there are none."""
    rows = job.definition.fired_ahead
    if not rows or max(first + step * (count - 1) for first, step, count in rows) > job.fired_through:
        return None
    return replace(job, version=job.version + 1, definition=replace(job.definition, fired_ahead=()))


def rows_of(moments: Iterable[Moment]) -> Iterator[tuple[Moment, int, int]]:
    """Return ordered moments as rows of equal distances, as `moments_in` reads them."""
    first, step, count = Moment(0), 0, 0
    for moment in moments:
        if count == 1 or (count and moment == first + step * count):
            step, count = moment - first if count == 1 else step, count + 1
            continue
        if count:
            yield first, step, count
        first, step, count = moment, 0, 1
    if count:
        yield first, step, count


def _period(schedule: Schedule, now: Moment) -> int:
    first = schedule.next_after(now)
    second = None if first is None else schedule.next_after(first)
    return 0 if first is None or second is None else second - first


def _anchor(job: Job, schedule: Schedule, now: Moment) -> Moment:
    """Return the anchor, which stays on its grid, and is not after now."""
    if job.anchor <= now:
        return job.anchor
    period = 0 if job.definition.anchored_on is AnchoredOn.LAST_RUN else _period(schedule, job.anchor)
    return Moment(job.anchor - -(-(job.anchor - now) // period) * period) if period else now


def _cut(skip: Skip, schedule: Schedule, through: Moment) -> Skip:
    count, _ = count_until(schedule, Moment(skip.first - 1), through)
    last = schedule.last_before(Moment(through + 1))
    return replace(skip, last=max(skip.first, last or skip.first), count=max(1, min(skip.count, count)))
