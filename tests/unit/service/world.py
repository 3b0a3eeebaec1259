"""A service, its store and its clock, and what a node would do."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tests.unit.examples import NEW_YEAR
from tokimori.clock import SECOND, Moment
from tokimori.config.secrets import Keyring
from tokimori.engine.fire import decide_and_apply
from tokimori.engine.settle import change_of
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import ClaimId, JobId, NodeId, PermitId
from tokimori.model.job import Definition, Job, schedule_of
from tokimori.model.outcome import Outcome
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Run, Skip
from tokimori.model.target import Noop
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.semaphores import Grant, UnitRequest
from tokimori.ports.working import Claim, Claimed
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.definitions.definitions import definition_from, fields_of
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore


class SetClock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.moment = NEW_YEAR

    def now(self) -> Moment:
        return self.moment

    def monotonic(self) -> float:
        return self.moment / SECOND


NODE = NodeId("node")
ON_DEMAND = Definition(target=Noop())


class FickleStore(MemoryStore):
    """A memory store whose reply to the next call is lost, or whose job changes under our hands."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__(clock)
        self.tables = self._tables
        self.lose_replies = 0
        self.before_replace: Callable[[], None] = lambda: None

    def _lose(self) -> None:
        if self.lose_replies:
            self.lose_replies -= 1
            raise StoreUnavailable("the reply is lost")

    async def add_jobs(self, jobs_: Sequence[Job], family: int | None = None) -> None:
        await super().add_jobs(jobs_, family)
        self._lose()

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        self.before_replace()
        await super().replace_job(old, new, skips, family)
        self._lose()

    async def delete_job(self, job_id: JobId, now: Moment, known: Job | None = None) -> None:
        await super().delete_job(job_id, now, known)
        self._lose()

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        kept = await super().add_run(run, now, manner)
        self._lose()
        return kept

    async def add_runs(self, runs: Sequence[Run], now: Moment) -> list[Run]:
        kept = await super().add_runs(runs, now)
        self._lose()
        return kept


CIPHER = Keyring(None, "c2VjcmV0cyBhcmUgc2VhbGVkIHdpdGggdGhpcyBrZXk=")
"""Encrypts secrets."""


class World:
    """A service, its store and its clock, and what a node would do."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.store = FickleStore(self.clock)
        self.give_place(None)

    def give_place(self, place: ClaimPlace | None) -> None:
        """Make the service anew, with this place where workers claim."""
        zone = "Europe/Paris"
        self.service = service_on(
            self.store, self.clock, os.urandom, time_zone=zone, author="ada", cipher=CIPHER, place=place
        )

    def count(self, method: str) -> list[str]:
        """A list to which each call of this method of the store from now on adds its name."""
        calls: list[str] = []
        work = getattr(self.store, method)

        async def counted(*args: object, **kwargs: object) -> object:
            calls.append(method)
            return await work(*args, **kwargs)

        setattr(self.store, method, counted)
        return calls

    async def trigger(self, job_id: str) -> Run:
        """Ask for a run a second later, so that it is newer than all others."""
        self.pass_seconds(1)
        return await self.service.jobs.trigger(job_id)

    def pass_seconds(self, n: float) -> None:
        self.clock.moment = Moment(self.clock.moment + round(n * SECOND))

    def define(self, fields: Mapping[str, object]) -> Definition:
        """The definition that these fields say, in the zone of the service."""
        return definition_from(fields, time_zone=self.service.time_zone)

    async def add(self, wanted: Definition | Mapping[str, Any], job_id: str | None = None) -> Job:
        """Add a job, said by a definition or by its fields."""
        fields: Mapping[str, Any] = fields_of(wanted) if isinstance(wanted, Definition) else wanted
        return await self.service.jobs.add(job_id, **fields)

    async def update(self, job_id: str, changes: Mapping[str, Any]) -> Job:
        """Change these fields of a job."""
        return await self.service.jobs.update(job_id, **changes)

    async def fire(self) -> None:
        now = self.clock.now()
        dues = await self.store.due(now, 100)
        await decide_and_apply(
            self.store, dues, now, os.urandom, lambda job: schedule_of(job.definition, job.anchor, job.id)
        )

    async def begin(self, count: int) -> list[Claimed]:
        """A node on host `h` claims so many runs, and has not ended them yet."""
        if not await self.store.list_nodes():
            await self.register()
        now = self.clock.now()
        await self.store.promote(now, 10)
        lanes = (await self.store.survey(now)).lanes
        claim = Claim(id=ClaimId(f"{now}-{os.urandom(4).hex()}"), node=NODE, lanes=lanes, limit=count)
        return await self.store.claim(claim, now)

    async def register(self, node: str = NODE, labels: Mapping[str, str] = MappingProxyType({})) -> None:
        """Have a node on host `h` join."""
        await self.store.register(
            NodeRecord(
                id=NodeId(node),
                host="h",
                boot_id="b",
                pid=1,
                labels=dict(labels),
                concurrency=1,
                version="0",
                started=NEW_YEAR,
                state=NodeState.ALIVE,
            )
        )

    async def hold(
        self, semaphore: str, weight: int = 1, *, program: str = "program", host: str = "db-1", pid: int = 42
    ) -> None:
        """Have a program on another machine hold units of a semaphore of three."""
        node = NodeId(program)
        await self.store.register(
            NodeRecord(
                id=node,
                host=host,
                boot_id="b",
                pid=pid,
                concurrency=0,
                version="0",
                started=self.clock.now(),
                state=NodeState.ALIVE,
            )
        )
        wish = UnitRequest(id=PermitId("permit"), node=node, semaphore=semaphore, weight=weight, limit=3, rank=1)
        assert isinstance(await self.store.acquire(wish, self.clock.now()), Grant)

    async def work(self, *outcomes: Outcome, started: bool = True) -> None:
        """A node on host `h` claims a run for each outcome, one after the other, and settles it so."""
        for outcome in outcomes:
            now = self.clock.now()
            (claimed,) = await self.begin(1)
            change = change_of(claimed, outcome, owner=NODE, now=now, chance=0, started=now if started else None, pid=7)
            await self.store.settle([change], NODE, now)


def every_minute(**terms: object) -> Definition:
    """A no-op at every full minute."""
    return Definition(target=Noop(), schedule="* * * * *", **terms)  # type: ignore[arg-type]
