"""A year of a whole node on the memory store, in virtual time; and the ledger that it must leave, walked by hand.

The walk shares nothing with the product: zones are read with `zoneinfo`, minute by minute of UTC, and what a schedule
names in each minute is said a second time, in the words of `tests.unit.schedules.walk`.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from tests.simulation.policies import RUN, fate
from tests.unit.examples import NEW_YEAR, a_definition
from tests.unit.schedules.walk import Matches, matcher, named, walls
from tokimori.clock import SECOND, Moment
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.job import Definition
from tokimori.model.outcome import Cancelled, Outcome, Succeeded
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.retention import Expiry
from tokimori.model.run import Skip
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.ports.store import RunFilter
from tokimori.schedules.schedule import Fold, Gap, Schedule
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

MINUTE, HOUR, DAY = 60, 3600, 86_400


class WholeStore(MemoryStore):
    """Prunes nothing: every row of the year is held against the walk."""

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
        """Nothing may go."""
        return ()


CHUNK = 20 * DAY
"""Seconds that are walked at a time."""
EVERYTHING = 10**7
START = NEW_YEAR // SECOND
Ledger = dict[int, str]
"""What became of each occurrence, by its second of UTC: `run`, or the reason of its skip."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Every `period` seconds, whatever clocks show, from so many seconds after the new year on."""

    period: int
    first: int = 0

    def seconds(self, low: int, high: int) -> Iterator[int]:
        """Those within low < t <= high."""
        for utc in range(low + MINUTE, high + 1, MINUTE):
            if utc >= START + self.first and (utc - START - self.first) % self.period == 0:
                yield utc


@dataclass(frozen=True, slots=True)
class Days:
    """At this time of every nth day, counted from a date on."""

    hour: int
    minute: int
    every: int
    since: date

    def matches(self, at: datetime) -> bool:
        """Whether a clock that shows this time names it."""
        days = (at.date() - self.since).days
        return (at.hour, at.minute) == (self.hour, self.minute) and days >= 0 and days % self.every == 0


@dataclass(frozen=True, slots=True)
class Timed:
    """A job: its schedule's text, the zone, what the text means in the walk's words, and its policies.

    `means` are united; `but` is left out. A run takes `lasts` seconds.
    """

    text: str
    zone: str
    means: tuple[str | Steps | Days, ...]
    but: str | None = None
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    misfire: Misfire = Misfire.LATEST
    overlap: Overlap = Overlap.SKIP
    limit: int | None = None
    grace: int | None = None
    lasts: int = 0

    @property
    def definition(self) -> Definition:
        """What a user would say."""
        return a_definition(
            schedule=self.text,
            time_zone=self.zone,
            gap=self.gap,
            fold=self.fold,
            misfire=self.misfire,
            on_overlap=self.overlap,
            max_running=self.limit,
            grace=self.grace,
        )


@dataclass(frozen=True, slots=True)
class Nap:
    """The machine sleeps from a second of UTC to another one."""

    start: int
    end: int


class TimedExecutor:
    """Every task takes the time that its job's runs take."""

    def __init__(self, clock: VirtualClock, lasts: Mapping[str, int]) -> None:
        self._clock = clock
        self._lasts = lasts
        self._report: Callable[[Report], None] = print
        self._ends: list[tuple[Moment, RunId, Token]] = []
        self._live: set[tuple[RunId, Token]] = set()

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        now = self._clock.now()
        for task in tasks:
            self._live.add((task.run_id, task.token))
            if lasts := self._lasts[task.job_id]:
                heapq.heappush(self._ends, (Moment(now + lasts * SECOND), task.run_id, task.token))
            else:
                self._end(task.run_id, task.token, Succeeded(0))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`."""
        self._end(run_id, token, Cancelled("cancelled"))

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""

    async def close(self) -> None:
        """See `Executor.close`."""

    def next_end(self) -> Moment | None:
        """When the next task ends."""
        while self._ends and self._ends[0][1:] not in self._live:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def end_what_ends(self) -> None:
        """Report what has ended by now."""
        while (at := self.next_end()) is not None and at <= self._clock.now():
            self._end(*self._ends[0][1:], Succeeded(0))

    def _end(self, run_id: RunId, token: Token, outcome: Outcome) -> None:
        if (run_id, token) in self._live:
            self._live.discard((run_id, token))
            now = self._clock.now()
            self._report(Ended(run_id=run_id, token=token, outcome=outcome, at=now, started=now, pid=42))


@dataclass(slots=True)
class Lived:
    """What a time left behind: the ledger of each job, and when the machine really slept."""

    ledgers: dict[str, Ledger]
    naps: list[Nap] = field(default_factory=list)


class Machine:
    """One node that lives from moment to moment: when nothing is due and nothing ends, time passes at once.

    It lives by a clock of its own on an ordinary loop, on which nobody ever waits.
    """

    def __init__(self, jobs: Mapping[str, Timed]) -> None:
        self._jobs = jobs
        self._clock = VirtualClock()
        self._store = WholeStore(self._clock)
        self._executor = TimedExecutor(self._clock, {name: job.lasts for name, job in jobs.items()})
        chance = random.Random(1).randbytes
        self._service = service_on(self._store, self._clock, chance)
        identity = Identity(host="h", boot_id="b", pid=1, version="0", concurrency=200)
        self._node = Node(self._store, self._executor, self._clock, chance, identity)

    async def live(self, end: int, naps: Sequence[Nap]) -> list[Nap]:
        """Live until a second of UTC; the naps as they were taken: it falls asleep only when nothing runs."""
        for name, job in self._jobs.items():
            await self._service.jobs.add(name, **fields_of(job.definition))
        await self._executor.open(self._node.receive)
        await self._node.start()
        wanted, taken = list(naps), list[Nap]()
        while (now := self._clock.now()) < end * SECOND:
            await self._rest()
            if wanted and now >= wanted[0].start * SECOND and self._executor.next_end() is None:
                taken.append(Nap(now // SECOND, wanted.pop(0).end))
                assert taken[-1].start < taken[-1].end, f"nothing rested before {taken[-1]}"
                self._sleep_until(Moment(taken[-1].end * SECOND))
                continue
            self._sleep_until(await self._next_moment(end))
        await self._rest()
        return taken

    async def _rest(self) -> None:
        """Let the node do all that there is to do now; an order to cancel comes with its next beat."""
        self._executor.end_what_ends()
        while await self._node.cycle() == 0:
            pass

    async def _next_moment(self, end: int) -> Moment:
        due, ends = (await self._store.survey(self._clock.now())).next_due, self._executor.next_end()
        return min(moment for moment in (due, ends, Moment(end * SECOND)) if moment is not None)

    def _sleep_until(self, moment: Moment) -> None:
        self._clock.advance((moment - self._clock.now()) / SECOND)

    async def ledgers(self, schedule_of: Callable[[str], Schedule]) -> dict[str, Ledger]:
        """What became of every occurrence. Raises `AssertionError` where a moment is in it twice."""
        found: dict[str, Ledger] = {name: {} for name in self._jobs}
        for run in await self._store.list_runs(RunFilter(limit=EVERYTHING)):
            _note(found[run.job_id], run.nominal // SECOND, RUN)
        for name in self._jobs:
            for skip in await self._store.skips(JobId(name), limit=EVERYTHING):
                for second in _covered(schedule_of(name), skip):
                    _note(found[name], second, skip.reason.value)
        return found


def _note(ledger: Ledger, second: int, what: str) -> None:
    assert second not in ledger, f"second {second} is in the ledger twice: {ledger[second]} and {what}"
    ledger[second] = what


def _covered(schedule: Schedule, skip: Skip) -> list[int]:
    """The seconds that a row of skips stands for; it must count as many."""
    found, moment = [], Moment(skip.first - 1)
    while (following := schedule.next_after(moment)) is not None and following <= skip.last:
        found.append(following // SECOND)
        moment = following
    assert len(found) == skip.count, f"{skip} counts wrongly"
    return found


def walked(jobs: Mapping[str, Timed], end: int) -> dict[str, list[int]]:
    """The seconds of UTC at which each job is due, after the new year and up to `end`: minute by minute."""
    found: dict[str, set[int]] = {name: set() for name in jobs}
    for zone in sorted({job.zone for job in jobs.values()}):
        here = {name: job for name, job in jobs.items() if job.zone == zone}
        for low in range(START, end, CHUNK):
            high = min(low + CHUNK, end)
            window = walls(zone, low, high + MINUTE, MINUTE)
            for name, job in here.items():
                for meaning in job.means:
                    if isinstance(meaning, Steps):
                        found[name].update(meaning.seconds(low, high))
                    else:
                        matches, fixed = _rule(meaning, job.but)
                        found[name].update(named(matches, window, job.gap, job.fold, fixed=fixed))
    return {name: sorted(seconds) for name, seconds in found.items()}


def _rule(meaning: str | Days, but: str | None) -> tuple[Matches, bool]:
    matches, fixed = (meaning.matches, True) if isinstance(meaning, Days) else matcher(meaning)
    if but is None:
        return matches, fixed
    excluded, _ = matcher(but)
    return (lambda at: matches(at) and not excluded(at)), fixed


def expected(job: Timed, moments: Sequence[int], naps: Sequence[Nap]) -> Ledger:
    """The ledger of one job with a limit of one run, or none, by DESIGN §4 and §5 in the plainest words."""
    ledger: Ledger = {}
    definition, busy_until = job.definition, 0
    for now, due in _looks(moments, naps):
        told = fate(definition, [Moment(moment * SECOND) for moment in due], Moment(now * SECOND), now < busy_until)
        ledger |= {moment // SECOND: what for moment, what in told.ledger.items()}
        runs = sum(what == RUN for what in told.ledger.values())
        busy_until = max(busy_until, now) + job.lasts * runs
    return ledger


def _looks(moments: Sequence[int], naps: Sequence[Nap]) -> Iterator[tuple[int, list[int]]]:
    """When the node looks at the job, and what is due then: each moment by itself, but together those slept through."""
    slept: dict[int, list[int]] = {}
    for moment in moments:
        end = next((nap.end for nap in naps if nap.start < moment <= nap.end), moment)
        slept.setdefault(end, []).append(moment)
    yield from slept.items()


def second(text: str) -> int:
    """A second of UTC, such as `2030-03-31 01:00`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
