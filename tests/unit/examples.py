"""Jobs, runs and schedules to test with."""

from bisect import bisect_left, bisect_right
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, parse_moment
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import Incarnation, JobId, Lane, RunId, Token
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.run import Run, Skip
from tokimori.model.target import Noop, Target
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.zones import tzdata_version

NEW_YEAR = parse_moment("2030-01-01T00:00:00Z")


_T = TypeVar("_T")


def at_once(steps: Generator[object, None, _T]) -> _T:
    """What is computed in steps, without a pause between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _T = end.value
            return found


def seconds(n: float) -> Moment:
    """So many seconds after the new year of 2030."""
    return Moment(NEW_YEAR + round(n * SECOND))


def a_run(**changes: object) -> Run:
    """A run in its first attempt, of the occurrence at the new year."""
    run = Run(
        id=RunId("run"),
        job_id=JobId("job"),
        incarnation=Incarnation(1),
        origin="s:2030-01-01T00:00:00Z",
        nominal=NEW_YEAR,
        due=NEW_YEAR,
        state=RunState.RUNNING,
        priority=0,
        rank=NEW_YEAR,
        lane=Lane("default||"),
        created=NEW_YEAR,
        attempt=1,
    )
    return replace(run, **changes)


def a_job(definition: Definition, **changes: object) -> Job:
    """An enabled job, added at the new year and decided up to there."""
    job = Job(
        id=JobId("job"),
        incarnation=Incarnation(1),
        version=1,
        definition=definition,
        created=NEW_YEAR,
        updated=NEW_YEAR,
        anchor=NEW_YEAR,
        fired_through=NEW_YEAR,
        tzdata=tzdata_version(),
    )
    return replace(job, **changes)


def a_task(target: Target, **facts: object) -> AttemptTask:
    """The first attempt at a run of the new year."""
    task = AttemptTask(
        run_id=RunId("run"),
        token=Token(1),
        attempt=1,
        job_id=JobId("job"),
        target=target,
        nominal=NEW_YEAR,
        due=NEW_YEAR,
        timeout=None,
        timeout_grace=10,
        kill_on_lost_lease=False,
    )
    return replace(task, **facts)


def a_definition(**terms: object) -> Definition:
    """A no-op that some schedule drives; the schedule itself is handed in where it is needed."""
    return Definition(**{"target": Noop(), "schedule": "* * * * * *", **terms})  # type: ignore[arg-type]


def after(due: Due, plan: Plan, *, active: int = 0) -> Due:
    """What the store says of the job once the plan is written."""
    job = replace(
        due.job,
        fired_through=plan.fired_through,
        next_due=plan.next_due,
        state=JobState(plan.state),
        anchor=plan.anchor,
        runs_remaining=plan.runs_remaining,
        tzdata=plan.tzdata,
    )
    return Due(job=job, active=active, tail=tail_of(due.tail, plan))


def tail_of(tail: Skip | None, plan: Plan) -> Skip | None:
    """The newest row of the ledger after the plan, where that is a skip."""
    newest = max((run.nominal for run in plan.runs), default=None)
    last = plan.skips[-1] if plan.skips else (None if plan.runs else tail)
    return None if last is None or (newest is not None and newest > last.last) else last


@dataclass(frozen=True, slots=True)
class Moments:
    """A schedule of exactly these moments, ascending."""

    moments: tuple[Moment, ...]

    def next_after(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        found = bisect_right(self.moments, moment)
        return self.moments[found] if found < len(self.moments) else None

    def last_before(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        found = bisect_left(self.moments, moment)
        return self.moments[found - 1] if found else None


@dataclass(frozen=True, slots=True)
class Every:
    """A schedule of every `period` microseconds, for ever, on the grid of the new year."""

    period: int = SECOND

    def next_after(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        return Moment(moment + self.period - (moment - NEW_YEAR) % self.period)

    def last_before(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        return Moment(moment - 1 - (moment - 1 - NEW_YEAR) % self.period)


class Counting:
    """A schedule that counts how often it is asked."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.asked = 0

    def next_after(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        self.asked += 1
        return self.schedule.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """See `Schedule`."""
        self.asked += 1
        return self.schedule.last_before(moment)
