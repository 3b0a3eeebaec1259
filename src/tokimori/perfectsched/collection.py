"""The collection: schedules that are jobs of one queue, and the slots of all of them."""

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from logging.handlers import WatchedFileHandler
from types import TracebackType
from typing import Any, Self, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.clock import SECOND, Moment, from_datetime
from tokimori.errors import AlreadyFinished, ClaimLost, InvalidConfig, InvalidInput, NotFound
from tokimori.model.job import Job, JobState
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.target import Function
from tokimori.model.transitions import RunState
from tokimori.perfectsched.config import TABLE, TYPE, Config, config_of
from tokimori.perfectsched.slots import FOLD, GAP, Timestamp, moment_at, seconds_at
from tokimori.service.definitions.arguments import RetryArguments
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.operation import Inside
from tokimori.service.validation import Span
from tokimori.service.views.claims import ClaimedRun

_T = TypeVar("_T")
log = logging.getLogger("tokimori.perfectsched")


class Schedule:
    """Schedule of a key, which need not exist."""

    def __init__(self, collection: "ScheduleCollection", key: str) -> None:
        self._collection = collection
        self.key = key

    def __repr__(self) -> str:
        """Return the fields, as Ruby's `inspect` does."""
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"<{type(self).__name__} {fields}>"

    def exists(self) -> bool:
        """Return whether the collection has this schedule."""
        try:
            self._collection.job(self.key)
        except NotFound:
            return False
        return True

    def metadata(self) -> "ScheduleWithMetadata":
        """Return the stored schedule. Raises `NotFound`."""
        return ScheduleWithMetadata.of_job(self._collection, self._collection.job(self.key))

    def delete(self) -> None:
        """Delete the schedule and its waiting slots. A task in work goes on. Raises `NotFound`."""
        self._collection.job(self.key)
        self._collection.client.jobs.delete(self.key)

    def modify(
        self,
        *,
        cron: str | None = None,
        delay: Span | None = None,
        timezone: str | ZoneInfo | None = None,
        type: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        """Change the given fields from the next slot on. Raises `NotFound` and `InvalidInput`."""
        fields = {"schedule": cron, "delay": delay, "time_zone": timezone, "function": type, "payload": data}
        changes: Any = {name: value for name, value in fields.items() if value is not None}
        self._collection.job(self.key)
        self._collection.client.jobs.update(self.key, **changes)


class ScheduleWithMetadata(Schedule):
    """Schedule with its fields.

    `next_time` is the next undecided slot, `next_run_time` the time at which it is due. Both are None after the last
    slot and while the schedule is paused.
    """

    type: str
    data: Any
    cron: str | None
    delay: float
    timezone: str
    next_time: int | None
    next_run_time: int | None

    @classmethod
    def of_job(cls, collection: "ScheduleCollection", job: Job) -> Self:
        """Return the schedule of a job."""
        definition, due = job.definition, job.next_due
        schedule = cls(collection, job.id)
        schedule.type, schedule.data = definition.target.handler, data_of(definition.payload)
        schedule.cron, schedule.delay, schedule.timezone = definition.schedule, definition.delay, definition.time_zone
        schedule.next_time = None if due is None else seconds_at(schedule_for(job).next_after(job.fired_through))
        schedule.next_run_time = seconds_at(due)
        return schedule


class Task(ScheduleWithMetadata):
    """Slot that was acquired. `finish`, `retry`, `release` or an alive time without a heartbeat end that.

    `scheduled_time` is the slot, `scheduled_run_time` the time at which it was due. `attempt` counts its acquisitions.
    If another worker may have it, `heartbeat`, `retry` and `release` raise `PreemptedError` (`ClaimLost`) and change
    nothing.
    """

    scheduled_time: int
    scheduled_run_time: int
    run_id: str
    attempt: int

    @classmethod
    def of_run(cls, collection: "ScheduleCollection", run: ClaimedRun) -> Self:
        """Return the task of a claimed run."""
        task = cls(collection, run.job_id)
        task.type, task.data = run.type, data_of(run.payload)
        task.cron, task.delay, task.timezone = run.schedule, run.delay.total_seconds(), run.time_zone
        task.scheduled_time = task.next_time = from_datetime(run.nominal) // SECOND
        task.scheduled_run_time = task.next_run_time = from_datetime(run.due) // SECOND
        task.run_id, task.attempt = run.run_id, run.attempt
        task._of = run
        task._finished = False
        return task

    _of: ClaimedRun
    _finished: bool

    def heartbeat(self, alive_time: Span | None = None) -> str | None:
        """Keep the task for another `alive_time` (by default the one of its poll).

        Returns the reason if a person has cancelled it.
        """
        claims, run = self._collection.client.claims, self._of
        return claims.heartbeat(run.run_id, run.token, alive_time=alive_time).cancel

    def finish(self) -> None:
        """Finish the task. Raises `AlreadyFinished`, and `ClaimLost` if another worker may have it."""
        run = self._of
        if self._finished:
            raise self._already_finished()
        try:
            self._collection.client.claims.finish(run.run_id, run.token)
        except ClaimLost:
            if self._collection.client.runs.get(run.run_id).state is RunState.SUCCEEDED:
                raise self._already_finished() from None
            raise
        self._finished = True
        log.info("finished the slot %d of %r", self.scheduled_time, self.key)

    def retry(self, retry_wait: Span | None = None) -> None:
        """Request the same slot again after `retry_wait` (by default the one of the configuration)."""
        after = self._collection.config.retry_wait if retry_wait is None else retry_wait
        self._collection.client.claims.retry(self._of.run_id, self._of.token, after=after)
        log.info("the slot %d of %r is to come again", self.scheduled_time, self.key)

    def release(self) -> None:
        """Give the task back, so that a worker can acquire it at once."""
        self._collection.client.claims.release(self._of.run_id, self._of.token)

    def _already_finished(self) -> AlreadyFinished:
        return AlreadyFinished(
            f"the slot {self.scheduled_time} of {self.key!r} is finished already, and nothing was changed",
            field="token",
            value=self._of.token,
            allowed="a task that is not finished",
        )


def data_of(payload: str | None) -> Any:
    """Return the data of a schedule: its payload as JSON, or a text if it is none: people trigger with any text."""
    if payload is None:
        return {}
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return payload


LONGEST_WAIT = 60.0
"""Seconds: what one poll may wait."""
WITHOUT_END = 1_000_000
"""Attempts: at one a second it takes eleven days until they are used up."""


class ScheduleCollection:
    """Collection of schedules and of their slots. Threads may share it.

    Its jobs are those of the queue `config.table` that have a function. Every method may raise `StoreError`.
    """

    def __init__(self, client: Client, config: Config | None = None) -> None:
        self.client = client
        self.config = config or Config(type=TYPE, url="", table=TABLE)
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._log = None if self.config.log is None else _log_in(self.config.log)

    def __getitem__(self, key: str) -> Schedule:
        """Return the schedule of this key without a request to the store."""
        return Schedule(self, key)

    def add(
        self,
        key: str,
        type: str,
        *,
        cron: str,
        delay: Span = 0,
        timezone: str | ZoneInfo | None = None,
        data: Mapping[str, object] | None = None,
        next_time: Timestamp | None = None,
        next_run_time: Timestamp | None = None,
    ) -> tuple[int, int]:
        """Add a schedule. Returns its first slot, and the time at which that is due.

        It has all slots from `next_time` on (now by default), past ones included. None is due before `next_run_time`.
        Each is due `delay` seconds after its time. They run one at a time, the oldest first.

        Raises `AlreadyExists` if a job has this id, and `InvalidInput`.
        """
        start = self._now() if next_time is None else moment_at("next_time", next_time)
        job = self._inside(
            lambda jobs: jobs.add_since(
                key,
                start,
                not_before=None if next_run_time is None else moment_at("next_run_time", next_run_time),
                function=type,
                schedule=cron,
                delay=delay,
                time_zone=self.config.timezone if timezone is None else timezone,
                payload=data or None,
                queue=self.config.table,
                gap=GAP,
                fold=FOLD,
                misfire=Misfire.ALL,
                on_overlap=Overlap.QUEUE,
                retry=self._never_given_up(),
            )
        )
        added = ScheduleWithMetadata.of_job(self, job)
        return added.next_time or 0, added.next_run_time or 0

    submit = add

    def _inside(self, act: Callable[[Jobs[Inside]], Awaitable[_T]]) -> _T:
        """Return the result of an operation in the mode of nodes: its jobs have `fired_through`."""
        return self.client._run(lambda client: act(client._inside.jobs))

    def _never_given_up(self) -> RetryArguments:
        return {
            "attempts": WITHOUT_END,
            "delay": self.config.retry_wait,
            "lost_attempts": "unlimited",
            "asked_retries": WITHOUT_END,
        }

    def _now(self) -> Moment:
        return from_datetime(self.client.db.now().replace(microsecond=0))

    def list(self) -> Iterator[ScheduleWithMetadata]:
        """Yield all schedules by key, a thousand at a time."""
        after, is_all = None, False
        while not is_all:
            jobs = self._inside(lambda jobs, after=after: jobs.list(after=after))  # type: ignore[misc]
            yield from (ScheduleWithMetadata.of_job(self, job) for job in jobs if self._has(job))
            after, is_all = jobs.next, jobs.next is None

    def job(self, key: str) -> Job:
        """Return the job of this key. Raises `NotFound` if the collection has none."""
        job = self._inside(lambda jobs: jobs.get(key))
        if job.state is JobState.DELETED or not self._has(job):
            message = f"the collection {self.config.table!r} has no schedule {key!r}"
            raise NotFound(message, field="key", value=key, allowed="the key of a schedule, as `list` gives them")
        return job

    def _has(self, job: Job) -> bool:
        return job.definition.queue == self.config.table and isinstance(job.definition.target, Function)

    def poll(self, *, alive_time: Span | None = None, wait: Span = 0) -> Task | None:
        """Acquire the slot that has waited longest for `alive_time` seconds (300 by default). None if none is due.

        It waits for one for `wait` seconds, at most 60.
        """
        return next(iter(self.poll_multi(alive_time=alive_time, max_acquire=1, wait=wait)), None)

    def poll_multi(
        self, *, alive_time: Span | None = None, max_acquire: int | None = None, wait: Span = 0
    ) -> Sequence[Task]:
        """Acquire up to `max_acquire` slots of different schedules, as `poll` does."""
        runs = self.client.claims.claim(
            None,
            queue=self.config.table,
            limit=self.config.max_acquire if max_acquire is None else max_acquire,
            wait=wait,
            alive_time=self.config.alive_time if alive_time is None else alive_time,
            worker=self._worker,
        )
        found = [Task.of_run(self, run) for run in runs]
        for task in found:
            log.info("acquired the slot %d of %r", task.scheduled_time, task.key)
        return found

    def tasks(self, *, alive_time: Span | None = None) -> Iterator[Task]:
        """Yield one slot after the other without end. If none is due, poll again after `poll_interval` seconds."""
        while True:
            task = self.poll(alive_time=alive_time, wait=min(self.config.poll_interval, LONGEST_WAIT))
            if task is not None:
                yield task

    def close(self) -> None:
        """Release all tasks, and close the store and the log."""
        self.client.close()
        if self._log is not None:
            log.removeHandler(self._log)
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(config: str | Mapping[str, object]) -> ScheduleCollection:
    """Return the collection of a configuration: PerfectSched's keys, the URL of a store, or the address of a node.

    The first call connects. Raises `InvalidConfig`, and `StoreError` if a driver is missing.
    """
    read = config_of(config)
    try:
        return ScheduleCollection(open_client(read.store), read)
    except InvalidConfig:
        raise
    except InvalidInput as fault:
        raise InvalidConfig([fault.message]) from None


def _log_in(file: str) -> logging.Handler:
    """Log acquired and finished slots to this file, which may be rotated. Raises `InvalidConfig`."""
    try:
        handler = WatchedFileHandler(file, encoding="utf-8")
    except OSError as fault:
        raise InvalidConfig([f"log: {file!r} can't be written: {fault.strerror}"]) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return handler
