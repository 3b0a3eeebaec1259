"""Families of runs as they are read: what came before a run and what follows it, made or to come."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MILLISECOND, SECOND, Moment
from tokimori.errors import NotFound
from tokimori.model.dependents import Edge, On, follows, origin_after
from tokimori.model.ids import Incarnation, JobId, RunId, check_uuid
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run, Step, parents_of
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.definitions.steps import all_in
from tokimori.service.reasons import Cause, HeldBy, Reason, Why
from tokimori.service.why.run import NAMED

_T = TypeVar("_T")

MOST_RUNS, MOST_ORDERED = 1_000, 20_000
"""Number of runs of a family that are shown, and that an order to all of them concerns."""
_AT_ONCE = 50
"""Number of runs of a family read at a time."""
_IN_A_ROW = 100
"""Number of runs of a family looked at before the loop gets its turn."""
_LOOKED_AT, _NEAR = 1_000, 10 * SECOND
"""Runs among which others of a family are looked for, and how far apart those are made that are requested together."""
COMES = RunState.WAITING
"""State of a run that is still to be made."""


class FamilyMember(Struct, frozen=True, kw_only=True):
    """A run of a family, or one to come (`run` null).

    `name` is its id; of a run to come of a dependent job it is that of the job. `after` are the names of those that it
    follows, after such an end (`on`): after all (`joins`) or after each. `state`: of one to come it is waiting, or
    skipped if it will not be made.
    """

    name: str
    job_id: JobId
    state: RunState
    run: Run | None = None
    after: tuple[str, ...] = ()
    on: On = On.SUCCESS
    joins: int = 0


class _Reader:
    """The runs of one family, as they are found."""

    def __init__(self, store: Store, edges: Sequence[Edge], most: int) -> None:
        self._store, self._most = store, most
        self._below = defaultdict[JobId, list[Edge]](list)
        self._lives: dict[JobId, Incarnation | None] = {}
        self._runs: dict[str, Run] = {}
        self._looked: set[RunId] = set()
        self._few = asyncio.Semaphore(_AT_ONCE)
        for edge in edges:
            self._below[edge.parent].append(edge)

    async def read(self, run: Run) -> list[FamilyMember]:
        """Return its family, parents first: of one that is too large the nearest runs."""
        self._runs[run.id], line = run, [run]
        while line and len(self._runs) < self._most:
            found = dict[RunId, Run]()
            for first in range(0, len(line), _IN_A_ROW):
                near = await asyncio.gather(*map(self._near, line[first : first + _IN_A_ROW]))
                found |= {each.id: each for runs in near for each in runs}
                await asyncio.sleep(0)
            line = [each for run_id, each in found.items() if run_id not in self._runs]
            self._runs |= {each.id: each for each in line}
        made = await self._made()
        return await _in_order(made + await self._to_come())

    async def _near(self, run: Run) -> list[Run]:
        """Return the runs directly before and after a run, and those with which it is joined."""
        spawned = () if run.details.spawned is None else run.details.spawned.ids(run.id, 0, self._most)
        wanted = [*parents_of(run), *(step.id for step in run.details.then), *spawned]
        new = [run_id for run_id in wanted[: self._most] if run_id not in self._runs]
        found = list[Run | None]()
        for first in range(0, len(new), _IN_A_ROW):
            found += await asyncio.gather(*map(self._get, new[first : first + _IN_A_ROW]))
        for edge in self._below[run.job_id] if run.state in ENDS else ():
            if follows(edge.on, run.state) and (life := await self._incarnation_of(edge.child)) is not None:
                async with self._few:
                    found += await self._store.runs_of(life, [origin_after(run, edge)])
        joined = {step.id for step in run.details.then if step.joins} - {each.id for each in found if each}
        if joined := {each for each in joined if each not in self._runs and each not in self._looked}:
            self._looked |= joined
            found += await self._beside(run, joined)
        return [each for each in found if each is not None]

    async def _get(self, run_id: str) -> Run | None:
        async with self._few:
            try:
                return await self._store.get_run(RunId(run_id))
            except NotFound:
                return None

    async def _incarnation_of(self, job_id: JobId) -> Incarnation | None:
        if job_id not in self._lives:
            try:
                self._lives[job_id] = (await self._store.get_job(job_id)).incarnation
            except NotFound:
                self._lives[job_id] = None
        return self._lives[job_id]

    async def _beside(self, run: Run, joined: set[RunId]) -> list[Run]:
        """Return the runs that were requested together with this one, and have the same runs behind them."""
        oldest, before = first_id_at(Moment(run.created - _NEAR)), first_id_at(Moment(run.created + _NEAR))
        near = await self._store.list_runs(RunFilter(before=before, limit=_LOOKED_AT))
        return [each for each in near if each.id > oldest and any(step.id in joined for step in each.details.then)]

    async def _made(self) -> list[FamilyMember]:
        steps = {step.id: step for run in self._runs.values() for step in run.details.then}
        found = []
        async for run in _few_of(self._runs.values()):
            after, step = tuple(each for each in parents_of(run) if each in self._runs), steps.get(run.id)
            on, joins = On.SUCCESS, len(after) if len(after) > 1 else 0
            if step is not None:
                on, joins = _on(step), step.joins
            elif after:
                edges = (edge for edge in self._below[self._runs[after[0]].job_id] if edge.child == run.job_id)
                on = next((edge.on for edge in edges if follows(edge.on, self._runs[after[0]].state)), on)
            found.append(
                FamilyMember(name=run.id, job_id=run.job_id, state=run.state, run=run, after=after, on=on, joins=joins)
            )
        return found

    async def _to_come(self) -> list[FamilyMember]:
        """Return what is not made: the steps behind these runs, and the jobs that run after theirs."""
        made = {(parent, run.job_id) for run in self._runs.values() for parent in parents_of(run)}
        found: dict[str, FamilyMember] = {}
        after = defaultdict[str, dict[str, None]](dict)
        line = [(run.id, run.job_id, run.details.then) for run in self._runs.values()]

        def note(parent: str, new: FamilyMember, then: tuple[Step, ...] = ()) -> None:
            if new.name not in found:
                line.append((RunId(new.name), new.job_id, then))
                found[new.name] = new
            after[new.name][parent] = None

        async for parent, job, steps in _few_of(line):
            for each in steps:
                if each.id not in self._runs:
                    new = FamilyMember(name=each.id, job_id=each.job, state=COMES, on=_on(each), joins=each.joins)
                    note(parent, new, each.then)
            for edge in self._below[job]:
                if (parent, edge.child) not in made and len(found) < self._most:
                    new = FamilyMember(name=edge.child, job_id=edge.child, state=COMES, on=edge.on, joins=edge.joins)
                    note(parent, new)
        return [replace(each, after=tuple(after[each.name])) async for each in _few_of(found.values())]


async def _few_of(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield these items, and give way to others after some of them: a family may have many."""
    for number, each in enumerate(items, 1):
        yield each
        if number % _IN_A_ROW == 0:
            await asyncio.sleep(0)


def _on(step: Step) -> On:
    return On.FAILURE if step.on_failure else On.SUCCESS


async def _in_order(members: Sequence[FamilyMember]) -> list[FamilyMember]:
    """Return parents before their children, else the oldest first, with the states of those to come."""
    left = {each.name: each for each in sorted(members, key=lambda each: each.name)}
    missing, below, done = dict[str, int](), defaultdict[str, list[str]](list), dict[str, FamilyMember]()
    async for each in _few_of(left.values()):
        missing[each.name] = len(parents := set(each.after))
        for name in parents:
            below[name].append(each.name)
    async for each in _few_of(_parents_first(left, missing, below)):
        is_off = each.run is None and _is_off(each, [done[name].state for name in each.after if name in done])
        done[each.name] = replace(each, state=RunState.SKIPPED) if is_off else each
    return list(done.values())


def _parents_first(
    left: dict[str, FamilyMember], missing: dict[str, int], below: Mapping[str, Sequence[str]]
) -> Iterator[FamilyMember]:
    """Yield generation after generation, each by name; in the end those that follow each other in a circle."""
    ready = [name for name in left if not missing[name]]
    while left:
        freed = list[str]()
        for name in ready or list(left):
            yield left.pop(name)
            for child in below.get(name, ()):
                missing[child] -= 1
                if not missing[child] and child in left:
                    freed.append(child)
        ready = sorted(freed)


def _is_off(member: FamilyMember, before: Sequence[RunState]) -> bool:
    """Return if a run to come will not be made, as those before it are in these states."""
    wrong = (state in ENDS and not follows(member.on, state) for state in before)
    return all(state in ENDS for state in before) or (member.joins > 0 and any(wrong))


async def family_of(store: Store, run_id: str, most: int = MOST_RUNS) -> list[FamilyMember]:
    """Return the family of a run, or of a step that is to be made: about `most` runs. Raises `NotFound`."""
    checked = RunId(check_uuid(run_id, field="run"))
    try:
        run = await store.get_run(checked)
    except NotFound:
        if (found := await _run_before(store, checked)) is None:
            raise
        run = found
    return await _Reader(store, (await store.family()).edges, most).read(run)


async def _run_before(store: Store, step_id: RunId) -> Run | None:
    """Return a run that has not ended and is followed by this step: one requested with it, or else a new one."""
    made = Moment(int(step_id.replace("-", "")[:12], 16) * MILLISECOND)
    for before in (first_id_at(Moment(made + _NEAR)), None):
        wanted = RunFilter(states=frozenset(RunState) - ENDS, before=before, limit=_LOOKED_AT)
        for run in await store.list_runs(wanted):
            if any(step.id == step_id for step in all_in(run.details.then)):
                return run
    return None


async def why_to_come(store: Store, run_id: str) -> Why:
    """Return for which runs one waits that is to come, or why it is not made. Raises `NotFound`."""
    checked = RunId(check_uuid(run_id, field="run"))
    known = {each.name: each for each in await family_of(store, checked)}
    step = known[checked]
    before = [known[name] for name in step.after]
    many = f"all {len(before)} runs before it have" if step.joins else "one of the runs before it has"
    end = f"{many if len(before) > 1 else 'the run before it has'} {'failed' if step.on is On.FAILURE else 'succeeded'}"
    holders = [
        HeldBy(run_id=RunId(each.name), job_id=each.job_id, state=each.state.value)
        for each in before
        if (each.state in ENDS) is (step.state in ENDS)
    ]
    is_off = step.state in ENDS
    reason = Reason(
        cause=Cause.ENDED if is_off else Cause.PARENTS,
        text=f"it is not made, which only happens when {end}" if is_off else f"it is made when {end}",
        mend=f"`tokimori run family {checked}` shows them",
        holders=tuple(holders[:NAMED]),
        others=max(0, len(holders) - NAMED),
    )
    return Why(job_id=step.job_id, run_id=checked, state=step.state.value, reasons=(reason,))
