"""A simulated year: fifty jobs in twelve zones leave exactly the ledger that a walk over the minutes of UTC names."""

import asyncio
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context

import pytest

from tests.simulation.year import DAY, HOUR, MINUTE, Days, Ledger, Machine, Nap, Steps, Timed, expected, second, walked
from tests.unit.examples import NEW_YEAR
from tokimori.model.policies import Misfire, Overlap
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule

JOBS = [
    Timed("30 2 * * *", "Europe/Paris", ("30 2 * * *",)),
    Timed("30 2 * * *", "Europe/Paris", ("30 2 * * *",), gap=Gap.SKIP),
    Timed("30 2 * * *", "Europe/Paris", ("30 2 * * *",), fold=Fold.BOTH),
    Timed("*/15 * * * *", "Europe/Paris", ("*/15 * * * *",), misfire=Misfire.ALL, limit=0),
    Timed("on sunday at 2:15AM", "Europe/Paris", ("15 2 * * sun",), misfire=Misfire.SKIP),
    Timed("0 9 * * 1-5 except * * 25 12 *", "Europe/Paris", ("0 9 * * 1-5",), but="* * 25 12 *"),
    Timed("0,30 1-3 * * *", "America/New_York", ("0,30 1-3 * * *",)),
    Timed("0,30 1-3 * * *", "America/New_York", ("0,30 1-3 * * *",), gap=Gap.SKIP, fold=Fold.BOTH),
    Timed("*/30 6-20 * * *", "America/New_York", ("*/30 6-20 * * *",), lasts=32 * MINUTE + 20),
    Timed("0 */2 * * *", "America/New_York", ("0 */2 * * *",), misfire=Misfire.ALL, limit=0),
    Timed("every day at 02:30", "America/New_York", ("30 2 * * *",), misfire=Misfire.ALL),
    Timed("R/2030-01-31T02:30:00/P1M", "America/New_York", ("30 2 L * *",)),
    Timed("45 1 * * *", "Australia/Lord_Howe", ("45 1 * * *",), fold=Fold.BOTH),
    Timed("15 2 * * *", "Australia/Lord_Howe", ("15 2 * * *",)),
    Timed("15 2 * * *", "Australia/Lord_Howe", ("15 2 * * *",), gap=Gap.LATER),
    Timed("*/15 2-5 * * *", "Australia/Lord_Howe", ("*/15 2-5 * * *",), lasts=20 * MINUTE + 7, overlap=Overlap.QUEUE),
    Timed("R/2030-01-01T02:10:00/P3D", "Australia/Lord_Howe", (Days(2, 10, 3, date(2030, 1, 1)),)),
    Timed("45 2 * * *", "Pacific/Chatham", ("45 2 * * *",)),
    Timed("0 3 * * *; 30 3 * * 1", "Pacific/Chatham", ("0 3 * * *", "30 3 * * 1"), gap=Gap.SKIP, fold=Fold.BOTH),
    Timed("*/30 * * * *", "Pacific/Chatham", ("*/30 * * * *",), misfire=Misfire.SKIP),
    Timed("every 45 minutes", "Pacific/Chatham", (Steps(45 * MINUTE, 45 * MINUTE),), grace=2 * HOUR),
    Timed("30 23 * * *", "America/Santiago", ("30 23 * * *",), fold=Fold.BOTH),
    Timed("30 0 * * *", "America/Santiago", ("30 0 * * *",)),
    Timed("*/*/* 0:30 (*)", "America/Santiago", ("30 0 * * *",), gap=Gap.SKIP),
    Timed("*/*/* *:20 (*)", "America/Santiago", ("20 * * * *",), misfire=Misfire.ALL, grace=6 * HOUR, limit=0),
    Timed("0 0 * * 5", "Africa/Cairo", ("0 0 * * 5",)),
    Timed("0,30 0 * * *", "Africa/Cairo", ("0,30 0 * * *",), gap=Gap.SKIP, fold=Fold.BOTH),
    Timed("5 9-11 * * *", "Africa/Cairo", ("5 9-11 * * *",), lasts=61 * MINUTE + 1, overlap=Overlap.REPLACE),
    Timed("15 2 * * *", "Africa/Casablanca", ("15 2 * * *",)),
    Timed("15 2 * * *", "Africa/Casablanca", ("15 2 * * *",), gap=Gap.LATER, fold=Fold.BOTH),
    Timed("0 */3 * * *", "Africa/Casablanca", ("0 */3 * * *",), grace=HOUR),
    Timed("30 1 * * *", "Antarctica/Troll", ("30 1 * * *",)),
    Timed("30 2 * * *", "Antarctica/Troll", ("30 2 * * *",), fold=Fold.BOTH),
    Timed("*/30 * * * *", "Antarctica/Troll", ("*/30 * * * *",), misfire=Misfire.ALL, limit=0),
    Timed("0 12 L * *", "Antarctica/Troll", ("0 12 L * *",)),
    Timed("*/15 20-23 * * *", "Asia/Tokyo", ("*/15 20-23 * * *",), lasts=29 * MINUTE + 59, overlap=Overlap.REPLACE),
    Timed("0 9 LW * *", "Asia/Tokyo", ("0 9 LW * *",), misfire=Misfire.ALL),
    Timed("R/2030-01-01T00:00:00+09:00/PT90M", "Asia/Tokyo", (Steps(90 * MINUTE),)),
    Timed("*/15 * * * *", "UTC", ("*/15 * * * *",), misfire=Misfire.SKIP),
    Timed("0 0 1,15 * 1", "UTC", ("0 0 1,15 * 1",)),
    Timed("@every 1h10m", "UTC", (Steps(70 * MINUTE, 70 * MINUTE),), misfire=Misfire.ALL, limit=0),
    Timed("*/30 8-18 * * mon-fri", "UTC", ("*/30 8-18 * * mon-fri",), grace=30 * MINUTE),
    Timed(
        "at 2030-03-31T01:00:00Z", "UTC", (Steps(20 * 365 * DAY, second("2030-03-31 01:00") - second("2030-01-01")),)
    ),
    Timed("0 0 * * fri#2", "Asia/Kathmandu", ("0 0 * * fri#2",), misfire=Misfire.SKIP),
    Timed("*/15 * * * *", "Asia/Kathmandu", ("*/15 * * * *",), misfire=Misfire.ALL, limit=0),
    Timed("0 18 15W * *", "Asia/Kathmandu", ("0 18 15W * *",)),
    Timed("0 1 * * *; 30 1 * * *", "America/St_Johns", ("0 1 * * *", "30 1 * * *"), fold=Fold.BOTH),
    Timed("30 2 * * sun", "America/St_Johns", ("30 2 * * sun",)),
    Timed("every 2 hours", "America/St_Johns", (Steps(2 * HOUR, 2 * HOUR),)),
    Timed("10 0-23/4 * * *", "America/St_Johns", ("10 0-23/4 * * *",), misfire=Misfire.ALL, limit=0),
]
NAPS = [
    Nap(second("2030-01-08 04:40"), second("2030-01-08 14:45:30")),
    Nap(second("2030-03-30 22:00"), second("2030-03-31 01:00:20")),
    Nap(second("2030-04-06 10:40"), second("2030-04-07 15:20:59")),
    Nap(second("2030-07-01"), second("2030-07-09 04:00:01")),
    Nap(second("2030-10-27 00:30"), second("2030-10-27 01:30:30")),
    Nap(second("2030-11-03 05:59"), second("2030-11-03 06:00:59")),
]
"""Over a day's work, over the ends of winter and summer in several zones, over nine days, and for a minute."""


def schedule_of(name: str) -> Schedule:
    """The job's schedule, as it was added at the new year."""
    job = JOBS[int(name)]
    return parse_schedule(job.text, zone=job.zone, anchor=NEW_YEAR, gap=job.gap, fold=job.fold)


def lived(end: int) -> tuple[dict[str, Ledger], list[Nap]]:
    """What the product says of the time up to `end`, and when it slept."""

    async def live() -> tuple[dict[str, Ledger], list[Nap]]:
        machine = Machine({str(n): job for n, job in enumerate(JOBS)})
        naps = await machine.live(end, [nap for nap in NAPS if nap.end < end])
        return await machine.ledgers(schedule_of), naps

    return asyncio.run(live())


def check(end: int) -> Counter[str]:
    """The ledgers must be those of the walk, which another process makes meanwhile; how much of what there was."""
    with ProcessPoolExecutor(1, get_context("spawn")) as walker:
        walk = walker.submit(walked, {str(n): job for n, job in enumerate(JOBS)}, end)
        ledgers, naps = lived(end)
        truth = walk.result()
    total = Counter[str]()
    for name, moments in truth.items():
        job = JOBS[int(name)]
        assert ledgers[name] == expected(job, moments, naps), f"{job} differs"
        total.update(ledgers[name].values())
    return total


def test_the_jobs_are_of_all_kinds() -> None:
    """Fifty jobs in twelve zones, with every choice of every policy."""
    assert (len(JOBS), len({job.zone for job in JOBS})) == (50, 12)
    assert {job.misfire for job in JOBS} == set(Misfire)
    assert {job.overlap for job in JOBS} == set(Overlap)
    assert {(job.gap, job.fold) for job in JOBS} == {(gap, fold) for gap in Gap for fold in Fold}


@pytest.mark.prove
def test_ten_days() -> None:
    """From the new year on, with a day's work slept through."""
    total = check(second("2030-01-11"))
    assert set(total) == {"run", "overlap", "misfire", "grace"}


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.holds_its_loop("at its end the test asks for all runs of the year at once")
def test_a_year() -> None:
    """A whole year, with every change of clocks in it."""
    total = check(second("2031-01-01"))
    assert 100_000 < sum(total.values()) <= 500_000
    assert set(total) == {"run", "overlap", "misfire", "grace"}
