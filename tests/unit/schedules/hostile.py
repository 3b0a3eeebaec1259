"""Texts, calendars and moments that nobody means well with, and what must hold of any text that is accepted."""

import random
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tests.unit.examples import a_definition, a_job
from tests.unit.schedules import walk
from tests.unit.schedules.test_zones import ALL_ZONES
from tests.watchdog import slowness
from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.engine.fire import LONGEST
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.decide import Due, decide
from tokimori.model.policies import Misfire, Overlap
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.counting import count_until
from tokimori.schedules.days_off import DaysOff, parse_days_off
from tokimori.schedules.explain import explained
from tokimori.schedules.parse import _shared, parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule

T = TypeVar("T")
MOST_READING, MOST_ANSWERING = 0.020, 0.010
"""Seconds of the processor that reading a text, and any answer about it, may take."""
_TRIES, _LATER_TRIES = 3, 200
"""So often something is asked that took longer, at once and when all is asked: a machine may be busy for a while, and
all tests beside this one share its caches. Each time the text is read anew, so that nothing is known from before.
"""
FIRST, LAST = Moment(-62_135_596_800 * SECOND), Moment(253_402_300_799 * SECOND)
"""The years 1 to 9999."""
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RARE = (
    *("0 0 29 2 *", "0 0 29 2 */7", "0 0 0 29 2 * 2196", "59 59 23 31 12 ? 2199", "0 0 L-28 2 */6", "30 2 * 3 0#5"),
    *("*/30 2 * 3 0#2", "* * * * * *", "*/7 * * * * *", "0 0 31W 12 *", "0 0 0 1 1 * 1970-2199/50", "* * * * *"),
    *("@hourly", "@yearly", "*/*/* 9:30 (*)", "2030/*/1 *:0 (7)", "on friday at 10:00PM", "every day at 02:30"),
)
_PERIODS = (
    *("PT10S", "PT0.25S", "PT0.000001S", "PT36H", "P1D", "P2W", "P1M", "P3M", "P1Y", "P1M15D", "P1DT12H", "PT1S"),
    *("P1Y2M10DT2H30M15S", "PT90M", "P45D", "P18M", "PT1M1S", "P9000Y", "P1DT0.5S", "PT999999999S", "P400Y", "PT24H"),
)
_ABSENCES = (60 * SECOND, HOUR, DAY, 30 * DAY, 365 * DAY, 100 * 365 * DAY)
_YEARS = (1, 2, 1582, 1969, 1970, 1999, 2024, 2026, 2026, 2026, 2027, 2037, 2038, 2100, 2199, 2200, 9997, 9998, 9999)


class Case(NamedTuple):
    """A text and what a job says beside it."""

    text: str
    zone: str
    anchor: Moment
    gap: Gap
    fold: Fold
    days_off: DaysOff | None
    shift: Shift | None


def moment(rng: random.Random) -> Moment:
    """Anywhere in the calendar, often now, often at the edge of something."""
    match rng.randrange(4):
        case 0:
            return Moment(rng.randrange(FIRST, LAST))
        case 1:
            zone = rng.choice(walk.ODD_ZONES)
            return Moment(rng.choice(walk.transitions(zone)) * SECOND + rng.randrange(-2 * DAY, 2 * DAY))
        case 2:
            return Moment(rng.randrange(1_700_000_000, 2_000_000_000) * SECOND)
        case _:
            return Moment(rng.choice([FIRST, LAST, 0, 1_790_000_000 * SECOND]) + rng.randrange(-3, 4))


def case(rng: random.Random) -> Case:
    """A text of any notation, often of several members, often with exclusions and a calendar."""
    text = union(rng)
    if rng.random() < 0.3:
        text = f"{text} except {union(rng)}"
    days_off, shift = (calendar(rng), rng.choice([None, *Shift])) if rng.random() < 0.3 else (None, None)
    zone = rng.choice(["UTC", rng.choice(walk.ODD_ZONES), rng.choice(ALL_ZONES)])
    return Case(text, zone, moment(rng), rng.choice(list(Gap)), rng.choice(list(Fold)), days_off, shift)


def union(rng: random.Random) -> str:
    """One member or a few, now and then many."""
    number = rng.choice([1, 1, 1, 1, 2, 2, 3, 4]) if rng.random() < 0.97 else rng.randint(5, 60)
    return rng.choice(["; ", "\n"]).join(member(rng) for _ in range(number))


def member(rng: random.Random) -> str:
    """A text of one notation."""
    match rng.randrange(10):
        case 0:
            return f"R{rng.choice(['', '0', '1', '5', '1200', '999999999'])}/{stamp(rng)}/{rng.choice(_PERIODS)}"
        case 1:
            return f"R{rng.choice(['', '1', '1000'])}/{rng.choice([_PERIODS[0], rng.choice(_PERIODS)])}/{stamp(rng)}"
        case 2:
            unit = rng.choice(["second", "minute", "hour", "day"])
            return f"every {rng.choice([1, 2, 7, rng.randint(1, 1000)])} {unit}s"
        case 3:
            return f"at {stamp(rng)}"
        case 4:
            return rng.choice(_RARE)
        case _:
            return walk.random_expression(rng, seconds=rng.random() < 0.2)


def stamp(rng: random.Random) -> str:
    """A time in a year of some interest."""
    day = f"{rng.choice(_YEARS):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day}T{rng.choice([0, 2, rng.randint(0, 23)]):02}:{rng.choice(['00:00', '30:00', '59:59.999999'])}" + (
        rng.choice(["", "Z", "+02:00", "-03:30"])
    )


def calendar(rng: random.Random) -> DaysOff:
    """Days of the week, dates and ranges."""
    weekdays = rng.sample(_WEEKDAYS, rng.choice([0, 1, 2, 2, 6]))
    dates = [f"{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" for _ in range(rng.choice([0, 0, 2, 12]))]
    for _ in range(rng.choice([0, 0, 1, 3])):
        year, month = rng.choice(_YEARS[:-1]), rng.randint(1, 9)
        dates.append(f"{year:04}-{month:02}-05/{year:04}-{month + rng.choice([0, 1, 3]):02}-07")
    return parse_days_off(dates, weekdays)


def read(case: Case) -> Schedule | None:
    """The schedule, read anew; None where it is refused by an error of ours."""
    _shared.cache_clear()
    try:
        schedule = parse_schedule(case.text, zone=case.zone, anchor=case.anchor, gap=case.gap, fold=case.fold)
        if case.days_off is not None:
            schedule = on_business_days(schedule, case.days_off, case.shift, case.zone)
    except (InvalidSchedule, InvalidInput):
        return None
    return schedule


class _Slow(NamedTuple):
    """A question that took longer than it may: how many seconds it takes when it is asked anew.

    `most` is meant for the machines of `tests.watchdog`: where one is slower just now, what is asked is, too.
    """

    ask: Callable[[], float]
    case: Case
    most: float

    def asked(self) -> float:
        """What it would take such a machine now."""
        return self.ask() / slowness()

    def best(self) -> float:
        """What it takes at best, as soon as that is little enough."""
        best = self.asked()
        for _ in range(_LATER_TRIES):
            if best <= self.most:
                break
            best = min(best, self.asked())
        return best


class Examination:
    """What was asked about texts, each question of a text at a moment, and what took longer than it may."""

    def __init__(self) -> None:
        self.asked, self._slow = 0, list[_Slow]()

    def check(self, case: Case, rng: random.Random, moments: int = 8) -> None:
        """Read the text, and ask about it from several moments. Raises `AssertionError`."""
        self.asked += 1
        schedule, taken = _seconds(lambda: read(case))
        self._judge(taken, _Slow(lambda: _seconds(lambda: read(case))[1], case, MOST_READING))
        if schedule is None:
            return
        at = moment(rng)
        self._count(schedule, at, case, rng)
        self.within(lambda asked: explained(case.text, asked, zone=case.zone, after=at, n=5), schedule, case)
        self._decide(schedule, at, case, rng)
        for _ in range(moments):
            self._agree(schedule, moment(rng), case)

    def assert_fast(self) -> None:
        """Nothing takes longer than it may, at the best of some times."""
        taken = [(slow.best(), slow) for slow in self._slow]
        assert not [f"{seconds * 1_000:.1f} ms for {slow.case}" for seconds, slow in taken if seconds > slow.most]

    def within(self, ask: Callable[[Schedule], T], schedule: Schedule, case: Case) -> T:
        """The answer; it is asked for again where it took too long, for a machine may be busy."""
        self.asked += 1
        answer, taken = _seconds(lambda: ask(schedule))
        self._judge(taken, _Slow(lambda: _anew(ask, case), case, MOST_ANSWERING))
        return answer

    def _judge(self, taken: float, slow: _Slow) -> None:
        if taken > slow.most and all(slow.asked() > slow.most for _ in range(_TRIES)):
            self._slow.append(slow)

    def _agree(self, schedule: Schedule, at: Moment, case: Case) -> None:
        """The next moment, the last one and the number of those between know each other."""

        def following_of(moment: int) -> Moment | None:
            return self.within(lambda asked: asked.next_after(Moment(moment)), schedule, case)

        def before_of(moment: int) -> Moment | None:
            return self.within(lambda asked: asked.last_before(Moment(moment)), schedule, case)

        def count(after: int, through: int) -> int:
            return self.within(lambda asked: count_until(asked, Moment(after), Moment(through))[0], schedule, case)

        following, before = following_of(at), before_of(at)
        told = f"{case} at {at}: {before}, {following}"
        assert before is None or before < at, told
        assert following is None or following > at, told
        if following is not None:
            assert following_of(following - 1) == following, told
            assert before_of(following + 1) == following, told
            assert count(at, following) == 1, told
            assert count(at, following - 1) == 0, told
            assert before_of(following) in {before, at}, told
        if before is not None:
            assert following_of(before - 1) == before, told
            assert following_of(before) in {at, following}, told
            assert count(before - 1, at - 1) == 1, told

    def _count(self, schedule: Schedule, at: Moment, case: Case, rng: random.Random) -> None:
        """What is counted of a year in one step is the sum of its parts."""
        end = Moment(at + 365 * DAY)
        number, reached = self.within(lambda asked: count_until(asked, at, end, _ending()), schedule, case)
        if rng.random() < 0.2:
            middle = Moment(rng.randrange(at, reached))
            parts = count_until(schedule, at, middle)[0] + count_until(schedule, middle, reached)[0]
            assert number == parts, f"{case} from {at} by {middle} to {reached}: {number} is not {parts}"

    def _decide(self, schedule: Schedule, at: Moment, case: Case, rng: random.Random) -> None:
        """What a job has missed since then is decided a piece at a time, and a piece accounts for all its moments."""
        definition = a_definition(
            misfire=rng.choice(list(Misfire)),
            on_overlap=rng.choice(list(Overlap)),
            max_running=rng.choice([0, 1]),
            late_after=rng.choice([0, 60, 86_400]),
            grace=rng.choice([None, None, 30 * 86_400]),
        )
        due, now = Due(job=replace(a_job(definition), fired_through=at)), Moment(at + rng.choice(_ABSENCES))
        plan = self.within(lambda asked: decide(due, asked, now, _ending()), schedule, case)
        told = f"{case} by {definition} from {at} to {now}: {plan}"
        assert (
            len(plan.runs) + sum(skip.count for skip in plan.skips) == count_until(schedule, at, plan.fired_through)[0]
        ), told


def _ending() -> Callable[[], bool]:
    """What tells of a decision that begins now whether it has taken long enough, as nodes do."""
    end = time.thread_time() + LONGEST
    return lambda: time.thread_time() > end


def _seconds(ask: Callable[[], T]) -> tuple[T, float]:
    """The answer, and how long this thread's processor worked for it."""
    start = time.thread_time()
    answer = ask()
    return answer, time.thread_time() - start


def _anew(ask: Callable[[Schedule], object], case: Case) -> float:
    """How long the answer takes about a schedule that was just read."""
    schedule = read(case)
    assert schedule is not None, case
    return _seconds(lambda: ask(schedule))[1]
