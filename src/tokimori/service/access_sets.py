"""The rules of sets for a token of some jobs or queues: it sees and applies what lies wholly within its scope."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from tokimori.model.ids import check_new_job_id
from tokimori.model.job import set_of
from tokimori.model.lanes import EVERYTHING as ALL_QUEUES
from tokimori.service.access import AskedOperation
from tokimori.service.given import mapping_of
from tokimori.service.set_turns import no_set
from tokimori.service.sets import Applied
from tokimori.service.sight import out_of_scope


async def sets(asked: AskedOperation) -> Any:
    """Return those that have a job within the scope, and how many of these."""
    seen, after = Counter[str | None](), None
    while page := await asked.service.list(after):
        seen.update(set_of(job.definition) for job in page if asked.sight.sees(job))
        after = page[-1].id
    found = [replace(each, jobs=seen[each.name]) for each in await asked.go() if each.name in seen]
    if not found and (name := asked.argument("name")) is not None:
        raise no_set(name)
    return found


async def resources(asked: AskedOperation) -> Any:
    """Return pauses of queues as `queues.pauses` gives them; the rest is everybody's."""
    found, scope = await asked.go(), asked.sight.scope
    known = {name: each for name, each in found.queues.items() if name == ALL_QUEUES or scope.owns_queue(name)}
    return replace(found, queues=known)


async def applied(asked: AskedOperation) -> Any:
    """Apply a set where all that it declares, changes and deletes is within the scope; the rest of it stays unnamed."""
    scope, sight = asked.sight.scope, asked.sight
    for job_id in mapping_of("declared", asked.argument("declared"), "fields by id of the job"):
        checked = check_new_job_id(job_id)
        if not scope.has_id(checked) or not await sight.may_become(checked):
            raise out_of_scope(f"jobs: {job_id!r}", job_id)
    plan: Applied = await asked.method(*asked.args, **{**asked.kwargs, "dry_run": True})
    for part, changes in (("calendar", plan.calendars), ("semaphore", plan.semaphores), ("queue", plan.queues)):
        for name in (*changes.added, *changes.changed, *changes.adopted, *changes.removed, *changes.refused):
            if part != "queue" or not scope.owns_queue(name):
                raise out_of_scope(f"{part}: {name!r}", name)
    for job_id in (*plan.removed, *plan.refused):
        if not await sight.sees_id(job_id):
            raise out_of_scope(f"prune: a job of the set {plan.set}")
    done: Applied = plan if asked.kwargs.get("dry_run") else await asked.go()
    return replace(done, kept=tuple([job_id for job_id in done.kept if await sight.sees_id(job_id)]))
