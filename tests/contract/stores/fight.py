"""Nodes that fight over the same work: what each does, and what must be true of what all of them did."""

import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

import msgspec

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, fire, later
from tests.contract.stores.ledger import check_balance
from tokimori.clock import SystemClock
from tokimori.model.job import Job
from tokimori.model.policies import Misfire
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.open import open_store

SCHEDULED_JOBS, SECONDS = 8, 100
REQUESTS = 200
LIMIT = 3
TOTAL = SCHEDULED_JOBS * SECONDS + REQUESTS
THEN = later(SECONDS)


@dataclass(frozen=True, slots=True)
class Execution:
    """A run that a node carried out, between these nanoseconds of the machine's monotonic clock."""

    run_id: str
    job_id: str
    token: int
    began: int
    ended: int


async def add_work(store: Store) -> list[Job]:
    """1,000 runs to be: most of them yet to be planned, by whoever comes first; the others of a job with a limit."""
    scheduled = [
        a_job(f"job-{n}", schedule=EVERY_SECOND, next_due=later(1), max_running=0, misfire=Misfire.ALL)
        for n in range(SCHEDULED_JOBS)
    ]
    narrow = a_job("narrow", max_running=LIMIT)
    await store.add_jobs([*scheduled, narrow])
    await store.add_runs([a_request(narrow) for _ in range(REQUESTS)], NOW)
    return scheduled


async def take_part(store: Store, seed: int) -> list[Execution]:
    """Plan, claim and settle until nothing is left; what this node carried out."""
    random = Random(seed)
    worker = await Worker.join(store)
    done: list[Execution] = []
    idle = 0
    while idle < 20:
        await fire(store, THEN)
        claimed = await worker.claim(random.randint(1, 40), THEN)
        began = time.monotonic_ns()
        idle = 0 if claimed else idle + 1
        await asyncio.sleep(random.random() * 0.002)
        done += [_execution(each, began) for each in claimed]
        verdicts = await store.settle([worker.change(each, now=THEN) for each in claimed], worker.id, THEN)
        assert set(verdicts) <= {Verdict.APPLIED}
    assert await store.leave(worker.id, THEN)
    return done


def _execution(claimed: Claimed, began: int) -> Execution:
    run = claimed.run
    return Execution(run.id, run.job_id, run.token, began, time.monotonic_ns())


async def check(store: Store, jobs: list[Job], done: list[Execution]) -> None:
    """Fail unless each run was carried out once, none is left, and the limit held at every moment."""
    runs = await every_run(store)
    assert len(runs) == TOTAL
    assert {str(run.state) for run in runs} == {"succeeded"}
    assert Counter(each.run_id for each in done) == Counter(run.id for run in runs)
    assert {each.token for each in done} == {1}
    assert most_at_once([each for each in done if each.job_id == "narrow"]) <= LIMIT
    for job in jobs:
        await check_balance(store, job, THEN)


async def every_run(store: Store) -> list[Run]:
    """All runs there are."""
    return await store.list_runs(RunFilter(limit=10 * TOTAL))


def most_at_once(done: list[Execution]) -> int:
    """How many ran at the same time, at most. An end counts before a start at the same nanosecond."""
    changes = sorted([(each.began, 1) for each in done] + [(each.ended, -1) for each in done])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


async def main(url: str, seed: int) -> bytes:
    """Take part from a process of its own, when told to."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    store = open_store(url, SystemClock())
    await store.open()
    try:
        return msgspec.json.encode(await take_part(store, seed))
    finally:
        await store.close()


if __name__ == "__main__":
    sys.stdout.buffer.write(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))
