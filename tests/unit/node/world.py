"""Nodes on one memory store, ticked by hand: nothing here waits."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, a_job, seconds
from tests.unit.virtual import Link, OffsetClock
from tokimori.clock import Clock, Moment
from tokimori.engine.lookout import WHENEVER_DUE, Rhythm
from tokimori.errors import StoreError
from tokimori.model.ids import Incarnation, JobId, NodeId, RunId, Token, uuid7
from tokimori.model.job import Job, schedule_of
from tokimori.model.outcome import Cancelled, Outcome, Released, Succeeded
from tokimori.model.run import Output, Run, manual_origin
from tokimori.model.transitions import RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.worker import load_average
from tokimori.ports.executor import AttemptTask, Ended, Grew, Report, Started, StopReason
from tokimori.ports.meter import UNMETERED, Meter
from tokimori.ports.store import RunFilter
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock


@dataclass(frozen=True, slots=True)
class Stop:
    """An order to end an attempt."""

    run_id: RunId
    token: Token
    reason: StopReason
    grace: float | None


class ScriptedExecutor:
    """Keeps the tasks that it was given; the test says when they end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._report: Callable[[Report], None] = print
        self.tasks: list[AttemptTask] = []
        self.stops: list[Stop] = []
        self.renewed: list[float] = []

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        for task in tasks:
            self.tasks.append(task)
            self._report(Started(run_id=task.run_id, token=task.token, pid=42, at=self._clock.now()))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`."""
        self.stops.append(Stop(run_id, token, reason, grace))

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self.renewed.append(sent)

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""

    async def close(self) -> None:
        """See `Executor.close`."""

    def end(self, run_id: str, outcome: Outcome | None = None) -> None:
        """The newest attempt at the run ends."""
        task = next(task for task in reversed(self.tasks) if task.run_id == run_id)
        self._end(task, outcome or Succeeded(0))

    def write(self, run_id: str) -> None:
        """The newest attempt at the run has written something."""
        task = next(task for task in reversed(self.tasks) if task.run_id == run_id)
        output = Output(run_id=task.run_id, attempt=task.attempt, size=4, tail=b"some")
        self._report(Grew(run_id=task.run_id, token=task.token, output=output))

    def end_all(self, outcome: Outcome | None = None) -> None:
        """Everything that was started and has not ended ends."""
        for task in list(self.tasks):
            self._end(task, outcome or Succeeded(0))

    def obey(self) -> None:
        """Whatever was ordered to end does."""
        for stop in self.stops:
            outcome = Cancelled("cancelled") if stop.reason is StopReason.CANCEL else Released("stopped")
            for task in [task for task in self.tasks if (task.run_id, task.token) == (stop.run_id, stop.token)]:
                self._end(task, outcome)

    def _end(self, task: AttemptTask, outcome: Outcome) -> None:
        self.tasks.remove(task)
        now = self._clock.now()
        self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now, pid=42))

    @property
    def running(self) -> list[str]:
        """Of which runs an attempt was started and has not ended, in order."""
        return [task.run_id for task in self.tasks]


class Member:
    """A node, its way to the store and its executor."""

    def __init__(
        self,
        world: "World",
        offset: float,
        rhythm: Rhythm,
        meter: Meter = UNMETERED,
        load: Callable[[], float] = load_average,
        **identity: object,
    ) -> None:
        self.clock = OffsetClock(world.clock, offset)
        self.link = Link(world.store)
        self.executor = ScriptedExecutor(self.clock)
        known = {"host": "h", "boot_id": "b", "pid": 1, "version": "0", "concurrency": 8, "stop_grace": 30.0}
        whole = Identity(**{**known, **identity})  # type: ignore[arg-type]
        self.node = Node(
            self.link.store,
            self.executor,
            self.clock,
            world.random,
            whole,
            rhythm=rhythm,
            meter=meter,
            load=load,
        )
        self.frozen = False

    async def cycle(self) -> float:
        """One cycle; seconds until the next. The store's errors are waited out, as the node's own loop does."""
        try:
            return await self.node.cycle()
        except StoreError:
            return 0.1

    async def settle(self) -> float:
        """Cycle until there is nothing to be done now; seconds until there is."""
        for _ in range(100):
            delay = await self.cycle()
            if delay > 0 or self.node.finished:
                return delay
        raise AssertionError("the node finds no rest")


class World:
    """A store with its own clock, and nodes."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.store_clock = OffsetClock(self.clock, 0)
        self.store = MemoryStore(self.store_clock)
        self.random = random.Random(seed).randbytes
        self.members: list[Member] = []

    async def join(
        self,
        offset: float = 0,
        rhythm: Rhythm = WHENEVER_DUE,
        meter: Meter = UNMETERED,
        load: Callable[[], float] = load_average,
        **identity: object,
    ) -> Member:
        """A new node; its wall clock may be wrong by some seconds."""
        member = Member(self, offset, rhythm, meter, load, **identity)
        await member.executor.open(member.node.receive)
        await member.node.start()
        self.members.append(member)
        return member

    async def add(self, name: str = "job", **terms: object) -> Job:
        """A job, added now. Every second by default, and overlapping."""
        definition = a_definition(**{"max_running": 0, **terms})
        now = self.clock.now()
        upcoming = schedule_of(definition, now).next_after(now)
        incarnation = Incarnation(int.from_bytes(self.random(7)))
        job = a_job(
            definition, id=JobId(name), incarnation=incarnation, anchor=now, fired_through=now, next_due=upcoming
        )
        await self.store.add_jobs([job])
        return job

    async def trigger(self, job: Job, n: int = 1, *, payload: str | None = None, **fields: Any) -> list[RunId]:
        """So many requested runs, ready now, in the order in which they are claimed, with these facts."""
        ids = []
        for _ in range(n):
            now, run_id = self.clock.now(), RunId(uuid7(self.clock.now(), self.random))
            run = Run(
                id=run_id,
                job_id=job.id,
                incarnation=job.incarnation,
                origin=manual_origin(run_id),
                nominal=now,
                due=now,
                state=RunState.READY,
                priority=0,
                rank=now,
                lane=None,
                created=now,
                payload=payload,
            )
            await self.store.add_run(replace(run, **fields), now)
            ids.append(run_id)
        return sorted(ids)

    async def pass_time(self, duration: float, *, each: Callable[[], None] = lambda: None) -> None:
        """Let time pass, with every node that is neither frozen nor finished doing its cycles when it wants to.

        `each` is called whenever all nodes have come to rest.
        """
        end = self.clock.monotonic() + duration
        while True:
            await self._rest()
            each()
            delays = await self._rest()
            left = end - self.clock.monotonic()
            if left <= 0:
                return
            self.clock.advance(min(left, *delays) if delays else left)

    async def _rest(self) -> list[float]:
        """Let every node do what there is to do now; the seconds after which each wants to go on."""
        return [await member.settle() for member in self.members if not (member.frozen or member.node.finished)]

    async def runs(self, *states: RunState) -> list[Run]:
        """All runs in these states (default: any), oldest first."""
        return (await self.store.list_runs(RunFilter(states=frozenset(states), limit=10**6)))[::-1]

    async def run(self, run_id: str) -> Run:
        """The run."""
        return await self.store.get_run(RunId(run_id))

    async def nominals(self) -> list[Moment]:
        """The nominal moments of all runs, in order."""
        return sorted(run.nominal for run in await self.runs())

    async def node_states(self) -> dict[NodeId, str]:
        """Who lives."""
        return {record.id: record.state.value for record in await self.store.list_nodes()}


def second(moment: Moment) -> float:
    """Seconds since the new year; the inverse of `seconds`."""
    return (moment - NEW_YEAR) / (seconds(1) - NEW_YEAR)
