"""Access: rights of a caller, and the things that he may see. The floor below the parts of the service."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import Forbidden, NotFound, Refused
from tokimori.model.access_token import EVERYTHING, AccessToken, Role, Scope
from tokimori.model.dependents import CHILDLESS, Edge, all_after
from tokimori.model.ids import JobId, check_job_id, check_uuid
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.lanes import queue_of
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run, Step
from tokimori.model.transitions import ENDS
from tokimori.ports.ends import EndedRun
from tokimori.service.definitions.steps import jobs_in
from tokimori.service.reasons import Reason, Why
from tokimori.service.search.jobs import JobOf, SeesRun
from tokimori.service.validation import MOST_LISTED, checked

Beside = Mapping[JobId, Definition]
"""What is written together with a job, perhaps before it."""
Judge = Callable[[JobId, Definition, Beside], Awaitable[None]]
"""Refuses a job, as it would be after a change, with an error. It is asked just before the job is written."""


_Listed = TypeVar("_Listed")


class Access(Struct, frozen=True, kw_only=True):
    """Rights of a caller. `author` is recorded with his orders.

    `is_owner`: he brought the node's secret, and not a token; such a program may say itself who orders.
    """

    author: str | None
    role: Role
    scope: Scope = EVERYTHING
    is_owner: bool = False


def owner(author: str | None) -> Access:
    """Return the access of a caller with the node's secret."""
    return Access(author=author, role=Role.ADMIN, is_owner=True)


def access_of(token: AccessToken) -> Access:
    """Return the access of a caller with this token."""
    return Access(author=token.name, role=token.role, scope=token.scope)


def out_of_scope(what: str, value: object = None) -> Forbidden:
    """Return the refusal of a thing outside a token's jobs and queues."""
    return Forbidden(
        f"{what}: it is not within the jobs and queues of this token",
        field="scope",
        value=value,
        allowed="what `tokimori token list` shows of the token; `tokimori token create` makes another one",
    )


def no_job(job_id: object) -> NotFound:
    """Return the error for a job that is unknown or out of scope."""
    return NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


class Looks(NamedTuple):
    """Look-ups of a job, a run, the edges around a job, and the queues of a task's own job and of an expected job.

    They raise `NotFound`.
    """

    job: JobOf
    run: Callable[[str], Awaitable[Run]]
    edges: Callable[[str], Awaitable[Sequence[Edge]]]
    queue_of_task: Callable[[str], Awaitable[str | None]]
    queue_of_expectation: Callable[[str], Awaitable[str | None]]


class Sight:
    """View of a caller on jobs and runs: scope, role and look-ups."""

    def __init__(self, looks: Looks, scope: Scope, role: Role) -> None:
        self.job_of, self.run_of, self.edges, self._queue_of_task, self._queue_of_expectation = looks
        self.scope = scope
        self.role = role
        self.sees_run = sight_of_runs(scope, self.job_of)

    def sees(self, job: Job) -> bool:
        """Return whether the job is in scope."""
        return self.scope.has(job.id, job.definition.queue)

    async def sees_id(self, job_id: str) -> bool:
        """Return whether the job of this id is in scope; a job that does not exist is in no queue."""
        if self.scope.is_everything:
            return True
        checked = check_job_id(job_id)
        if not self.scope.has_id(checked) or not self.scope.queues:
            return self.scope.has_id(checked)
        try:
            return self.sees(await self.job_of(checked))
        except NotFound:
            return False

    async def sees_with_changes(self, job_id: JobId, beside: Beside) -> bool:
        """Return whether the job of this id is in scope. A job of the same request counts as it is written there."""
        its = beside.get(job_id)
        if its is None or not self.scope.has(job_id, its.queue):
            return await self.sees_id(job_id)
        return await self.may_become(job_id)

    async def may_become(self, job_id: JobId) -> bool:
        """Return whether the id is free or its job is in scope. The new definition is judged as any job's."""
        with suppress(NotFound):
            job = await self.job_of(job_id)
            return job.state is JobState.DELETED or self.sees(job)
        return True

    async def sees_run_id(self, run_id: str) -> bool:
        """Return whether the run exists and is in scope, whichever job has its job's id now."""
        checked = check_uuid(run_id, field="run")
        with suppress(NotFound):
            return self.scope.is_everything or await self.sees_run(await self.run_of(checked))
        return False

    async def sees_task(self, name: str) -> bool:
        """Check if a task is within it, as its job is. Another job that has its name says nothing of its builds."""
        if self.scope.is_everything:
            return True
        with suppress(NotFound):
            return self.scope.has(name, await self._queue_of_task(check_job_id(name)))
        return await self.sees_id(name)

    async def sees_expectation(self, name: str) -> bool:
        """Return whether the expectation is in scope. One of something elsewhere is in no queue."""
        checked, queue = check_job_id(name), None
        with suppress(NotFound):
            queue = await self._queue_of_expectation(checked)
        return self.scope.has(checked, queue)

    async def sees_all_after(self, job_id: JobId) -> bool:
        """Check if all jobs that run after this one are in scope."""
        for other in all_after(await self.edges(job_id), job_id):
            if not await self.sees_id(other):
                return False
        return True

    async def check_there(self, job_id: str | None) -> None:
        """Raise `NotFound` if a job is named that is not in scope: no run of it is shown."""
        if job_id is not None and not await self.sees_id(job_id):
            raise no_job(job_id)

    async def check_parents(self, requests: Iterable[object]) -> None:
        """Refuse requests in the name of runs, or with steps of jobs, that are not in scope."""
        requests = list(requests)
        for job_id in sorted(jobs_in(requests)):
            if not await self.sees_id(job_id):
                raise out_of_scope(f"then: {job_id!r}", job_id)
        named = [each.get("parent") for each in requests if isinstance(each, Mapping)]
        for parent in dict.fromkeys(check_uuid(each, field="parent") for each in named if each is not None):
            if not await self.sees_run_id(parent):
                raise out_of_scope(f"parent: {parent!r}", parent)

    async def check_answers(self, job_id: str, runs: Iterable[Run]) -> None:
        """Refuse runs that were requested under the same key while the job was in another queue."""
        for run in runs:
            if not await self.sees_run(run):
                raise out_of_scope("key: its run", job_id)

    async def shown(self, found: Any) -> Any:
        """Return what an operation gives without the steps of jobs out of scope: their payloads are those of others."""
        if isinstance(found, Run):
            then = await self._steps(found.details.then) if found.details.then else ()
            return found if then == found.details.then else replace(found, details=replace(found.details, then=then))
        if type(found) in (list, tuple):
            return type(found)([await self.shown(each) for each in found])
        if isinstance(found, Struct):
            for name in {"run", "runs"}.intersection(found.__struct_fields__):
                found = replace(found, **{name: await self.shown(getattr(found, name))})
        return found

    async def _steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return tuple(
            [replace(each, then=await self._steps(each.then)) for each in steps if await self.sees_id(each.job)]
        )

    async def of_why(self, why: Why) -> Why:
        """Return the answer without the holders that are not within it: these are only counted."""
        return replace(why, reasons=tuple([await self._of_reason(reason) for reason in why.reasons]))

    async def _of_reason(self, reason: Reason) -> Reason:
        seen = tuple(
            [each for each in reason.holders if each.run_id is not None and await self.sees_run_id(each.run_id)]
        )
        return replace(reason, holders=seen, others=reason.others + len(reason.holders) - len(seen))


def no_run(run_id: object) -> NotFound:
    """Return the error for a run that is unknown or out of scope."""
    return NotFound(f"there is no run {run_id!r}", field="id", value=run_id)


def no_queue(queue: object) -> NotFound:
    """Return the error for a queue that is out of scope."""
    return NotFound(f"there is no queue {queue!r}", field="queue", value=queue)


Given = Mapping[str, Any]
"""The arguments of a call, by name; the first one is what the call is about."""


async def deleted_alone(sight: Sight, job_id: str, gone: Awaitable[_Listed]) -> _Listed:
    """Delete or rename one job alone. A refusal does not name jobs out of scope."""
    try:
        return await gone
    except Refused as fault:
        if fault.allowed != CHILDLESS or await sight.sees_all_after(JobId(job_id)):
            raise
        message = f"{job_id} can't be deleted, because jobs of others run after it: ask an admin which"
        raise Refused(message, field="id", value=job_id, allowed=fault.allowed) from fault


class Reach(NamedTuple):
    """Thing that the first argument of an operation, or `about`, has to be within a scope; `field` names it."""

    sees: Callable[[Sight, Any, Given], Awaitable[bool]]
    field: str = ""
    missing: Callable[[object], NotFound] | None = None
    about: str | None = None

    async def check(self, sight: Sight, part: object, given: Given, *, reads: bool, name: str) -> None:
        """Refuse a thing out of scope: reading raises `NotFound`, changing raises `Forbidden`."""
        if await self.sees(sight, part, given):
            return
        first = first_of(given) if self.about is None else given[self.about]
        if reads and self.missing is not None:
            raise self.missing(first)
        field = self.field or name
        raise out_of_scope(f"{field}: {first!r}" if self.field and first is not None else field, first)


def first_of(given: Given) -> Any:
    """Return the first argument."""
    return next(iter(given.values()), None)


def _by_first(
    sees: Callable[[Sight, Any], Awaitable[bool]], field: str, missing: Callable[[object], NotFound]
) -> Reach:
    return Reach(lambda sight, _, given: sees(sight, first_of(given)), field, missing)


async def _always(*_: object) -> bool:
    return True


async def _never(*_: object) -> bool:
    return False


async def _owns(sight: Sight, queue: str | None) -> bool:
    return queue is not None and sight.scope.owns_queue(queue)


OPEN = Reach(_always)
"""No single thing, or the method itself sees to what is within the scope."""
WHOLE = Reach(_never)
"""A thing of everybody: a token of some jobs or queues has no right to it."""
JOB = _by_first(Sight.sees_id, "id", no_job)
RUN = _by_first(Sight.sees_run_id, "id", no_run)
TASK = _by_first(Sight.sees_task, "name", no_job)
EXPECTATION = _by_first(Sight.sees_expectation, "name", no_job)
QUEUE = _by_first(_owns, "queue", no_queue)


async def by_id(
    sight: Sight,
    page_of: Callable[[str | None, int], Awaitable[Sequence[_Listed]]],
    id_of: Callable[[_Listed], str],
    sees: Callable[[_Listed], Awaitable[bool]],
    *,
    after: str | None,
    limit: int,
    at_once: int = MOST_LISTED,
) -> list[_Listed]:
    """Return the first things by id, from where the first one in scope may be to where the last one may be."""
    wanted, prefixes = checked("limit", limit, MOST_LISTED), sight.scope.jobs
    after = None if after is None else check_job_id(after, field="after")
    if prefixes and min(prefixes)[:-1] > (after or ""):
        after = min(prefixes)[:-1]
    found: list[_Listed] = []
    while len(found) < wanted:
        page = await page_of(after, at_once)
        found += [each for each in page if await sees(each)]
        if len(page) < at_once or (prefixes and id_of(page[-1]) > f"{max(prefixes)}\x7f"):
            break
        after = id_of(page[-1])
    return found[:wanted]


def sight_of_runs(scope: Scope, job_of: JobOf) -> SeesRun:
    """Return the judge of runs by their own job ids and queues. It asks for a job only of a run without a lane."""
    known: dict[JobId, Job | None] = {}

    async def known_job(job_id: JobId) -> Job | None:
        if job_id not in known:
            known[job_id] = None
            with suppress(NotFound):
                known[job_id] = await job_of(job_id)
        return known[job_id]

    async def sees(run: Run | EndedRun) -> bool:
        if run.lane is not None or not scope.queues or not scope.has_id(run.job_id):
            return scope.has(run.job_id, None if run.lane is None else queue_of(run.lane))
        job = await known_job(run.job_id)  # it is stopped, so that its runs have no lane
        return job is not None and scope.has(run.job_id, _queue_without_lane(run, job))

    return sees


def jobs_within(scope: Scope, job_of: JobOf) -> JobOf:
    """Return a look-up of jobs in scope. A new job of the same id decides nothing about older runs."""

    async def seen(job_id: str) -> Job:
        job = await job_of(job_id)
        if not scope.has(job.id, job.definition.queue):
            raise NotFound(f"there is no job {job_id!r}", field="id", value=job_id)
        return job

    return seen


def _queue_without_lane(run: Run | EndedRun, job: Job) -> str | None:
    """Return the queue of a run of a stopped job: that of the job, unless the run had ended in another one before."""
    moved = job.definition.moved
    is_of_it = run.incarnation == job.incarnation and (
        moved is None or run.state not in ENDS or run.id >= first_id_at(moved)
    )
    return job.definition.queue if is_of_it else None
