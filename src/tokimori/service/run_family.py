"""Families of runs: what came before a run and what follows it, made or to come, and orders for all of them."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.errors import NotFound, Refused, TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.attempt_notes import given_to, is_inherited
from tokimori.model.dependents import Edge, On, follows, origin_after, root_of
from tokimori.model.ids import Incarnation, JobId, RandomBytes, RunId, check_uuid
from tokimori.model.parents import ParentRun
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run, Step, joined_as, parents_of
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.arguments import RequestArguments
from tokimori.service.asking import cancel_run
from tokimori.service.finding_runs import parent_runs
from tokimori.service.given import flag_of
from tokimori.service.operation import OUTCOME, REQUEST, M, Part, operation
from tokimori.service.reasons import Cause, HeldBy, Reason, Why
from tokimori.service.requesting import RunRequests
from tokimori.service.requests import Asked
from tokimori.service.sight import RUN, Sight, out_of_scope
from tokimori.service.steps import all_in, anew
from tokimori.service.store_time import Now
from tokimori.service.views.outside import list_of
from tokimori.service.views.runs import FamilyMemberView, ParentRunView, RequestedRunView, RunView
from tokimori.service.why.run import MOST_RUNS, NAMED

_AT_ONCE = 50
"""So many of them are asked for at a time."""
_LOOKED_AT, _NEAR = 1_000, 10 * SECOND
"""Runs among which others of a family are looked for, and how far apart those are made that are requested together."""
COMES = RunState.WAITING
"""State of a run that is still to be made."""
_PASSES = 3
"""A run that was about to end when its family was cancelled may have brought others."""


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

    def __init__(self, store: Store, edges: Sequence[Edge]) -> None:
        self._store = store
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
        while line and len(self._runs) < MOST_RUNS:
            near = await asyncio.gather(*map(self._near, line))
            found = {each.id: each for runs in near for each in runs}
            line = [each for run_id, each in found.items() if run_id not in self._runs]
            self._runs |= {each.id: each for each in line}
        return _in_order(self._made() + self._to_come())

    async def _near(self, run: Run) -> list[Run]:
        """Return the runs directly before and after a run, and those with which it is joined."""
        spawned = () if run.details.spawned is None else run.details.spawned.ids(run.id, 0, MOST_RUNS)
        wanted = [*parents_of(run), *(step.id for step in run.details.then), *spawned]
        new = [run_id for run_id in wanted[:MOST_RUNS] if run_id not in self._runs]
        found = list(await asyncio.gather(*map(self._get, new)))
        for edge in self._below[run.job_id] if run.state in ENDS else ():
            if follows(edge.on, run.state) and (life := await self._life(edge.child)) is not None:
                async with self._few:
                    found += await self._store.runs_of(life, [origin_after(run, edge)])
        joined = {step.id for step in run.details.then if step.joins} - {each.id for each in found if each}
        if joined := joined - self._runs.keys() - self._looked:
            self._looked |= joined
            found += await self._beside(run, joined)
        return [each for each in found if each is not None]

    async def _get(self, run_id: str) -> Run | None:
        async with self._few:
            try:
                return await self._store.get_run(RunId(run_id))
            except NotFound:
                return None

    async def _life(self, job_id: JobId) -> Incarnation | None:
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

    def _made(self) -> list[FamilyMember]:
        steps = {step.id: step for run in self._runs.values() for step in run.details.then}
        found = []
        for run in self._runs.values():
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

    def _to_come(self) -> list[FamilyMember]:
        """Return what is not made: the steps behind these runs, and the jobs that run after theirs."""
        made = {(parent, run.job_id) for run in self._runs.values() for parent in parents_of(run)}
        found: dict[str, FamilyMember] = {}
        line = [(run.id, run.job_id, run.details.then) for run in self._runs.values()]

        def note(parent: str, new: FamilyMember, then: tuple[Step, ...] = ()) -> None:
            if new.name not in found:
                line.append((RunId(new.name), new.job_id, then))
            known = found.setdefault(new.name, new)
            found[new.name] = replace(known, after=tuple(dict.fromkeys((*known.after, parent))))

        for parent, job, steps in line:
            for each in steps:
                if each.id not in self._runs:
                    new = FamilyMember(name=each.id, job_id=each.job, state=COMES, on=_on(each), joins=each.joins)
                    note(parent, new, each.then)
            for edge in self._below[job]:
                if (parent, edge.child) not in made and len(found) < MOST_RUNS:
                    new = FamilyMember(name=edge.child, job_id=edge.child, state=COMES, on=edge.on, joins=edge.joins)
                    note(parent, new)
        return list(found.values())


def _on(step: Step) -> On:
    return On.FAILURE if step.on_failure else On.SUCCESS


def _in_order(members: Sequence[FamilyMember]) -> list[FamilyMember]:
    """Return parents before their children, else the oldest first, with the states of those to come."""
    left, done = sorted(members, key=lambda each: each.name), dict[str, FamilyMember]()
    while left:
        ready = [each for each in left if all(name in done for name in each.after)] or left
        for each in ready:
            is_off = each.run is None and _is_off(each, [done[name].state for name in each.after if name in done])
            done[each.name] = replace(each, state=RunState.SKIPPED) if is_off else each
        left = [each for each in left if each.name not in done]
    return list(done.values())


def _is_off(member: FamilyMember, before: Sequence[RunState]) -> bool:
    """Return if a run to come will not be made, as those before it are in these states."""
    wrong = (state in ENDS and not follows(member.on, state) for state in before)
    return all(state in ENDS for state in before) or (member.joins > 0 and any(wrong))


async def family_of(store: Store, run_id: str) -> list[FamilyMember]:
    """Return the family of a run, or of a step that is to be made. Raises `NotFound`."""
    try:
        run = await store.get_run(RunId(check_uuid(run_id, field="run")))
    except NotFound:
        live = await store.list_runs(RunFilter(states=frozenset(RunState) - ENDS, limit=_LOOKED_AT))
        found = next((each for each in live if any(step.id == run_id for step in all_in(each.details.then))), None)
        if found is None:
            raise
        run = found
    return await _Reader(store, (await store.family()).edges).read(run)


async def why_to_come(store: Store, run_id: str) -> Why:
    """Return for which runs one waits that is to come, or why it is not made. Raises `NotFound`."""
    family = await family_of(store, run_id)
    known = {each.name: each for each in family}
    step = known[run_id]
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
        mend=f"`tokimori run family {run_id}` shows them",
        holders=tuple(holders[:NAMED]),
        others=max(0, len(holders) - NAMED),
    )
    return Why(job_id=step.job_id, run_id=RunId(run_id), state=step.state.value, reasons=(reason,))


def _whole(family: Sequence[FamilyMember], run_id: str) -> list[Run]:
    """Return the runs that are made, parents first. Raises `Refused` if there are more."""
    runs = [each.run for each in family if each.run is not None]
    if len(runs) >= MOST_RUNS:
        message = f"the family of the run {run_id} has {MOST_RUNS:,} runs or more"
        raise Refused(message, field="run", value=run_id, allowed="`tokimori run bulk`, with a filter")
    return runs


class RunFamilies(Part[M]):
    """Families of runs, and requests for runs once more."""

    _store: Store
    _now: Now
    _random: RandomBytes
    _requests: RunRequests

    @operation(Role.READ, RUN, gives=list_of(ParentRunView.made))
    async def parents(self, run_id: str) -> list[ParentRun]:
        """Return the runs after whose ends this one was made, with their results: all of them for a join.

        A run that was requested has none. Of results beyond 1 MiB `left_out` says how to read them.
        """
        run = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        return await parent_runs(self._store, parents_of(run))

    @parents.within
    async def _parents_within(self, sight: Sight, run_id: str) -> list[ParentRun]:
        """Return those of them that are in scope."""
        return [each for each in await self.parents(run_id) if await sight.sees_run_id(each.id)]

    @operation(Role.READ, RUN, gives=list_of(FamilyMemberView.made))
    async def family(self, run_id: str) -> list[FamilyMember]:
        """Return all runs before and after a run, made and to come, parents first: at most 1,000 that are made.

        The run may be a step that is still to be made.
        """
        return await family_of(self._store, run_id)

    @family.within
    async def _family_within(self, sight: Sight, run_id: str) -> list[FamilyMember]:
        """Return those of them that are in scope."""
        family = [each for each in await self.family(run_id) if await _sees(sight, each)]
        names = {each.name for each in family}
        return [replace(each, after=tuple(name for name in each.after if name in names)) for each in family]

    @operation(Role.OPERATE, RUN, audit=OUTCOME, doing="Cancelling a family", gives=list_of(RunView.made))
    async def cancel_family(self, run_id: str, reason: str = "cancelled by hand") -> list[Run]:
        """Cancel all runs of a family that have not ended, parents first, and return them: nothing follows them.

        What runs after any end, a cancellation too, is made. Raises `Refused` for a family of 1,000 runs.
        """
        check_reason("reason", reason)
        done: dict[RunId, Run] = {}
        for number in range(_PASSES):
            family = await self.family(run_id)
            _whole(family, run_id)
            live = [each.run for each in family if each.state not in ENDS and (not number or each.on is not On.ALWAYS)]
            new = [run for run in live if run is not None and run.cancel is None and run.id not in done]
            for run in new:
                done[run.id] = await cancel_run(self._store, self._now, run.id, reason)
            if not new:
                break
        return list(done.values())

    @cancel_family.within
    async def _cancel_family_within(self, sight: Sight, run_id: str, reason: str = "cancelled by hand") -> list[Run]:
        """Refuse a family with a run that is out of scope, and has not ended."""
        await _check_seen(sight, [each for each in await self.family(run_id) if each.state not in ENDS])
        return await self.cancel_family(run_id, reason)

    @operation(Role.OPERATE, RUN, audit=REQUEST, doing="Running a run again", gives=RequestedRunView.made)
    async def retry(self, run_id: str, key: str | None = None, *, force: bool = False) -> Asked:
        """Ask for a run now with the payload, the priority and the concurrency key of one that has ended.

        It is a new run, whose `details.retry_of` names the old one. `key` and `force` are those of `trigger`, as are
        the errors; `Refused` is also raised for a run that has not ended, or whose job is another one by now.
        """
        return await self._again(await self._store.get_run(RunId(check_uuid(run_id, field="run"))), key, force=force)

    @retry.within
    async def _retry_within(self, sight: Sight, run_id: str, key: str | None = None, *, force: bool = False) -> Asked:
        """Check that a new run may be requested of the job that has the id now, and of those of the steps behind it."""
        await _check_again(sight, await sight.run_of(run_id))
        return await self.retry(run_id, key, force=force)

    @operation(Role.OPERATE, RUN, audit=REQUEST, doing="Running a family again", gives=list_of(RequestedRunView.made))
    async def retry_family(self, run_id: str, *, force: bool = False) -> list[Asked]:
        """Ask for a whole family once more: for its first runs anew, and so for new ones of all that follow them.

        Return the new first runs. Raises the errors of `retry`, and `Refused` while one of its runs has not ended. If a
        request is refused, those before it are cancelled.
        """
        forced = flag_of("force", force)
        runs = _whole(await self.family(run_id), run_id)
        if (live := next((run for run in runs if run.state not in ENDS), None)) is not None:
            message = f"the run {live.id} of this family has not ended: it is {live.state}"
            raise Refused(
                message, field="run", value=live.id, allowed=f"`tokimori run cancel {run_id} --family` before"
            )
        generation, roots, made = dict[RunId, RunId](), dict[str, str](), list[Asked]()
        for old in _first(runs):
            try:
                made.append(await self._again(old, None, force=forced, generation=generation, roots=roots))
            except TokimoriError:
                for asked in made:
                    await cancel_run(self._store, self._now, asked.run.id, "not all of its family could be requested")
                raise
        return made

    @retry_family.within
    async def _retry_family_within(self, sight: Sight, run_id: str, *, force: bool = False) -> list[Asked]:
        """Check that all these runs may be requested."""
        for old in _first([each.run for each in await self.family(run_id) if each.run is not None]):
            await _check_again(sight, old)
        return await self.retry_family(run_id, force=force)

    async def _again(
        self,
        old: Run,
        key: str | None,
        *,
        force: bool,
        generation: dict[RunId, RunId] | None = None,
        roots: dict[str, str] | None = None,
    ) -> Asked:
        """Ask for a run once more; with a `generation` and the `roots` of its family all of that is made anew."""
        fields = RequestArguments(
            priority=old.priority, concurrency_key=old.concurrency_key, force=flag_of("force", force)
        )
        request, job, run = await self._requests.wanted(old.job_id, key, given_to(old), fields)
        if old.state not in ENDS:
            message = f"the run {old.id} has not ended: it is {old.state}; `tokimori run cancel {old.id}` ends it"
            raise Refused(message, field="run", value=old.id, allowed="a run that has ended")
        if job.incarnation != old.incarnation:
            message = f"the job of the run {old.id} was deleted, and {old.job_id!r} is another one"
            raise Refused(message, field="run", value=old.id, allowed=f"`tokimori job trigger {old.job_id}`")
        details = replace(run.details, retry_of=old.id, inherited=is_inherited(old), parents=parents_of(old))
        details = replace(details, listed=joined_as(old) == "runs", then=old.details.then)
        if generation is not None or old.state is RunState.SUCCEEDED:  # after a failure they are still to be made
            details = replace(details, then=anew(old.details.then, run.created, self._random, generation))
        run = replace(run, details=details)
        if roots is not None:
            run = replace(run, root=roots.setdefault(root_of(old), run.id))
        return await self._requests.keep_again(request, run, old)


def _first(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs that began the family, without those that were repeated."""
    ids, repeated = {run.id for run in runs}, {run.details.retry_of for run in runs}
    yield from (run for run in runs if run.id not in repeated and not ids & set(parents_of(run)))


async def _sees(sight: Sight, member: FamilyMember) -> bool:
    return await (sight.sees_id(member.job_id) if member.run is None else sight.sees_run(member.run))


async def _check_seen(sight: Sight, members: Sequence[FamilyMember]) -> None:
    for each in members:
        if each.run is not None and not await _sees(sight, each):
            raise out_of_scope(f"run: {each.name!r} of its family", each.name)


async def _check_again(sight: Sight, old: Run) -> None:
    if not await sight.sees_id(old.job_id):
        raise out_of_scope(f"id: {old.id!r}", old.id)
    await sight.check_parents([{"then": old.details.then}])
