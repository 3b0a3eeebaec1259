"""The service, whose changes are written into the audit log: what doors and the command line use."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from tokimori.errors import InvalidInput, NotFound, StoreError
from tokimori.model.build import Upload
from tokimori.model.changed import OF_A_JOB
from tokimori.model.job import Definition, Job
from tokimori.model.lanes import queue_of
from tokimori.model.run import Run
from tokimori.service.audit import Audit, record
from tokimori.service.deleting import DeletedJobs
from tokimori.service.imports import Imported
from tokimori.service.requests import Asked
from tokimori.service.service import Service
from tokimori.service.sets import Applied

Look = Callable[[Service, Any], Awaitable[object]]
"""What something is now, for people who read the log."""


async def _job(service: Service, job_id: str) -> object:
    return _shown(await service.get(job_id))


async def _run(service: Service, run_id: str) -> object:
    return _shown((await service.get_run(run_id)).run)


async def _queue(service: Service, queue: str | None) -> object:
    return [pause for pause in await service.queues.pauses() if pause.queue == (queue or "*")] or None


async def _calendar(service: Service, name: str) -> object:
    return await service.calendars.get(name)


async def _semaphore(service: Service, name: str) -> object:
    return {"limit": (await service.semaphores.get(name)).limit}


async def _token(service: Service, name: str) -> object:
    """Without its hash."""
    token = next((each for each in await service.tokens.list() if each.name == name), None)
    return None if token is None else {"role": token.role, "scope": token.scope, "expires": token.expires}


async def _expectation(service: Service, name: str) -> object:
    """Return what is expected, without what was reported."""
    known = await service.expectations.get(name)
    return {"within": known.within, "description": known.description, "queue": known.queue}


async def _secret(service: Service, name: str) -> object:
    """Without its value, which nothing tells."""
    secret = next((each for each in await service.secrets.list() if each.name == name), None)
    return None if secret is None else {"jobs": secret.jobs, "set": secret.at, "by": secret.by}


async def _task(service: Service, name: str) -> object:
    """Return the running build, and the last action on it."""
    found = await service.tasks.get(name)
    return {
        "build": found.record.current,
        "state": found.job and found.job.state,
        "last": found.record.events[-1:],
        **({} if found.job is None else {"queue": found.job.definition.queue}),
    }


async def _nothing(_: Service, __: object) -> object:
    return None


async def _by_itself(_: Service, __: object) -> object:
    """Return None: the method waits for others after its change, and records that itself before."""
    return None


TASK_ORDERS: Final = ("disable", "enable", "resolve", "restart")
"""What is ordered of a task by its name alone."""
CHANGES: Final[Mapping[str, tuple[str, Look]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "add",
                "add_since",
                "edit",
                "update",
                "refresh",
                "pause",
                "resume",
                "resolve",
                "rewind",
                "delete",
                "copy_job",
            ),
            ("job", _job),
        ),
        **dict.fromkeys(
            ("trigger", "trigger_many", "ask", "backfill", "cancel_backfill", "rename_job"), ("job", _nothing)
        ),
        "import_all": ("jobs", _nothing),
        **dict.fromkeys(("delete_all", "delete_some"), ("job", _nothing)),
        "apply": ("set", _nothing),
        **dict.fromkeys(("cancel", "hold", "resume_run"), ("run", _run)),
        "retry_run": ("run", _nothing),
        **dict.fromkeys(("queues.pause", "queues.resume"), ("queue", _queue)),
        **dict.fromkeys(("calendars.add", "calendars.update", "calendars.delete"), ("calendar", _calendar)),
        **dict.fromkeys(("semaphores.set", "semaphores.delete"), ("semaphore", _semaphore)),
        **dict.fromkeys(("tokens.create", "tokens.revoke"), ("token", _token)),
        **dict.fromkeys(("expectations.set", "expectations.delete"), ("expectation", _expectation)),
        **dict.fromkeys(("secrets.set", "secrets.delete"), ("secret", _secret)),
        "secrets.rotate": ("secrets", _nothing),
        **dict.fromkeys(("orders.restart", "orders.signal"), ("run", _nothing)),
        **dict.fromkeys(
            [f"orders.{order}" for order in ("restart_job", "cancel_job", "cancel_some")], ("job", _nothing)
        ),
        **dict.fromkeys(("orders.drain", "orders.resume", "orders.stop"), ("node", _by_itself)),
        **dict.fromkeys(
            [f"tasks.{order}" for order in ("build", "rollback", "delete", *TASK_ORDERS)],
            ("task", _task),
        ),
        "tasks.put_piece": ("task", _nothing),
    }
)
"""What a method changes, and how that is looked at before and after."""
PARTS: Final = ("calendars", "expectations", "orders", "queues", "secrets", "semaphores", "tasks", "tokens")
"""The parts of a service whose methods are recorded."""
_SUBJECTS: Final = ("job_id", "run_id", "node_id", "queue", "name", "jobs")
_NEW: Final = frozenset({"add", "add_since", "copy_job"})
MOST_NAMED: Final = 250
"""So many things one entry names, of those that a set or an import has changed."""


class Change(NamedTuple):
    """A call of a method that may change something. `what` it is called in `CHANGES`."""

    what: str
    method: Callable[..., Awaitable[Any]]
    args: Sequence[object]
    kwargs: Mapping[str, object]

    @property
    def subject(self) -> object:
        """Return the subject as it was given."""
        named = next((self.kwargs[name] for name in _SUBJECTS if name in self.kwargs), None)
        return self.args[0] if self.args else named


def audited(service: Service) -> Service:
    """Return the same service; what is changed through it is in the audit log."""
    return cast(Service, _AuditedService(service))


class AuditedPart:
    """A part of a service, whose methods are called `part` and their name; `carry_out` is given those that change."""

    def __init__(self, inner: object, part: str, carry_out: Callable[[Change], Awaitable[Any]]) -> None:
        self._inner = inner
        self._part = part
        self._carry_out = carry_out

    def __getattr__(self, name: str) -> Any:
        """Return the method, whose changes are recorded; whatever else it is as it is."""
        method = getattr(self._inner, name)
        full = self._part + name
        if full not in CHANGES or not inspect.iscoroutinefunction(method):
            return method

        @wraps(method)
        async def changed(*args: object, **kwargs: object) -> object:
            return await self._carry_out(Change(full, method, args, kwargs))

        return changed

    def __dir__(self) -> Iterable[str]:
        """Return the names in the part."""
        return dir(self._inner)


class _AuditedService(AuditedPart):
    """The service itself, and its parts."""

    def __init__(self, service: Service) -> None:
        carry_out = partial(carried_out, service, service.audit)
        super().__init__(service, "", carry_out)
        for part in PARTS:
            setattr(self, part, AuditedPart(getattr(service, part), f"{part}.", carry_out))

    def acting_as(self, author: str | None) -> Service:
        """For another author."""
        return audited(cast(Service, self._inner).acting_as(author))


async def carried_out(service: Service, audit: Audit, change: Change) -> object:
    """Carry out a method, and record it if it has changed something."""
    kind, look = CHANGES[change.what]
    if look is _by_itself:
        return await change.method(*change.args, **change.kwargs)
    is_new, subject = change.what in _NEW, change.subject
    before = None if is_new else await _seen(look, service, subject)
    result = await change.method(*change.args, **change.kwargs)
    if isinstance(result, DeletedJobs):
        await _record_deleted(audit, change, result)
        return result
    if isinstance(result, Applied | Imported):
        await _record_several(service, audit, change, result)
        return result
    subject = result.id if is_new and isinstance(result, Job) else subject
    if look is _nothing:
        after = _outcome(result, change.kwargs)
    else:  # a job or a run that was answered need not be asked for
        after = _shown(result) if isinstance(result, Job | Run) else await _seen(look, service, subject)
    if before != after and not (change.what == "tasks.put_piece" and result is None):  # its first one is recorded
        queues = await _queues(service, kind, subject, before, result if look is _nothing else after)
        await record(audit, change.what, _named(kind, subject), before, after, queues=queues)
    return result


async def _queues(service: Service, kind: str, subject: object, *found: object) -> Mapping[str, Sequence[str]]:
    """Return the queues of what a change is about, by job id: as it was and is, or else as its job is now."""
    known: dict[str, list[str]] = {}
    for each in found:
        for job_id, queue in _told_queues(kind, subject, each):
            known.setdefault(job_id, []).append(queue)
    if not known and kind in OF_A_JOB and isinstance(subject, str):
        return await _queues_of(service, [subject])
    return known


def _told_queues(kind: str, subject: object, found: object) -> Iterator[tuple[str, str]]:
    match found:
        case Asked():
            yield from _told_queues(kind, subject, found.run)
        case Job():
            yield found.id, found.definition.queue
            yield str(subject), found.definition.queue
        case Run() if found.lane is not None:
            yield found.job_id, queue_of(found.lane)
        case {"definition": Definition() as definition}:
            yield str(subject), definition.queue
        case {"queue": str() as queue, **rest}:
            yield str(rest.get("job_id", subject)), queue
        case _:
            pass


async def _queues_of(service: Service, ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the queues of these jobs, of those that there are."""
    known: dict[str, Sequence[str]] = {}
    for job_id in ids:
        with suppress(NotFound, InvalidInput, StoreError):
            known[job_id] = ((await service.get(job_id)).definition.queue,)
    return known


async def _seen(look: Look, service: Service, subject: object) -> object:
    """Return the state of a thing; None if there is none. A store that is away fails no change."""
    with suppress(NotFound, InvalidInput):
        try:
            return await look(service, subject)
        except StoreError as fault:
            return {"left_out": str(fault)}
    return None


async def _record_deleted(audit: Audit, change: Change, done: DeletedJobs) -> None:
    """Record each deleted job by an entry of its own, as if it had been deleted alone."""
    for job in () if change.kwargs.get("dry_run") else done.jobs:
        queues = {str(job.id): (job.definition.queue,)}
        await record(audit, change.what, f"job {job.id}", _shown(job), None, queues=queues)


async def _record_several(service: Service, audit: Audit, change: Change, done: Applied | Imported) -> None:
    """Record a large set by several entries: one of all would be too large to be kept, and for readers of events."""
    named = [] if change.kwargs.get("dry_run") else _changed(done)
    of = _named(CHANGES[change.what][0], change.subject)
    for first in range(0, len(named), MOST_NAMED):
        told = named[first : first + MOST_NAMED]
        queues = await _queues_of(service, [name for part, _, name in told if not part])
        await record(audit, change.what, of, None, _by_part(told), queues=queues)


def _changed(done: Applied | Imported) -> Sequence[tuple[str, str, str]]:
    """Return the changed things: their part ("" for jobs), what became of them, and their names."""
    if isinstance(done, Imported):
        return [("", "added", name) for name in done.added]
    parts = {"": done, "calendars": done.calendars, "queues": done.queues, "semaphores": done.semaphores}
    return [
        (part, became, name)
        for part, each in parts.items()
        for became, names in {
            "added": each.added,
            "changed": [*each.changed, *each.adopted],
            "removed": each.removed,
        }.items()
        for name in names
    ]


def _by_part(named: Sequence[tuple[str, str, str]]) -> Mapping[str, Any]:
    """Jobs by what became of them, and beside them the same of resources."""
    told: dict[str, Any] = {}
    for part, became, name in named:
        of = told.setdefault(part, {}) if part else told
        of.setdefault(became, []).append(name)
    return told


def _shown(found: Job | Run) -> object:
    match found:
        case Job():
            return {"state": found.state, "reason": found.reason, "definition": found.definition}
        case Run():
            told = {"job_id": found.job_id, "state": found.state, "cancel": found.cancel}
            return told if found.lane is None else {**told, "queue": queue_of(found.lane)}


def _named(kind: str, subject: object) -> str:
    if isinstance(subject, Sequence) and not isinstance(subject, str):
        return f"{len(subject)} {kind}"
    return f"{kind} {'*' if subject is None else subject}"


def _outcome(result: object, kwargs: Mapping[str, object]) -> object:
    """Return what became of a request that does not change what it names."""
    match result:
        case Run():
            return {"run": result.id}
        case Asked():
            return {"run": result.run.id, "became": result.became}
        case Job():
            return {"job": result.id}
        case Upload():
            return {"uploads": result.digest}
        case list():
            return {"runs": len(result)}
        case _:
            return None if kwargs.get("dry_run") else {"done": True}
