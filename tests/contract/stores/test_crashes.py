"""A node that dies between any two calls of the store leaves nothing that another one can't finish."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.stores.actors import EVERY_SECOND, Worker, add_job, fire, later
from tests.contract.stores.ledger import check_attempts, check_balance
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Lost, Succeeded
from tokimori.model.policies import Misfire, Overlap, Retry
from tokimori.model.run import Output, Run
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed

LAST = 6
CALLS = 52
"""More calls than the work takes: the last cases crash after everything is done."""


class Crash(BaseException):
    """The node's process ended."""


class Mortal:
    """A store as seen by a node that dies at its nth call: before the call is carried out, or before its reply."""

    def __init__(self, store: Store, calls: int, *, carried_out: bool) -> None:
        self._store = store
        self._left = calls
        self._carried_out = carried_out

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method: Callable[..., Awaitable[Any]] = getattr(self._store, name)

        async def call(*args: object, **terms: object) -> object:
            self._left -= 1
            if self._left > 0 or self._carried_out:
                answer = await method(*args, **terms)
            if self._left <= 0:
                raise Crash
            return answer

        return call


async def add_work(store: Store) -> list[Job]:
    """One job of each kind that the ledger treats differently."""
    return [
        await add_job(store, "free", schedule=EVERY_SECOND, next_due=later(1), max_running=0),
        await add_job(store, "skips", schedule=EVERY_SECOND, next_due=later(1)),
        await add_job(store, "queues", schedule=EVERY_SECOND, next_due=later(1), on_overlap=Overlap.QUEUE),
        await add_job(store, "retries", schedule="*/3 * * * * *", next_due=later(3), retry=Retry(attempts=2)),
        await add_job(store, "late", schedule=EVERY_SECOND, next_due=later(1), late_after=2, misfire=Misfire.LATEST),
    ]


async def work(store: Store, worker: Worker, now: int) -> int:
    """Do once all that a node does; how many attempts it ended."""
    await worker.tick(later(now))
    await fire(store, later(now))
    claimed = await worker.claim(4, later(now))
    await store.save_outputs([Output(run_id=each.run.id, attempt=each.run.attempt, size=0) for each in claimed])
    if claimed:
        await store.settle([worker.change(each, ended(each), later(now)) for each in claimed], worker.id, later(now))
    return len(claimed)


def ended(claimed: Claimed) -> Failed | Succeeded:
    """What comes of an attempt: the first one of a job that retries fails."""
    return Failed("once") if claimed.run.job_id == "retries" and claimed.run.failures == 0 else Succeeded(0)


async def recover(store: Store, dead: Worker, heir: Worker) -> None:
    """Declare the node dead, as one that sees its counter stand still would, and take its runs over."""
    beat = next(node.beat for node in await store.list_nodes() if node.id == dead.id)
    assert await store.bury(dead.id, beat, heir.id, later(LAST))
    while orphans := await store.orphans(3):
        changes = [dead.change(each, Lost("its node died"), later(LAST)) for each in orphans]
        await store.settle(changes, heir.id, later(LAST))


async def unfinished(store: Store) -> list[Run]:
    """Runs that have not ended."""
    return [run for run in await store.list_runs(RunFilter(limit=10_000)) if run.ended is None]


@pytest.mark.parametrize("carried_out", [True, False], ids=["reply-lost", "never-asked"])
@pytest.mark.parametrize("calls", [pytest.param(n, marks=pytest.mark.prove if n % 3 else ()) for n in range(1, CALLS)])
async def test_a_crash_between_any_two_calls(store: Store, calls: int, carried_out: bool) -> None:
    """Wherever a node dies, the next one finishes the work: each occurrence once, each lost attempt on record."""
    jobs = await add_work(store)
    dead, heir = await Worker.join(store), await Worker.join(store)
    mortal: Store = Mortal(store, calls, carried_out=carried_out)  # type: ignore[assignment]
    try:
        for now in range(1, LAST + 1):
            await work(mortal, Worker(mortal, dead.id), now)
    except Crash:
        pass
    await recover(store, dead, heir)
    for _ in range(100):
        if not await work(store, heir, LAST) and not await unfinished(store):
            break
    for job in jobs:
        await check_balance(store, job, later(LAST))
    runs = await store.list_runs(RunFilter(limit=10_000))
    assert {str(run.state) for run in runs} == {"succeeded"}
    await check_attempts(store, runs)
