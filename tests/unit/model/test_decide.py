"""What becomes of a job's occurrences: every policy, case by case."""

from itertools import count
from typing import Any

import msgspec
import pytest

from tests.unit.examples import NEW_YEAR, Every, Moments, a_definition, a_job, after, at_once, seconds
from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.model.decide import (
    MOST_CATCHING_UP,
    MOST_OCCURRENCES,
    PACE,
    Due,
    Plan,
    PlannedRun,
    decide,
    skip_all,
    unchanged,
)
from tokimori.model.ids import Lane
from tokimori.model.job import JobState
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Skip, SkipReason
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import OnDemand, Reboot, each_moment
from tokimori.schedules.zones import tzdata_version

MINUTELY = Every(MINUTE)
Found = tuple[list[float], list[tuple[float, float, int, str]]]
"""Seconds of the nominal moments of runs; (first, last, count, reason) of skips."""


def found(plan: Plan) -> Found:
    """A plan in seconds after the new year."""
    runs = [(run.nominal - NEW_YEAR) / SECOND for run in plan.runs]
    skips = [
        ((skip.first - NEW_YEAR) / SECOND, (skip.last - NEW_YEAR) / SECOND, skip.count, skip.reason.value)
        for skip in plan.skips
    ]
    return runs, skips


def due(*, active: int = 0, tail: Skip | None = None, **terms: object) -> Due:
    """A job decided up to the new year. Runs may overlap unless the terms say otherwise."""
    return Due(job=a_job(a_definition(**{"max_running": 0, **terms})), active=active, tail=tail)


def test_what_is_due_runs() -> None:
    """An occurrence whose moment has come becomes a run with all that the store needs."""
    plan = decide(due(priority=2, queue="q", labels={"a": "b"}), MINUTELY, seconds(60))
    assert plan.runs == (
        PlannedRun(
            origin="s:2030-01-01T00:01:00Z",
            nominal=seconds(60),
            due=seconds(60),
            priority=2,
            rank=seconds(60 - 2 * 60),
            lane=Lane("q||a=b"),
        ),
    )
    assert (plan.fired_from, plan.fired_through, plan.next_due) == (NEW_YEAR, seconds(60), seconds(120))
    assert (plan.job_id, plan.incarnation, plan.version, plan.state) == ("job", 1, 1, JobState.ENABLED)


@pytest.mark.parametrize("now", [-3600, -1, 0, 1, 59.999999])
def test_nothing_is_decided_early(now: float) -> None:
    """Before the next moment, and after a backward jump of the clock, a plan is empty and moves nothing."""
    plan = decide(due(), MINUTELY, seconds(now))
    assert (plan.runs, plan.skips, plan.fired_through, plan.next_due) == ((), (), NEW_YEAR, seconds(60))


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize(("late", "missed"), [(0, False), (59, False), (60, False), (60.000001, True), (90, True)])
def test_missed_is_over_late_after(misfire: Misfire, late: float, missed: bool) -> None:
    """An occurrence is missed when it is over `late_after` late; younger ones fire, whatever the misfire policy."""
    plan = decide(due(misfire=misfire), Moments((seconds(60),)), seconds(60 + late))
    dropped = missed and misfire is Misfire.SKIP
    assert found(plan) == (([], [(60, 60, 1, "misfire")]) if dropped else ([60], []))


@pytest.mark.parametrize("misfire", Misfire)
def test_what_was_decided_is_not_decided_again(misfire: Misfire) -> None:
    """Not even where the next occurrence is late by exactly `late_after`: the one before it has had its run."""
    fired = msgspec.structs.replace(due(misfire=misfire).job, fired_through=seconds(60), next_due=seconds(120))
    assert found(decide(Due(job=fired), MINUTELY, seconds(180))) == ([120, 180], [])


HOUR_LATE: list[tuple[dict[str, Any], Found]] = [
    ({"misfire": Misfire.LATEST}, ([3540, 3600], [(60, 3480, 58, "misfire")])),
    ({"misfire": Misfire.SKIP}, ([3600], [(60, 3540, 59, "misfire")])),
    ({"misfire": Misfire.ALL}, ([*range(60, 3601, 60)], [])),
    ({"misfire": Misfire.LATEST, "late_after": 0}, ([3600], [(60, 3540, 59, "misfire")])),
    ({"misfire": Misfire.SKIP, "late_after": 0}, ([], [(60, 3600, 60, "misfire")])),
    ({"misfire": Misfire.SKIP, "late_after": 3600}, ([*range(60, 3601, 60)], [])),
    ({"misfire": Misfire.LATEST, "late_after": 1800}, ([*range(1800, 3601, 60)], [(60, 1740, 29, "misfire")])),
    ({"misfire": Misfire.ALL, "grace": 600}, ([*range(3060, 3601, 60)], [(60, 3000, 50, "grace")])),
    (
        {"misfire": Misfire.LATEST, "grace": 600},
        ([3540, 3600], [(60, 3000, 50, "grace"), (3060, 3480, 8, "misfire")]),
    ),
    ({"misfire": Misfire.SKIP, "grace": 600}, ([3600], [(60, 3000, 50, "grace"), (3060, 3540, 9, "misfire")])),
    ({"misfire": Misfire.ALL, "grace": 0}, ([], [(60, 3600, 60, "grace")])),
    ({"misfire": Misfire.LATEST, "grace": 30}, ([3600], [(60, 3540, 59, "grace")])),
    ({"misfire": Misfire.LATEST, "grace": 7200}, ([3540, 3600], [(60, 3480, 58, "misfire")])),
]


@pytest.mark.parametrize(("terms", "expected"), HOUR_LATE)
def test_an_hour_late(terms: dict[str, Any], expected: Found) -> None:
    """After an hour away (one second past a whole minute), each misfire policy with each grace does as DESIGN §4 says.

    Grace binds young occurrences too: where it is shorter than `late_after`, nothing runs that is later than it.
    """
    assert found(decide(due(**terms), MINUTELY, seconds(3601))) == expected


ONE_AT_A_TIME = [
    (Overlap.SKIP, 0, ([60], [(120, 180, 2, "overlap")]), False),
    (Overlap.SKIP, 1, ([], [(60, 180, 3, "overlap")]), False),
    (Overlap.QUEUE, 0, ([60, 120, 180], []), False),
    (Overlap.QUEUE, 1, ([60, 120, 180], []), False),
    (Overlap.REPLACE, 0, ([180], [(60, 120, 2, "overlap")]), False),
    (Overlap.REPLACE, 1, ([180], [(60, 120, 2, "overlap")]), True),
]


@pytest.mark.parametrize("max_running", [None, 1])
@pytest.mark.parametrize(("overlap", "active", "expected", "replaces"), ONE_AT_A_TIME)
def test_one_at_a_time(max_running: int | None, overlap: Overlap, active: int, expected: Found, replaces: bool) -> None:
    """A scheduled job runs one at a time by default; what comes meanwhile is skipped, queues or replaces."""
    plan = decide(
        due(max_running=max_running, on_overlap=overlap, late_after=600, active=active), MINUTELY, seconds(180)
    )
    assert (found(plan), plan.replaces) == (expected, replaces)


TWO_AT_A_TIME = [
    (Overlap.SKIP, 0, 240, ([60, 120], [(180, 240, 2, "overlap")]), False),
    (Overlap.SKIP, 1, 240, ([60], [(120, 240, 3, "overlap")]), False),
    (Overlap.SKIP, 5, 240, ([], [(60, 240, 4, "overlap")]), False),
    (Overlap.QUEUE, 5, 240, ([60, 120, 180, 240], []), False),
    (Overlap.REPLACE, 0, 240, ([180, 240], [(60, 120, 2, "overlap")]), False),
    (Overlap.REPLACE, 1, 60, ([60], []), False),
    (Overlap.REPLACE, 1, 180, ([120, 180], [(60, 60, 1, "overlap")]), True),
    (Overlap.REPLACE, 2, 120, ([60, 120], []), True),
    (Overlap.REPLACE, 2, 180, ([180], [(60, 120, 2, "overlap")]), True),
]


@pytest.mark.parametrize(("overlap", "active", "now", "expected", "replaces"), TWO_AT_A_TIME)
def test_two_at_a_time(overlap: Overlap, active: int, now: int, expected: Found, replaces: bool) -> None:
    """The limit counts active runs and those of the plan; a newcomer that replaces ends all of them at once."""
    plan = decide(due(max_running=2, on_overlap=overlap, late_after=600, active=active), MINUTELY, seconds(now))
    assert (found(plan), plan.replaces) == (expected, replaces)


@pytest.mark.parametrize(
    ("active", "max_waiting", "expected"),
    [
        (0, 0, ([60], [(120, 240, 3, "full")])),
        (0, 2, ([60, 120, 180], [(240, 240, 1, "full")])),
        (2, 2, ([60], [(120, 240, 3, "full")])),
        (3, 2, ([], [(60, 240, 4, "full")])),
        (9, 2, ([], [(60, 240, 4, "full")])),
        (9, None, ([60, 120, 180, 240], [])),
    ],
)
def test_a_queue_with_a_bound(active: int, max_waiting: int | None, expected: Found) -> None:
    """With `max_running` 1 a queue grows up to `max_waiting`; the rest is skipped, as what the job had no room for."""
    waiting = due(active=active, max_running=1, max_waiting=max_waiting, on_overlap=Overlap.QUEUE, late_after=600)
    plan = decide(waiting, MINUTELY, seconds(240))
    assert found(plan) == expected
    assert plan.most_active == (None if max_waiting is None else 1 + max_waiting)


def test_catching_up_keeps_the_bound_on_what_waits() -> None:
    """With a bound on what waits no missed occurrence is lost: as many as there is room for, and the rest later."""
    missed = due(active=1, max_running=1, max_waiting=1, misfire=Misfire.ALL, late_after=0)
    plan = decide(missed, MINUTELY, seconds(240.5))
    assert found(plan) == ([60], [])
    assert plan.next_due == seconds(240.5) + PACE


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("active", [0, 1, 2])
def test_without_a_limit_nothing_overlaps(misfire: Misfire, overlap: Overlap, active: int) -> None:
    """Overlap exists only where a limit is reached (DESIGN §5): unlimited jobs never skip for it, nor replace."""
    plan = decide(due(misfire=misfire, on_overlap=overlap, active=active), MINUTELY, seconds(119))
    assert (found(plan), plan.replaces) == (([60], []), False)


LATE_AND_FULL = [
    (Misfire.LATEST, Overlap.SKIP, ([], [(60, 180, 3, "misfire"), (240, 300, 2, "overlap")])),
    (Misfire.LATEST, Overlap.QUEUE, ([240, 300], [(60, 180, 3, "misfire")])),
    (Misfire.LATEST, Overlap.REPLACE, ([300], [(60, 180, 3, "misfire"), (240, 240, 1, "overlap")])),
    (Misfire.SKIP, Overlap.SKIP, ([], [(60, 240, 4, "misfire"), (300, 300, 1, "overlap")])),
    (Misfire.SKIP, Overlap.QUEUE, ([300], [(60, 240, 4, "misfire")])),
    (Misfire.SKIP, Overlap.REPLACE, ([300], [(60, 240, 4, "misfire")])),
    (Misfire.ALL, Overlap.SKIP, ([60, 120, 180, 240], [(300, 300, 1, "overlap")])),
    (Misfire.ALL, Overlap.QUEUE, ([60, 120, 180, 240, 300], [])),
    (Misfire.ALL, Overlap.REPLACE, ([300], [(60, 240, 4, "overlap")])),
]


@pytest.mark.parametrize(("misfire", "overlap", "expected"), LATE_AND_FULL)
def test_late_and_full(misfire: Misfire, overlap: Overlap, expected: Found) -> None:
    """With a run active at the limit: runs of misfire = all queue, the others go by the overlap policy (DESIGN §5)."""
    plan = decide(due(max_running=1, active=1, misfire=misfire, on_overlap=overlap), MINUTELY, seconds(301))
    assert found(plan) == expected
    assert plan.replaces == (overlap is Overlap.REPLACE)


TAIL = Skip(first=seconds(-120), last=NEW_YEAR, count=3, reason=SkipReason.OVERLAP)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.REPLACE])
def test_equal_skips_extend_one_row(overlap: Overlap) -> None:
    """Skips that follow skips for the same reason extend the row that the ledger ends with."""
    plan = decide(due(tail=TAIL, max_running=1, active=1, on_overlap=overlap, late_after=600), MINUTELY, seconds(180))
    extended = (-120, 180, 6, "overlap") if overlap is Overlap.SKIP else (-120, 120, 5, "overlap")
    assert found(plan)[1] == [extended]


def test_another_reason_begins_a_row() -> None:
    """A skip for another reason than the one before begins a row, and leaves the one before alone."""
    plan = decide(due(tail=TAIL, misfire=Misfire.SKIP), MINUTELY, seconds(121))
    assert found(plan) == ([120], [(60, 60, 1, "misfire")])


def test_a_run_ends_a_row() -> None:
    """A skip after a run begins a row, also where the one before the run has the same reason."""
    plan = decide(due(tail=TAIL, max_running=1, late_after=600), MINUTELY, seconds(180))
    assert found(plan) == ([60], [(120, 180, 2, "overlap")])


def test_catching_up_is_paced() -> None:
    """With misfire = all, so many runs are active at most; the rest, young ones too, wait for a second."""
    job = due(misfire=Misfire.ALL, active=MOST_CATCHING_UP - 3)
    now = seconds(100_000)
    plan = decide(job, Every(), now)
    assert found(plan) == ([1, 2, 3], [])
    assert (plan.fired_through, plan.next_due, plan.state) == (seconds(3), now + PACE, JobState.ENABLED)


@pytest.mark.parametrize("active", [MOST_CATCHING_UP, MOST_CATCHING_UP + 50])
def test_catching_up_waits_for_room(active: int) -> None:
    """Where as many runs are active as may be, nothing is decided, and the job is looked at again in a second."""
    plan = decide(due(misfire=Misfire.ALL, active=active), Every(), seconds(1000))
    assert (found(plan), plan.fired_through, plan.next_due) == (([], []), NEW_YEAR, seconds(1001))


def test_catching_up_ends_with_the_young() -> None:
    """Once the missed ones fit, the same call goes on with the young ones, and then to the next moment."""
    plan = decide(due(misfire=Misfire.ALL, active=MOST_CATCHING_UP - 940), Every(), seconds(1000))
    assert [run.nominal for run in plan.runs] == [seconds(n) for n in range(1, 1001)]
    assert plan.next_due == seconds(1001)


def test_a_call_walks_so_far_and_goes_on_in_the_next() -> None:
    """A call decides at most MOST_OCCURRENCES, one by one; the job stays due, and the next call goes on from there."""
    job, now = due(late_after=20_000), seconds(12_000)
    first = decide(job, Every(), now)
    assert (len(first.runs), first.fired_through) == (MOST_OCCURRENCES, seconds(10_000))
    assert first.next_due == seconds(10_001)
    second = decide(after(job, first), Every(), now)
    assert [run.nominal for run in second.runs] == [seconds(n) for n in range(10_001, 12_001)]


@pytest.mark.parametrize("misfire", [Misfire.LATEST, Misfire.SKIP])
@pytest.mark.parametrize("grace", [None, 30 * DAY / SECOND])
def test_a_year_of_missed_seconds_costs_nothing(misfire: Misfire, grace: float | None) -> None:
    """A secondly job that was away for a year is counted in a few pieces, not 31 million times."""
    schedule, now, looks = parse_schedule("* * * * * *"), Moment(NEW_YEAR + 365 * DAY), count()
    job, runs, ledger = due(misfire=misfire, grace=grace, late_after=5), 0, dict[Moment, int]()
    while job.job.fired_through < now:
        plan = decide(job, schedule, now, lambda: next(looks) < 0)
        runs, job = runs + len(plan.runs), after(job, plan)
        ledger |= {skip.first: skip.count for skip in plan.skips}
    assert runs + sum(ledger.values()) == 365 * 86_400
    assert next(looks) < 60


@pytest.mark.parametrize("grace", [None, 0])
def test_a_long_absence_is_counted_in_pieces(grace: float | None) -> None:
    """A call that is late leaves off; the job stays due meanwhile, and the pieces are one row of skips."""
    schedule = on_business_days(parse_schedule("*/30 * * * *"), parse_days_off([], ["sat", "sun"]), Shift.NEXT, "UTC")
    job, now = due(misfire=Misfire.SKIP, grace=grace), Moment(NEW_YEAR + 10 * DAY)
    pieces = list[Plan]()
    while job.job.fired_through < now - 30 * MINUTE:
        pieces.append(decide(job, schedule, now, lambda: True))
        job = after(job, pieces[-1])
    assert len(pieces) > 8
    assert all(plan.next_due == schedule.next_after(plan.fired_through) for plan in pieces)
    (skip,) = pieces[-2].skips
    assert (skip.first, skip.count) == (seconds(1_800), len(list(each_moment(schedule, NEW_YEAR, skip.last))))


@pytest.mark.parametrize("terms", [{"late_after": 600}, {"misfire": Misfire.ALL}, {"grace": 240, "late_after": 0}])
def test_a_call_that_takes_long_leaves_off(terms: dict[str, Any]) -> None:
    """It decides something, and the next call goes on behind that: all pieces together are what one call decides."""
    whole = decide(due(**terms), MINUTELY, seconds(600))
    job, pieces = due(**terms), list[Plan]()
    while job.job.next_due is None or job.job.next_due <= seconds(600):
        pieces.append(decide(job, MINUTELY, seconds(600), lambda: True))
        job = after(job, pieces[-1])
    assert [run for plan in pieces for run in plan.runs] == [*whole.runs]
    assert list({skip.first: skip for plan in pieces for skip in plan.skips}.values()) == [*whole.skips]
    assert len(pieces) > 1
    assert all(plan.fired_through > plan.fired_from for plan in pieces)


def test_a_year_of_missed_seconds_is_resumed_at_once() -> None:
    """A job that was paused for a year costs no more."""
    schedule, now, looks = parse_schedule("* * * * * *"), Moment(NEW_YEAR + 365 * DAY), count()
    plan = at_once(skip_all(due(), schedule, now, SkipReason.PAUSED, lambda: next(looks) < 0))
    assert next(looks) < 60
    assert found(plan) == ([], [(1, 365 * 86_400, 365 * 86_400, "paused")])


def test_skip_all_spares_nothing() -> None:
    """Whatever was due up to now, this very moment included, is skipped; the job is enabled, and goes on after it."""
    paused = msgspec.structs.replace(due().job, state=JobState.PAUSED)
    plan = at_once(skip_all(Due(job=paused), MINUTELY, seconds(120), SkipReason.PAUSED))
    assert found(plan) == ([], [(60, 120, 2, "paused")])
    assert (plan.fired_through, plan.next_due, plan.state) == (seconds(120), seconds(180), JobState.ENABLED)


def test_skip_all_goes_on_where_it_left_off() -> None:
    """A call that is late yields the row so far, and goes on behind it: the pieces are what one call decides."""
    schedule = on_business_days(parse_schedule("*/30 * * * *"), parse_days_off([], ["sat", "sun"]), Shift.NEXT, "UTC")
    now = Moment(NEW_YEAR + 10 * DAY)
    pieces = skip_all(due(), schedule, now, SkipReason.PAUSED, lambda: True)
    rows = list[Skip]()
    while True:
        try:
            rows.append(next(pieces))
        except StopIteration as end:
            plan = end.value
            break
    assert len(rows) > 8
    assert [row.count for row in rows] == sorted({row.count for row in rows})
    assert plan == at_once(skip_all(due(), schedule, now, SkipReason.PAUSED))


def test_skip_all_extends_a_row() -> None:
    """A second pause right after the first extends its row."""
    tail = Skip(first=seconds(-60), last=NEW_YEAR, count=2, reason=SkipReason.PAUSED)
    assert found(at_once(skip_all(due(tail=tail), MINUTELY, seconds(60), SkipReason.PAUSED))) == (
        [],
        [(-60, 60, 3, "paused")],
    )


@pytest.mark.parametrize("now", [-10, 0, 59])
def test_skip_all_has_nothing_to_skip(now: float) -> None:
    """A short pause between two occurrences leaves no row."""
    plan = at_once(skip_all(due(), MINUTELY, seconds(now), SkipReason.PAUSED))
    assert (found(plan), plan.fired_through, plan.next_due) == (([], []), NEW_YEAR, seconds(60))


def test_the_last_occurrence_finishes_the_job() -> None:
    """With its last occurrence decided, run or skipped, a job is finished and wants nothing more."""
    schedule = Moments((seconds(60), seconds(120)))
    assert decide(due(), schedule, seconds(60)).state is JobState.ENABLED
    last = decide(due(), schedule, seconds(120))
    assert (last.state, last.next_due, last.fired_through) == (JobState.FINISHED, None, seconds(120))
    assert at_once(skip_all(due(), schedule, seconds(500), SkipReason.PAUSED)).state is JobState.FINISHED


@pytest.mark.parametrize("schedule", [OnDemand(), Reboot()])
def test_a_job_on_demand_is_never_finished(schedule: OnDemand) -> None:
    """A job that never runs by itself stays enabled: it can be asked for at any time."""
    for plan in (
        decide(due(), schedule, seconds(60)),
        at_once(skip_all(due(), schedule, seconds(60), SkipReason.PAUSED)),
    ):
        assert (plan.state, plan.next_due, plan.fired_through) == (JobState.ENABLED, None, NEW_YEAR)


def test_a_daily_job_after_a_long_weekend() -> None:
    """The plain case: a nightly report, away for three days, runs once for the newest night and skips the others."""
    job = Due(job=a_job(a_definition(schedule="0 2 * * *")))
    nights = Moments(tuple(Moment(NEW_YEAR + n * DAY + 2 * HOUR) for n in range(5)))
    plan = decide(job, nights, Moment(NEW_YEAR + 2 * DAY + 9 * HOUR))
    assert [run.origin for run in plan.runs] == ["s:2030-01-03T02:00:00Z"]
    assert [(skip.count, skip.reason) for skip in plan.skips] == [(2, SkipReason.MISFIRE)]


def test_what_can_not_be_reckoned_stays() -> None:
    """Its next moment, state and cursor are those of the job; only the rules by which it waits count as today's."""
    job = a_job(a_definition(), next_due=seconds(7), tzdata="2020a", runs_remaining=3)
    plan = unchanged(job)
    assert (plan.next_due, plan.state, plan.fired_through) == (job.next_due, job.state, job.fired_through)
    assert (plan.runs_remaining, plan.anchor, plan.runs, plan.skips) == (3, job.anchor, (), ())
    assert plan.tzdata == tzdata_version()
