"""Fire: decide what is due, and have the store write it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from tokimori.clock import Moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.decide import Due, Plan, decide
from tokimori.model.ids import Lane, RandomBytes, RunId, uuid7
from tokimori.model.job import Job, JobState, schedule_of
from tokimori.ports.planning import ALL, Planning, Share
from tokimori.ports.store import Jobs
from tokimori.schedules.schedule import Schedule

log = logging.getLogger(__name__)

BATCH = 500
"""How many jobs are decided, and how many waiting runs are made ready, in one transaction."""
MOST_RUNS = 2_000
MOST_WALKED = 10_000
"""And once so many runs are planned, or so many occurrences decided one by one (about 0.1 s; skips cost as much as
runs), the other jobs wait for the next one: a beat has to come between."""


class Schedules:
    """Parsed schedules of jobs, the newest `size` of them: parsing costs more than deciding."""

    def __init__(self, size: int = 20_000) -> None:
        self._size = size
        self._known: dict[tuple[int, int, int], Schedule] = {}

    def __call__(self, job: Job) -> Schedule:
        """The job's schedule."""
        key = (job.incarnation, job.version, job.anchor)
        schedule = self._known.get(key)
        if schedule is None:
            schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
            if len(self._known) >= self._size:
                self._known.pop(next(iter(self._known)))
            self._known[key] = schedule
        return schedule


class Decided(NamedTuple):
    """The plans that took effect, and how many did not: their jobs were changed meanwhile."""

    applied: list[Plan]
    refused: int


class Firing(Jobs, Planning, Protocol):
    """What firing asks of the store."""


class Fired(NamedTuple):
    """What firing did: the lanes of the new runs. `full`: more may be due right now; else the store's next survey says.

    `contended`: other nodes decided some of these jobs at the same time.
    """

    lanes: frozenset[Lane]
    full: bool
    contended: bool


async def fire(
    store: Firing,
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    *,
    share: Share = ALL,
    share_of_many: Share = ALL,
    limit: int = BATCH,
) -> Fired | None:
    """Decide due jobs of this share, and make waiting runs ready, up to `limit` of each.

    Where so many are due that there are more, only those that are of `share_of_many` too: other nodes have read the
    same ones. None: nothing was due, or not for this node.
    """
    found = await store.due(now, limit, share)
    full = len(found) == limit
    dues = [due for due in found if not full or share_of_many.has(due.job.incarnation)]
    # Both to their ends, whichever fails: an error must leave nothing under way behind it.
    deciding = decide_and_apply(store, dues, now, random, schedule_for)
    decided, promoted = await asyncio.gather(deciding, store.promote(now, limit), return_exceptions=True)
    if isinstance(decided, BaseException):
        raise decided
    if isinstance(promoted, BaseException):
        raise promoted
    if not found and not promoted:
        return None
    lanes = frozenset(run.lane for plan in decided.applied for run in plan.runs)
    return Fired(lanes, full, contended=decided.refused > 0)


async def decide_and_apply(
    store: Firing,
    dues: Sequence[Due],
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
) -> Decided:
    """Decide these jobs up to now, until about `MOST_RUNS` or `MOST_WALKED` is reached.

    The jobs of the plans that took no effect, and of those that were not made, wait: read again.
    """
    plans: list[Plan] = []
    planned = walked = 0
    for due in dues:
        try:
            plan = decide(due, schedule_for(due.job), now)
        except Exception as fault:
            log.exception("job %s can't be decided; it is parked", due.job.id)
            await _park(store, due.job, f"its schedule can't be decided: {fault}", now)
            continue
        plans.append(plan)
        planned += len(plan.runs)
        walked += plan.walked
        if planned >= MOST_RUNS or walked >= MOST_WALKED:
            break
    if not plans:
        return Decided([], 0)
    rows = [(plan, _ids(len(plan.runs), now, random)) for plan in plans]
    applied = await store.apply(rows, now)
    return Decided([plan for plan, done in zip(plans, applied, strict=True) if done], applied.count(False))


def _ids(count: int, now: Moment, random: RandomBytes) -> list[RunId]:
    """Of a job's runs made at one moment: in the order of its occurrences, as whoever lists them expects."""
    return sorted(RunId(uuid7(now, random)) for _ in range(count))


async def _park(store: Jobs, job: Job, reason: str, now: Moment) -> None:
    """One job that can't be decided must not keep the others from firing."""
    parked = msgspec.structs.replace(
        job, state=JobState.PARKED, reason=reason, by="tokimori", version=job.version + 1, updated=now, next_due=None
    )
    try:
        await store.replace_job(job, parked)
    except (Conflict, NotFound):
        log.info("job %s was changed meanwhile", job.id)
