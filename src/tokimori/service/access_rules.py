"""The rule of each method of the service: the role that it needs, and what a token of some jobs or queues gets.

What is listed is then left out, what is read is not found, and what would be changed is refused. `permitted` applies
them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from tokimori.errors import Refused
from tokimori.model.access_token import Role
from tokimori.model.expectation import Alarm
from tokimori.model.job import Job
from tokimori.service.access import AskedOperation, Rule, changes, reads, whole
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
    why,
)
from tokimori.service.asking import MOST_LISTED, checked
from tokimori.service.finding import EVERY_ID, find_jobs
from tokimori.service.given import moment_of
from tokimori.service.notified import told_by
from tokimori.service.shown import Shown
from tokimori.service.sight import Sight, by_id, gone_alone, no_job, out_of_scope

# What is read


async def _shared(asked: AskedOperation) -> Any:
    """Allow a method about no single job, or one that asks for leave itself: see `judge_of`."""
    return await asked.go()


_of_job = reads(Sight.sees_id, no_job)


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

    after, limit = asked.argument("after"), asked.argument("limit")
    return await by_id(asked.sight, asked.service.list, lambda job: job.id, sees, after=after, limit=limit)


async def _alarms(asked: AskedOperation) -> list[Alarm]:
    """Return alarms in scope: their names are ids of jobs, or of what runs elsewhere, in no queue."""

    async def sees(alarm: Alarm) -> bool:
        return await asked.sight.sees_expectation(alarm.name)

    after, limit = asked.argument("after"), asked.argument("limit")
    return await by_id(asked.sight, asked.service.alarms, lambda alarm: alarm.name, sees, after=after, limit=limit)


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


# What is changed


_to_job = changes(Sight.sees_id, "id")


async def _deleted(asked: AskedOperation) -> Any:
    """Return a job, and with `cascade` all that run after it."""
    if asked.argument("cascade") and not await asked.sight.sees_all_after(asked.first):
        raise out_of_scope("cascade: a job that runs after it")
    return await gone_alone(asked.sight, asked.first, _gone(asked))


async def _renamed(asked: AskedOperation) -> Any:
    """Give a job another id, also in the jobs that name it. Which of others' jobs do is not said."""
    if await asked.sight.sees_id(asked.first):
        edges = await asked.service.graph(asked.first)
        for other in {edge.declared_by for edge in edges if asked.first in (edge.parent, edge.child)}:
            if not await asked.sight.sees_id(other):
                raise out_of_scope(f"id: a job of others that names {asked.first!r}", asked.first)
    return await gone_alone(asked.sight, asked.first, _gone(asked))


async def _gone(asked: AskedOperation) -> Any:
    """Delete or rename a job. Which of others' jobs name a notifier is not said."""
    try:
        return await _to_job(asked)
    except Refused as fault:
        told = told_by(asked.first, "")
        if not fault.message.startswith(told.message):
            raise
        raise Refused(f"{told.message}ask an admin which", field="id", value=asked.first) from fault


RULES: Final[Mapping[str, tuple[Role, Rule]]] = MappingProxyType(
    {
        **dict.fromkeys(("now", "nodes", "explain", "schema"), (Role.READ, _shared)),
        **dict.fromkeys(("get", "explain_job", "next_times", "pauses_of", "too_heavy"), (Role.READ, _of_job)),
        **dict.fromkeys(("counts", "statistics"), (Role.READ, counted)),
        **dict.fromkeys(("ledger", "skips", "verify"), (Role.READ, _since_moved)),
        "shown": (Role.READ, _shown),
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
        "alarms": (Role.READ, _alarms),
        "ping": (Role.PING, changes(Sight.sees_expectation, "name")),
        "resources": (Role.READ, resources),
        "sets": (Role.READ, sets),
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
        **dict.fromkeys(("check_schema", "doctor", "migrate", "schema_script"), (Role.ADMIN, whole)),
    }
)
"""The role that a method of the service itself needs, and what it does within a scope."""
