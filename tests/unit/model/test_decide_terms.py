"""What delay, jitter, the rest of a job's runs and its anchor make of its occurrences."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws import examples
from tests.unit.examples import NEW_YEAR, Every, Moments, a_definition, a_job, after, at_once, seconds
from tests.unit.model.test_decide_laws import DEFINITIONS, SCHEDULES, decided
from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.model.decide import Due, Plan, decide, due_of, reckoned, skip_all
from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.lanes import lane_of
from tokimori.model.policies import AnchoredOn, Misfire, Overlap
from tokimori.model.run import Details, SkipReason
from tokimori.schedules.schedule import Schedule, next_moments
from tokimori.schedules.zones import tzdata_version

MINUTELY = Every(MINUTE)
LOOKS = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3)), max_size=12)
"""So many seconds later, with so many runs active."""


def a_due(*, active: int = 0, runs_remaining: int | None = None, **terms: object) -> Due:
    """A job that is looked at, with these terms."""
    return Due(job=a_job(a_definition(**terms), runs_remaining=runs_remaining), active=active)


def nominals(plan: Plan) -> list[float]:
    """The planned runs, in seconds of the new year."""
    return [(run.nominal - NEW_YEAR) / SECOND for run in plan.runs]


def test_an_occurrence_waits_for_its_delay() -> None:
    """Before nominal + delay it is not decided; then it is, and that moment is when the job is looked at next."""
    due = a_due(delay=90)
    early = decide(due, MINUTELY, Moment(seconds(150) - 1))
    assert (early.runs, early.fired_through, early.next_due) == ((), NEW_YEAR, seconds(150))
    plan = decide(due, MINUTELY, seconds(150))
    (run,) = plan.runs
    assert (run.nominal, run.due, run.rank) == (seconds(60), seconds(150), seconds(150))
    assert (plan.fired_through, plan.next_due) == (seconds(60), seconds(210))


def test_lateness_counts_from_the_delays_end() -> None:
    """With a delay of an hour a run at nominal + 1 h is not late, and 61 s later it is missed."""
    schedule = Moments((seconds(60),))
    for misfire in (Misfire.SKIP, Misfire.LATEST):
        due = a_due(delay=3600, misfire=misfire)
        assert nominals(decide(due, schedule, seconds(3660 + 60))) == [60]
    late = decide(a_due(delay=3600, misfire=Misfire.SKIP), schedule, seconds(3660 + 61))
    assert [(skip.first, skip.reason) for skip in late.skips] == [(seconds(60), SkipReason.MISFIRE)]
    grace = decide(a_due(delay=3600, grace=5), schedule, seconds(3660 + 6))
    assert [skip.reason for skip in grace.skips] == [SkipReason.GRACE]


def test_a_delay_longer_than_the_interval_overlaps_nothing() -> None:
    """PerfectSched's slots go on one by one, each its delay late, whatever lies between nominal time and due."""
    due = a_due(delay=600)
    for n in range(1, 20):
        plan = decide(due, MINUTELY, seconds(600 + 60 * n))
        assert (nominals(plan), plan.skips) == ([60 * n], ())
        due = after(due, plan)


def test_jitter_makes_runs_due_later() -> None:
    """A run is planned at nominal + delay, and due by its own part of the jitter after that; ranked as it is due."""
    due = a_due(delay=5, jitter=30, max_running=0)
    plan = decide(due, MINUTELY, seconds(185))
    assert nominals(plan) == [60, 120, 180]
    for run in plan.runs:
        assert run.due == run.rank == due_of(due.job, run.nominal)
        assert 5 * SECOND <= run.due - run.nominal < 35 * SECOND
    assert decide(due, MINUTELY, seconds(185)) == plan, "at every retry the same"


def test_runs_remaining_is_counted_down() -> None:
    """Each planned run takes one; with the last one the job is finished, and later occurrences do not exist."""
    first = decide(a_due(runs_remaining=3, max_running=0), MINUTELY, seconds(60))
    assert (nominals(first), first.runs_remaining, first.state) == ([60], 2, JobState.ENABLED)
    last = decide(a_due(runs_remaining=3, max_running=0, late_after=3600), MINUTELY, seconds(600))
    assert (nominals(last), last.skips) == ([60, 120, 180], ())
    assert (last.runs_remaining, last.state, last.next_due) == (0, JobState.FINISHED, None)


@pytest.mark.parametrize("misfire", [Misfire.ALL, Misfire.LATEST, Misfire.SKIP])
def test_a_job_without_runs_left_makes_none(misfire: Misfire) -> None:
    """Whatever is missed or due, and however its row came to say 0."""
    plan = decide(a_due(runs_remaining=0, misfire=misfire), MINUTELY, seconds(600))
    assert (plan.runs, plan.state, plan.next_due) == ((), JobState.FINISHED, None)


def test_catch_up_ends_with_the_runs() -> None:
    """Missed occurrences that all run are counted like any others."""
    plan = decide(a_due(runs_remaining=4, misfire=Misfire.ALL), MINUTELY, seconds(6000))
    assert (nominals(plan), plan.state) == ([60, 120, 180, 240], JobState.FINISHED)


def test_what_was_skipped_or_replaced_is_not_counted() -> None:
    """Only occurrences that became runs count."""
    skipped = decide(a_due(runs_remaining=1, active=1), MINUTELY, seconds(60))
    assert (len(skipped.skips), skipped.runs_remaining, skipped.state) == (1, 1, JobState.ENABLED)
    replacing = a_due(runs_remaining=2, late_after=600, on_overlap=Overlap.REPLACE)
    plan = decide(replacing, MINUTELY, seconds(180))
    assert (nominals(plan), plan.runs_remaining) == ([180], 1)
    paused = at_once(skip_all(a_due(runs_remaining=1), MINUTELY, seconds(600), SkipReason.PAUSED))
    assert (paused.runs_remaining, paused.state) == (1, JobState.ENABLED)


@settings(max_examples=examples(200))
@given(
    DEFINITIONS, SCHEDULES, st.integers(1, 12), st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3)), max_size=12)
)
def test_a_job_makes_exactly_its_runs(
    definition: Definition, schedule: Schedule, runs_remaining: int, looks: list[tuple[int, int]]
) -> None:
    """Runs made + runs remaining is what it began with, at every look; none is made once it is finished."""
    due = Due(job=a_job(definition, runs_remaining=runs_remaining))
    now, made = NEW_YEAR, 0
    for later, active in looks:
        now = Moment(now + later * SECOND)
        plan = decide(Due(job=due.job, active=active, tail=due.tail), schedule, now)
        made += len(plan.runs)
        assert plan.runs_remaining is not None
        assert made + plan.runs_remaining == runs_remaining
        assert plan.state is not JobState.FINISHED or plan.next_due is None
        due = after(due, plan)
        if plan.state is JobState.FINISHED:
            break


@settings(max_examples=examples(200))
@given(DEFINITIONS, SCHEDULES, st.sampled_from([1, 30, 61, 4_000]), st.integers(0, 3_000), st.integers(0, 3))
def test_a_delay_moves_every_decision(
    definition: Definition, schedule: Schedule, delay: int, now: int, active: int
) -> None:
    """With a delay, now + delay brings the decisions that now brings without; only the runs are due later."""
    job = a_job(definition)
    delayed = a_job(replace(definition, delay=delay))
    plan = decide(Due(job=job, active=active), schedule, seconds(now))
    moved = decide(Due(job=delayed, active=active), schedule, seconds(now + delay))
    assert moved.skips == plan.skips
    back, lane = delay * SECOND, lane_of(definition)
    assert plan.runs == tuple(
        replace(run, due=Moment(run.due - back), rank=run.rank - back, lane=lane) for run in moved.runs
    )
    later = None if plan.next_due is None else Moment(plan.next_due + delay * SECOND)
    assert (moved.fired_through, moved.next_due, moved.state) == (plan.fired_through, later, plan.state)
    assert decided(Due(job=delayed), moved, schedule) == decided(Due(job=job), plan, schedule)


# From the last run


def last_run(text: str, **terms: Any) -> Due:
    """A job whose interval counts from its last run."""
    return a_due(schedule=text, anchored_on=AnchoredOn.LAST_RUN, **terms)


def look(due: Due, now: Moment) -> tuple[Plan, Due]:
    """Decide by the schedule as it stands; the plan, and the job once it is written."""
    plan = decide(due, schedule_of(due.job.definition, due.job.anchor, due.job.id), now)
    job: Job = replace(after(due, plan).job, anchor=plan.anchor, runs_remaining=plan.runs_remaining)
    return plan, Due(job=job, tail=after(due, plan).tail)


@pytest.mark.parametrize("text", ["every 10 minutes", "@every 600s", "R/2029-01-01T00:00:00Z/PT10M"])
def test_the_next_moment_counts_from_the_last_run(text: str) -> None:
    """Fired 25 s late, the next moment is an interval after that, and so on: no grid."""
    plan, due = look(last_run(text), seconds(625))
    assert (nominals(plan), plan.anchor, plan.next_due) == ([600], seconds(625), seconds(1225))
    plan, due = look(due, seconds(1230))
    assert (nominals(plan), plan.anchor, plan.next_due) == ([1225], seconds(1230), seconds(1830))


def test_of_many_missed_intervals_one_exists() -> None:
    """While a moment was not fired none after it exists: after an outage there is one run and nothing to skip."""
    plan, _ = look(last_run("every 10 minutes"), seconds(36_000))
    assert (nominals(plan), plan.skips, plan.next_due) == ([600], (), seconds(36_600))
    missed, _ = look(last_run("every 10 minutes", misfire=Misfire.SKIP), seconds(36_000))
    assert [(skip.first, skip.count) for skip in missed.skips] == [(seconds(600), 1)]
    assert (missed.runs, missed.next_due) == ((), seconds(36_600))


def test_an_interval_before_its_start_waits_for_it() -> None:
    """The first moment is the start; what follows counts from when that was fired."""
    plan, due = look(last_run("R/2030-01-01T01:00:00Z/P1D", time_zone="Europe/Paris"), seconds(0))
    assert plan.next_due == Moment(NEW_YEAR + HOUR)
    plan, due = look(due, Moment(NEW_YEAR + 2 * HOUR))
    assert (plan.anchor, plan.next_due) == (Moment(NEW_YEAR + 2 * HOUR), Moment(NEW_YEAR + 2 * HOUR + DAY))


def test_a_delay_is_not_added_twice() -> None:
    """With a delay the distance between two runs is the interval still."""
    plan, due = look(last_run("every 10 minutes", delay=60), seconds(660))
    assert (nominals(plan), plan.next_due) == ([600], seconds(1260))
    plan, _ = look(due, seconds(1260))
    assert (nominals(plan), plan.runs[0].due) == ([1200], seconds(1260))


def test_a_skipped_moment_counts_too() -> None:
    """What overlaps, or was missed while the job was paused, moves the anchor like a run."""
    plan, due = look(last_run("every 10 minutes"), seconds(600))
    plan = decide(Due(job=due.job, active=1), schedule_of(due.job.definition, due.job.anchor), seconds(1201))
    assert ([skip.reason for skip in plan.skips], plan.next_due) == ([SkipReason.OVERLAP], seconds(1801))
    job = last_run("every 10 minutes").job
    paused = at_once(skip_all(Due(job=job), schedule_of(job.definition, job.anchor), seconds(7000), SkipReason.PAUSED))
    assert ([skip.count for skip in paused.skips], paused.anchor, paused.next_due) == (
        [1],
        seconds(7000),
        seconds(7600),
    )


@given(
    st.sampled_from(["every 90 seconds", "@every 10m", "R/2030-01-01T00:05:00Z/PT1H", "R/2029-12-31T23:00:00/P1D"]),
    st.lists(st.integers(0, 20_000), max_size=10),
)
def test_moments_from_the_last_run_only_grow(text: str, looks: list[int]) -> None:
    """A decision leaves nothing due at its moment; nominal times increase; a run's anchor is when it was decided."""
    due, now, seen = last_run(text, time_zone="America/New_York"), NEW_YEAR, [NEW_YEAR]
    for later in looks:
        now = Moment(now + later * SECOND)
        plan, due = look(due, now)
        assert len(plan.runs) + len(plan.skips) <= 1
        assert plan.next_due is not None
        if plan.runs:
            assert plan.anchor == now
            seen.append(plan.runs[0].nominal)
        assert plan.next_due > now
    assert seen == sorted(set(seen))


# Another tzdata


def test_a_job_is_reckoned_anew_from_its_cursor() -> None:
    """Nothing is decided and nothing that was is looked at again; the moment may be one that has passed."""
    job = a_job(
        a_definition(delay=30), fired_through=seconds(120), runs_remaining=5, tzdata="2020a", anchor=seconds(-1)
    )
    plan = reckoned(job, MINUTELY)
    assert (plan.fired_from, plan.fired_through, plan.next_due) == (seconds(120), seconds(120), seconds(210))
    assert (plan.runs, plan.skips, plan.runs_remaining, plan.anchor) == ((), (), 5, seconds(-1))
    assert (plan.tzdata, plan.state) == (tzdata_version(), JobState.ENABLED)
    assert plan.details == Details(tzdata=tzdata_version())
    assert reckoned(job, Moments((seconds(60),))).state is JobState.FINISHED


@given(DEFINITIONS, SCHEDULES, st.integers(0, 3_000), st.integers(0, 3_000))
def test_reckoning_anew_loses_and_repeats_nothing(
    definition: Definition, schedule: Schedule, now: int, later: int
) -> None:
    """A job that is reckoned anew between two decisions decides what it would have decided."""
    first = Due(job=a_job(definition))
    between = after(first, decide(first, schedule, seconds(now)))
    anew = after(between, reckoned(between.job, schedule))
    assert replace(decide(anew, schedule, seconds(now + later)), version=1) == replace(
        decide(between, schedule, seconds(now + later)), version=1
    )
    assert next_moments(schedule, between.job.fired_through, 1) == next_moments(schedule, anew.job.fired_through, 1)
