"""Prune: walk over ended runs and skips in small steps, and have the store turn old rows into counts."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tokimori.clock import DAY, Moment
from tokimori.engine.pace import PageSize
from tokimori.engine.refusals import PATIENCE, is_fault_of_request, log_refusal
from tokimori.errors import Conflict, NotFound, Refused, StoreError, StoreTooSlow
from tokimori.model.audit import KIND, older_than
from tokimori.model.ids import Incarnation, JobId, NodeId
from tokimori.model.job import Job, units_here
from tokimori.model.retention import KEYS_KEPT, NODES_KEPT, Expiry, expiry_of, expiry_of_deleted
from tokimori.model.rewind import without_passed
from tokimori.model.semaphores import RATE_OF_JOB, ledger_of
from tokimori.ports.documents import Documents
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import SemaphoreTable
from tokimori.ports.store import Jobs

AUDIT_EVERY = 3600.0
"""Seconds from one look to the next, give or take a half by chance: nodes do not look at the same time."""
AUDIT_PAUSE = 0.5
"""Seconds to the next step after one that found a whole batch."""
AUDIT_BATCH = 20
"""How many entries one step deletes, each in a transaction of its own."""


class AuditPruner:
    """Duty to delete entries older than `keep` days; 0: none ever. All other times are seconds."""

    def __init__(self, store: Documents, at: float, chance: Callable[[], float], keep: int) -> None:
        self._store = store
        self._chance = chance
        self._keep = keep
        self.next_at = at + AUDIT_EVERY * chance() if keep else float("inf")

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        if at < self.next_at:
            return False
        self.next_at = at + AUDIT_EVERY * (0.5 + self._chance())
        oldest = older_than(Moment(now - self._keep * DAY))
        found = await self._store.list_documents(KIND, after=oldest, limit=AUDIT_BATCH)
        for each in found:
            try:
                await self._store.delete_document(KIND, each.name, each.version)
            except Conflict:  # entries never change; a changed one is kept
                continue
        if len(found) == AUDIT_BATCH:
            self.next_at = at + AUDIT_PAUSE
        return False


log = logging.getLogger(__name__)

EVERY = 300.0
"""Seconds from one walk to the next, give or take a half by chance: nodes do not walk at the same time."""
PAUSE = 0.05
"""Seconds to the next step after one that found a whole batch of old rows."""
REST = 20.0
"""Seconds to the next step after one that found less: the walk over all jobs must cost next to nothing. A million take
a day and a half."""
BATCH = 250
"""How many rows one transaction looks at: none takes over 50 ms beside a million others."""
PAGE = 200
"""How many jobs are looked at in one transaction, at most."""


class PruningStore(Jobs, Pruning, SemaphoreTable, Protocol):
    """Questions of pruning to the store."""


class Pruner:
    """Duty to prune: a walk every few minutes, a step of it with each call of `step`.

    `forget` removes files of attempts that ended before a moment from this machine. All other times are seconds of the
    caller's monotonic clock.
    """

    def __init__(
        self, store: PruningStore, at: float, chance: Callable[[], float], forget: Callable[[Moment], None]
    ) -> None:
        self._store = store
        self._chance = chance
        self._forget = forget
        self._walk: AsyncGenerator[bool] | None = None
        self.next_at = at + EVERY * chance()

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. A failure is retried with the next walk, and hinders nothing else."""
        if at < self.next_at:
            return False
        self._walk = self._walk or walk(self._store, now, self._forget)
        try:
            self.next_at = at + (PAUSE if await anext(self._walk) else REST)
        except StopAsyncIteration:
            self._end(at)
        except StoreError as fault:
            log.warning("pruning stopped, and begins again later: %s", fault)
            self._end(at)
        except Exception:
            log.exception("pruning failed")
            self._end(at)
        return False

    def _end(self, at: float) -> None:
        self._walk = None
        self.next_at = at + EVERY * (0.5 + self._chance())


async def walk(store: PruningStore, now: Moment, forget: Callable[[Moment], None]) -> AsyncGenerator[bool]:
    """Prune all rows that are old at this moment, with one or two transactions between two yields.

    Each yield says if there may be more of the same right now. Rates that no job has any more are known before the
    jobs are read, so that no new one is taken for one of them.
    """
    oldest, rates = Moment(now - KEYS_KEPT), dict[str, list[str]]()
    async for name in _rates_of_jobs(store):
        rates.setdefault(ledger_of(name), [ledger_of(name)]).append(name)
        yield True
    async for expiries in _expiries(store, now, lambda job: _drop_used_rates(job, rates)):
        oldest = Moment(min([oldest, *(expiry.before for expiry in expiries)]))
        async for more in _prune(store, expiries):
            yield more
    while await store.prune_nodes(Moment(now - NODES_KEPT), BATCH) == BATCH:
        yield True
    for names in rates.values():
        for name in reversed(names):  # of a job that is gone with all that was taken, which stands under the first
            with suppress(Refused):  # somebody waits for it
                await store.delete_semaphore(name)
        yield True
    forget(oldest)


async def _rates_of_jobs(store: PruningStore) -> AsyncIterator[str]:
    """Yield the semaphores that are rates of jobs."""
    after = RATE_OF_JOB
    while found := await store.list_semaphores(after=after, limit=PAGE):
        for each in found:
            if not each.name.startswith(RATE_OF_JOB):
                return
            after = each.name
            yield after


def _drop_used_rates(job: Job, rates: dict[str, list[str]]) -> None:
    """Take the rates that the job still uses out of those to delete."""
    ledger = f"{RATE_OF_JOB}{job.incarnation}"
    if ledger in rates:
        used = {ledger, *(name for name, _ in units_here(job.definition, job.incarnation))}
        rates[ledger] = [name for name in rates[ledger] if name not in used]


async def _prune(store: PruningStore, expiries: Sequence[Expiry]) -> AsyncIterator[bool]:
    """Prune, by halves if the store refuses. The job at fault waits for the next walk, and the others are pruned.

    If several single jobs take the store too long, the error is raised.
    """
    batches, slow = [expiries], 0
    while batches:
        batch = batches.pop()
        half = len(batch) // 2
        try:
            rest = await store.prune(batch, BATCH)
        except Exception as fault:
            slow += not half and isinstance(fault, StoreTooSlow)
            if slow >= PATIENCE or not is_fault_of_request(fault):
                raise
            if not half:
                log_refusal(log, f"what is old of job {batch[0].job_id} stays until the next walk: {fault}", fault)
            else:
                batches.append(batch[half:])
            rest = batch[:half]
        if rest:
            batches.append(rest)
        yield bool(batches)


async def _expiries(store: PruningStore, now: Moment, look: Callable[[Job], None]) -> AsyncIterator[Sequence[Expiry]]:
    after: JobId | None = None
    page_size = PageSize(PAGE)
    while jobs := await store.list_jobs(after=after, limit=page_size.limit):
        after = jobs[-1].id
        page_size.note(jobs)
        for job in jobs:
            look(job)
        yield [expiry for job in jobs if (expiry := expiry_of(job, now)) is not None]
        for job in jobs:
            if (passed := without_passed(job)) is not None:
                with suppress(Conflict, NotFound):
                    await store.replace_job(job, passed)
    gone: Incarnation | None = None
    while deleted := await store.deleted_jobs(gone, PAGE):
        gone = deleted[-1][0]
        yield [expiry_of_deleted(job_id, incarnation, now) for incarnation, job_id in deleted]
