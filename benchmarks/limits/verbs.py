"""What is measured: each verb through the product's own code, some or many times, while two nodes beat."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import NamedTuple

from benchmarks.limits.beats import Beats
from benchmarks.limits.filling import Filled, Size
from tokimori.clock import MINUTE, Moment, SystemClock, format_moment
from tokimori.engine.prune import BATCH
from tokimori.engine.settle import change_of
from tokimori.errors import Refused, StoreTooSlow, StoreUnavailable
from tokimori.model.ids import ClaimId, Lane, NodeId, uuid7
from tokimori.model.job import Job
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.retention import Expiry, expiry_of
from tokimori.ports.store import Store
from tokimori.ports.working import Claim, Claimed, Verdict
from tokimori.service.definitions.arguments import RunFilters
from tokimori.service.service import Service

AT_ONCE = 32
"""Runs of a claim and of a settle: what a node with two cores may have in hand."""
OFTEN, SELDOM = 50, 5
BACKFILL_SECONDS = 20.0


class Measured(NamedTuple):
    """A verb: its median and its longest time, by how much a beat was late meanwhile, and what processors spent on one.

    All are seconds.
    """

    verb: str
    times: int
    median: float
    worst: float
    beat: float
    spent: float


@dataclass(slots=True)
class Bench:
    """A filled store, a node that works on it, and what has been measured so far."""

    store: Store
    service: Service
    node: NodeId
    beats: Beats
    filled: Filled
    size: Size
    tell: Callable[[Measured], None]
    spent: Callable[[], float]
    owned: list[Claimed] = field(default_factory=list)

    async def measure(self, verb: str, act: Callable[[], Awaitable[object]], times: int = 1) -> None:
        """Do it so often, one after the other, or until it says False, or the store gives it up."""
        since, spent = monotonic(), self.spent()
        taken: list[float] = []
        goes_on: object = True
        while len(taken) < times and goes_on is not False:
            begun = monotonic()
            try:
                goes_on = await act()
            except (StoreTooSlow, StoreUnavailable):
                taken.append(inf)
                break
            taken.append(monotonic() - begun)
        await self.note(verb, taken, since, spent)

    async def note(self, verb: str, taken: Sequence[float], since: float, spent: float) -> None:
        """Tell of what has taken these times, since that moment and since processors had spent so much."""
        if not taken:
            return
        ordered, each = sorted(taken), (self.spent() - spent) / len(taken)
        late = await self.beats.latest(since)
        self.tell(Measured(verb, len(taken), ordered[len(ordered) // 2], ordered[-1], late, each))

    async def claim(self, lanes: Sequence[Lane], limit: int = AT_ONCE) -> list[Claimed]:
        """Claim as a node does."""
        now = SystemClock().now()
        claim = Claim(id=ClaimId(uuid7(now, os.urandom)), node=self.node, lanes=tuple(lanes), limit=limit)
        claimed = await self.store.claim(claim, now)
        self.owned += claimed
        return claimed

    async def settle(self, outcome: Outcome = Succeeded()) -> None:  # noqa: B008  a frozen value
        """End some of the runs that are in hand."""
        some, self.owned = self.owned[:AT_ONCE], self.owned[AT_ONCE:]
        now = SystemClock().now()
        changes = [change_of(run, outcome, owner=self.node, now=now, chance=0, started=now) for run in some]
        assert set(await self.store.settle(changes, self.node, now)) <= {Verdict.APPLIED}


async def all_verbs(bench: Bench) -> None:
    """In an order in which each finds what it needs. What a store gives up ends no more than its own part."""
    await bench.measure("beat, nothing else", lambda: asyncio.sleep(0.05), OFTEN)
    for part in (_lists, _claims, _prune, _stop, _backfill, _delete):
        try:
            await part(bench)
        except (StoreTooSlow, StoreUnavailable) as fault:
            print(f"{part.__name__}: {fault}", file=sys.stderr, flush=True)


async def _lists(bench: Bench) -> None:
    store, big = bench.store, bench.filled.big
    listed: Mapping[str, RunFilters] = {
        "list: 100 newest runs": {"limit": 100},
        "list: 100 newest runs of the job": {"job_id": big.id, "limit": 100},
        "list: 100 newest failed runs": {"state": "failed", "limit": 100},
        "list: 100 newest failed runs of the job": {"job_id": big.id, "state": "failed", "limit": 100},
        "list: held runs, of which there are none": {"state": "held", "limit": 100},
        "list: held runs of the job": {"job_id": big.id, "state": "held", "limit": 100},
        "list: blocked runs, of which there are none": {"state": "blocked", "limit": 100},
        "list: blocked runs of the job": {"job_id": big.id, "state": "blocked", "limit": 100},
    }
    for verb, wanted in listed.items():
        await bench.measure(verb, lambda wanted=wanted: bench.service.runs.list(**wanted), SELDOM)  # type: ignore[misc]
    await bench.measure("list: 100 jobs", lambda: store.list_jobs(limit=100), SELDOM)
    await bench.measure("list: 1,000 queues", bench.service.queues.list, SELDOM)
    await bench.measure("list: nodes", store.list_nodes, SELDOM)
    await bench.measure("count: ends of the job by day", lambda: bench.service.jobs.counts(big.id), 1)


async def _claims(bench: Bench) -> None:
    size, filled = bench.size, bench.filled
    big, fat = lane_of(filled.big.definition), lane_of(filled.fat.definition)
    all_lanes = [big, *(lane_of(job.definition) for job in (filled.limited, *filled.queued))]
    times = min(OFTEN, size.rows // AT_ONCE // 4)
    await bench.measure(f"claim {AT_ONCE} of the job", lambda: bench.claim([big]), times)
    await _settle_all(bench, f"settle {AT_ONCE} of the job")
    rounds = min(OFTEN, size.queues * 10 // AT_ONCE // 2)
    words = f"claim {AT_ONCE} of {size.queues:,} queues, a full job in front"
    await bench.measure(words, lambda: bench.claim(all_lanes), rounds)
    await _settle_all(bench, f"settle {AT_ONCE} of as many queues")
    often = max(1, size.payloads // AT_ONCE)
    await bench.measure(f"claim {AT_ONCE} with payloads of 1 MB", lambda: bench.claim([fat]), often)
    await _settle_all(bench, f"settle {AT_ONCE} with payloads of 1 MB", "x" * 60_000)


async def _settle_all(bench: Bench, verb: str, result: str | None = None) -> None:
    await bench.measure(verb, lambda: bench.settle(Succeeded(0, result)), -(-len(bench.owned) // AT_ONCE))


async def _prune(bench: Bench) -> None:
    for job, verb in ((bench.filled.big, "prune, a step"), (bench.filled.fat, "prune, a step beside 1 MB each")):
        rest = list(filter(None, [expiry_of(job, SystemClock().now())]))

        async def step(rest: list[Expiry] = rest) -> bool:
            rest[:] = await bench.store.prune(rest, BATCH)
            return bool(rest)

        await bench.measure(verb, step, 4 * OFTEN)


async def _stop(bench: Bench) -> None:
    """Pause, edit and park the job; between them some claims meet what has not followed yet."""
    big, service = bench.filled.big, bench.service
    lane = lane_of(big.definition)
    await bench.measure("pause", lambda: service.jobs.pause(big.id))
    await _claim_none(bench, "claim beside the paused job", lane)
    await bench.measure("resume", lambda: service.jobs.resume(big.id))
    await bench.measure("edit (another queue)", lambda: service.jobs.update(big.id, queue="other"))
    await _claim_none(bench, "claim in the old queue", lane)
    await bench.measure("edit (the first queue)", lambda: service.jobs.update(big.id, queue=big.definition.queue))
    bench.owned.clear()
    while not await bench.claim([lane], 1):
        pass
    await bench.measure("park, by a settle", lambda: bench.settle(Failed("broken")))
    await _claim_none(bench, "claim beside the parked job", lane)
    await bench.measure("resolve", lambda: service.jobs.resolve(big.id))


async def _claim_none(bench: Bench, verb: str, lane: Lane) -> None:
    async def act() -> None:
        assert not await bench.claim([lane]), "a run of a stopped job was claimed"

    await bench.measure(verb, act, 10)


async def _delete(bench: Bench) -> None:
    big = bench.filled.big
    await bench.measure("delete", lambda: bench.service.jobs.delete(big.id))
    await _claim_none(bench, "claim beside the deleted job", lane_of(big.definition))


async def _backfill(bench: Bench) -> None:
    """As many as there are rows; paused while they are made, after some seconds."""
    service, rows = bench.service, bench.size.rows
    job: Job = await service.jobs.add("filled", schedule="* * * * *", queue="filled", noop=True)
    last = Moment(job.created - job.created % MINUTE)
    first = Moment(last - (rows - 1) * MINUTE)
    since, spent = monotonic(), bench.spent()
    making = asyncio.create_task(service.jobs.backfill(job.id, format_moment(first), format_moment(last)))
    await asyncio.wait([making], timeout=BACKFILL_SECONDS)
    begun = monotonic()
    await service.jobs.pause(job.id)
    paused = monotonic()
    with suppress(Refused):
        await making
    stopped = monotonic()
    await bench.note(f"backfill of {rows:,}: pause", [paused - begun], since, spent)
    await bench.note(f"backfill of {rows:,}: its stop", [stopped - begun], since, spent)
    await bench.measure("backfill: delete its job", lambda: service.jobs.delete(job.id))
