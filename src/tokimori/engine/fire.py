"""Fire: decide what is due, and have the store write it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.engine.pace import PageSize
from tokimori.engine.parkings import Parkings, record_parking
from tokimori.engine.refusals import RefusedRuns, is_fault_of_request, log_refusal, raise_first
from tokimori.errors import Conflict, NotFound
from tokimori.model.decide import REPLACED, Due, Plan, decide
from tokimori.model.ids import Incarnation, Lane, RandomBytes, RunId, uuid7
from tokimori.model.job import Job, schedule_of
from tokimori.model.run import Run
from tokimori.model.settle import parked
from tokimori.model.transitions import BEFORE_START
from tokimori.ports.planning import ALL, Planning, Share
from tokimori.ports.store import OCCURRENCES, Jobs, RunFilter, Runs
from tokimori.schedules.schedule import Schedule

MOST_REPLACED = 500
"""If a job has more active runs than this, the newcomer's own transaction does not end them."""
PAGE = 1_000
MOST_PAGES = 10
"""Pages of the job's newest runs in which scheduled ones are looked for; requested ones stay. The rest end with later
newcomers, `MOST_MAKING_WAY` with each."""
AT_ONCE = 50
LONGEST_REPLACING = 0.25
"""Seconds, about, for one call to find and end runs: beats come between calls."""


async def make_way(store: Runs, due: Due, plan: Plan, now: Moment, monotonic: Callable[[], float]) -> bool:
    """Return whether to write the plan. If it would end too many runs at once, some of them end now instead.

    After an edit from `queue` to `replace` a hundred thousand runs may wait, and no store ends them in one transaction
    without holding up all others. Then the job is decided again.
    """
    if not plan.replaces or due.active <= MOST_REPLACED:
        return True
    some, end = await _newest(store, due, monotonic), monotonic() + LONGEST_REPLACING
    for start in range(0, len(some), AT_ONCE):
        if monotonic() > end:
            break
        ended = (store.cancel_run(run.id, REPLACED, now) for run in some[start : start + AT_ONCE])
        results = await asyncio.gather(*ended, return_exceptions=True)
        raise_first([each for each in results if not isinstance(each, NotFound)])
    return not some


async def _newest(store: Runs, due: Due, monotonic: Callable[[], float]) -> list[Run]:
    """Return the scheduled runs of the job that have not started, from the newest page that holds such runs."""
    wanted = RunFilter(job_id=due.job.id, states=BEFORE_START, limit=PAGE, longest=OCCURRENCES)
    end = monotonic() + LONGEST_REPLACING
    for _ in range(MOST_PAGES):
        page = await store.list_runs(wanted)
        found = [run for run in page if run.incarnation == due.job.incarnation and run.origin.startswith("s:")]
        if found or len(page) < PAGE or monotonic() > end:
            return found
        wanted = replace(wanted, before=page[-1].id)
    return []


log = logging.getLogger(__name__)

_DUE = (Lane("those that are due"),)
"""They wait in one line for all lanes."""


class Promoter:
    """Promotion of waiting runs. Runs that the store refuses wait."""

    def __init__(self, store: Planning) -> None:
        self._store = store
        self._refused = RefusedRuns("to make a waiting run ready (see `tokimori run list --state waiting`)")

    async def promote(self, now: Moment, limit: int) -> bool:
        """Make up to `limit` runs ready. Return if there may be more."""
        at = now / SECOND
        asked = self._refused.next(_DUE, limit, at)
        try:
            promoted = await self._store.promote(now, asked.limit, asked.skip)
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            seems_ill = self._refused.all_refused
            log_refusal(log, self._refused.refuse(asked, fault, at), fault)
            if seems_ill:
                raise
            return True
        self._refused.took(asked)
        return promoted > 0


BATCH = 500
"""How many jobs are decided, and how many waiting runs are made ready, in one transaction."""
MOST_RUNS = 2_000
MOST_WALKED = 10_000
"""And once so many runs are planned, or so many occurrences decided one by one (about 0.1 s; skips cost as much as
runs), the other jobs wait for the next one: a beat has to come between. So they do behind `MOST_REPLACED` runs that may
have to end."""
LONGEST = 0.005
"""Seconds: a job that takes longer to decide is gone on with in the next transaction, and after as many the loop does
what else there is."""
LONGEST_TOGETHER = 0.1
"""Seconds: once jobs that take so long to decide have taken that together, the others wait for the next transaction."""

Monotonic = Callable[[], float]
"""Seconds since some fixed point."""

Planned = tuple[Plan, Sequence[RunId]]
"""A plan, and the ids of its runs."""


class Schedules:
    """Parsed schedules of jobs, the newest `size` of them: parsing costs more than deciding."""

    def __init__(self, size: int = 20_000) -> None:
        self._size = size
        self._known: dict[tuple[int, int, int], Schedule] = {}

    def __call__(self, job: Job) -> Schedule:
        """Return the job's schedule."""
        key = (job.incarnation, job.version, job.anchor)
        schedule = self._known.get(key)
        if schedule is None:
            schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
            if len(self._known) >= self._size:
                self._known.pop(next(iter(self._known)))
            self._known[key] = schedule
        return schedule


class Decided(NamedTuple):
    """Plans that took effect, and the number of those that did not, because their jobs were changed meanwhile."""

    applied: list[Plan]
    refused: int

    @property
    def lanes(self) -> frozenset[Lane]:
        """Return the lanes of the new runs."""
        return frozenset(run.lane for plan in self.applied for run in plan.runs)


class ParkingStore(Jobs, Parkings, Protocol):
    """Questions of parking to the store."""


class FiringStore(ParkingStore, Runs, Planning, Protocol):
    """Questions of firing to the store."""


class Refusal(NamedTuple):
    """The store refused the plans of these jobs."""

    jobs: Sequence[Job]
    fault: Exception


class Fired(NamedTuple):
    """Result of firing: the lanes of the new runs. `full`: more may be due right now; else the next survey says.

    `contended`: other nodes decided some of these jobs at the same time. `refused`: the store's errors for plans that
    it did not write.
    """

    lanes: frozenset[Lane]
    full: bool
    contended: bool
    refused: Refusal | None = None


async def fire(
    store: FiringStore,
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    *,
    promoter: Promoter | None = None,
    share: Share = ALL,
    share_of_many: Share = ALL,
    limit: int = BATCH,
    but: Collection[Incarnation] = (),
    page_size: PageSize | None = None,
    monotonic: Monotonic = lambda: 0,
) -> Fired | None:
    """Decide due jobs of this share, and make waiting runs ready, up to `limit` of each.

    If more are due than one batch, it decides only those in `share_of_many`: other nodes have read the same ones. Jobs
    of the incarnations `but` wait. A `page_size` limits the jobs that are read. None: nothing was due for this node.
    """
    most = limit if page_size is None else min(limit, page_size.limit)
    found = await store.due(now, most + len(but), share)
    if page_size is not None:
        page_size.note(due.job for due in found)
    full = len(found) == most + len(but)
    looked_at = [due for due in found if due.job.incarnation not in but]
    dues = [due for due in looked_at if not full or share_of_many.has(due.job.incarnation)][:most]
    refused: Refusal | None = None

    async def decide_some() -> Decided:
        nonlocal refused
        try:
            return await decide_and_apply(store, dues, now, random, schedule_for, monotonic=monotonic)
        except Exception as fault:
            if not dues or not is_fault_of_request(fault):
                raise
            refused = Refusal([due.job for due in dues], fault)
            return Decided([], 0)

    decided, promoted = await beside_promotion(promoter or Promoter(store), now, limit, decide_some())
    if not looked_at and not promoted:
        return None
    return Fired(decided.lanes, full, contended=decided.refused > 0, refused=refused)


async def beside_promotion(
    promoter: Promoter, now: Moment, limit: int, *deciding: Awaitable[Decided]
) -> tuple[Decided, bool]:
    """Write decisions beside promotions; return their result, and whether there were waiting runs to promote."""
    under_way: list[Awaitable[Decided | bool]] = [*deciding, promoter.promote(now, limit)]
    whole, promoted = Decided([], 0), False
    # All to their ends, whichever fails: an error must leave nothing under way behind it.
    for result in await asyncio.gather(*under_way, return_exceptions=True):
        match result:
            case BaseException():
                raise result
            case bool():
                promoted = result
            case Decided(applied, refused):
                whole = Decided(whole.applied + applied, whole.refused + refused)
    return whole, promoted


async def decide_and_apply(
    store: FiringStore,
    dues: Sequence[Due],
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    *,
    monotonic: Monotonic = lambda: 0,
) -> Decided:
    """Decide these jobs up to now, until about one of the bounds above is reached.

    Jobs whose plan took no effect, or was not made, are read again.
    """
    plans: list[Plan] = []
    async for due, plan in decided_by(dues, now, schedule_for, monotonic):
        if isinstance(plan, Plan):
            if await make_way(store, due, plan, now, monotonic):
                plans.append(plan)
        else:
            log.error("job %s can't be decided; it is parked", due.job.id, exc_info=plan)
            await park(store, due.job, f"its schedule can't be decided: {plan}")
    return await apply(store, with_ids(plans, now, random), now)


async def decided_by(
    dues: Sequence[Due], now: Moment, schedule_for: Callable[[Job], Schedule], monotonic: Monotonic
) -> AsyncIterator[tuple[Due, Plan | Exception]]:
    """Yield each job with its plan, or its error, until one of the bounds above is reached."""
    planned = walked = replaced = 0
    began = turn = monotonic()
    for due in dues:
        at = monotonic()
        if at - began > LONGEST_TOGETHER:
            break
        if at - turn > LONGEST:
            await asyncio.sleep(0)
            at = turn = monotonic()
        try:
            plan = decide(due, schedule_for(due.job), now, _is_past(at + LONGEST, monotonic))
        except Exception as fault:
            yield due, fault
            continue
        yield due, plan
        planned += len(plan.runs)
        walked += plan.walked
        replaced += min(due.active, MOST_REPLACED) if plan.replaces else 0
        if planned >= MOST_RUNS or walked >= MOST_WALKED or replaced >= MOST_REPLACED:
            break


def _is_past(end: float, monotonic: Monotonic) -> Callable[[], bool]:
    return lambda: monotonic() > end


def with_ids(plans: Iterable[Plan], now: Moment, random: RandomBytes) -> list[Planned]:
    """Return the plans as the store takes them.

    The ids of a job's runs are in the order of its occurrences, as lists expect.
    """
    return [(plan, sorted(RunId(uuid7(now, random)) for _ in plan.runs)) for plan in plans]


async def apply(store: Planning, plans: Sequence[Planned], now: Moment) -> Decided:
    """Have the plans written."""
    if not plans:
        return Decided([], 0)
    applied = await store.apply(plans, now)
    if log.isEnabledFor(logging.DEBUG):
        _log_decisions(plans, applied)
    return Decided([plan for (plan, _), done in zip(plans, applied, strict=True) if done], applied.count(False))


def _log_decisions(plans: Sequence[Planned], applied: Sequence[bool]) -> None:
    for (plan, ids), done in zip(plans, applied, strict=True):
        runs = ", ".join(
            f"{run_id} for {format_moment(run.nominal)}" for run, run_id in zip(plan.runs, ids, strict=True)
        )
        skips = "".join(f"; {each.count} skipped ({each.reason})" for each in plan.skips)
        upcoming = "none" if plan.next_due is None else format_moment(plan.next_due)
        outcome = "decided" if done else "changed meanwhile, to be decided again"
        log.debug("job %s: %s: runs: %s%s; next: %s", plan.job_id, outcome, runs or "none", skips, upcoming)


async def park(store: ParkingStore, job: Job, reason: str) -> None:
    """Park a job that can't be decided, so that it does not keep the others from firing."""
    stopped = parked(job, reason)
    try:
        await store.replace_job(job, stopped)
    except (Conflict, NotFound):
        log.info("job %s was changed meanwhile", job.id)
        return
    await record_parking(store, job, stopped, f"{job.incarnation} {job.version} {reason}")
