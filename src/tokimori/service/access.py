"""Identity and scope of a caller."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import Forbidden, NotFound
from tokimori.model.access_token import EVERYTHING, AccessToken, Role, Scope
from tokimori.model.ids import JobId, check_job_id, check_uuid
from tokimori.model.job import Job, JobState
from tokimori.service.judge import Beside
from tokimori.service.scoped import sight_of_runs
from tokimori.service.service import Service
from tokimori.service.why.reasons import HeldBy, Reason, Why

_DOING: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("ask", "trigger"), "Running a job"),
        "trigger_many": "Running jobs",
        "retry_run": "Running a run again",
        "resume_run": "Resuming a run",
        **dict.fromkeys(("cancel", "orders.cancel"), "Cancelling a run"),
        **dict.fromkeys(("orders.cancel_job", "orders.cancel_some"), "Cancelling runs"),
        **dict.fromkeys(("hold", "claims.hold"), "Holding a run"),
        "orders.restart": "Restarting a run",
        "orders.restart_job": "Restarting the runs of a job",
        "orders.signal": "Signalling a run",
        **dict.fromkeys(("add_since", "import_all"), "Adding jobs"),
        "edit": "Changing a job",
        "update": "Changing a job",
        "copy_job": "Copying a job",
        "rename_job": "Renaming a job",
        "backfill": "Backfilling a job",
        "cancel_backfill": "Cancelling a backfill",
        **dict.fromkeys(("delete_all", "delete_some"), "Deleting all jobs"),
        "apply": "Applying a set",
        "claims.claim": "Claiming runs",
        "tasks.put_piece": "Uploading a build",
        "tasks.rollback": "Rolling back a task",
        "audit.list": "Reading the audit log",
        "tokens.list": "Listing tokens",
        "secrets.list": "Listing secrets",
        "secrets.rotate": "Rotating the key of secrets",
        **dict.fromkeys((f"channels.{each}" for each in ("publish", "acknowledge", "forget")), "Using a channel"),
        **dict.fromkeys(("check_schema", "migrate", "schema_script"), "Migrating the store"),
        "doctor": "Checking the store",
    }
)
"""Methods in words, where `_doing` makes no good ones of their names."""
_OF: Mapping[str, str] = MappingProxyType({"": "job", "claims": "run", "orders": "node"})


class Access(Struct, frozen=True, kw_only=True):
    """Rights of a caller. `author` is recorded with his orders.

    `is_owner`: he brought the node's secret, and not a token; such a program may say itself who orders.
    """

    author: str | None
    role: Role
    scope: Scope = EVERYTHING
    is_owner: bool = False


def owner(author: str | None) -> Access:
    """Whoever has the node's secret."""
    return Access(author=author, role=Role.ADMIN, is_owner=True)


def access_of(token: AccessToken) -> Access:
    """Whoever has this token."""
    return Access(author=token.name, role=token.role, scope=token.scope)


def needs_role(role: Role, what: str, access: Access) -> Forbidden:
    """Return the refusal of what the role of a token does not include."""
    doing = "Reading" if role is Role.READ else _DOING.get(what) or _doing(*what.rpartition(".")[::2])
    return Forbidden(
        f"Your token may only {access.role}. {doing} needs the role {role}.",
        field="role",
        value=access.role,
        allowed=f"a token of the role {role}, or of one that includes it: `tokimori token create NAME --role {role}`",
    )


def _doing(part: str, verb: str) -> str:
    """Return a method in words, as the subject of a sentence: `orders.drain` is draining a node."""
    stem = verb.removesuffix("e") + verb[-1:] * (verb in ("cancel", "set", "stop"))
    noun = _OF.get(part) or part.removesuffix("s")
    return f"{stem.capitalize()}ing {'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def out_of_scope(what: str, value: object = None) -> Forbidden:
    """Return the refusal of what a token of some jobs or queues does not reach."""
    return Forbidden(
        f"{what}: it is not within the jobs and queues of this token",
        field="scope",
        value=value,
        allowed="what `tokimori token list` shows of the token; `tokimori token create` makes another one",
    )


def no_job(job_id: object) -> NotFound:
    """Return the answer to who asks for a job that is not there, or not within his scope."""
    return NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


class Sight:
    """View of a service within a scope."""

    def __init__(self, service: Service, scope: Scope) -> None:
        self._service = service
        self.scope = scope
        self.sees_run = sight_of_runs(scope, service.get)

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
            return self.sees(await self._service.get(checked))
        except NotFound:
            return False

    async def sees_beside(self, job_id: JobId, beside: Beside) -> bool:
        """Tell if the job of this id is within it; what is not there yet is as it is written."""
        its = beside.get(job_id)
        if its is None or not self.scope.has(job_id, its.queue):
            return await self.sees_id(job_id)
        return await self.may_become(job_id)

    async def may_become(self, job_id: JobId) -> bool:
        """Tell if there is no such job, or one within it: what it is to be is judged as any job is."""
        with suppress(NotFound):
            job = await self._service.get(job_id)
            return job.state is JobState.DELETED or self.sees(job)
        return True

    async def sees_run_id(self, run_id: str) -> bool:
        """Check if the run is within it, whichever job has the id of its job now. One that there is not is not."""
        checked = check_uuid(run_id, field="run")
        with suppress(NotFound):
            return self.scope.is_everything or await self.sees_run((await self._service.get_run(checked)).run)
        return False

    async def sees_task(self, name: str) -> bool:
        """Check if a task is within it, as its job is. Another job that has its name says nothing of its builds."""
        if self.scope.is_everything:
            return True
        with suppress(NotFound):
            task = await self._service.tasks.get(check_job_id(name))
            is_its_own = task.job is not None and task.job.incarnation == task.record.incarnation
            return self.scope.has(name, task.job.definition.queue if task.job and is_its_own else None)
        return await self.sees_id(name)

    async def sees_expectation(self, name: str) -> bool:
        """Check if what is expected is within it. What is expected of something elsewhere is in no queue."""
        checked, queue = check_job_id(name), None
        with suppress(NotFound):
            known = await self._service.expectations.get(checked)
            queue = known.queue if known.of_job else None
        return self.scope.has(checked, queue)

    async def of_why(self, why: Why) -> Why:
        """Return the answer without the holders that are not within it: these are only counted."""
        return replace(why, reasons=tuple([await self._of_reason(reason) for reason in why.reasons]))

    async def _of_reason(self, reason: Reason) -> Reason:
        seen = tuple([holder for holder in reason.holders if await self._sees_holder(holder)])
        return replace(reason, holders=seen, others=reason.others + len(reason.holders) - len(seen))

    async def _sees_holder(self, holder: HeldBy) -> bool:
        return holder.run_id is not None and await self.sees_run_id(holder.run_id)


class AskedOperation(NamedTuple):
    """A call of a method of a `part` of the service, for which leave is asked."""

    sight: Sight
    service: Service
    method: Callable[..., Awaitable[Any]]
    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    role: Role = Role.READ
    part: object = None

    async def go(self) -> Any:
        """Call the method."""
        return await self.method(*self.args, **self.kwargs)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name, or their defaults. Raises `TypeError` for a wrong call."""
        bound = _signature(self.method).bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.arguments

    def argument(self, name: str) -> Any:
        """Return the argument of that name, or its default. Raises `TypeError` for a wrong call."""
        return self.arguments[name]

    @property
    def subject(self) -> str:
        """Return the name of the first argument."""
        return next(iter(_signature(self.method).parameters))

    @property
    def first(self) -> Any:
        """Return the first argument: what the call is about."""
        return self.argument(self.subject)


Rule = Callable[[AskedOperation], Awaitable[Any]]
Sees = Callable[[Sight, Any], Awaitable[bool]]


def reads(sees: Sees, missing: Callable[[object], NotFound]) -> Rule:
    """Return the rule of what is read of its first argument: what is not within the scope is not there."""

    async def rule(asked: AskedOperation) -> Any:
        if not await sees(asked.sight, asked.first):
            raise missing(asked.first)
        return await asked.go()

    return rule


def changes(sees: Sees, field: str) -> Rule:
    """Return the rule of what is done to its first argument, which has to be within the scope."""

    async def rule(asked: AskedOperation) -> Any:
        if not await sees(asked.sight, asked.first):
            raise out_of_scope(f"{field}: {asked.first!r}", asked.first)
        return await asked.go()

    return rule


def _signature(method: Callable[..., object]) -> inspect.Signature:
    return _signature_of(getattr(method, "__func__", method)) if inspect.ismethod(method) else inspect.signature(method)


@lru_cache(maxsize=256)
def _signature_of(function: Callable[..., object]) -> inspect.Signature:
    whole = inspect.signature(function)
    return whole.replace(parameters=list(whole.parameters.values())[1:])
