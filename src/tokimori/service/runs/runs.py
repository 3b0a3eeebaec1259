"""Runs as people and programs use them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.engine.expire import begun_at_once
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.attempt_notes import NUMBER, given_to, notes_in, payload_for, shown_of
from tokimori.model.ids import JobId, RunId, check_job_id, check_uuid
from tokimori.model.job import Job
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import OPEN, RUN, Sight, jobs_within, no_job, no_run, out_of_scope
from tokimori.service.definitions.arguments import RunFilters
from tokimori.service.jobs.reads import reader_on
from tokimori.service.jobs.requesting import RunRequests
from tokimori.service.operation import OUTCOME, STATE, M, composed, operation
from tokimori.service.orders import Orders
from tokimori.service.reasons import Why
from tokimori.service.runs.approvals import RunApprovals, check_no_question
from tokimori.service.runs.failures import RunFailures
from tokimori.service.runs.family import RunFamilies
from tokimori.service.runs.family_reading import why_to_come
from tokimori.service.runs.ids import whole_id
from tokimori.service.search.runs import (
    FoundRuns,
    RunSearch,
    RunSources,
    as_of_now,
    find_runs,
    longest_of,
    nodes_named,
    searched_runs,
)
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import cancel_run, known_job, retried
from tokimori.service.validation import MOST_LISTED, Span, checked, many, seconds_of
from tokimori.service.views.outside import list_of, values_of
from tokimori.service.views.runs import FoundRuns as FoundRunsView
from tokimori.service.views.runs import Run as RunView
from tokimori.service.views.runs import RunDetails as RunDetailsView
from tokimori.service.views.runs import RunSummary as RunSummaryView
from tokimori.service.waits import LONGEST_WAIT, wait_for_end
from tokimori.service.why.run import is_gone, why_run

_AT_ONCE = 50
"""Number of jobs whose newest runs are read at once."""
MOST_ATTEMPTS = 2**31 - 1
"""The largest number of an attempt for which every database can be asked."""
SHOWN_ATTEMPTS = 100
"""Number of attempts of a run shown at once: each may have 64 KiB of an error."""


class AttemptDetails(Struct, frozen=True, kw_only=True):
    """An attempt, and the host of its node. The `outcome` of an attempt that still runs is `running`."""

    attempt: Attempt
    host: str | None


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run as a list shows it, with the time zone of its job and a mark if that job is gone.

    The zone of an unknown job is that of the service.
    """

    run: Run
    time_zone: str
    is_job_deleted: bool = False


class RunDetails(RunSummary, frozen=True, kw_only=True):
    """A run with its newest attempts by number. `attempts_left_out` counts earlier ones.

    `run.details` has the reports of the running attempt, and `run.payload` the input of this or the next attempt. For
    the reasons that keep it from starting see `why`.
    """

    attempts: tuple[AttemptDetails, ...]
    attempts_left_out: int = 0


_Summary = TypeVar("_Summary", bound=RunSummary)


class Runs(RunFailures[M], RunFamilies[M], RunApprovals[M]):
    """Runs. Every operation may raise `StoreError`, and `NotFound` for an unknown run."""

    noun, word = "runs", "run"

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self._shared, self._caller = shared, caller
        self._store, self._now, self._random = shared.store, shared.now, shared.random
        self._requests = RunRequests(shared, caller)
        self._orders = Orders(shared, caller)
        self._waits = shared.waits

    @operation(Role.READ, RUN, gives=RunDetailsView.made)
    async def get(self, run_id: str, before: int | None = None) -> RunDetails:
        """Return the run with its newest attempts, at most `SHOWN_ATTEMPTS`: of those before a number, if given."""
        run = await self._as_now(await self._store.get_run(_run_id(run_id)))
        attempts = await self._store.attempts(run.id)
        newest = _newest_attempt(run)
        if newest is not None and all(attempt.number != newest.number for attempt in attempts):
            attempts = [*attempts, newest]
        if before is not None:
            checked("before", before, MOST_ATTEMPTS)
            attempts = [attempt for attempt in attempts if attempt.number < before]
        left_out = max(len(attempts) - SHOWN_ATTEMPTS, 0)
        attempts = attempts[left_out:]
        hosts = {node.id: node.host for node in await self._store.list_nodes()} if attempts else {}
        host_of = [hosts.get(attempt.node_id) if attempt.node_id else None for attempt in attempts]
        details = (AttemptDetails(attempt=each, host=host) for each, host in zip(attempts, host_of, strict=True))
        job = (await self._jobs_of([run])).get(run.job_id)
        return RunDetails(
            run=replace(run, payload=_payload_of(run, job)),
            attempts=tuple(details),
            attempts_left_out=left_out,
            time_zone=self._zone_of(job),
            is_job_deleted=is_gone(job, run),
        )

    @get.within
    async def _get_within(self, sight: Sight, run_id: str, before: int | None = None) -> RunDetails:
        """Return a run. If its job's id now belongs to a job outside the scope, nothing of that job is shown."""
        found = await self.get(run_id, before)
        if await sight.sees_id(found.run.job_id):
            return found
        run = replace(found.run, payload=given_to(await self._store.get_run(found.run.id)))
        return replace(self._of_nobody(found), run=run)

    async def _as_now(self, run: Run) -> Run:
        """Return the run with the notes of its running attempt."""
        running = run.state is RunState.RUNNING
        notes = notes_in(await self._store.output(run.id, NUMBER), run) if running else None
        return replace(run, details=shown_of(run, notes))

    @operation(Role.READ, OPEN, gives=FoundRunsView.made)
    async def list(self, **filters: Unpack[RunFilters]) -> FoundRuns:
        """Return the runs with all that `help(tokimori.RunFilters)` describes, newest first, at most 100 by default.

        At most 5,000 are looked at, 8 MB of them, and 1,000 jobs: the answer may be short, and says in `next` where to
        go on (`before`). For a `text` at most 10,000 are looked at; `looked` is their number.
        """
        wanted = searched_runs(filters, self._caller.time_zone)
        return await find_runs(self._store.list_runs, self._job_of, wanted, None, await self._sources(wanted))

    @list.within
    async def _list_within(self, sight: Sight, **filters: Unpack[RunFilters]) -> FoundRuns:
        """Return the runs within the scope. A job that is named has to be in scope, or runs of it."""
        job_of, wanted = jobs_within(sight.scope, self._job_of), searched_runs(filters, self._caller.time_zone)
        found = await find_runs(self._store.list_runs, job_of, wanted, sight.sees_run, await self._sources(wanted))
        if not found.runs:
            await sight.check_there(wanted.job_id)
        return found

    @operation(Role.READ, OPEN)
    async def whole_id(self, run_id: str) -> RunId:
        """Return the id of the only run whose id begins or ends with these digits, eight or more.

        Of ends the newest 20,000 runs are compared, and up to 200,000 if none ends so. Raises `InvalidInput` if
        several do, and `NotFound`.
        """
        return await whole_id(self._store.list_runs, run_id, _is_any)

    @whole_id.within
    async def _whole_id_within(self, sight: Sight, run_id: str) -> RunId:
        return await whole_id(self._store.list_runs, run_id, sight.sees_run_id)

    async def _sources(self, wanted: RunSearch) -> RunSources:
        nodes = None if wanted.node is None else await nodes_named(self._store.list_nodes, wanted.node)
        now = Moment(0) if wanted.duration_over is None else await self._now()
        return RunSources(outputs_with=self._store.outputs_with, nodes=nodes, jobs_of=self._store.get_jobs, now=now)

    async def _job_of(self, job_id: str) -> Job:
        return await known_job(self._store, job_id)

    @operation(Role.READ, OPEN, gives=values_of(list_of(RunView.made)))
    async def last(
        self, job_ids: Sequence[str], limit: int = 1, *, longest: int | None = None
    ) -> Mapping[JobId, Sequence[Run]]:
        """Return the newest runs of each of these jobs (at most 1,000), at most `limit` of each, newest first.

        `longest`: of texts such as payloads those of more bytes are left out, with 0 all of them.

        Raises `InvalidInput` if they may be over 1,000 together.
        """
        ids = [check_job_id(each, field="job_ids") for each in many("job_ids", job_ids, "ids of jobs")]
        checked("job_ids", max(1, len(ids)), MOST_LISTED)
        checked("limit", limit, MOST_LISTED // max(1, len(ids)))
        found: dict[JobId, list[Run]] = {job_id: [] for job_id in ids}
        bound = longest_of(longest)
        for first in range(0, len(ids), _AT_ONCE):
            for run in await self._store.last_runs(ids[first : first + _AT_ONCE], limit, bound):
                found[run.job_id].append(run)
        now = await self._now()
        for job_id, runs in found.items():
            wanted = RunFilter(job_id=job_id, limit=limit, longest=bound)
            found[job_id] = await as_of_now(self._store.list_runs, wanted, runs, now)
        return found

    @last.within
    async def _last_within(
        self, sight: Sight, job_ids: Sequence[str], limit: int = 1, *, longest: int | None = None
    ) -> Mapping[JobId, Sequence[Run]]:
        """Return the last runs in scope, even if newer runs outside the scope follow them."""
        for job_id in {check_job_id(each, field="job_ids") for each in many("job_ids", job_ids, "ids of jobs")}:
            await sight.check_there(job_id)
        found = dict(await self.last(job_ids, limit, longest=longest))
        for job_id, runs in found.items():
            if not all([await sight.sees_run(run) for run in runs]):
                seen = await self._list_within(sight, job_id=job_id, limit=limit, longest=longest)
                if seen.next is not None and len(seen) < limit:
                    raise out_of_scope("job_ids: most runs of this job", job_id)
                found[job_id] = seen.runs
        return found

    @operation(Role.READ, OPEN, gives=list_of(RunSummaryView.made))
    async def summaries(self, runs: Sequence[Run | str]) -> Sequence[RunSummary]:
        """Return these runs, given by their ids, as a list shows them, in the same order."""
        given = [await self._run_of(run) for run in many("runs", runs, "runs")]
        jobs = await self._jobs_of(given)
        return [
            RunSummary(run=run, time_zone=self._zone_of(job), is_job_deleted=is_gone(job, run))
            for run, job in ((run, jobs.get(run.job_id)) for run in given)
        ]

    @summaries.within
    async def _summaries_within(self, sight: Sight, runs: Sequence[Run | str]) -> Sequence[RunSummary]:
        """Return runs as a list shows them. A job that is not in scope counts as gone."""
        given = [await self._run_of(run) for run in many("runs", runs, "runs")]
        for run in given:
            if not await sight.sees_run(run):
                raise no_job(run.job_id)
        found = await self.summaries(given)
        return [each if await sight.sees_id(each.run.job_id) else self._of_nobody(each) for each in found]

    async def _run_of(self, given: Any) -> Run:
        return given if isinstance(given, Run) else await self._store.get_run(_run_id(given, field="runs"))

    def _of_nobody(self, summary: _Summary) -> _Summary:
        """Return the run as one of a job that is gone: of the one that has its id now nothing is shown."""
        return replace(summary, time_zone=self._caller.time_zone, is_job_deleted=True)

    async def _jobs_of(self, runs: Iterable[Run]) -> dict[JobId, Job]:
        """Return the jobs of these runs, by id. A deleted job is known as long as one of its runs still runs."""
        ids = {run.job_id for run in runs}
        found = {job.id: job for job in await self._store.get_jobs(list(ids))}
        for job_id in ids - found.keys():
            with suppress(NotFound):
                found[job_id] = await self._store.deleted_job(job_id)
        return found

    def _zone_of(self, job: Job | None) -> str:
        return self._caller.time_zone if job is None else job.definition.time_zone

    @operation(Role.READ, RUN)
    async def output(self, run_id: str, attempt: int | None = None) -> Output | None:
        """Return the output of an attempt, by default of the newest one, as far as the store knows it."""
        if attempt is not None:
            checked("attempt", attempt, MOST_ATTEMPTS, least=0)
        found = await self._store.get_run(_run_id(run_id))
        if attempt is not None and attempt > found.attempt:
            raise NotFound(f"the run {run_id} has no attempt {attempt}", field="attempt", value=attempt)
        number = found.attempt if attempt is None else attempt
        return None if number == NUMBER else await self._store.output(found.id, number)

    @operation(Role.READ, OPEN)
    async def why(self, run_id: str) -> Why:
        """Return the reasons that keep a run from starting or retrying, with the commands that mend them.

        Of a step that is still to be made they name the runs for which it waits.
        """
        run: Run | None = None
        with suppress(NotFound):
            run = await self._store.get_run(_run_id(run_id))
        if run is None:
            return await why_to_come(self._store, run_id)
        job = (await self._jobs_of([run])).get(run.job_id)
        return why_run(await reader_on(self._shared).of_run(run, job), run)

    @why.within
    async def _why_within(self, sight: Sight, run_id: str) -> Why:
        """Return the reasons with the holders in scope, and the number of the others."""
        found = await self.why(run_id)
        try:
            is_seen = await sight.sees_run(await self._store.get_run(_run_id(run_id)))
        except NotFound:  # a step that is still to be made
            is_seen = await sight.sees_id(found.job_id)
        if not is_seen:
            raise no_run(run_id)
        if not await sight.sees_id(found.job_id):  # the reasons are those of the job that has its id now
            return replace(found, reasons=())
        return await sight.of_why(found)

    @operation(Role.READ, RUN, gives=RunView.made)
    async def await_end(self, run_id: str, wait: Span = LONGEST_WAIT) -> Run:
        """Wait up to `wait` (20 seconds at most) for the end of a run, and return it in its state then."""
        run = await self._waits.ended(_run_id(run_id), min(LONGEST_WAIT, seconds_of("wait", wait)))
        return replace(run, payload=payload_for(run, None))

    @composed(RunView.made)
    async def wait(self, run_id: str, timeout: Span | None = None) -> Run:
        """Wait for the end of a run, and return it. Raises `RunNotEnded` if it has not ended after `timeout`.

        The store or node may be unreachable meanwhile, for a minute at most.
        """
        return await wait_for_end(self.await_end, _run_id(run_id), timeout)

    @operation(Role.OPERATE, RUN, audit=STATE, gives=RunView.made)
    async def cancel(self, run_id: str, reason: str = "cancelled by hand") -> Run:
        """Cancel a run. Its node ends it if it runs; a run that has ended stays as it is."""
        check_reason("reason", reason)
        return await cancel_run(self._store, self._now, run_id, reason)

    @operation(Role.OPERATE, RUN, audit=STATE, gives=RunView.made)
    async def hold(self, run_id: str, reason: str = "held by hand") -> Run:
        """Hold a run that has not started, until it is resumed. Raises `Refused` for a run that has started."""
        check_reason("reason", reason)
        checked = _run_id(run_id)
        return await retried(lambda: self._store.hold_run(checked, reason), StoreUnavailable)

    @operation(Role.OPERATE, RUN, audit=STATE, gives=RunView.made)
    async def resume(self, run_id: str) -> Run:
        """Resume a held run. Raises `Refused` for a run that has ended, or that waits for an approval."""
        checked = _run_id(run_id)
        check_no_question(await self._store.get_run(checked))
        run = await retried(lambda: self._store.resume_run(checked), StoreUnavailable)
        return await begun_at_once(self._store, run, await self._now())

    @operation(Role.OPERATE, RUN, audit=OUTCOME, gives=RunView.made)
    async def restart(self, run_id: str) -> Run:
        """End the running attempt of a run without counting it, so that the run begins anew. Return the run.

        Raises `Refused` for a run that does not run on a node, or whose job never begins again (`lost_attempts = 0`).
        """
        return await self._orders.restart(run_id, await self._store.list_nodes())

    @operation(Role.OPERATE, RUN, audit=OUTCOME, doing="Signalling a run", gives=RunView.made)
    async def signal(self, run_id: str, name: str, data: Any = None) -> Run:
        """Send a named signal with JSON data to the function of a running run.

        Return the run. The function receives it by `task.on_signal`, unless its attempt ends before that. Raises
        `Refused` for a run that does not run on a node, or is no function.
        """
        return await self._orders.signal(run_id, name, data)

    async def _state(self, run_id: str) -> object:
        """Return the run, for the audit log."""
        return (await self.get(run_id)).run


async def _is_any(_: RunId) -> bool:
    return True


def _payload_of(run: Run, job: Job | None) -> str | None:
    """Return the payload of its attempts; for a run that has not ended, that of the next one as its job is now."""
    is_to_come = job is not None and job.incarnation == run.incarnation and run.state not in ENDS
    return payload_for(run, job.definition if job is not None and is_to_come else None)


def _newest_attempt(run: Run) -> Attempt | None:
    """Return the newest attempt from the run's own row; None if none has begun or the attempt has a row of its own."""
    if run.state is not RunState.RUNNING and (run.started is None or run.ended is None):
        return None
    same = ("token", "node_id", "pid", "started", "ended", "exit_code", "signal", "error", "cpu", "memory")
    fields: dict[str, Any] = {name: getattr(run, name) for name in same}
    return Attempt(run_id=run.id, number=run.attempt, outcome=run.state.value, **fields)


def _run_id(text: str, *, field: str = "run") -> RunId:
    return RunId(check_uuid(text, field=field))
