"""What holds for every plan, whatever the job, the schedule and the moments at which it is looked at."""

from collections import Counter
from dataclasses import dataclass
from itertools import count, pairwise

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.examples import NEW_YEAR, Every, Moments, a_definition, a_job, after, at_once, seconds
from tokimori.clock import DAY, SECOND, Moment
from tokimori.model.decide import MOST_CATCHING_UP, Due, Plan, decide, skip_all
from tokimori.model.job import Definition, limit_of
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Skip, SkipReason
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule, next_moments

DEFINITIONS = st.builds(
    a_definition,
    misfire=st.sampled_from(Misfire),
    late_after=st.sampled_from([0, 1, 59.5, 60, 600, 86_400]),
    grace=st.sampled_from([None, 0, 5, 60, 3_600]),
    max_running=st.sampled_from([None, 0, 1, 2, 5]),
    on_overlap=st.sampled_from(Overlap),
)
SPARSE = st.lists(st.integers(-5, 2_000), unique=True, max_size=40).map(
    lambda moments: Moments(tuple(seconds(n) for n in sorted(moments)))
)
GRIDS = st.sampled_from([1, 7, 60, 61, 3_600]).map(lambda n: Every(n * SECOND))
CRON = st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 */2 * * 1-5", "15,45 1-3 * * *", "59 23 31 12 *"])
ZONED = st.builds(
    lambda text, zone: parse_schedule(text, zone=zone, anchor=NEW_YEAR, gap=Gap.SHIFT, fold=Fold.FIRST),
    CRON,
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe"]),
)
SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(SPARSE, GRIDS, ZONED)
Decided = list[tuple[Moment, str]]
"""Every occurrence of a plan with what became of it: `run`, or the reason of its skip."""


def decided(due: Due, plan: Plan, schedule: Schedule) -> Decided:
    """A plan taken apart. The part of an extended row that was there before counts for nothing."""
    known = due.tail
    rows = [(run.nominal, "run") for run in plan.runs]
    for row in plan.skips:
        extends = known is not None and row.first == known.first
        start = plan.fired_from if extends else Moment(row.first - 1)
        count = row.count - (known.count if known is not None and extends else 0)
        moments = next_moments(schedule, start, count)
        assert moments[-1] == row.last, "a row counts exactly the occurrences between its ends"
        rows += [(moment, row.reason.value) for moment in moments]
    return sorted(rows)


def by_hand(definition: Definition, active: int, occurrences: list[Moment], now: Moment) -> Decided:
    """DESIGN §4 and §5 said once more, one occurrence after the other, as slow and as plain as can be."""
    too_late = [m for m in occurrences if definition.grace is not None and now - m > definition.grace * SECOND]
    missed = [m for m in occurrences if now - m > definition.late_after * SECOND and m not in too_late]
    limit, rows = limit_of(definition), dict[Moment, str]()
    for moment in occurrences:
        running = active + sum(what == "run" for what in rows.values())
        if moment in too_late:
            rows[moment] = "grace"
        elif moment in missed and definition.misfire is Misfire.ALL:
            rows[moment] = "run"
        elif moment in missed and (definition.misfire is Misfire.SKIP or moment != missed[-1]):
            rows[moment] = "misfire"
        elif not limit or running < limit or definition.on_overlap is Overlap.QUEUE:
            rows[moment] = "run"
        elif definition.on_overlap is Overlap.SKIP:
            rows[moment] = "overlap"
        else:
            active = 0
            rows = {m: "overlap" if what == "run" else what for m, what in rows.items()}
            rows[moment] = "run"
    return list(rows.items())


@settings(max_examples=examples(300))
@given(DEFINITIONS, st.integers(0, 6), SCHEDULES, st.integers(-100, 3_000))
def test_decide_is_what_the_design_says(definition: Definition, active: int, schedule: Schedule, now: int) -> None:
    """For any policies and any schedule, `decide` agrees with the rules applied one by one."""
    occurrences = next_moments(schedule, NEW_YEAR, count_until(schedule, NEW_YEAR, seconds(now))[0])
    due = Due(job=a_job(definition), active=active)
    plan = decide(due, schedule, seconds(now))
    rows = decided(due, plan, schedule)
    if definition.misfire is Misfire.ALL and len(plan.runs) == MOST_CATCHING_UP - active:
        event("paced")
        occurrences = occurrences[: len(rows)]
    assert rows == by_hand(definition, active, occurrences, seconds(now))


@settings(max_examples=examples(100))
@given(DEFINITIONS, SCHEDULES, st.integers(-100, 3_000), st.integers(0, 5))
def test_pieces_are_the_whole(definition: Definition, schedule: Schedule, now: int, patience: int) -> None:
    """Decided a few occurrences at a time, the runs of each piece active in the next, all is what one call decides."""
    assume(definition.on_overlap is not Overlap.REPLACE)  # the run of another piece is cancelled instead
    first = due = Due(job=a_job(definition))
    rows: Decided = []
    next_due = Moment(NEW_YEAR)
    while next_due <= seconds(now):
        looks = count()
        plan = decide(due, schedule, seconds(now), lambda looks=looks: next(looks) >= patience)  # type: ignore[misc]
        rows += decided(due, plan, schedule)
        due = after(due, plan, active=due.active + len(plan.runs))
        next_due = Moment(seconds(now) + 1) if plan.next_due is None else plan.next_due
    assert sorted(rows) == decided(first, decide(first, schedule, seconds(now)), schedule)


@dataclass(frozen=True)
class Look:
    """A look at the job: so many seconds later, with so many of its runs still active."""

    later: int
    active: int
    resumes: bool


LOOKS = st.lists(
    st.builds(
        Look,
        later=st.one_of(st.integers(-30, 200), st.integers(0, 5_000), st.just(20_000)),
        active=st.sampled_from([0, 0, 1, 3, 990, 1_000]),
        resumes=st.booleans(),
    ),
    max_size=10,
)


@settings(max_examples=examples(300))
@given(DEFINITIONS, SCHEDULES, st.integers(0, 10 * DAY // SECOND), LOOKS)
def test_counts_balance(definition: Definition, schedule: Schedule, start: int, looks: list[Look]) -> None:
    """The ledger: every occurrence up to `fired_through` is one run or in one skip, and none is anything else.

    Whenever a job is looked at, however late or often, after jumps of the clock in either direction, and paused or not.
    """
    cursor, now = seconds(start), seconds(start)
    due = Due(job=a_job(definition, fired_through=cursor))
    ledger: Decided = []
    for look in looks:
        now = Moment(now + look.later * SECOND)
        due = Due(job=due.job, active=look.active, tail=due.tail)
        plan = at_once(skip_all(due, schedule, now, SkipReason.PAUSED)) if look.resumes else decide(due, schedule, now)
        assert plan.fired_from == due.job.fired_through
        assert plan.fired_through >= plan.fired_from, "the cursor never goes back"
        assert all(run.nominal <= now for run in plan.runs), "nothing runs early"
        new = decided(due, plan, schedule)
        assert plan.fired_through == (new[-1][0] if new else plan.fired_from)
        ledger += new
        due = after(due, plan)
    through = due.job.fired_through
    assert [moment for moment, _ in ledger] == next_moments(schedule, cursor, count_until(schedule, cursor, through)[0])
    assert len({moment for moment, _ in ledger}) == len(ledger)


@given(DEFINITIONS, SCHEDULES, st.integers(0, 3_000), st.integers(0, 6))
def test_a_second_look_changes_nothing(definition: Definition, schedule: Schedule, now: int, active: int) -> None:
    """Decided again at the same moment, a job has nothing new, unless the first call said that it was not done."""
    due = Due(job=a_job(definition), active=active)
    first = decide(due, schedule, seconds(now))
    again = decide(after(due, first, active=active), schedule, seconds(now))
    if first.next_due is None or first.next_due > seconds(now + 1):
        assert (again.runs, again.skips, again.replaces) == ((), (), False)
        assert (again.fired_through, again.next_due) == (first.fired_through, first.next_due)


@given(DEFINITIONS, SCHEDULES, st.integers(0, 3_000), st.integers(0, 6))
def test_rows_are_finished_and_in_order(definition: Definition, schedule: Schedule, now: int, active: int) -> None:
    """Skips of a plan are in order, apart, not empty; neighbours differ in their reason or have a run between them."""
    tail = Skip(first=seconds(-9), last=NEW_YEAR, count=2, reason=SkipReason.OVERLAP)
    plan = decide(Due(job=a_job(definition), active=active, tail=tail), schedule, seconds(now))
    rows = [row for row in (tail, *plan.skips) if row is not tail or not plan.skips or row.first != plan.skips[0].first]
    for row, other in pairwise(rows):
        between = [run for run in plan.runs if row.last < run.nominal < other.first]
        assert row.first <= row.last < other.first
        assert row.reason is not other.reason or between
    assert Counter(row.first for row in rows).most_common(1)[0][1] == 1
    assert all(row.count > 0 for row in rows)
    assert [run.nominal for run in plan.runs] == sorted({run.nominal for run in plan.runs})


@given(DEFINITIONS.filter(lambda definition: limit_of(definition) > 0), SCHEDULES, st.integers(0, 3_000))
def test_a_limited_job_that_skips_never_queues(definition: Definition, schedule: Schedule, now: int) -> None:
    """With on_overlap = skip, a plan never has more runs than there is room, but for a catch-up that was asked for."""
    for active in range(4):
        plan = decide(Due(job=a_job(definition), active=active), schedule, seconds(now))
        if definition.on_overlap is Overlap.SKIP and definition.misfire is not Misfire.ALL:
            assert len(plan.runs) <= max(0, limit_of(definition) - active)
