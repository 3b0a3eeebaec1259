"""A cluster in one thread: several nodes, one memory store, jobs of every policy, and a cause of trouble."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulation.executor import Log, SimulatedExecutor
from tests.simulation.link import FAIR, Link, Weather
from tests.simulation.policies import Decision
from tests.simulation.virtual_time import LoopClock
from tests.unit.examples import a_definition
from tokimori.clock import Moment
from tokimori.errors import Conflict, Refused, StoreError
from tokimori.model.decide import Due, Plan, decidable
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId, NodeId, RunId, Token
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.lease import LATE_TICK, TICK_IDLE
from tokimori.model.policies import Misfire, OnLostLease, Overlap, Retry
from tokimori.model.run import Run, Skip
from tokimori.model.transitions import ENDS, RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.nodes import Beat, NodeState, Pulse
from tokimori.ports.planning import ALL, Share
from tokimori.ports.store import RunFilter
from tokimori.ports.working import Claim, Claimed
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.service import service_on
from tokimori.stores.memory.jobs import apply
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.memory.tables import Tables

SECONDS = 60.0
"""For so long occurrences are due, and faults happen."""
PATIENCE = 400.0
"""After so many more seconds without faults everything must have come to its end."""
EVERYTHING = 10_000


def every(seconds: int, n: int) -> str:
    """`n` moments, so many seconds apart, from the first second of the year on."""
    return f"R{n - 1}/2030-01-01T00:00:01Z/PT{seconds}S"


JOBS: Mapping[str, Definition] = {
    "plain": a_definition(schedule=every(1, 60), misfire=Misfire.ALL, max_running=0),
    "single": a_definition(
        schedule=every(3, 20), misfire=Misfire.ALL, max_running=1, on_overlap=Overlap.QUEUE, queue="other"
    ),
    "double": a_definition(schedule=every(2, 30), misfire=Misfire.ALL, max_running=2, on_overlap=Overlap.QUEUE),
    "fails": a_definition(
        schedule=every(1, 60), misfire=Misfire.ALL, max_running=0, retry=Retry(attempts=4, delay=0.2, jitter=1)
    ),
    "never": a_definition(
        schedule=every(1, 60),
        misfire=Misfire.ALL,
        max_running=0,
        on_lost_lease=OnLostLease.KILL,
        retry=Retry(attempts=2, lost_attempts=0),
    ),
    "skips": a_definition(schedule=every(2, 30)),
    "replaces": a_definition(schedule=every(3, 20), on_overlap=Overlap.REPLACE, max_running=1),
    "heavy": a_definition(schedule=every(5, 12), misfire=Misfire.ALL, max_running=0, semaphores=("units:2",)),
    "both": a_definition(
        schedule=every(4, 15), misfire=Misfire.ALL, max_running=0, semaphores=("mutex", "units"), queue="other"
    ),
    "keyed": a_definition(
        schedule=every(2, 30), misfire=Misfire.ALL, max_running=0, concurrency_key="k", max_running_per_key=2
    ),
    "latest": a_definition(schedule=every(3, 20), delay=1.5, late_after=2, max_running=0),
    "drops": a_definition(schedule=every(3, 20), misfire=Misfire.SKIP, late_after=2),
    "graced": a_definition(schedule=every(3, 20), misfire=Misfire.ALL, late_after=1, grace=4, max_running=0),
    "fills": a_definition(schedule=every(2, 30), max_running=1, max_waiting=1, on_overlap=Overlap.QUEUE),
    "child": a_definition(schedule=None, parents=(Parent(job="double"),)),
}
FILLS = "fills"
"""The job whose catch-up would be paced, if an edit gave it one."""
UNITS = {"units": 3, "mutex": 1}
"""The semaphores of these jobs; the mutex is made by whoever is first."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that the store gave to a node, at this virtual second."""

    run_id: RunId
    job_id: JobId
    token: Token
    node: NodeId
    at: float


@dataclass(slots=True)
class Orders:
    """What was ordered, and acknowledged at which virtual second."""

    cancelled: dict[RunId, float] = field(default_factory=dict)
    paused: list[tuple[JobId, float, float]] = field(default_factory=list)
    """(job, when the pause was acknowledged, when the resumption was asked for)"""
    jumps: int = 0


class RecordingStore(MemoryStore):
    """A memory store that notes who took what when, who was buried how long after the last beat, and what was decided.

    While it is stalled, everybody waits.
    """

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.taken: list[Taken] = []
        self.silences: list[float] = []
        """Of each node that was declared dead: seconds from its last beat to a stall that hid its beats, or from the
        later of both to the declaration. An observer may have seen enough before a stall that held up the declaration.
        """
        self.decisions: list[Decision] = []
        self._looks: dict[tuple[JobId, int, Moment], set[int]] = defaultdict(set)
        """How many runs of the job were active whenever somebody was told of it in this state."""
        self._known: set[tuple[RunId, Token]] = set()
        self._heard: dict[NodeId, float] = {}
        self._stalled_until = 0.0
        self._hidden = 0.0, 0.0

    def stall(self, seconds: float) -> None:
        """Answer nobody for so long: somebody holds a lock."""
        now = asyncio.get_running_loop().time()
        if now >= self._stalled_until:
            self._stalled_until = now + seconds
            if seconds > TICK_IDLE + LATE_TICK:  # whoever observes notices it: a tick of his own is late
                self._hidden = now, self._stalled_until

    async def _turn(self) -> Tables:
        left = self._stalled_until - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)
            return await self._turn()  # another stall may have begun
        return await super()._turn()

    def _active(self, job: Job) -> list[Run]:
        """What lives and is not held."""
        runs = (row.run for row in self._tables.live.values() if row.run.incarnation == job.incarnation)
        return [run for run in runs if run.state is not RunState.HELD]

    def _look(self, dues: Sequence[Due]) -> None:
        for job in (due.job for due in dues):
            self._looks[job.id, job.version, job.fired_through].add(len(self._active(job)))

    async def due(self, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        """See `Planning.due`."""
        dues = await super().due(now, limit, share)
        self._look(dues)
        return dues

    async def get_due(self, job_id: JobId) -> Due:
        """See `Jobs.get_due`."""
        due = await super().get_due(job_id)
        self._look([due])
        return due

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""
        tables = await self._turn()
        jobs = [tables.jobs[plan.job_id] for plan, _ in plans]
        active = [self._active(job) for job in jobs]
        applied = apply(tables, plans, now)
        for job, runs in zip(jobs, active, strict=True):
            if tables.jobs[job.id].fired_through > job.fired_through:
                self._note(job, decidable(job.definition, now), now, runs)
        return applied

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """See `Jobs.replace_job`."""
        await super().replace_job(old, new, skips, family)
        if new.fired_through > old.fired_through:
            self._note(old, new.fired_through, new.updated)

    def _note(self, job: Job, end: Moment, now: Moment, active: Sequence[Run] | None = None) -> None:
        """What the job was until now is decided up to `end`, by a plan where its active runs are told."""
        decision = Decision(
            job_id=job.id,
            definition=job.definition,
            state=job.state,
            start=job.fired_through,
            end=end,
            now=now,
            planned=active is not None,
            actives=frozenset(self._looks[job.id, job.version, job.fired_through]),
            standing=tuple(run.id for run in active or () if run.origin.startswith("s:")),
            at=asyncio.get_running_loop().time(),
        )
        self.decisions.append(decision)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        pulse = await super().tick(beat, now)
        self._heard[beat.node] = asyncio.get_running_loop().time()
        return pulse

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """See `Nodes.bury`."""
        asked = asyncio.get_running_loop().time()
        began, ended = self._hidden if self._hidden[1] <= asked else (0.0, 0.0)
        alive = self._tables.nodes[dead].state is NodeState.ALIVE
        buried = await super().bury(dead, beat, by, now)
        if alive and buried and dead in self._heard:
            heard = self._heard[dead]
            self.silences.append(max(asked - max(heard, ended), began - heard))
        return buried

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        claimed = await super().claim(claim, now)
        for one in claimed:
            key = one.run.id, one.run.token
            if key not in self._known:
                self._known.add(key)
                at = asyncio.get_running_loop().time()
                self.taken.append(Taken(one.run.id, one.run.job_id, one.run.token, claim.node, at))
        return claimed


class Member:
    """A machine: it starts a node, and another one when that has ended."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.clock = LoopClock(cluster.chance.uniform(-3600, 3600))
        self._lives = 0

    def start(self) -> None:
        """Begin a life: a new node, with a new way to the store and a new keeper."""
        cluster = self._cluster
        self._lives += 1
        chance = random.Random(f"{cluster.seed} {self.name} {self._lives}")
        self.link = Link(cluster.store, chance)
        self.executor = SimulatedExecutor(self.name, self.clock, cluster.clock, cluster.log, cluster.seed)
        identity = Identity(
            host=self.name, boot_id="b", pid=self._lives, version="0", labels={}, concurrency=6, stop_grace=3.0
        )
        self.node = Node(self.link.store, self.executor, self.clock, chance.randbytes, identity)
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        await self.executor.open(self.node.receive)
        while True:
            try:
                await self.node.start()
                break
            except StoreError:
                await asyncio.sleep(0.5)
        await self.node.run()

    async def crash(self) -> None:
        """`kill -9`, at some point near a call to the store; after a while the machine is back."""
        self.link.crash_in(self._cluster.chance.randrange(30))
        try:
            await asyncio.wait_for(self.link.crashed.wait(), 5)
        except TimeoutError:
            pass
        await self._end()
        await asyncio.sleep(self._cluster.chance.uniform(0, 10))
        self.start()

    async def restart(self) -> None:
        """A graceful stop, twice asked for where it takes long, and a new start."""
        self.node.stop()
        for _ in range(2):
            try:
                await asyncio.wait_for(asyncio.shield(self._task), 8)
                break
            except TimeoutError:
                self.node.stop()
        await self._end()
        self.start()

    async def _end(self) -> None:
        self._task.cancel()
        try:
            await self._task
        except (asyncio.CancelledError, StoreError):
            pass
        self.executor.die()

    async def close(self) -> None:
        """End for good."""
        await self._end()


class Cluster:
    """Three machines on one store. Everything that happens follows from the seed."""

    def __init__(self, seed: int, jobs: Mapping[str, Definition] = JOBS, seconds: float = SECONDS) -> None:
        self.seed = seed
        self._jobs = jobs
        self._seconds = seconds
        self.chance = random.Random(seed)
        self.clock = LoopClock()
        self.store = RecordingStore(self.clock)
        self.log = Log()
        self.orders = Orders()
        self.members = [Member(self, name) for name in ("a", "b", "c")]
        self._service = service_on(self.store, self.clock, random.Random(f"{seed} service").randbytes)
        self._busy: set[Member] = set()
        self._paused: set[JobId] = set()
        self._troubles: dict[str, Callable[[], Awaitable[None]]] = {
            "crash": self._crash,
            "restart": self._restart,
            "freeze": self._freeze,
            "cut": self._cut,
            "outage": self._outage,
            "stall": self._stall,
            "weather": self._weather,
            "jump": self._jump,
            "cancel": self._cancel,
            "pause": self._pause,
            "trigger": self._trigger,
            "edit": self._edit,
        }

    async def live(self, troubles: Sequence[str]) -> bool:
        """From start to rest, with these kinds of trouble in between. Whether it came to rest."""
        await self.store.put_semaphore("units", UNITS["units"], self.clock.now())
        for name, definition in self._jobs.items():
            await self._service.jobs.add(name, **fields_of(definition))
        for member in self.members:
            member.start()
        await self._suffer([self._troubles[name] for name in troubles])
        self._calm_down()
        rested = await self._rest()
        for member in self.members:
            await member.close()
        return rested

    async def _suffer(self, troubles: Sequence[Callable[[], Awaitable[None]]]) -> None:
        running: list[asyncio.Future[None]] = []
        loop = asyncio.get_running_loop()
        while troubles and loop.time() < self._seconds:
            await asyncio.sleep(self.chance.expovariate(1 / 1.5))
            running.append(asyncio.ensure_future(self.chance.choice(troubles)()))
        await asyncio.gather(*running)
        await asyncio.sleep(max(0.0, self._seconds - loop.time()))

    def _calm_down(self) -> None:
        for member in self.members:
            member.link.calm_down()

    async def _rest(self) -> bool:
        """Wait until every job is finished and every run has ended."""
        for _ in range(round(PATIENCE)):
            await asyncio.sleep(1)
            jobs = [job for job in await self.store.list_jobs() if job.definition.schedule is not None]
            unended = await self.store.list_runs(RunFilter(states=frozenset(RunState) - ENDS))
            if all(job.state is JobState.FINISHED for job in jobs) and not unended and not self.log.running():
                return True
        return False

    def _one(self) -> Member | None:
        """A member that is not in trouble with its very life already."""
        free = [member for member in self.members if member not in self._busy]
        return self.chance.choice(free) if free else None

    async def _crash(self) -> None:
        if (member := self._one()) is not None:
            self._busy.add(member)
            await member.crash()
            self._busy.discard(member)

    async def _restart(self) -> None:
        if (member := self._one()) is not None:
            self._busy.add(member)
            await member.restart()
            self._busy.discard(member)

    async def _freeze(self) -> None:
        self.chance.choice(self.members).link.freeze_in(self.chance.randrange(20), self.chance.uniform(0.5, 20))

    async def _cut(self) -> None:
        self.chance.choice(self.members).link.cut(self.chance.uniform(0.5, 15))

    async def _outage(self) -> None:
        seconds = self.chance.uniform(0.5, 12)
        for member in self.members:
            member.link.cut(seconds)

    async def _stall(self) -> None:
        self.store.stall(self.chance.uniform(0.5, 12))

    async def _weather(self) -> None:
        member = self.chance.choice(self.members)
        lost_call, lost_reply, late_call, slow = (self.chance.choice((0.0, 0.05, 0.2)) for _ in range(4))
        latency = self.chance.choice((0.002, 0.02, 0.1))
        member.link.weather = Weather(lost_call, lost_reply, late_call, slow, latency)
        await asyncio.sleep(self.chance.uniform(1, 15))
        member.link.weather = FAIR

    async def _jump(self) -> None:
        self.orders.jumps += 1
        self.clock.offset += self.chance.uniform(-20, 20)

    async def _cancel(self) -> None:
        runs = await self.store.list_runs(RunFilter(states=frozenset(RunState) - ENDS, limit=EVERYTHING))
        for run in self.chance.sample(runs, min(3, len(runs))):
            await self._service.runs.cancel(run.id, "enough")
            self.orders.cancelled.setdefault(run.id, asyncio.get_running_loop().time())

    async def _pause(self) -> None:
        loop, job_id = asyncio.get_running_loop(), JobId(self.chance.choice(sorted(self._jobs)))
        if job_id in self._paused:
            return
        self._paused.add(job_id)
        await self._service.jobs.pause(job_id)
        acknowledged = loop.time()
        await asyncio.sleep(self.chance.uniform(0.5, 10))
        self.orders.paused.append((job_id, acknowledged, loop.time()))
        await self._service.jobs.resume(job_id)
        self._paused.discard(job_id)

    async def _trigger(self) -> None:
        try:
            await self._service.jobs.trigger(self.chance.choice(sorted(self._jobs)))
        except Refused:
            pass

    async def _edit(self) -> None:
        """Another policy: the schedule and the limits stay."""
        names = sorted(name for name, job in self._jobs.items() if job.schedule is not None and name != FILLS)
        changes: Sequence[JobArguments] = (
            {"misfire": self.chance.choice(list(Misfire))},
            {"on_overlap": self.chance.choice(list(Overlap))},
            {"late_after": self.chance.choice((0.5, 3, 60))},
        )
        try:
            await self._service.jobs.update(self.chance.choice(names), **self.chance.choice(changes))
        except Conflict:  # nodes changed the job again and again
            pass


KINDS = (
    *("crash", "restart", "freeze", "cut", "outage", "stall", "weather", "jump"),
    *("cancel", "pause", "trigger", "edit"),
)
