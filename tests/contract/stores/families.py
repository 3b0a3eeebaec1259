"""Random families: jobs that run after each other, nodes that work on them at one time, and what must come of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, later
from tokimori.model.dependents import Edge, Join, On, Parent, follows, origin_after, root_of
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, edges_of
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded
from tokimori.model.run import Run
from tokimori.model.target import Noop
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed, Verdict

Family = dict[JobId, Definition]
"""Parents before their children."""
MOST_JOBS = 7
LIVE = frozenset(RunState) - ENDS
OUTCOMES: Sequence[Outcome] = (*[Succeeded(0)] * 7, Failed("no"), Cancelled("enough"), Released("later"))


def diamond(name: str) -> Family:
    """c and d run each after a or b, and e after both of them: its join is complete twice for one root."""
    a, b, c, d, e = (JobId(f"{name}-{letter}") for letter in "abcde")
    either = (Parent(job=a), Parent(job=b))
    both = tuple(Parent(job=job, on=On.ALWAYS) for job in (c, d))
    plain = Definition(target=Noop())
    return {
        a: plain,
        b: plain,
        c: Definition(target=Noop(), parents=either),
        d: Definition(target=Noop(), parents=either),
        e: Definition(target=Noop(), parents=both, join=Join.ALL),
    }


def a_family(name: str, chance: Random) -> Family:
    """Some jobs, of which each but the first two may run after any before it, and repair any behind it."""
    jobs = [JobId(f"{name}-{number}") for number in range(chance.randint(4, MOST_JOBS))]
    family: Family = {}
    for number, job in enumerate(jobs):
        parents = chance.sample(jobs[:number], min(number, chance.randint(1, 3))) if number > 1 else []
        repair = chance.choice(jobs[number + 1 :]) if jobs[number + 1 :] and chance.random() < 0.25 else None
        family[job] = Definition(
            target=Noop(),
            parents=tuple(Parent(job=each, on=chance.choice([On.SUCCESS, On.ALWAYS, *On])) for each in parents),
            join=chance.choice([*Join]),
            on_failure_job=repair,
        )
    return family


def families(number: int, seed: int) -> Family:
    """So many families side by side."""
    chance = Random(seed)
    found = [diamond("diamond"), *(a_family(f"family{n}", chance) for n in range(number - 1))]
    return {job: definition for family in found for job, definition in family.items()}


def edges_in(family: Family) -> list[Edge]:
    """Which of them run after which."""
    return [edge for job, definition in family.items() for edge in edges_of(job, definition)]


async def add_family(store: Store, family: Family, roots: int) -> None:
    """The jobs, and for each root a run of those that have no parent."""
    jobs = [a_job(job, **{name: getattr(terms, name) for name in _TERMS}) for job, terms in family.items()]
    await store.add_jobs(jobs, 0)
    for job in jobs:
        for root in range(0 if job.definition.parents else roots):
            await store.add_run(a_request(job, root=f"s:{root}"), NOW)


_TERMS = ("parents", "join", "on_failure_job")


async def take_part(store: Store, jobs: Iterable[JobId], seed: int) -> None:
    """Claim runs and settle any of those in hand, some of them twice, until none is left; no settle may be refused."""
    chance, worker = Random(seed), await Worker.join(store)
    held: list[Claimed] = []
    while held or any([(await store.get_due(job)).active for job in jobs]):
        for _ in range(20):
            held += await worker.claim(chance.randint(1, 30), later(1))
            chance.shuffle(held)
            number = chance.randint(0, 40)
            changes = [worker.change(each, chance.choice(OUTCOMES)) for each in held[:number]]
            held = held[number:]
            assert set(await store.settle(changes, worker.id, NOW)) <= {Verdict.APPLIED}
            ends = [each for each in changes if each.state in ENDS and chance.random() < 0.1]
            assert set(await store.settle(ends, worker.id, NOW)) <= {Verdict.ALREADY_APPLIED}


async def every_run(store: Store) -> list[Run]:
    """All runs there are, page by page."""
    runs: list[Run] = []
    while page := await store.list_runs(RunFilter(before=runs[-1].id if runs else None, limit=1000)):
        runs += page
    return runs


def wrong_births(edges: Iterable[Edge], runs: Sequence[Run]) -> list[str]:
    """What is missing, or there without a reason, or there twice, when all of these runs have ended."""
    wanted, found = set(_births(edges, runs)), Counter((run.job_id, run.origin) for run in runs if run.parent_id)
    return [
        *(f"{job} {origin}: missing" for job, origin in sorted(wanted - found.keys())),
        *(f"{job} {origin}: {count} runs" for (job, origin), count in found.items() if count > 1),
        *(f"{job} {origin}: not asked for" for job, origin in sorted(found.keys() - wanted)),
    ]


def _births(edges: Iterable[Edge], runs: Sequence[Run]) -> Iterator[tuple[JobId, str]]:
    """Which children must have a run of which origin: after one end, or after those of all parents of one root."""
    of_job: dict[JobId, list[Run]] = defaultdict(list)
    for run in runs:
        of_job[run.job_id].append(run)
    arrived: dict[tuple[JobId, int, str], set[JobId]] = defaultdict(set)
    for edge in edges:
        for parent in of_job[edge.parent]:
            if not follows(edge.on, parent.state):
                continue
            if not edge.joins:
                yield edge.child, origin_after(parent, edge)
            else:
                arrived[edge.child, edge.joins, root_of(parent)].add(edge.parent)
    for (child, joins, root), parents in arrived.items():
        if len(parents) == joins:
            yield child, f"c:{root}"
