"""Authorization: the service as its caller may use it, and the one place where roles and scopes hold, at any door.

Each operation declares its rule. What a scope hides from a list is left out, from a read it is not found, and a change
of it is refused.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from types import MethodType
from typing import Any, cast

from msgspec.structs import replace

from tokimori.errors import Forbidden, NotFound
from tokimori.model.access_token import Role
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, JobState, edges_of
from tokimori.model.notifier import notifier_id, notifiers_in
from tokimori.model.run import Run
from tokimori.model.target import Build, Unreadable
from tokimori.model.templates import secrets_in
from tokimori.service.access import Access, Beside, Judge, Looks, Sight, out_of_scope
from tokimori.service.doors.audited import audited
from tokimori.service.doors.job_restrictions import UNRESTRICTED, JobRestrictions
from tokimori.service.operation import Inside, Member, Operation, Part, through
from tokimori.service.service import Service
from tokimori.service.shared import Caller


def authorized(service: Service, access: Access, allowed: JobRestrictions = UNRESTRICTED) -> Service:
    """Return the service for a caller with this access.

    Orders carry the caller's name, and forbidden operations raise `Forbidden`. `allowed` judges jobs that the caller
    makes or changes. A token acts in its own name only.
    """
    named, judge = None if access.is_owner else access.author, judge_of(service, access, allowed)
    caller = replace(service._caller, author=access.author, judge=judge, role=access.role, access_token=named)
    plain = service._as(caller)
    recorded, sight = audited(plain), sight_of(plain, access)

    def part_of(kind: type[Part[Any]]) -> Part[Any]:
        return through(kind, AuthorizedVia(getattr(recorded, kind.noun), getattr(plain, kind.noun), sight, access))

    def remade(caller: Caller) -> Service:
        author = caller.author if access.is_owner else access.author
        return authorized(service._as(replace(caller, judge=None)), replace(access, author=author), allowed)

    return Service(plain._shared, plain._caller, part_of, remade)


class AuthorizedVia:
    """Way to a part for a caller with this access. `recorded` is the same part as `plain`, with the audit log."""

    whole = False

    def __init__(self, recorded: Part[Inside], plain: Part[Inside], sight: Sight, access: Access) -> None:
        self._recorded = recorded
        self._plain = plain
        self._sight = sight
        self._access = access

    def __call__(self, member: Member[Any, Any, Any], name: str) -> Callable[..., Any]:
        """Return the method with its rule."""
        assert isinstance(member, Operation)  # noqa: S101 all others run where they are called
        access = self._access
        if not access.role.includes(member.role):
            refusal = partial(needs_role, member, access, self._plain.word)
            if member.reads_if is None or not access.role.includes(Role.READ):
                return _refused(refusal)
            return self._only_reading(member, name, refusal)
        return self._allowed(member, name)

    def _only_reading(
        self, member: Operation[Any, Any, Any], name: str, refusal: Callable[[], Exception]
    ) -> Callable[..., Any]:
        """Return the operation for a caller that may only read with it."""
        allowed = self._allowed(member, name)

        async def read(*args: object, **kwargs: object) -> Any:
            if kwargs.get(member.reads_if or "") is not True:
                raise refusal()
            return await allowed(*args, **kwargs)

        return read

    def _allowed(self, member: Operation[Any, Any, Any], name: str) -> Callable[..., Any]:
        access, sight = self._access, self._sight
        part = self._plain if member.audit is None else self._recorded
        call = getattr(part, member.name)
        if access.scope.is_everything and not member.by_role:
            return cast(Callable[..., Any], call)
        doing = call if member.twin is None else MethodType(MethodType(member.twin, part), sight)
        reads = member.role is Role.READ

        async def checked(*args: object, **kwargs: object) -> Any:
            given = _bound_arguments(member.method, args, kwargs)
            await member.reach.check(sight, self._plain, given, reads=reads, name=name)
            return await sight.shown(await doing(*args, **kwargs))

        return checked


def _refused(refusal: Callable[[], Exception]) -> Callable[..., Any]:
    async def refuse(*_: object, **__: object) -> Any:
        raise refusal()

    return refuse


def needs_role(member: Operation[Any, Any, Any], access: Access, word: str) -> Forbidden:
    """Return the refusal of an operation that needs a higher role."""
    doing = "Reading" if member.role is Role.READ else member.doing or _doing(member.name, member.of or word)
    return Forbidden(
        f"Your token may only {access.role}. {doing} needs the role {member.role}.",
        field="role",
        value=access.role,
        allowed=f"a token of the role {member.role}, or of one that includes it: "
        f"`tokimori token create NAME --role {member.role}`",
    )


def _doing(verb: str, word: str) -> str:
    """Return an operation in words, as the subject of a sentence: `drain` is draining a node."""
    stem = verb.removesuffix("e") + verb[-1:] * (verb in ("cancel", "set", "stop"))
    return f"{stem.capitalize()}ing {'an' if word[0] in 'aeiou' else 'a'} {word}"


def _bound_arguments(
    method: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> Mapping[str, Any]:
    """Return the arguments by name, or their defaults. Raises `TypeError` for a wrong call."""
    bound = _signature(method).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


@lru_cache(maxsize=256)
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    whole = inspect.signature(method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def sight_of(service: Service, access: Access) -> Sight:
    """Return the view of a caller with this access."""

    async def run_of(run_id: str) -> Run:
        return (await service.runs.get(run_id)).run

    queues = (service.tasks._queue_of, service.expectations._queue_of)
    return Sight(Looks(service.jobs.get, run_of, service.jobs.graph, *queues), access.scope, access.role)


def judge_of(service: Service, access: Access, allowed: JobRestrictions) -> Judge:
    """Return a judge of jobs as they would be after a change. Their neighbours must be in scope, too."""
    sight = sight_of(service, access)

    async def judge(job_id: JobId, definition: Definition, beside: Beside) -> None:
        allowed.check(definition.target, access.role)
        await _check_approver(service, access.role, job_id)
        if sight.scope.is_everything:
            return
        if not sight.scope.has(job_id, definition.queue):
            raise out_of_scope(f"id: {job_id!r} in the queue {definition.queue!r}", job_id)
        target = definition.target
        if isinstance(target, Build) and not await sight.sees_task(target.task):
            raise out_of_scope(f"build: of {target.task!r}", target.task)
        await _check_secrets(service, sight, job_id, definition)
        for edge in edges_of(job_id, definition):
            for other in {edge.parent, edge.child} - {job_id}:
                if not await sight.sees_with_changes(other, beside):
                    raise out_of_scope(f"{other!r}, before or after which it runs", other)
        for name in notifiers_in(definition.notify):
            if not await sight.sees_id(notifier_id(name)):
                raise out_of_scope(f"notify: {name!r}, whose id is {notifier_id(name)!r}", name)

    return judge


async def _check_approver(service: Service, role: Role, job_id: JobId) -> None:
    """Refuse a change of a job whose runs the caller may not approve: it could take the approval away."""
    if role is Role.ADMIN:
        return
    with suppress(NotFound):
        terms = (await service.jobs.get(job_id)).definition
        if terms.approval and not role.includes(Role(terms.approver)):
            message = f"{job_id}: its runs are approved by the role {terms.approver}, and only that may change it"
            raise Forbidden(message, field="role", value=role, allowed=f"a token of the role {terms.approver}")


async def _check_secrets(service: Service, sight: Sight, job_id: JobId, definition: Definition) -> None:
    """Refuse unknown secrets, and those that the token may not use. Raises `Forbidden`."""
    target = definition.target
    named = frozenset[str]() if isinstance(target, Unreadable) else secrets_in(target.texts())
    known = {secret.name: secret.jobs for secret in await service.secrets.list()} if named else {}
    strange = sorted(name for name in named if name not in known or not sight.scope.may_name(known[name]))
    if strange and not await _is_kept(service, sight, job_id, definition):
        raise out_of_scope(f"secret: {strange[0]!r}", strange[0])


async def _is_kept(service: Service, sight: Sight, job_id: JobId, definition: Definition) -> bool:
    """Return whether the job already runs or sends the same. Such an edit names no secret anew."""
    with suppress(NotFound):
        job = await service.jobs.get(job_id)
        return job.state is not JobState.DELETED and sight.sees(job) and job.definition.target == definition.target
    return False
