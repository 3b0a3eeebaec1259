"""Nodes in virtual time on a real store that refuses what is done to a few rows. Which rows and when is chance."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from tests.contract.stores.actors import a_job, a_request, add_job
from tests.contract.stores.refusing import Database
from tests.unit.node.world import World
from tokimori.clock import Moment
from tokimori.model.dependents import On, Parent
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Outcome, RetryIn, Succeeded
from tokimori.model.policies import Misfire, OnExhausted, Overlap
from tokimori.model.run import Run
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import Store
from tokimori.stores.redis.connections import RedisConnections, Script

MOMENTS = "R14/2030-01-01T00:00:05Z/PT5S"
"""When the scheduled jobs are due."""
OCCURRENCES = 15
STEP = 0.5
"""Seconds, at least, from one look at the nodes to the next."""
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "apart": {"queue": "other"},
    "limited": {"max_running": 2},
    "holder": {"semaphores": ("db:2",)},
    "other-holder": {"semaphores": ("db",), "queue": "other"},
    "keyed": {"concurrency_key": "k", "max_running_per_key": 1},
    "parking": {"on_exhausted": OnExhausted.PARK},
}
CHILDREN = {"heir": On.ALWAYS, "mourner": On.FAILURE}
"""Children of `plain`, and the ends that they follow."""
SCHEDULED: dict[str, dict[str, Any]] = {
    "often": {"max_running": 0, "misfire": Misfire.ALL},
    "one-by-one": {"max_running": 1, "misfire": Misfire.ALL, "on_overlap": Overlap.QUEUE},
    "replaced": {"max_running": 1, "misfire": Misfire.ALL, "on_overlap": Overlap.REPLACE},
}


class Fault(NamedTuple):
    """What is done to which table, and when it is refused. `:run` is a run, `:job` a scheduled job's incarnation."""

    verb: str
    table: str
    when: str


FAULTS = (
    Fault("INSERT", "history", "NEW.id = :run"),
    Fault("DELETE", "runs", "OLD.id = :run"),
    Fault("UPDATE", "runs", "NEW.id = :run"),
    Fault("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'waiting'"),
    Fault("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'running'"),
    Fault("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'blocked'"),
    Fault("UPDATE", "runs", "NEW.id = :run AND NEW.state = 'ready'"),
    Fault("UPDATE", "runs", "NEW.id = :run AND NEW.pid IS NOT NULL"),
    Fault("INSERT", "attempts", "NEW.run_id = :run"),
    Fault("INSERT", "outputs", "NEW.run_id = :run"),
    Fault("INSERT", "permits", "NEW.run_id = :run"),
    Fault("DELETE", "permits", "OLD.run_id = :run"),
    Fault("INSERT", "runs", "NEW.parent_id = :run"),
    Fault("UPDATE", "jobs", "NEW.id = 'parking' AND NEW.state = 'parked'"),
    Fault("INSERT", "runs", "NEW.incarnation = :job"),
    Fault("UPDATE", "runs", "NEW.incarnation = :job"),
    Fault("DELETE", "runs", "OLD.incarnation = :job"),
    Fault("INSERT", "history", "NEW.incarnation = :job"),
    Fault("UPDATE", "jobs", "NEW.incarnation = :job"),
    Fault("UPDATE", "jobs", "NEW.incarnation = :job AND NEW.state = 'enabled'"),
    Fault("INSERT", "skips", "NEW.incarnation = :job"),
)
OF_REDIS = tuple(
    Fault("", "", when)
    for when in (
        *("settle :run", "settle :run succeeded", "settle :run waiting", "settle :run failed"),
        *("claim :run", "promote :run", "apply :job"),
    )
)
"""Redis has no triggers: its scripts ask a set whether they are refused, before they write."""
_REFUSED = "local function check(what) if call('SISMEMBER', P .. 'refused', what) == 1 then error('{words}') end end\n"
CHECKS = {
    "settle": (
        "local verdicts, ended, parks, steps = {}, {}, {}, {}\n",
        "for _, each in ipairs(ask.changes) do check('settle ' .. each.run_id) "
        "check('settle ' .. each.run_id .. ' ' .. each.state) end\n",
    ),
    "claim": (
        "if not repeated then\n    for name, semaphore",
        "for _, run in ipairs(taken) do check('claim ' .. run.id) end\n"
        "for _, run in ipairs(refused) do check('claim ' .. run.id) end\n",
    ),
    "promote": (
        "for _, id in ipairs(ids) do\n    local key",
        "for _, id in ipairs(ids) do check('promote ' .. id) end\n",
    ),
    "apply": (
        "local answers = {}\nfor n, plan",
        "for _, plan in ipairs(ask.plans) do check('apply ' .. plan.inc) end\n",
    ),
}


def let_scripts_refuse(store: Store, words: str) -> None:
    """The scripts of a Redis store ask whether they are refused."""
    db = cast(RedisConnections, store.db)  # type: ignore[attr-defined]
    for name, (before, check) in CHECKS.items():
        text = db._scripts[name].text
        text = text.replace(before, _REFUSED.format(words=words) + check + before)
        db._scripts[name] = Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class OnTime:
    """The store as if its clock were the virtual one; what it tells of others is left to the beats."""

    def __init__(self, store: Store, now: Callable[[], Moment]) -> None:
        self._store = store
        self._now = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        pulse = await self._store.tick(beat, now)
        return None if pulse is None else replace(pulse, now=self._now())

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`."""


@dataclass(slots=True)
class Refused:
    """What chance has chosen: runs, jobs, and which faults."""

    faults: list[str] = field(default_factory=list)
    runs: set[RunId] = field(default_factory=set)
    jobs: set[JobId] = field(default_factory=set)

    def concerns(self, run: Run) -> bool:
        """Whether something of the run may be refused."""
        return run.id in self.runs or run.job_id in self.jobs or run.parent_id in self.runs


class RefusedWorld(World):
    """Jobs of every kind, and requests. What each attempt comes to is chance, which the seed says."""

    def __init__(self, database: Database, seed: int) -> None:
        super().__init__(seed)
        self.chance = random.Random(seed)
        self.database = database
        self.store = cast(Any, OnTime(database.store, self.clock.now))
        self.jobs: dict[str, Job] = {}
        self.requested: list[Run] = []
        self.told: dict[RunId, list[Outcome]] = {}
        self.begun: Counter[tuple[RunId, int]] = Counter()
        self._seen: set[tuple[RunId, int]] = set()

    async def prepare(self) -> None:
        """Jobs, requests, and two nodes that have not begun."""
        store = self.database.store
        for name, terms in JOBS.items():
            self.jobs[name] = await add_job(store, name, **terms)
        for name, on in CHILDREN.items():
            child = await self._child(name, on)
            self.jobs[name] = child
        for name, terms in SCHEDULED.items():
            due = Moment(self.clock.now() + 5_000_000)
            self.jobs[name] = await add_job(store, name, schedule=MOMENTS, next_due=due, **terms)
        await store.put_semaphore("db", 3, self.clock.now())
        for n in range(24):
            job = self.jobs[self.chance.choice(list(JOBS))]
            key = "k" if job.definition.concurrency_key else None
            due = Moment(self.clock.now() + self.chance.choice((0, 0, 3_000_000)) + n)
            run = a_request(job, due=due, concurrency_key=key)
            self.requested.append(await store.add_run(run, self.clock.now()))

    async def _child(self, name: str, on: On) -> Job:
        child = a_job(name, parents=(Parent(job="plain", on=on),))
        await self.database.store.add_jobs([child], (await self.database.store.family()).version)
        return child

    async def refuse(self, number: int) -> Refused:
        """Let the store refuse so many rows, in so many ways."""
        chosen = Refused()
        for n in range(number):
            fault = self.chance.choice(OF_REDIS if self.database.kind == "redis" else FAULTS)
            run, job = self.chance.choice(self.requested), self.jobs[self.chance.choice(list(SCHEDULED))]
            if ":run" in fault.when:
                chosen.runs.add(run.id)
            elif ":job" in fault.when:
                chosen.jobs.add(job.id)
            else:
                chosen.jobs.add(JobId("parking"))
            run_id = run.id if self.database.kind == "redis" else f"'{run.id}'"
            when = fault.when.replace(":run", run_id).replace(":job", str(job.incarnation))
            chosen.faults.append(f"{fault.verb} {fault.table} {when} ({run.job_id})")
            if self.database.kind == "redis":
                await self._redis("SADD", when)
            else:
                self.database.refuse(fault.verb, fault.table, when, f"refuse{n}")
        return chosen

    async def accept(self) -> None:
        """Let the store take everything again."""
        if self.database.kind == "redis":
            await self._redis("DEL")
        else:
            self.database.accept()

    async def _redis(self, command: str, *words: str) -> None:
        db = cast(RedisConnections, self.database.store.db)  # type: ignore[attr-defined]
        await db.do(command, f"{db.address.prefix}refused", *words)

    async def live_on(self, duration: float) -> None:
        """Let time pass, in steps that are large enough for a beat each: calls of a real store take theirs."""
        end = self.clock.monotonic() + duration
        while (left := end - self.clock.monotonic()) > 0:
            self.go_on()
            delays = await self._rest()
            self.clock.advance(min(left, max(STEP, min(delays))))

    def go_on(self) -> None:
        """Some attempts end, each as chance says."""
        for member in self.members:
            for task in list(member.executor.tasks):
                key = task.run_id, task.attempt
                if key not in self._seen:
                    self._seen.add(key)
                    self.begun[key] += 1
                if self.chance.random() < 0.7:
                    outcome = self._outcome(task.run_id)
                    self.told.setdefault(task.run_id, []).append(outcome)
                    member.executor.end(task.run_id, outcome)

    def _outcome(self, run: RunId) -> Outcome:
        again = [outcome for outcome in self.told.get(run, ()) if isinstance(outcome, RetryIn)]
        outcomes: list[Outcome] = [Succeeded(0), Succeeded(0, result="so"), Failed("no", exit_code=1)]
        return self.chance.choice(outcomes if again else [*outcomes, RetryIn(1.0)])
