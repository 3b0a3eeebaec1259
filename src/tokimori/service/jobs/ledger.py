"""Reads what a store keeps of a job's occurrences, a bounded number of them at a time."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, Moment, format_moment
from tokimori.errors import InvalidInput, Refused
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.ledger import (
    FAULTS,
    Fate,
    LedgerLine,
    LedgerRecords,
    LedgerRun,
    by_moment,
    ledger,
    ledger_run,
    without_runs,
)
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run, Skip, backfill_origin
from tokimori.ports.store import OCCURRENCES, Jobs, RunFilter, Runs
from tokimori.schedules.schedule import Schedule, each_moment
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.long_work import AT_ONCE, Aside

PAGE = 1_000
MOST_LOOKED_AT = 200_000
"""Number of runs of any origin that are read for one answer: it takes some seconds."""
OF_BACKFILL = 0.1
"""Weight of a run that a backfill made: one of a million has to look past its own to be cancelled."""
LOOKED_AT = 20
"""Runs among which a scheduled one is looked for."""


async def scheduled_runs(store: Runs, job: Job, first: Moment, last: Moment, now: Moment) -> dict[Moment, Run]:
    """Return the scheduled runs of the occurrences from `first` to `last`. Raises `Refused` for too many."""
    found: dict[Moment, Run] = {}
    looked_at = 0.0
    async for page in pages_of_runs(store, job, first, last, now):
        if looked_at >= MOST_LOOKED_AT:
            raise Refused(
                f"from: {job.id!r} has over {MOST_LOOKED_AT:,} runs since {format_moment(first)}, scheduled ones and "
                "others: finding the occurrences without one would take too long",
                field="from",
                value=format_moment(first),
                allowed="a shorter range of occurrences; ask for the next ones then",
            )
        found |= {run.nominal: run for run in among(page, job, first, last)}
        looked_at += sum(OF_BACKFILL if run.origin.startswith("b:") else 1 for run in page)
    return found


async def pages_of_runs(
    store: Runs, job: Job, first: Moment, last: Moment, now: Moment, *, likely: int = PAGE
) -> AsyncIterator[Sequence[Run]]:
    """Yield runs of the job, newest first, which include all of the occurrences from `first` to `last`.

    No run is made before its nominal time. `likely`: the number of these runs if there are no others between them.
    """
    oldest, left = first_id_at(first), likely + LOOKED_AT
    before = await _behind(store, job, last, now)
    while page := await store.list_runs(
        RunFilter(job_id=job.id, before=before, limit=min(PAGE, left) if left > 0 else PAGE, longest=OCCURRENCES)
    ):
        yield page
        before, left = page[-1].id, left - len(page)
        if before < oldest:
            break


def among(page: Sequence[Run], job: Job, first: Moment, last: Moment) -> Sequence[Run]:
    """Return the scheduled runs of occurrences from `first` to `last`."""
    return [run for run in page if first <= run.nominal <= last and _is_scheduled(run, job)]


async def _behind(store: Runs, job: Job, last: Moment, now: Moment) -> RunId | None:
    """Return an id above those of all the job's runs for occurrences up to `last`.

    Occurrences are decided in their order, however late: the runs of later ones are not older, but for what clocks
    differ. Runs of other origin may be between them. None: no later one was found.
    """
    away = MINUTE
    while last + away < now:
        newest = RunFilter(job_id=job.id, before=first_id_at(Moment(last + away)), limit=LOOKED_AT, longest=OCCURRENCES)
        later = [run for run in await store.list_runs(newest) if _is_scheduled(run, job) and run.nominal > last]
        if later:
            return first_id_at(Moment(later[-1].created + MINUTE))
        away *= 2
    return None


def _is_scheduled(run: Run, job: Job) -> bool:
    return run.incarnation == job.incarnation and run.origin.startswith("s:")


MOST_RUNS = 100_000
"""Number of runs of a job, of any origin, that are read for some occurrences."""
MOST_SKIPS = 100_000
"""Number of the newest skips of a job that are read: older ones are unknown."""
FEW_SKIPS = 100
MORE = 10
"""Number of skips read first, and the factor by which it grows until they reach far enough back."""
VERIFIED, PARTS = 5_000, 2
"""Number of occurrences verified at once, and of such rounds for one answer."""
MOST_FAULTS = 100
"""Number of reported lines that do not fit."""


class LedgerStore(Jobs, Runs, Protocol):
    """The part of the store that is asked."""


class LedgerPage(Struct, frozen=True, kw_only=True):
    """The lines of some occurrences, oldest first. `next`: the place of the next page; None: there are no more."""

    lines: tuple[LedgerLine, ...]
    next: Moment | None = None


class Verified(Struct, frozen=True, kw_only=True):
    """Number of occurrences by fate, and the first lines that do not fit. `next`: as in `LedgerPage`."""

    job_id: str
    fates: dict[str, int]
    faults: tuple[LedgerLine, ...] = ()
    next: Moment | None = None

    @property
    def wrong(self) -> int:
        """Return how many do not fit."""
        return sum(self.fates.get(fate, 0) for fate in FAULTS)


def check_range(first: Moment, last: Moment) -> None:
    """Refuse a range that is empty. Raises `InvalidInput`."""
    if last < first:
        allowed = f"{format_moment(first)} (`from`) or later"
        raise InvalidInput("to: it is before `from`", field="to", value=format_moment(last), allowed=allowed)


class _LedgerPart(NamedTuple):
    """Some occurrences with their stored runs and skips, and the first occurrence after them."""

    moments: Sequence[Moment]
    kept: LedgerRecords
    next: Moment | None


class LedgerOf:
    """The ledger of one job, as the store keeps it. Many occurrences are reckoned `aside`."""

    def __init__(self, store: LedgerStore, job: Job, now: Moment, aside: Aside) -> None:
        self._store = store
        self._job = job
        self._now = now
        self._aside = aside

    async def page(self, first: Moment, last: Moment, limit: int) -> LedgerPage:
        """Return the fate of at most `limit` occurrences from `first` to `last`, both included."""
        part = await self._read(first, last, limit)
        return LedgerPage(lines=tuple(ledger(self._job, part.moments, part.kept, self._now)), next=part.next)

    async def verify(self, first: Moment, last: Moment) -> Verified:
        """Check that occurrences from `first` to `last` are runs, skips or pruned; at most 10,000 of them."""
        fates: Counter[str] = Counter()
        faults: list[LedgerLine] = []
        following: Moment | None = first
        for _ in range(PARTS):
            if following is None:
                break
            part = await self._read(following, last, VERIFIED)
            lines = await self._aside.compute(partial(self._without_runs, part))
            fates[Fate.RUN] += sum(map(part.kept.fired.__contains__, part.moments))
            for line in lines:
                fates[line.fate] += line.count
            faults += [line for line in lines if line.fate in FAULTS]
            following = part.next
        counts = {fate: count for fate, count in fates.items() if count}
        return Verified(job_id=self._job.id, fates=counts, faults=tuple(faults[:MOST_FAULTS]), next=following)

    def _without_runs(self, part: _LedgerPart) -> Sequence[LedgerLine]:
        return list(without_runs(self._job, part.moments, part.kept, self._now))

    async def _read(self, first: Moment, last: Moment, limit: int) -> _LedgerPart:
        asked = islice(each_moment(_all_of(self._job), Moment(first - 1), last), limit + 1)
        moments = list(asked) if limit < AT_ONCE else await self._aside.compute(lambda: list(asked))
        rest = moments.pop() if len(moments) > limit else None
        return _LedgerPart(moments, await self._kept(moments, first, last if rest is None else Moment(rest - 1)), rest)

    async def _kept(self, moments: Sequence[Moment], first: Moment, last: Moment) -> LedgerRecords:
        job, store = self._job, self._store
        fired, twice, runs_from = await self._fired(first, last, len(moments))
        without = [moment for moment in moments if moment not in fired and moment <= job.fired_through]
        if not without:
            return LedgerRecords(fired=fired, backfilled={}, skips=(), twice=twice)
        made = await store.runs_of(job.incarnation, [backfill_origin(moment) for moment in without], OCCURRENCES)
        skips, skips_from = await _skips(store, job, without[0])
        known_from = max(filter(None, (runs_from, skips_from)), default=None)
        return LedgerRecords(fired=fired, backfilled=by_moment(made), skips=skips, twice=twice, known_from=known_from)

    async def _fired(
        self, first: Moment, last: Moment, likely: int
    ) -> tuple[Mapping[Moment, LedgerRun], Mapping[Moment, LedgerRun], Moment | None]:
        """Return the scheduled runs by occurrence, the runs that replaced others, and from when all are known.

        That moment is right up to a difference of clocks.
        """
        fired: dict[Moment, LedgerRun] = {}
        twice: dict[Moment, LedgerRun] = {}
        looked_at = 0
        async for page in pages_of_runs(self._store, self._job, first, last, self._now, likely=likely):
            for run in among(page, self._job, first, last):
                known = ledger_run(run)
                if fired.setdefault(run.nominal, known).id != run.id:
                    twice[run.nominal] = known
            looked_at += len(page)
            if looked_at >= MOST_RUNS:
                return fired, twice, Moment(page[-1].created + MINUTE)
        return fired, twice, None


def _all_of(job: Job) -> Schedule:
    """Return the whole schedule, decided occurrences included."""
    return schedule_for(replace(job, definition=replace(job.definition, fired_ahead=())))


async def _skips(store: LedgerStore, job: Job, since: Moment) -> tuple[Sequence[Skip], Moment | None]:
    """Return the skips of the job from that moment on and some before, the oldest first; from when all are there."""
    limit = FEW_SKIPS
    while len(found := await store.skips(job.id, limit=limit)) == limit and found[-1].first > since:
        if limit == MOST_SKIPS:
            return found[::-1], found[-1].first
        limit *= MORE
    return found[::-1], None
