"""Right to make jobs: asked just before a job is written."""

from contextlib import suppress

from tokimori.errors import NotFound
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, JobState, edges_of
from tokimori.model.notifier import notifier_id, notifiers_in
from tokimori.model.run import Run
from tokimori.model.target import Build, Unreadable
from tokimori.model.templates import secrets_in
from tokimori.service.allowed import Allowed
from tokimori.service.judge import Beside, Judge
from tokimori.service.service import Service
from tokimori.service.sight import Access, Looks, Sight, out_of_scope


def sight_of(service: Service, access: Access) -> Sight:
    """Return the view of who has this access."""

    async def run_of(run_id: str) -> Run:
        return (await service.runs.get(run_id)).run

    queues = (service.tasks._queue_of, service.expectations._queue_of)
    return Sight(Looks(service.jobs.get, run_of, service.jobs.graph, *queues), access.scope, access.role)


def judge_of(service: Service, access: Access, allowed: Allowed) -> Judge:
    """Return a judge of jobs as they would be after a change. Their neighbours must be in scope, too."""
    sight = sight_of(service, access)

    async def judge(job_id: JobId, definition: Definition, beside: Beside) -> None:
        allowed.check(definition.target, access.role)
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
                if not await sight.sees_beside(other, beside):
                    raise out_of_scope(f"{other!r}, before or after which it runs", other)
        for name in notifiers_in(definition.notify):
            if not await sight.sees_id(notifier_id(name)):
                raise out_of_scope(f"notify: {name!r}, whose id is {notifier_id(name)!r}", name)

    return judge


async def _check_secrets(service: Service, sight: Sight, job_id: JobId, definition: Definition) -> None:
    """Refuse secrets to which the token has no right of its own, or that there are not. Raises `Forbidden`."""
    target = definition.target
    named = frozenset[str]() if isinstance(target, Unreadable) else secrets_in(target.texts())
    known = {secret.name: secret.jobs for secret in await service.secrets.list()} if named else {}
    strange = sorted(name for name in named if name not in known or not sight.scope.may_name(known[name]))
    if strange and not await _is_kept(service, sight, job_id, definition):
        raise out_of_scope(f"secret: {strange[0]!r}", strange[0])


async def _is_kept(service: Service, sight: Sight, job_id: JobId, definition: Definition) -> bool:
    """Check if the job runs or sends the same already: whoever edits the rest of it names nothing."""
    with suppress(NotFound):
        job = await service.jobs.get(job_id)
        return job.state is not JobState.DELETED and sight.sees(job) and job.definition.target == definition.target
    return False
