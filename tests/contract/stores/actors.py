"""Jobs and requests to try a store with, and nodes that work by hand: one call of the store each."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, parse_moment
from tokimori.engine.fire import decide_and_apply
from tokimori.engine.settle import change_of
from tokimori.model.decide import Due, Plan, decide
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, PermitId, RunId, uuid7
from tokimori.model.job import Definition, Job, schedule_of
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.outcome import Outcome, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.run import Output, Run, manual_origin
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, Pulse
from tokimori.ports.semaphores import Answer, Grant, UnitRequest
from tokimori.ports.store import Store
from tokimori.ports.working import Change, Claim, Claimed, Verdict

NOW = parse_moment("2030-01-01T00:00:00Z")
random_bytes = os.urandom
_numbers = count(1)

EVERY_SECOND = "* * * * * *"
MANY = 20
"""So many runs are requested together."""


def later(seconds: float) -> Moment:
    """So many seconds after the new year of 2030."""
    return Moment(NOW + round(seconds * SECOND))


def a_job(job_id: str = "job", *, next_due: Moment | None = None, **terms: object) -> Job:
    """A job that nobody has added yet, decided up to the new year; on demand unless a schedule is given."""
    return Job(
        id=JobId(job_id),
        incarnation=Incarnation(next(_numbers)),
        version=1,
        definition=Definition(**{"target": Noop(), "retry": Retry(asked_delay=0.0), **terms}),  # type: ignore[arg-type]
        created=NOW,
        updated=NOW,
        anchor=NOW,
        fired_through=NOW,
        next_due=next_due,
    )


def a_request(job: Job, key: str | None = None, *, due: Moment = NOW, **changes: object) -> Run:
    """A request to run the job, ready at the new year unless due later."""
    run_id = RunId(uuid7(NOW, random_bytes))
    priority = job.definition.priority
    run = Run(
        id=run_id,
        job_id=job.id,
        incarnation=job.incarnation,
        origin=manual_origin(key or run_id),
        nominal=due,
        due=due,
        state=RunState.READY if due <= NOW else RunState.WAITING,
        priority=priority,
        rank=rank_of(due, priority),
        lane=lane_of(job.definition),
        created=NOW,
    )
    return replace(run, **changes)


async def add_job(store: Store, job_id: str = "job", **terms: object) -> Job:
    """Add a job."""
    job = a_job(job_id, **terms)  # type: ignore[arg-type]
    await store.add_jobs([job])
    return job


async def add_runs(store: Store, job: Job, number: int) -> list[Run]:
    """Request so many runs, many of them together; the first is first in line."""
    runs = [a_request(job, due=Moment(NOW - number + n)) for n in range(number)]
    if number < MANY:
        return [await store.add_run(run, NOW) for run in runs]
    return [run for n in range(0, number, 500) for run in await store.add_runs(runs[n : n + 500], NOW)]


def planned(due: Due, now: Moment) -> tuple[Plan, list[RunId]]:
    """What a planner would hand to `apply` now."""
    plan = decide(due, schedule_of(due.job.definition, due.job.anchor, due.job.id), now)
    return plan, [RunId(uuid7(now, random_bytes)) for _ in plan.runs]


async def fire(store: Store, now: Moment) -> list[Plan]:
    """Plan what is due; the plans that took effect."""
    dues = await store.due(now, 1000)
    decided = await decide_and_apply(
        store, dues, now, random_bytes, lambda job: schedule_of(job.definition, job.anchor, job.id)
    )
    await store.promote(now, 1000)
    return decided.applied


def a_node(**changes: object) -> NodeRecord:
    """A node that nobody has registered yet."""
    node = NodeRecord(
        id=NodeId(uuid7(NOW, random_bytes)),
        host="here",
        boot_id="boot",
        pid=1,
        concurrency=16,
        version="0",
        started=NOW,
        state=NodeState.ALIVE,
    )
    return replace(node, **changes)


def a_claim(node: NodeId, lanes: Sequence[Lane], limit: int) -> Claim:
    """A request for work with a new id."""
    return Claim(id=ClaimId(uuid7(NOW, random_bytes)), node=node, lanes=tuple(lanes), limit=limit)


class Held(NamedTuple):
    """What a program asked for, and the answer that it got."""

    wish: UnitRequest
    answer: Answer

    @property
    def token(self) -> int | None:
        """The token, where the wish was granted at once."""
        return self.answer.token if isinstance(self.answer, Grant) else None


@dataclass(frozen=True, slots=True)
class Worker:
    """A node worked by hand."""

    store: Store
    id: NodeId

    @classmethod
    async def join(cls, store: Store) -> "Worker":
        """A registered node."""
        node = a_node()
        await store.register(node)
        return cls(store, node.id)

    async def tick(self, now: Moment = NOW) -> Pulse:
        """Beat, as a node that must be alive."""
        pulse = await self.store.tick(Beat(node=self.id), now)
        assert pulse is not None
        return pulse

    async def claim(self, limit: int = 1000, now: Moment = NOW) -> list[Claimed]:
        """Take ready runs of whatever lanes there are."""
        lanes = (await self.store.survey(now)).lanes
        return await self.store.claim(a_claim(self.id, lanes, limit), now)

    def change(
        self,
        claimed: Claimed,
        outcome: Outcome | None = None,
        now: Moment = NOW,
        output: Output | None = None,
        cost: tuple[int | None, int | None] = (None, None),
    ) -> Change:
        """The change that this node would write as the run's owner."""
        return change_of(
            claimed,
            Succeeded(0) if outcome is None else outcome,
            owner=self.id,
            now=now,
            chance=0.0,
            started=now,
            pid=7,
            output=output,
            cpu=cost[0],
            memory=cost[1],
        )

    async def settle(
        self,
        claimed: Claimed,
        outcome: Outcome | None = None,
        now: Moment = NOW,
        cost: tuple[int | None, int | None] = (None, None),
    ) -> Verdict:
        """Report one attempt's end."""
        (verdict,) = await self.store.settle([self.change(claimed, outcome, now, cost=cost)], self.id, now)
        return verdict

    async def acquire(self, semaphore: str, weight: int = 1, *, limit: int | None = None, rank: int = NOW) -> Held:
        """Ask for units, as a program of this session would."""
        wish_id = PermitId(uuid7(NOW, random_bytes))
        wish = UnitRequest(id=wish_id, node=self.id, semaphore=semaphore, weight=weight, limit=limit, rank=rank)
        return Held(wish, await self.store.acquire(wish, NOW))

    async def release(self, held: Held, now: Moment = NOW) -> bool:
        """Give back what was asked for."""
        return await self.store.release(held.wish.id, self.id, now)

    async def die(self, by: "Worker") -> None:
        """Be declared dead."""
        beat = next(node.beat for node in await self.store.list_nodes() if node.id == self.id)
        assert await self.store.bury(self.id, beat, by.id, NOW)


async def state_of(store: Store, run: Run | Claimed) -> RunState:
    """Where the run stands now."""
    run_id = run.id if isinstance(run, Run) else run.run.id
    return (await store.get_run(run_id)).state
