"""Tasks as code: jobs that run builds of them, and what people do with these jobs."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import AlreadyExists, Conflict, NotFound, StoreUnavailable, TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.build import Upload, build_name, check_task_name
from tokimori.model.document import Document
from tokimori.model.ids import JobId, check_job_id, uuid7
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.policies import OnExhausted
from tokimori.model.run import LONGEST_ERROR, Attempt, Run
from tokimori.model.target import Build
from tokimori.model.task import (
    BuildRecord,
    LogLine,
    TaskEvent,
    TaskRecord,
    What,
    check_build,
    decode_task,
    earlier_build,
    encode_task,
    log_lines,
    picked_up,
    with_build,
    with_current,
    with_event,
)
from tokimori.model.transitions import ENDS, RunState
from tokimori.model.words import check_text
from tokimori.ports.store import RunFilter
from tokimori.service.access import OPEN, TASK, Sight, by_id, deleted_alone
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.operation import OUTCOME, STATE, Inside, M, Part, operation
from tokimori.service.runs.runs import Runs
from tokimori.service.search.jobs import SeesRun
from tokimori.service.search.runs import as_of_now
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import retried
from tokimori.service.tasks.builds import Builds, Uploads, checked_place, complete, is_whole
from tokimori.service.tasks.outputs import TimedLine, timed_lines
from tokimori.service.validation import MOST_LISTED, checked, flag_of
from tokimori.service.views import tasks as views
from tokimori.service.views.outside import list_of, maybe

TASKS = DocumentKind("task", encode_task, decode_task)
MOST_LINES = 1_000
"""Lines of a task's log that one answer has."""
MOST_RUNS = 100
MOST_TRIES = 20
TASKS_AT_ONCE = 100
"""Number of tasks read at a time: the job of each is read by itself."""
MOST_BYTES = 2**19
"""Number of runs looked at for tasks, and of bytes of their output, about."""
_BEGUN = ENDS | {RunState.RUNNING}
_SCHEDULED = frozenset({RunState.WAITING, RunState.READY, RunState.BLOCKED})


class TaskDetails(Struct, frozen=True, kw_only=True):
    """A task with its job; None if the job was deleted."""

    record: TaskRecord
    job: Job | None


class TaskState(Struct, frozen=True, kw_only=True):
    """A task as it is shown: with a mark if a node serves it, and its newest running, waiting and ended runs."""

    details: TaskDetails
    is_served: bool
    running: Run | None
    waiting: Run | None
    ended: Run | None


class Tasks(Part[M]):
    """Tasks as code. Every method may raise `StoreError`, and `NotFound` for an unknown task."""

    noun, word = "tasks", "task"

    def __init__(self, jobs: Jobs[Inside], runs: Runs[Inside], shared: Shared, caller: Caller) -> None:
        self._jobs, self._runs = jobs, runs
        self._store, self._now, self._random = shared.store, shared.now, shared.random
        self._author = caller.author
        self._documents = Documents(shared.store, TASKS, shared.random)
        self._builds = Builds(shared.store, shared.random)
        self._uploads = Uploads(shared.store, shared.random, caller.author)

    # Builds

    @operation(Role.OPERATE, TASK, audit=OUTCOME, doing="Uploading a build", gives=maybe(views.Upload.made))
    async def put_piece(self, name: str, digest: str, number: int, piece: str) -> Upload | None:
        """Store a piece of a future build of the task; see `build`. The first piece begins the upload.

        Only the uploader sees its pieces. An unfinished upload is deleted after a day. Raises `Refused` for a different
        piece of a complete build, and for too many uploads at a time.
        """
        checked_place(name, digest, number, piece)
        known = await self._record_or_none(name)
        is_known = known is not None and any(each.digest == digest for each in known.builds)
        if is_known and await is_whole(self._builds, name, digest, number, piece):
            return None
        begun = None
        if not await self._uploads.has(name, digest):
            job, target = await self._job(name), Build(task=name, digest=digest)
            definition = Definition(target=target) if job is None else replace(job.definition, target=target)
            await self._jobs._writer.check_right(JobId(name), definition)
            begun = await self._uploads.begin(name, digest, await self._now())
        await self._uploads.put(name, digest, number, piece)
        return begun

    @operation(Role.OPERATE, TASK, audit=STATE, event="changed", gives=views.TaskDetails.made)
    async def build(self, name: str, record: BuildRecord, *, restart: bool = False) -> TaskDetails:
        """Let the task run this build from now on.

        Its pieces must be uploaded, and its job is made if there is none. Fields of the job that the build does not set
        stay. `restart`: also restart the task. A refused build leaves nothing behind. Raises `InvalidInput`, and
        `Refused` for pieces that are not what the digest names.
        """
        checked_name, begins_anew = check_task_name(name), flag_of("restart", restart)
        check_build(record)
        known = await self._record_or_none(checked_name)
        try:
            await complete(self._builds, self._uploads, checked_name, record)
            made = replace(record, at=await self._now(), by=self._author)
            job = await self._put_job(checked_name, made, known)
        except TokimoriError:
            if known is None or all(each.digest != record.digest for each in known.builds):
                await self._builds.delete(checked_name, record.digest)
            raise
        event = await self._event(What.BUILT, picked_up(checked_name, job))
        life = job.incarnation
        kept = await self._put(checked_name, lambda old: with_event(with_build(old, made, life), event))
        await self._forget(checked_name, known, kept)
        if begins_anew:
            await self.restart(checked_name)
        return await self.get(checked_name)

    async def _put_job(self, name: str, build: BuildRecord, known: TaskRecord | None) -> Job:
        before = None if known is None else known.build
        named = build_name(name, build.digest)
        terms: dict[str, Any] = {
            **dict.fromkeys(before.terms if before is not None else ()),  # what it says no more has its default again
            **build.terms,
            **JobArguments(build=named, schedule=build.schedule, description=build.description),
        }
        try:
            job = await self._jobs.get(name)
        except NotFound:
            job = None
        if job is None or job.state is JobState.DELETED:
            return await self._jobs.add(name, **{"on_exhausted": OnExhausted.PARK, **terms})
        if known is None and not isinstance(job.definition.target, Build):
            raise AlreadyExists(
                f"name: there is a job {name!r} that is no task",
                field="name",
                value=name,
                allowed=f"a name not in use; `tokimori job delete {name}` frees this one",
            )
        return await self._jobs.update(name, **terms)

    async def _forget(self, name: str, before: TaskRecord | None, record: TaskRecord) -> None:
        """Delete the pieces of builds that are too many by now."""
        kept = {each.digest for each in record.builds}
        for build in () if before is None else before.builds:
            if build.digest not in kept:
                await self._builds.delete(name, build.digest)

    @operation(Role.READ, TASK, gives=list_of(views.TaskBuild.made))
    async def builds(self, name: str) -> Sequence[BuildRecord]:
        """Return the stored builds of a task, the newest first."""
        return (await self.get(name)).record.builds

    @operation(
        Role.OPERATE, TASK, audit=STATE, event="changed", doing="Rolling back a task", gives=views.TaskDetails.made
    )
    async def rollback(self, name: str, digest: str | None = None) -> TaskDetails:
        """Let the task run an earlier build again, with the schedule that it had: the one before, or that of a digest.

        The beginning of the digest is enough.
        """
        if digest is not None:
            check_text("digest", digest)
        known = (await self.get(name)).record
        found = earlier_build(known, digest)
        life = (await self._put_job(name, found, known)).incarnation
        event = await self._event(What.ROLLED_BACK, f"task {name} rolled back to build {found.digest[:12]}")
        await self._change(name, lambda old: with_event(with_current(old, found, life), event))
        return await self.get(name)

    # Tasks

    @operation(Role.READ, OPEN, gives=list_of(views.TaskDetails.made))
    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[TaskDetails]:
        """List tasks by name, from the first one behind `after`."""
        first = "" if after is None else check_job_id(after, field="after")
        records = await self._documents.page(first, checked("limit", limit, MOST_LISTED))
        return [TaskDetails(record=record, job=await self._job(record.name)) for record in records]

    @list.within
    async def _list_within(self, sight: Sight, after: str | None = None, limit: int = 100) -> Sequence[TaskDetails]:
        async def sees(task: TaskDetails) -> bool:
            return await sight.sees_task(task.record.name)

        return await by_id(
            sight, self.list, lambda task: task.record.name, sees, after=after, limit=limit, at_once=TASKS_AT_ONCE
        )

    @operation(Role.READ, TASK, gives=views.TaskDetails.made)
    async def get(self, name: str) -> TaskDetails:
        """Return a task with its job."""
        record = await self._record(check_task_name(name))
        return TaskDetails(record=record, job=await self._job(name))

    async def _state(self, name: str) -> object:
        """Return the running build, and the last action on it."""
        found = await self.get(name)
        shown = {
            "build": found.record.current,
            "state": found.job and found.job.state,
            "last": found.record.events[-1:],
        }
        return shown if found.job is None else {**shown, "queue": found.job.definition.queue}

    async def _queue_of(self, name: str) -> str | None:
        """Return the queue of the task's own job; another job that has its name says nothing of its builds."""
        task = await self.get(name)
        is_its_own = task.job is not None and task.job.incarnation == task.record.incarnation
        return task.job.definition.queue if task.job and is_its_own else None

    @operation(Role.READ, TASK, gives=views.TaskState.made)
    async def state(self, name: str) -> TaskState:
        """Return a task with all that is shown of it."""
        details = await self.get(name)
        nodes = await self._store.list_nodes()
        return TaskState(
            details=details,
            is_served=any(node.runs_jobs for node in nodes),
            running=await self._newest(details, frozenset({RunState.RUNNING})),
            waiting=await self._newest(details, _SCHEDULED),
            ended=await self._newest(details, ENDS),
        )

    async def _newest(self, details: TaskDetails, states: frozenset[RunState]) -> Run | None:
        if details.job is None:
            return None
        wanted = RunFilter(job_id=details.job.id, states=states, limit=1)
        newest = await self._store.list_runs(wanted)
        found = await as_of_now(self._store.list_runs, wanted, newest, await self._now())
        return next((run for run in found if details.job and run.incarnation == details.job.incarnation), None)

    @operation(Role.OPERATE, TASK, audit=STATE, event="paused", gives=views.TaskDetails.made)
    async def pause(self, name: str) -> TaskDetails:
        """Pause a task: none of its runs starts, and running ones go on."""
        await self.get(name)
        await self._jobs.pause(name, "disabled")
        return await self._record_event(name, What.DISABLED)

    @operation(Role.OPERATE, TASK, audit=STATE, event="resumed", gives=views.TaskDetails.made)
    async def resume(self, name: str) -> TaskDetails:
        """Let the task run again."""
        await self.get(name)
        job = await self._jobs.resume(name)
        return await self._record_event(name, What.ENABLED, picked_up(name, job))

    @operation(Role.OPERATE, TASK, audit=STATE, event="resolved", gives=views.TaskDetails.made)
    async def resolve(self, name: str) -> TaskDetails:
        """Let a task run again that a failure has parked. Raises `Refused` for one that is not parked."""
        await self.get(name)
        job = await self._jobs.resolve(name)
        return await self._record_event(name, What.RESOLVED, picked_up(name, job))

    @operation(Role.OPERATE, TASK, audit=STATE, gives=views.TaskDetails.made)
    async def restart(self, name: str) -> TaskDetails:
        """Cancel the running runs of the task, and trigger one in their place. If none runs nothing happens."""
        details = await self.get(name)
        running = RunFilter(job_id=JobId(name), states=frozenset({RunState.RUNNING}), limit=MOST_RUNS, longest=0)
        job = details.job
        if job is None:
            return details
        runs = [run for run in await self._store.list_runs(running) if run.incarnation == job.incarnation]
        for run in runs:
            await self._runs.cancel(run.id, "its task was restarted")
        if runs and job.state is JobState.ENABLED:
            await self._jobs.trigger(name)
        return await self._record_event(name, What.RESTARTED, picked_up(name, job))

    @operation(Role.OPERATE, TASK, audit=STATE, event="deleted")
    async def delete(self, name: str, *, now: bool = False) -> None:
        """Delete a task with its job and its builds. Running runs go on, with `now` are cancelled; the source stays."""
        cancels, details = flag_of("now", now), await self.get(name)
        if details.job is not None:
            await self._jobs.delete(name, now=cancels)
        await self._builds.delete_all(name)
        await retried(lambda: self._delete(name), Conflict)

    @delete.within
    async def _delete_within(self, sight: Sight, name: str, *, now: bool = False) -> None:
        await deleted_alone(sight, name, self.delete(name, now=now))

    async def _delete(self, name: str) -> None:
        try:
            await self._documents.delete(await self._documents.find(name))
        except NotFound:
            pass

    @operation(Role.READ, TASK, gives=list_of(views.LogLine.made))
    async def logs(self, name: str, lines: int = 100) -> Sequence[LogLine]:
        """Return the last lines of the task's log: what its newest runs wrote, and what happened to it."""
        return await self._log(name, lines, None)

    @logs.within
    async def _logs_within(self, sight: Sight, name: str, lines: int = 100) -> Sequence[LogLine]:
        return await self._log(name, lines, sight.sees_run)

    async def _log(self, name: str, lines: int, sees: SeesRun | None) -> Sequence[LogLine]:
        """Return the log as `log` does, of the visible runs."""
        most, details = checked("lines", lines, MOST_LINES), await self.get(name)
        wanted = RunFilter(job_id=JobId(name), limit=MOST_RUNS, longest=LONGEST_ERROR)
        job = details.job
        runs = [] if job is None else await self._store.list_runs(wanted)
        found: list[tuple[Run | Attempt, Sequence[TimedLine]]] = []
        lines_found, bytes_found = 0, 0
        for run in runs:
            if job is None or run.incarnation != job.incarnation or (sees is not None and not await sees(run)):
                continue
            if lines_found >= most or bytes_found >= MOST_BYTES:
                break
            for tried in await self._tries(run):
                output = await self._runs.output(run.id, tried.attempt if isinstance(tried, Run) else tried.number)
                if output is not None:
                    bytes_found += len(output.head) + len(output.tail)
                found.append((tried, () if output is None else timed_lines(output)[0]))
                lines_found += len(found[-1][1])
        return log_lines(details.record, job, found)[-most:]

    async def _tries(self, run: Run) -> Sequence[Run | Attempt]:
        """Return the newest attempts, last one first. The run itself stands for the attempt in its own row."""
        if run.attempt <= 1 and run.state in _BEGUN:
            return [run]
        before = await self._store.attempts(run.id)
        earlier = [each for each in before if each.number != run.attempt or run.state not in _BEGUN]
        return [*([run] if run.state in _BEGUN else []), *earlier[: -MOST_TRIES - 1 : -1]]

    # What is kept

    async def _record_event(self, name: str, what: What, detail: str | None = None) -> TaskDetails:
        event = await self._event(what, detail)
        await self._change(name, lambda old: with_event(old, event))
        return await self.get(name)

    async def _event(self, what: What, detail: str | None = None) -> TaskEvent:
        return TaskEvent(at=await self._now(), what=what, by=self._author, detail=detail)

    async def _change(self, name: str, change: Callable[[TaskRecord], TaskRecord]) -> TaskRecord:
        return await self._documents.change(name, change)

    async def _put(self, name: str, change: Callable[[TaskRecord], TaskRecord]) -> TaskRecord:
        """Change the record of a task; make it if there is none."""
        try:
            return await self._change(name, change)
        except NotFound:
            record = change(TaskRecord(name=name, id=uuid7(await self._now(), self._random)))
        try:
            await self._documents.add(name, record)
        except AlreadyExists:
            return await self._change(name, change)
        return record

    async def _record_or_none(self, name: str) -> TaskRecord | None:
        try:
            return await self._record(name)
        except NotFound:
            return None

    async def _record(self, name: str) -> TaskRecord:
        try:
            known: Document = await retried(lambda: self._documents.find(name), StoreUnavailable)
        except NotFound:
            raise NotFound(
                f"There is no task {name!r}. Run `tokimori task build {name}` to build it from its source.",
                field="name",
                value=name,
                allowed="See `tokimori task list`. A job that is no task is shown by `tokimori job list`.",
            ) from None
        return self._documents.value_of(known)

    async def _job(self, name: str) -> Job | None:
        try:
            return await self._jobs.get(name)
        except NotFound:
            return None
