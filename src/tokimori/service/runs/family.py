"""Families of runs: what came before a run and what follows it, made or to come, and orders for all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tokimori.engine.refusals import raise_first
from tokimori.errors import Refused, TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.attempt_notes import given_to, is_inherited
from tokimori.model.dependents import On, root_of
from tokimori.model.ids import RandomBytes, RunId, check_uuid
from tokimori.model.parents import ParentRun
from tokimori.model.run import Run, joined_as, parents_of
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import Store
from tokimori.service.access import OPEN, RUN, Sight, no_run, out_of_scope
from tokimori.service.definitions.arguments import RequestArguments
from tokimori.service.definitions.requests import RequestedRun
from tokimori.service.definitions.steps import anew
from tokimori.service.jobs.requesting import RunRequests
from tokimori.service.operation import OUTCOME, REQUEST, M, Part, operation
from tokimori.service.runs.family_reading import MOST_ORDERED, MOST_RUNS, FamilyMember, family_of
from tokimori.service.search.runs import parent_runs
from tokimori.service.store_calls import Now, cancel_run
from tokimori.service.validation import checked, flag_of
from tokimori.service.views.outside import list_of
from tokimori.service.views.runs import FamilyMember as FamilyMemberView
from tokimori.service.views.runs import ParentRun as ParentRunView
from tokimori.service.views.runs import RequestedRun as RequestedRunView
from tokimori.service.views.runs import Run as RunView

_T = TypeVar("_T")

ENOUGH, LONGEST = 1_000, 20.0
"""Number of runs, and of seconds, after which a call ends: a caller who gets as many runs calls again."""
BY_HAND = "cancelled by hand"
_FEW = 20
"""Number of runs cancelled at a time: a store makes one transaction of them."""
_PASSES = 3
"""A run that was about to end when its family was cancelled may have brought others."""


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
        """Return the parents that are in scope."""
        return [each for each in await self.parents(run_id) if await sight.sees_run_id(each.id)]

    @operation(Role.READ, OPEN, gives=list_of(FamilyMemberView.made))
    async def family(self, run_id: str, limit: int = MOST_RUNS) -> list[FamilyMember]:
        """Return all runs before and after a run, made and to come, parents first: of a family that has more than
        `limit` (20,000 at most) about so many.

        The run may be a step that is still to be made.
        """
        return await family_of(self._store, run_id, checked("limit", limit, MOST_ORDERED))

    @family.within
    async def _family_within(self, sight: Sight, run_id: str, limit: int = MOST_RUNS) -> list[FamilyMember]:
        """Return the members that are in scope."""
        family = [each for each in await self.family(run_id, limit) if await _sees(sight, each)]
        if check_uuid(run_id, field="run") not in (names := {each.name for each in family}):
            raise no_run(run_id)
        return [replace(each, after=tuple(name for name in each.after if name in names)) for each in family]

    @operation(Role.OPERATE, RUN, audit=OUTCOME, doing="Cancelling a family", gives=list_of(RunView.made))
    async def cancel_family(self, run_id: str, reason: str = BY_HAND) -> list[Run]:
        """Cancel all runs of a family that have not ended, parents first, and return them: nothing follows them.

        A call that takes 20 seconds ends then, if it has cancelled 1,000: if it returns so many, call it again. What
        runs after any end, a cancellation too, is made. Raises `Refused` for a family of more than 20,000 runs.
        """
        check_reason("reason", reason)
        done: dict[RunId, Run] = {}
        clock = asyncio.get_running_loop().time
        ends = clock() + LONGEST
        for _ in range(_PASSES):
            live = _to_cancel(await _whole(self.family, run_id))
            new = [each for each in live if each.run and each.run.cancel is None and each.run.id not in done]
            for some in _together(new):
                asked = (cancel_run(self._store, self._now, each.name, reason) for each in some)
                results = await asyncio.gather(*asked, return_exceptions=True)
                raise_first(results)
                done |= {run.id: run for run in results if isinstance(run, Run)}
                if len(done) >= ENOUGH and clock() >= ends:
                    return list(done.values())
            if not new:
                break
        return list(done.values())

    @cancel_family.within
    async def _cancel_family_within(self, sight: Sight, run_id: str, reason: str = BY_HAND) -> list[Run]:
        """Refuse a family with a run that is out of scope, and has not ended."""
        await _check_seen(sight, [each for each in await _whole(self.family, run_id) if each.state not in ENDS])
        return await self.cancel_family(run_id, reason)

    @operation(Role.OPERATE, RUN, audit=REQUEST, doing="Running a run again", gives=RequestedRunView.made)
    async def retry(self, run_id: str, key: str | None = None, *, force: bool = False) -> RequestedRun:
        """Request a run now with the payload, the priority and the concurrency key of one that has ended.

        It is a new run, whose `details.retry_of` names the old one. `key` and `force` are those of `trigger`, as are
        the errors; `Refused` is also raised for a run that has not ended, or whose job is another one by now.
        """
        return await self._again(await self._store.get_run(RunId(check_uuid(run_id, field="run"))), key, force=force)

    @retry.within
    async def _retry_within(
        self, sight: Sight, run_id: str, key: str | None = None, *, force: bool = False
    ) -> RequestedRun:
        """Check that a new run may be requested of the job that has the id now, and of those of the steps behind it."""
        await _check_again(sight, await sight.run_of(run_id))
        return await self.retry(run_id, key, force=force)

    @operation(Role.OPERATE, RUN, audit=REQUEST, doing="Running a family again", gives=list_of(RequestedRunView.made))
    async def retry_family(self, run_id: str, *, force: bool = False) -> list[RequestedRun]:
        """Request a whole family again: its first runs are requested, and new runs of all others follow them.

        Return the new first runs. Raises the errors of `retry`, and `Refused` while one of its runs has not ended. If a
        request is refused, those before it are cancelled.
        """
        forced = flag_of("force", force)
        runs = [each.run for each in await _whole(self.family, run_id) if each.run is not None]
        if (live := next((run for run in runs if run.state not in ENDS), None)) is not None:
            message = f"the run {live.id} of this family has not ended: it is {live.state}"
            raise Refused(
                message, field="run", value=live.id, allowed=f"`tokimori run cancel {run_id} --family` before"
            )
        generation, roots, made = dict[RunId, RunId](), dict[str, str](), list[RequestedRun]()
        for old in _first(runs):
            try:
                made.append(await self._again(old, None, force=forced, generation=generation, roots=roots))
            except TokimoriError:
                for asked in made:
                    await cancel_run(self._store, self._now, asked.run.id, "not all of its family could be requested")
                raise
        return made

    @retry_family.within
    async def _retry_family_within(self, sight: Sight, run_id: str, *, force: bool = False) -> list[RequestedRun]:
        """Check that all these runs may be requested."""
        for old in _first([each.run for each in await _whole(self.family, run_id) if each.run is not None]):
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
    ) -> RequestedRun:
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
        return await self._requests.store_again(request, run, old)


async def all_cancelled(cancel: Callable[[str, str], Awaitable[Sequence[_T]]], run_id: str, reason: str) -> list[_T]:
    """Call `cancel_family` until all runs of the family are cancelled, and return them."""
    ended = list(found := await cancel(run_id, reason))
    while len(found) >= ENOUGH:
        ended += (found := await cancel(run_id, reason))
    return ended


def _together(members: Iterable[FamilyMember]) -> Iterator[list[FamilyMember]]:
    """Yield a few at a time, parents before their children."""
    some: list[FamilyMember] = []
    for each in members:
        if len(some) == _FEW or any(other.name in each.after for other in some):
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def _first(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs that began the family, without those that were repeated."""
    ids, repeated = {run.id for run in runs}, {run.details.retry_of for run in runs}
    yield from (run for run in runs if run.id not in repeated and not ids & set(parents_of(run)))


async def _sees(sight: Sight, member: FamilyMember) -> bool:
    return await (sight.sees_id(member.job_id) if member.run is None else sight.sees_run(member.run))


def _to_cancel(family: Sequence[FamilyMember]) -> list[FamilyMember]:
    """Return what has not ended, without the runs that a cancellation has brought: they clean up after it."""
    cancelled = {each.name for each in family if each.state is RunState.CANCELLED}
    return [
        each
        for each in family
        if each.state not in ENDS and (each.on is not On.ALWAYS or cancelled.isdisjoint(each.after))
    ]


async def _whole(family: Callable[[str, int], Awaitable[list[FamilyMember]]], run_id: str) -> list[FamilyMember]:
    """Return all runs of a family. Raises `Refused` if it is too large for that."""
    found = await family(run_id, MOST_ORDERED)
    if sum(each.run is not None for each in found) > MOST_ORDERED:
        message = f"the family of the run {run_id} has more than {MOST_ORDERED:,} runs"
        raise Refused(message, field="run", value=run_id, allowed="`tokimori run bulk`, with a filter")
    return found


async def _check_seen(sight: Sight, members: Sequence[FamilyMember]) -> None:
    for each in members:
        if each.run is not None and not await _sees(sight, each):
            raise out_of_scope(f"run: {each.name!r} of its family", each.name)


async def _check_again(sight: Sight, old: Run) -> None:
    if not await sight.sees_id(old.job_id):
        raise out_of_scope(f"id: {old.id!r}", old.id)
    await sight.check_parents([{"then": old.details.then}])
