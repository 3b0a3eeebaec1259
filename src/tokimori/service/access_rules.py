"""The rule of each method of the service: the role that it needs, and what a token of some jobs or queues gets.

What is listed is then left out, what is read is not found, and what would be changed is refused. `permitted` applies
them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tokimori.errors import NotFound, Refused
from tokimori.model.access_token import Role
from tokimori.model.dependents import CHILDLESS, all_after
from tokimori.model.ids import check_job_id
from tokimori.model.job import Job
from tokimori.model.pause import EVERYTHING as ALL_QUEUES
from tokimori.model.words import check_word
from tokimori.service.access import AskedOperation, Rule, Sight, changes, no_job, out_of_scope, reads
from tokimori.service.access_sets import applied, resources, sets
from tokimori.service.access_to_runs import (
    OF_RUN,
    TO_RUN,
    counted,
    found_runs,
    last_runs,
    listed_runs,
    read_run,
    requested,
    retried,
    skips_since_moved,
    summaries,
    to_claim,
    why,
)
from tokimori.service.asking import MOST_LISTED, checked
from tokimori.service.audited import TASK_ORDERS
from tokimori.service.finding import EVERY_ID, find_jobs
from tokimori.service.given import moment_of
from tokimori.service.notified import told_by
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.service.shown import Shown
from tokimori.service.tasks import TaskDetails

TASKS_AT_ONCE = 100
"""So many tasks are asked for at a time: the job of each is asked for by itself."""

_Listed = TypeVar("_Listed")


# What is read


async def _shared(asked: AskedOperation) -> Any:
    """Allow a method about no single job, or one that asks for leave itself: see `judge_of`."""
    return await asked.go()


_of_job, _of_task = reads(Sight.sees_id, no_job), reads(Sight.sees_task, no_job)
_of_expectation = reads(Sight.sees_expectation, no_job)


async def _shown(asked: AskedOperation) -> Shown:
    """Return a job with what is around it. Of edges that others declare, only those between jobs within the scope."""
    found: Shown = await _of_job(asked)
    own, facts = found.facts.job.id, found.facts
    others = {job for edge in facts.edges if edge.declared_by != own for job in (edge.parent, edge.child)} - {own}
    hidden = {job for job in others if not await asked.sight.sees_id(job)}
    edges = [edge for edge in facts.edges if edge.declared_by == own or not hidden & {edge.parent, edge.child}]
    return replace(found, facts=replace(facts, edges=edges)) if hidden else found


async def _since_moved(asked: AskedOperation) -> Any:
    """Occurrences since the job is in its queue."""
    if not await asked.sight.sees_id(asked.first):
        raise no_job(asked.first)
    terms = (await asked.service.get(asked.first)).definition
    if terms.moved is None or not asked.sight.scope.queues:
        return await asked.go()
    if asked.name == "skips":
        return await skips_since_moved(asked)
    given = asked.arguments
    first = given["first"]
    asked_for = terms.moved if first is None else moment_of("first", first, terms.time_zone)
    return await asked.method(**{**given, "first": max(asked_for, terms.moved)})


async def _jobs(asked: AskedOperation) -> list[Job]:
    async def sees(job: Job) -> bool:
        return asked.sight.sees(job)

    return await _by_id(asked, asked.service.list, lambda job: job.id, sees)


async def _tasks(asked: AskedOperation) -> list[TaskDetails]:
    async def sees(task: TaskDetails) -> bool:
        return await asked.sight.sees_task(task.record.name)

    return await _by_id(asked, asked.service.tasks.list, lambda task: task.record.name, sees, most=TASKS_AT_ONCE)


async def _task_log(asked: AskedOperation) -> Any:
    if not await asked.sight.sees_task(asked.first):
        raise no_job(asked.first)
    return await asked.service.tasks._log(asked.first, asked.argument("lines"), asked.sight.sees_run)


async def _named(asked: AskedOperation) -> list[Any]:
    """Return expectations or alarms in scope: their names are ids of jobs, or of what runs elsewhere, in no queue."""
    listed = asked.service.alarms if asked.name == "alarms" else asked.service.expectations.list
    return await _by_id(asked, listed, lambda each: each.name, lambda each: asked.sight.sees_expectation(each.name))


async def _by_id(
    asked: AskedOperation,
    page_of: Callable[[str | None, int], Awaitable[Sequence[_Listed]]],
    id_of: Callable[[_Listed], str],
    sees: Callable[[_Listed], Awaitable[bool]],
    most: int = MOST_LISTED,
) -> list[_Listed]:
    """Return the first ones by id, from where the first of the scope may be to where the last one may be."""
    limit, after = checked("limit", asked.argument("limit"), max(most, MOST_LISTED)), asked.argument("after")
    after = None if after is None else check_job_id(after, field="after")
    prefixes = asked.sight.scope.jobs
    if prefixes and min(prefixes)[:-1] > (after or ""):
        after = min(prefixes)[:-1]
    found: list[_Listed] = []
    while len(found) < limit:
        page = await page_of(after, most)
        found += [each for each in page if await sees(each)]
        if len(page) < most or (prefixes and id_of(page[-1]) > f"{max(prefixes)}\x7f"):
            break
        after = id_of(page[-1])
    return found[:limit]


async def _find_jobs(asked: AskedOperation) -> Any:
    ids = asked.sight.scope.jobs
    span = (min(ids)[:-1], f"{max(ids)}\x7f") if ids else EVERY_ID
    return await find_jobs(asked.service.list, asked.service.get, asked.first, asked.sight.sees, span)


async def _upcoming(asked: AskedOperation) -> Any:
    wanted = checked("n", asked.first, MOST_LISTED)
    found = await asked.service.upcoming(MOST_LISTED, asked.argument("after"))
    return [pair for pair in found if asked.sight.sees(pair[0])][:wanted]


async def _graph(asked: AskedOperation) -> Any:
    """Return the edges between jobs that are both within the scope."""
    if asked.first is not None and not await asked.sight.sees_id(asked.first):
        raise no_job(asked.first)
    edges = await asked.go()
    known = {job: await asked.sight.sees_id(job) for edge in edges for job in (edge.parent, edge.child)}
    return [edge for edge in edges if known[edge.parent] and known[edge.child]]


async def _job_ids(asked: AskedOperation) -> Any:
    return [job_id for job_id in await asked.go() if await asked.sight.sees_id(job_id)]


async def _queues(asked: AskedOperation) -> Any:
    """Return the queues in scope, each asked for by itself: they are few."""
    limit, scope = checked("limit", asked.argument("limit"), MOST_LISTED), asked.sight.scope
    if (after := asked.argument("after")) is not None:
        check_word("after", after)
    owned = [name for name in sorted(scope.queues) if scope.owns_queue(name) and name > (after or "")]
    found = [await asked.service.queues.get(name) for name in owned]
    return [each for each in found if each.jobs or any(pause.queue == each.name for pause in each.pauses)][:limit]


async def _queue(asked: AskedOperation) -> Any:
    if not asked.sight.scope.owns_queue(asked.first):
        raise NotFound(f"there is no queue {asked.first!r}", field="queue", value=asked.first)
    return await asked.go()


async def _pauses(asked: AskedOperation) -> Any:
    """Return pauses in scope, and that of everything, which concerns everybody."""
    queues = asked.sight.scope
    return [pause for pause in await asked.go() if pause.queue == ALL_QUEUES or queues.owns_queue(pause.queue)]


async def _semaphores(asked: AskedOperation) -> Any:
    """Without their holders, which may be runs of anybody."""
    found = await asked.go()
    return _without_holders(found) if isinstance(found, SemaphoreDetails) else [*map(_without_holders, found)]


async def _secrets(asked: AskedOperation) -> Any:
    """Return the secrets to which the token has a right of its own: see `judge_of`."""
    return [each for each in await asked.go() if asked.sight.scope.may_name(each.jobs)]


async def _events(asked: AskedOperation) -> Any:
    after, wait, filters = (asked.argument(name) for name in ("after", "wait", "filters"))
    return await asked.service.events._read(after, wait, filters, asked.sight.scope)


async def _all_events(asked: AskedOperation) -> Any:
    """Return events in scope. Events of the audit log alone are for those who may read it."""
    kind, after, wait, filters = (asked.argument(name) for name in ("kind", "after", "wait", "filters"))
    of_audit = asked.role is Role.ADMIN and asked.sight.scope.is_everything
    events = asked.service.events
    return await events._read_all(kind, after, wait, filters, asked.sight.scope, of_audit=of_audit)


def _without_holders(details: SemaphoreDetails) -> SemaphoreDetails:
    return replace(details, holders=())


# What is changed


async def whole(asked: AskedOperation) -> Any:
    """Refuse a change of what is everybody's."""
    raise out_of_scope(asked.name)


_to_job, _to_task = changes(Sight.sees_id, "id"), changes(Sight.sees_task, "name")
_to_expectation = changes(Sight.sees_expectation, "name")


async def _deleted(asked: AskedOperation) -> Any:
    """Return a job, and with `cascade` all that run after it."""
    if asked.argument("cascade") and not await _sees_all_after(asked):
        raise out_of_scope("cascade: a job that runs after it")
    return await _gone_alone(asked)


async def _renamed(asked: AskedOperation) -> Any:
    """Give a job another id, also in the jobs that name it. Which of others' jobs do is not said."""
    if await asked.sight.sees_id(asked.first):
        edges = await asked.service.graph(asked.first)
        for other in {edge.declared_by for edge in edges if asked.first in (edge.parent, edge.child)}:
            if not await asked.sight.sees_id(other):
                raise out_of_scope(f"id: a job of others that names {asked.first!r}", asked.first)
    return await _gone_alone(asked)


async def _gone_alone(asked: AskedOperation) -> Any:
    """Delete a job, and no other. If it has to stay, jobs of others are not named."""
    try:
        return await _gone(asked)
    except Refused as fault:
        if fault.allowed != CHILDLESS or await _sees_all_after(asked):
            raise
        told = f"{asked.first} can't be deleted, because jobs of others run after it: ask an admin which"
        raise Refused(told, field="id", value=asked.first, allowed=fault.allowed) from fault


async def _gone_task(asked: AskedOperation) -> Any:
    if not await asked.sight.sees_task(asked.first):
        raise out_of_scope(f"name: {asked.first!r}", asked.first)
    return await _gone_alone(asked)


async def _sees_all_after(asked: AskedOperation) -> bool:
    for job_id in all_after(await asked.service.graph(asked.first), asked.first):
        if not await asked.sight.sees_id(job_id):
            return False
    return True


async def _gone(asked: AskedOperation) -> Any:
    """Delete or rename a job. Which of others' jobs name a notifier is not said."""
    try:
        return await _to_job(asked)
    except Refused as fault:
        told = told_by(asked.first, "")
        if not fault.message.startswith(told.message):
            raise
        raise Refused(f"{told.message}ask an admin which", field="id", value=asked.first) from fault


async def _to_queue(asked: AskedOperation) -> Any:
    if asked.first is None or not asked.sight.scope.owns_queue(asked.first):
        raise out_of_scope("queue", asked.first)
    return await asked.go()


async def _claimed(asked: AskedOperation) -> Any:
    """Return runs of one of the token's queues: which run of a queue comes next is not for the worker to say."""
    queue = asked.argument("queue")
    if queue is None or not asked.sight.scope.owns_queue(queue):
        raise out_of_scope("queue: which runs come is known by their queue alone, so", queue)
    return await asked.go()


BY_ROLE: Final = "events.read_all"
"""Its rule holds for every scope, as it looks at the role."""
RULES: Final[Mapping[str, tuple[Role, Rule]]] = MappingProxyType(
    {
        **dict.fromkeys(("now", "nodes", "explain", "schema", "calendars.list", "calendars.get"), (Role.READ, _shared)),
        **dict.fromkeys(
            ("get", "explain_job", "next_times", "pauses_of", "too_heavy"),
            (Role.READ, _of_job),
        ),
        **dict.fromkeys(("counts", "statistics"), (Role.READ, counted)),
        **dict.fromkeys(("ledger", "skips", "verify"), (Role.READ, _since_moved)),
        "shown": (Role.READ, _shown),
        "expectations.get": (Role.READ, _of_expectation),
        "get_run": (Role.READ, read_run),
        **dict.fromkeys(("output", "wait"), (Role.READ, OF_RUN)),
        **dict.fromkeys(("why_run", "why_job"), (Role.READ, why)),
        "list": (Role.READ, _jobs),
        "list_runs": (Role.READ, listed_runs),
        "find_jobs": (Role.READ, _find_jobs),
        "find_runs": (Role.READ, found_runs),
        "last_runs": (Role.READ, last_runs),
        "summaries": (Role.READ, summaries),
        "upcoming": (Role.READ, _upcoming),
        "graph": (Role.READ, _graph),
        "calendars.jobs": (Role.READ, _job_ids),
        "tasks.list": (Role.READ, _tasks),
        **dict.fromkeys([f"tasks.{what}" for what in ("get", "state", "builds")], (Role.READ, _of_task)),
        "tasks.log": (Role.READ, _task_log),
        **dict.fromkeys(
            [f"tasks.{order}" for order in ("put_piece", "build", "rollback", *TASK_ORDERS)],
            (Role.OPERATE, _to_task),
        ),
        "tasks.delete": (Role.OPERATE, _gone_task),
        **dict.fromkeys(("alarms", "expectations.list"), (Role.READ, _named)),
        "ping": (Role.PING, _to_expectation),
        **dict.fromkeys(("expectations.set", "expectations.delete"), (Role.OPERATE, _to_expectation)),
        "queues.list": (Role.READ, _queues),
        "queues.get": (Role.READ, _queue),
        "queues.pauses": (Role.READ, _pauses),
        "resources": (Role.READ, resources),
        "sets": (Role.READ, sets),
        **dict.fromkeys(("semaphores.list", "semaphores.get"), (Role.READ, _semaphores)),
        **dict.fromkeys(("add", "add_since", "import_all"), (Role.OPERATE, _shared)),
        **dict.fromkeys(
            ("edit", "update", "refresh", "pause", "resume", "resolve", "rewind", "copy_job"),
            (Role.OPERATE, _to_job),
        ),
        **dict.fromkeys(("backfill", "cancel_backfill"), (Role.OPERATE, _to_job)),
        **dict.fromkeys(("ask", "trigger", "trigger_many"), (Role.OPERATE, requested)),
        "delete": (Role.OPERATE, _deleted),
        "rename_job": (Role.OPERATE, _renamed),
        "apply": (Role.OPERATE, applied),
        **dict.fromkeys(("delete_all", "delete_some"), (Role.ADMIN, whole)),
        **dict.fromkeys(("cancel", "hold", "resume_run"), (Role.OPERATE, TO_RUN)),
        "retry_run": (Role.OPERATE, retried),
        **dict.fromkeys(("queues.pause", "queues.resume"), (Role.OPERATE, _to_queue)),
        **dict.fromkeys(
            ("calendars.add", "calendars.update", "calendars.delete", "semaphores.set", "semaphores.delete"),
            (Role.OPERATE, whole),
        ),
        "claims.claim": (Role.OPERATE, _claimed),
        **dict.fromkeys(
            [f"claims.{end}" for end in ("heartbeat", "finish", "fail", "retry", "release", "hold")],
            (Role.OPERATE, to_claim),
        ),
        **dict.fromkeys(("audit.list", "tokens.create", "tokens.list", "tokens.revoke"), (Role.ADMIN, whole)),
        **dict.fromkeys(("secrets.set", "secrets.delete", "secrets.rotate"), (Role.ADMIN, whole)),
        "events.read": (Role.READ, _events),
        BY_ROLE: (Role.READ, _all_events),
        "channels.read": (Role.READ, whole),
        **dict.fromkeys([f"channels.{what}" for what in ("publish", "acknowledge", "forget")], (Role.OPERATE, whole)),
        "secrets.list": (Role.OPERATE, _secrets),
        **dict.fromkeys(("orders.restart", "orders.signal"), (Role.OPERATE, TO_RUN)),
        **dict.fromkeys(
            [f"orders.{order}" for order in ("restart_job", "cancel_job", "cancel_some")], (Role.OPERATE, _to_job)
        ),
        **dict.fromkeys(("orders.drain", "orders.resume", "orders.stop"), (Role.ADMIN, whole)),
        **dict.fromkeys(("check_schema", "doctor", "migrate", "schema_script"), (Role.ADMIN, whole)),
    }
)
"""The role that a method needs, and what holds where somebody may know of some jobs or queues only."""
