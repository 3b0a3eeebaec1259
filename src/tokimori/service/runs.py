"""Runs as people and programs use them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Unpack

from msgspec import Struct, structs

from tokimori.clock import Clock, Moment
from tokimori.errors import InvalidInput, NotFound, Refused, StoreUnavailable, TokimoriError
from tokimori.model.backfill import Backfill
from tokimori.model.ids import JobId, RandomBytes, RunId, check_job_id, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.notes import NUMBER, notes_in, payload_for, shown_of
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.aside import Aside
from tokimori.service.asking import MOST_LISTED, cancel_all, checked, chosen, retried
from tokimori.service.backfill import Backfills
from tokimori.service.bounds import OF_A_PROGRAM
from tokimori.service.channels.topics import Topics
from tokimori.service.definitions import check_readable
from tokimori.service.events.events import events_of
from tokimori.service.events.feed import Stops
from tokimori.service.family import check_inherited
from tokimori.service.finding import as_of_now
from tokimori.service.given import Span, When, flag_of, many, moment_of, seconds_of
from tokimori.service.many import after, batches, read_many, requested_runs
from tokimori.service.requests import Asked, Request, became, manner_of, read_request, requested_run
from tokimori.service.store_time import Now, StoreTime
from tokimori.service.weights import Weights
from tokimori.service.why.run import is_gone

POLL = 0.1
"""Seconds between two looks at a run for which somebody waits."""
_AT_ONCE = 50
"""Of so many jobs one question to the store asks the newest runs."""
_LONGEST = 2**31 - 1
MOST_ATTEMPTS = 2**31 - 1
"""The largest number of an attempt for which every database can be asked."""
SHOWN_ATTEMPTS = 100
"""So many attempts of a run are shown at once: each may have 64 KiB of an error."""


class AttemptDetails(Struct, frozen=True, kw_only=True):
    """An attempt, and the host of its node. The `outcome` of an attempt that still runs is `running`."""

    attempt: Attempt
    host: str | None


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run as a list shows it: with the time zone of its job, and whether that job is gone.

    If nobody knows the job any more, the zone is that of the service.
    """

    run: Run
    time_zone: str
    is_job_deleted: bool = False


class RunDetails(RunSummary, frozen=True, kw_only=True):
    """A run with its newest attempts by number. Why it does not start is what `why_run` says.

    `attempts_left_out`: how many earlier ones there are. `run.details` has what the attempt that runs has told of
    itself, and `run.payload` what it got, or what the next one will get.
    """

    attempts: tuple[AttemptDetails, ...]
    attempts_left_out: int = 0


class RunService:
    """The part of the service that concerns runs. `parent` tells the parent of runs whose request does not name one.

    `traceparent` tells where the program stands in a trace right now.
    """

    _author: str | None
    _parent: Callable[[], str | None]
    _traceparent: Callable[[], str | None]

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: RandomBytes,
        *,
        time_zone: str,
        weights: Weights,
        now: Now | None,
        stops: Stops,
    ) -> None:
        self._store = store
        self._clock = clock
        self._now: Now = StoreTime(store.now, clock) if now is None else now
        self._random = random
        self.time_zone = time_zone
        self._bounds = OF_A_PROGRAM
        self._weights = weights
        self._aside = Aside()
        self._backfills = Backfills(store, self._now, random, self._aside)
        self.events = events_of(store, clock, random, now=self._now, job_of=self.get, stops=stops)
        self._topics = Topics(store, random)

    async def trigger(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> Run:
        """Ask for a run of a job, now or at a moment. `Request` says what the fields mean.

        A dict or a list as payload is written as JSON. Durations are seconds or timedeltas, moments aware datetimes or
        texts.

        The run that answers is returned: a new one, or one of the same key. In a program that was started by a run,
        that run is the parent unless `parent` says otherwise. Raises `InvalidInput`, and `Refused` for a job that is
        paused or parked (unless `force`) or has as many waiting runs as it may.
        """
        return (await self.ask(job_id, key, payload, **fields)).run

    async def ask(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> Asked:
        """Do what `trigger` does, and say what became of the request."""
        request, _, run = await self._wanted(job_id, key, payload, fields)
        return await self._keep(request, run)

    async def _keep(self, request: Request, run: Run) -> Asked:
        await check_inherited(self._store, run.job_id, [run.payload])
        manner = manner_of(request, run.created)
        found = await retried(lambda: self._store.add_run(run, run.created, manner), StoreUnavailable)
        return Asked(run=found, became=became(request, run.id, found))

    async def trigger_many(
        self, job_id: str, requests: Sequence[PlainRequest], *, parent: str | None = None
    ) -> Sequence[Run]:
        """Ask for many runs of a job, each by a dict with what `trigger` takes; the runs that answer, in that order.

        Nothing is asked for where one of them is wrong. Of one moment and priority, the first ones start first. They
        are kept some hundred at a time, all of these or none; what is refused on the way says how many have their
        runs: with keys it may be asked for again. They can't `force`, `debounce`, `throttle` or `replace`. `parent` is
        that of those which name none. Raises what `trigger` does.
        """
        checked_id, by = check_job_id(job_id), self._parent() if parent is None else parent
        wanted = read_many(requests, by, self._traceparent())
        answers: list[Run] = []
        for batch in batches(wanted):
            try:
                answers += await self._keep_together(checked_id, batch)
            except TokimoriError as fault:
                raise after(len(answers), wanted, fault) from None
        return answers

    async def _keep_together(self, job_id: JobId, batch: Sequence[tuple[int, Request]]) -> list[Run]:
        now = await self._now()
        job = await self._store.get_job(job_id)
        check_readable(job.definition)
        runs, origins = requested_runs(job, batch, self._random, now, self._author)
        await check_inherited(self._store, job_id, [run.payload for run in runs])
        found = await retried(lambda: self._store.add_runs(runs, now), StoreUnavailable)
        by_origin = {run.origin: kept for run, kept in zip(runs, found, strict=True)}
        return [by_origin[origin] for origin in origins]

    async def _wanted(
        self, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> tuple[Request, Job, Run]:
        """Return the request that these arguments say, its job, and the run that it would make: nothing is kept yet."""
        fields.setdefault("parent", self._parent())
        fields.setdefault("traceparent", self._traceparent())
        request = read_request(key, payload, fields)
        now = await self._now()
        job = await self._store.get_job(check_job_id(job_id))
        check_readable(job.definition)
        return request, job, requested_run(job, request, RunId(uuid7(now, self._random)), now, self._author)

    async def backfill(
        self, job_id: str, first: When, last: When, *, max_running: int = 0, dry_run: bool = False
    ) -> Backfill:
        """Make runs for the occurrences from `first` to `last` (included) that have none; the state of that backfill.

        At most `max_running` of them are active at a time (0: no limit): ask again until none is missing. `dry_run`
        makes no runs. A text without offset is a time in the job's zone. Raises `InvalidInput`, and `Refused` for a
        paused or parked job.
        """
        only_looks = flag_of("dry_run", dry_run)
        span = await self._span(job_id, first, last)
        return await self._backfills.make(job_id, *span, max_running, bounds=self._bounds, dry_run=only_looks)

    async def cancel_backfill(self, job_id: str, first: When, last: When) -> Backfill:
        """Cancel a backfill of these occurrences: its runs that have not ended, and the making of more."""
        return await self._backfills.cancel(job_id, *await self._span(job_id, first, last), self._bounds)

    async def _span(self, job_id: str, first: When, last: When) -> tuple[Moment, Moment]:
        zone = (await self._store.get_job(check_job_id(job_id))).definition.time_zone
        return moment_of("first", first, zone), moment_of("last", last, zone)

    async def get_run(self, run_id: str, before: int | None = None) -> RunDetails:
        """Return the run with its newest attempts, at most `SHOWN_ATTEMPTS`: of those before a number, if one is
        given.
        """
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
        details = (
            AttemptDetails(attempt=attempt, host=hosts.get(attempt.node_id) if attempt.node_id else None)
            for attempt in attempts
        )
        job = (await self._jobs_of([run])).get(run.job_id)
        return RunDetails(
            run=structs.replace(run, payload=_payload_of(run, job)),
            attempts=tuple(details),
            attempts_left_out=left_out,
            time_zone=self._zone_of(job),
            is_job_deleted=is_gone(job, run),
        )

    async def _as_now(self, run: Run) -> Run:
        """Return the run, with what is noted of its attempt while that runs."""
        running = run.state is RunState.RUNNING
        notes = notes_in(await self._store.output(run.id, NUMBER), run) if running else None
        return structs.replace(run, details=shown_of(run, notes))

    async def last_runs(
        self, job_ids: Sequence[str], limit: int = 1, *, longest: int | None = None
    ) -> Mapping[JobId, Sequence[Run]]:
        """Return the newest runs of each of these jobs (at most 1,000), at most `limit` of each, newest first.

        `longest`: of texts such as payloads those of more bytes are left out, with 0 all of them.

        Raises `InvalidInput` where they may be over 1,000 together.
        """
        ids = [check_job_id(each, field="job_ids") for each in many("job_ids", job_ids, "ids of jobs")]
        checked("job_ids", max(1, len(ids)), MOST_LISTED)
        checked("limit", limit, MOST_LISTED // max(1, len(ids)))
        found: dict[JobId, list[Run]] = {job_id: [] for job_id in ids}
        bound = _bound(longest)
        for first in range(0, len(ids), _AT_ONCE):
            for run in await self._store.last_runs(ids[first : first + _AT_ONCE], limit, bound):
                found[run.job_id].append(run)
        now = await self._now()
        for job_id, runs in found.items():
            wanted = RunFilter(job_id=job_id, limit=limit, longest=bound)
            found[job_id] = await as_of_now(self._store.list_runs, wanted, runs, now)
        return found

    async def summaries(self, runs: Sequence[Run]) -> Sequence[RunSummary]:
        """Return these runs as a list shows them, in the same order."""
        given = [_checked_run(run) for run in many("runs", runs, "runs")]
        jobs = await self._jobs_of(given)
        return [
            RunSummary(run=run, time_zone=self._zone_of(job), is_job_deleted=is_gone(job, run))
            for run, job in ((run, jobs.get(run.job_id)) for run in given)
        ]

    async def _jobs_of(self, runs: Iterable[Run]) -> dict[JobId, Job]:
        """Return the jobs of these runs, by id. A deleted job is known as long as one of its runs still runs."""
        found = {}
        for job_id in {run.job_id for run in runs}:
            with suppress(NotFound):
                found[job_id] = await self.get(job_id)
        return found

    async def get(self, job_id: str) -> Job:
        """Return the job of that id. A deleted job is found, as `deleted`, until its last run ends or its id is
        reused.
        """
        checked_id = check_job_id(job_id)
        try:
            return await self._store.get_job(checked_id)
        except NotFound:
            return await self._store.deleted_job(checked_id)

    def _zone_of(self, job: Job | None) -> str:
        return self.time_zone if job is None else job.definition.time_zone

    async def wait(self, run_id: str, timeout: Span | None = None) -> Run:
        """Wait for the end of a run; the run then. Raises `Refused` if it has not ended after `timeout` seconds."""
        checked = _run_id(run_id)
        seconds = None if timeout is None else seconds_of("timeout", timeout)
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        while (run := await self._store.get_run(checked)).state not in ENDS:
            if deadline is not None and self._clock.monotonic() >= deadline:
                raise Refused(
                    f"the run {checked} is still {run.state} after {seconds} s", field="timeout", value=timeout
                )
            await asyncio.sleep(POLL)
        return run

    async def list_runs(self, wanted: RunFilter) -> Sequence[Run]:
        """Return the runs that the filter wants, newest first."""
        return await self._store.list_runs(_checked_filter(wanted))

    async def cancel(self, run_id: str, reason: str = "cancelled by hand") -> Run:
        """Cancel a run. Its node ends it if it runs; a run that has ended stays as it is."""
        check_reason("reason", reason)
        return await self._cancel(run_id, reason)

    async def _cancel(self, run_id: str, reason: str) -> Run:
        """Cancel a run for a reason of ours, which may quote one."""
        checked = _run_id(run_id)
        now = await self._now()
        return await retried(lambda: self._store.cancel_run(checked, reason, now), StoreUnavailable)

    async def _cancel_running(self, job: Job, reason: str) -> None:
        """Cancel the running runs of a job that is paused, so that no more are claimed."""
        running = RunFilter(job_id=job.id, states=frozenset({RunState.RUNNING}), limit=MOST_LISTED, longest=0)
        while runs := await self._store.list_runs(running):
            await cancel_all(self._cancel, [run for run in runs if run.incarnation == job.incarnation], reason)
            running = structs.replace(running, before=runs[-1].id)

    async def hold(self, run_id: str, reason: str = "held by hand") -> Run:
        """Hold a run that has not started, until it is resumed. Raises `Refused` for a run that has started."""
        check_reason("reason", reason)
        checked = _run_id(run_id)
        return await retried(lambda: self._store.hold_run(checked, reason), StoreUnavailable)

    async def resume_run(self, run_id: str) -> Run:
        """Resume a held run. Raises `Refused` for a run that has ended."""
        checked = _run_id(run_id)
        return await retried(lambda: self._store.resume_run(checked), StoreUnavailable)

    async def output(self, run_id: str, attempt: int | None = None) -> Output | None:
        """Return the output of an attempt, by default of the newest one, as far as the store knows it."""
        if attempt is not None:
            checked("attempt", attempt, MOST_ATTEMPTS, least=0)
        found = await self._store.get_run(_run_id(run_id))
        if attempt is not None and attempt > found.attempt:
            raise NotFound(f"the run {run_id} has no attempt {attempt}", field="attempt", value=attempt)
        number = found.attempt if attempt is None else attempt
        return None if number == NUMBER else await self._store.output(found.id, number)


def _payload_of(run: Run, job: Job | None) -> str | None:
    """Return the payload of its attempts; for a run that has not ended, that of the next one as its job is now."""
    is_to_come = job is not None and job.incarnation == run.incarnation and run.state not in ENDS
    return payload_for(run, job.definition if job is not None and is_to_come else None)


def _newest_attempt(run: Run) -> Attempt | None:
    """Return the newest attempt as the run's own row tells it; None if it has not begun or has a row of its own."""
    if run.state is not RunState.RUNNING and (run.started is None or run.ended is None):
        return None
    return Attempt(
        run_id=run.id,
        number=run.attempt,
        token=run.token,
        node_id=run.node_id,
        outcome=run.state.value,
        pid=run.pid,
        started=run.started,
        ended=run.ended,
        exit_code=run.exit_code,
        signal=run.signal,
        error=run.error,
    )


def _checked_run(run: object) -> Run:
    if isinstance(run, Run):
        return run
    raise InvalidInput(
        f"runs: {run!r} is not a run", field="runs", value=run, allowed="runs, as `list_runs` gives them"
    )


def _checked_filter(wanted: object) -> RunFilter:
    """Return the filter as stores take it. Raises `InvalidInput`."""
    if not isinstance(wanted, RunFilter):
        raise InvalidInput(f"wanted: {wanted!r} is not a filter", field="wanted", value=wanted, allowed="a RunFilter")
    states = many("states", wanted.states, "states of runs")
    return RunFilter(
        job_id=None if wanted.job_id is None else check_job_id(wanted.job_id, field="job_id"),
        states=frozenset(chosen(RunState, "states", each) for each in states),
        before=None if wanted.before is None else _run_id(wanted.before, field="before"),
        limit=checked("limit", wanted.limit, MOST_LISTED),
        longest=_bound(wanted.longest),
    )


def _bound(longest: int | None) -> int | None:
    return None if longest is None else checked("longest", longest, _LONGEST, least=0)


def _run_id(text: str, *, field: str = "run") -> RunId:
    return RunId(check_uuid(text, field=field))
