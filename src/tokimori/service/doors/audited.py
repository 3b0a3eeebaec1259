"""The service, whose changes are written into the audit log: what doors and the command line use."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Final, NamedTuple

from tokimori.clock import format_moment
from tokimori.errors import InvalidInput, NotFound, StoreError
from tokimori.model.audit import OF_A_JOB
from tokimori.model.build import Upload
from tokimori.model.cause import Mute
from tokimori.model.job import Definition, Job
from tokimori.model.lanes import queue_of
from tokimori.model.run import Run
from tokimori.service.audit import Audit, record
from tokimori.service.definitions.imports import Imported
from tokimori.service.definitions.requests import RequestedRun
from tokimori.service.jobs.deleting import DeletedJobs
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.operation import ITSELF, MADE, REQUEST, STATE, Inside, Member, Operation, Part, through
from tokimori.service.operation import Audit as Recording
from tokimori.service.service import Service
from tokimori.service.sets.work import Applied

_SUBJECTS: Final = ("job_id", "run_id", "node_id", "queue", "name", "jobs")
MOST_NAMED: Final = 250
"""Number of things that one entry names of those that a set or an import has changed."""


class Change(NamedTuple):
    """A call of a method that may change something: `what` it is called, the word for its thing, and its event.

    `look` shows the thing, for people who read the log.
    """

    what: str
    kind: str
    recording: Recording | None
    event: str | None
    look: Callable[[Any], Awaitable[object]]
    method: Callable[..., Awaitable[Any]]
    args: Sequence[object]
    kwargs: Mapping[str, object]

    @property
    def subject(self) -> object:
        """Return the subject as it was given."""
        named = next((self.kwargs[name] for name in _SUBJECTS if name in self.kwargs), None)
        return self.args[0] if self.args else named

    def became(self, before: object) -> str | None:
        """Return the event."""
        if self.event is None:
            return None
        made = "changed" if before is not None else "added"
        return f"{self.kind}.{made if self.event is MADE else self.event}"


CarryOut = Callable[[Change], Awaitable[Any]]


def audited(service: Service) -> Service:
    """Return a service that records every change in the audit log."""
    carry_out = partial(carried_out, service.jobs, service.audit)

    def part_of(kind: type[Part[Any]]) -> Part[Any]:
        return through(kind, RecordedVia(getattr(service, kind.noun), carry_out))

    return Service(service._shared, service._caller, part_of, lambda caller: audited(service._as(caller)))


class RecordedVia:
    """The way to a part whose changes are recorded: `carry_out` is given them. `of_requests`: requests for runs too."""

    whole = False

    def __init__(self, part: Part[Inside], carry_out: CarryOut, *, of_requests: bool = True) -> None:
        self._part = part
        self._carry_out = carry_out
        self._passed_by = (None,) if of_requests else (None, REQUEST)

    def __call__(self, member: Member[Any, Any, Any], name: str) -> Callable[..., Any]:
        """Return the method of the part, whose changes are recorded."""
        method: Callable[..., Any] = getattr(self._part, member.name)
        if not isinstance(member, Operation) or member.audit in self._passed_by:
            return method
        kind, event = member.of or self._part.word, member.event
        look, carry_out = self._part._state, self._carry_out

        @wraps(method)
        async def changed(*args: object, **kwargs: object) -> object:
            return await carry_out(Change(name, kind, member.audit, event, look, method, args, kwargs))

        return changed


async def carried_out(jobs: Jobs[Inside], audit: Audit[Inside], change: Change) -> object:
    """Carry out a method, and record it if it has changed something."""
    if change.recording is ITSELF:
        return await change.method(*change.args, **change.kwargs)
    subject, looks = change.subject, change.recording is STATE
    is_new = change.event == "added"
    before = await _seen(change, subject) if looks and not is_new else None
    result = await change.method(*change.args, **change.kwargs)
    if isinstance(result, DeletedJobs):
        await _record_deleted(audit, change, result)
        return result
    if isinstance(result, Applied | Imported):
        await _record_several(jobs, audit, change, result)
        return result
    subject = result.id if is_new and isinstance(result, Job) else subject
    if not looks:
        after = None if result is None else _outcome(result, change.kwargs)
    else:  # a job or a run that was answered need not be asked for
        after = result if isinstance(result, Job | Run) else await _seen(change, subject)
        before, after = _shown(before), _shown(after)
    if before != after:
        queues = await _queues(jobs, change.kind, subject, before, after if looks else result)
        of, event = _named(change.kind, subject), change.became(before)
        await record(audit, change.what, of, before, after, event=event, queues=queues)
    return result


async def _queues(jobs: Jobs[Inside], kind: str, subject: object, *found: object) -> Mapping[str, Sequence[str]]:
    """Return the queues of the changed jobs, by job id: before and after the change, else those of now."""
    known: dict[str, list[str]] = {}
    for each in found:
        for job_id, queue in _queues_named(kind, subject, each):
            known.setdefault(job_id, []).append(queue)
    if not known and kind in OF_A_JOB and isinstance(subject, str):
        return await _queues_of(jobs, [subject])
    return known


def _queues_named(kind: str, subject: object, found: object) -> Iterator[tuple[str, str]]:
    match found:
        case None:
            pass
        case RequestedRun():
            yield from _queues_named(kind, subject, found.run)
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


async def _queues_of(jobs: Jobs[Inside], ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the queues of these jobs. Unknown jobs are left out."""
    known: dict[str, Sequence[str]] = {}
    for job_id in ids:
        with suppress(NotFound, InvalidInput, StoreError):
            known[job_id] = ((await jobs.get(job_id)).definition.queue,)
    return known


async def _seen(change: Change, subject: object) -> object:
    """Return the present state of a thing; None if there is none. A store that does not answer fails no change."""
    with suppress(NotFound, InvalidInput):
        try:
            return await change.look(subject)
        except StoreError as fault:
            return {"left_out": str(fault)}
    return None


async def _record_deleted(audit: Audit[Inside], change: Change, done: DeletedJobs) -> None:
    """Record each deleted job by an entry of its own, as if it had been deleted alone."""
    for job in () if change.kwargs.get("dry_run") else done.jobs:
        queues = {str(job.id): (job.definition.queue,)}
        of = f"job {job.id}"
        await record(audit, change.what, of, _shown(job), None, event=change.became(job), queues=queues)


async def _record_several(jobs: Jobs[Inside], audit: Audit[Inside], change: Change, done: Applied | Imported) -> None:
    """Record a large set by several entries: one of all would be too large to be kept, and for readers of events."""
    named = [] if change.kwargs.get("dry_run") else _changed(done)
    of = _named(change.kind, change.subject)
    for first in range(0, len(named), MOST_NAMED):
        some = named[first : first + MOST_NAMED]
        queues = await _queues_of(jobs, [name for part, _, name in some if not part])
        await record(audit, change.what, of, None, _by_part(some), event=change.became(None), queues=queues)


def _changed(done: Applied | Imported) -> Sequence[tuple[str, str, str]]:
    """Return the changed things: their part ("" for jobs), the outcome, and their names."""
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
    """Return jobs and other resources, by part and outcome."""
    by_part: dict[str, Any] = {}
    for part, became, name in named:
        of = by_part.setdefault(part, {}) if part else by_part
        of.setdefault(became, []).append(name)
    return by_part


def _shown(found: object) -> object:
    match found:
        case Job():
            return {"state": found.state, "reason": found.reason, "definition": found.definition}
        case Run():
            state = {"job_id": found.job_id, "state": found.state, "cancel": found.cancel}
            return state if found.lane is None else {**state, "queue": queue_of(found.lane)}
        case _:
            return found


def _named(kind: str, subject: object) -> str:
    if isinstance(subject, Sequence) and not isinstance(subject, str):
        return f"{len(subject)} {kind}"
    return f"{kind} {'*' if subject is None else subject}"


def _outcome(result: object, kwargs: Mapping[str, object]) -> object:
    """Return the outcome of a request that does not change the thing that it names."""
    match result:
        case Run():
            return {"run": result.id}
        case RequestedRun():
            return {"run": result.run.id, "became": result.became}
        case Job():
            return {"job": result.id}
        case Mute():
            return {"cause": result.cause, "until": format_moment(result.until), "reason": result.reason}
        case Upload():
            return {"uploads": result.digest}
        case list():
            return {"runs": len(result)}
        case _:
            return None if kwargs.get("dry_run") else {"done": True}
