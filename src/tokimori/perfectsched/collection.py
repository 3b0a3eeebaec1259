"""The collection: schedules that are jobs of one queue, and the slots of all of them."""

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from logging.handlers import WatchedFileHandler
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidConfig, InvalidInput, NotFound
from tokimori.model.job import Job, JobState
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.target import Function
from tokimori.perfectsched.config import TABLE, TYPE, Config, config_of
from tokimori.perfectsched.slots import FOLD, GAP, Timestamp, moment_at
from tokimori.perfectsched.task import Schedule, ScheduleWithMetadata, Task
from tokimori.service.arguments import RetryArguments
from tokimori.service.given import Span

log = logging.getLogger("tokimori.perfectsched")
PAGE = 1_000
LONGEST_WAIT = 60.0
"""Seconds: what one poll may wait."""
WITHOUT_END = 1_000_000
"""Attempts: at one a second it takes eleven days until they are used up."""


class ScheduleCollection:
    """Schedules, and their slots as tasks. It may be shared between threads.

    Its jobs are those of the queue `config.table` that have a function. Every method may raise `StoreError`.
    """

    def __init__(self, client: Client, config: Config | None = None) -> None:
        self.client = client
        self.config = config or Config(type=TYPE, url="", table=TABLE)
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._log = None if self.config.log is None else _log_in(self.config.log)

    def __getitem__(self, key: str) -> Schedule:
        """Return the schedule of that key; nothing is asked of the store yet."""
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
        """Add a schedule; its first slot, and when that is to run.

        Slots from `next_time` on (now by default) are its own, those of the past too. Nothing of it runs before
        `next_run_time`. Each slot is run `delay` seconds after it, one at a time, the oldest first.

        Raises `AlreadyExists` where there is a job of that id, and `InvalidInput`.
        """
        start = self._now() if next_time is None else moment_at("next_time", next_time)
        job = self.client.add_since(
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
        added = ScheduleWithMetadata.of_job(self, job)
        return added.next_time or 0, added.next_run_time or 0

    submit = add

    def _never_given_up(self) -> RetryArguments:
        return {
            "attempts": WITHOUT_END,
            "delay": self.config.retry_wait,
            "lost_attempts": "unlimited",
            "asked_retries": WITHOUT_END,
        }

    def _now(self) -> Moment:
        now = self.client.now()
        return Moment(now - now % SECOND)

    def list(self) -> Iterator[ScheduleWithMetadata]:
        """Yield all schedules by key, a thousand at a time."""
        after: str | None = None
        while jobs := self.client.list(after, PAGE):
            yield from (ScheduleWithMetadata.of_job(self, job) for job in jobs if self._has(job))
            after = jobs[-1].id

    def job(self, key: str) -> Job:
        """Return the job of that key. Raises `NotFound` where there is none, or it is not the collection's."""
        job = self.client.get(key)
        if job.state is JobState.DELETED or not self._has(job):
            message = f"the collection {self.config.table!r} has no schedule {key!r}"
            raise NotFound(message, field="key", value=key, allowed="the key of a schedule, as `list` gives them")
        return job

    def _has(self, job: Job) -> bool:
        return job.definition.queue == self.config.table and isinstance(job.definition.target, Function)

    def poll(self, *, alive_time: Span | None = None, wait: Span = 0) -> Task | None:
        """Take the slot that has waited longest, for `alive_time` seconds (300 by default); None: none is due.

        It waits up to `wait` seconds for one, 60 at most.
        """
        return next(iter(self.poll_multi(alive_time=alive_time, max_acquire=1, wait=wait)), None)

    def poll_multi(
        self, *, alive_time: Span | None = None, max_acquire: int | None = None, wait: Span = 0
    ) -> Sequence[Task]:
        """Take up to `max_acquire` slots, each of another schedule; else as `poll`."""
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
        """Take one slot after the other, for ever. Where none is due, look again after `poll_interval` seconds."""
        while True:
            task = self.poll(alive_time=alive_time, wait=min(self.config.poll_interval, LONGEST_WAIT))
            if task is not None:
                yield task

    def close(self) -> None:
        """Give back what is in hand, and close the store and the log."""
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
    """Return the collection of this configuration: PerfectSched's keys, or the URL of a store, or the address of a
    node.

    Nothing is connected before the first call. Raises `InvalidConfig`, and `StoreError` where a driver is missing.
    """
    read = config_of(config)
    try:
        return ScheduleCollection(open_client(read.store), read)
    except InvalidConfig:
        raise
    except InvalidInput as fault:
        raise InvalidConfig([fault.message]) from None


def _log_in(file: str) -> logging.Handler:
    """Write what becomes of tasks to this file, which may be moved away. Raises `InvalidConfig`."""
    try:
        handler = WatchedFileHandler(file, encoding="utf-8")
    except OSError as fault:
        raise InvalidConfig([f"log: {file!r} can't be written: {fault.strerror}"]) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return handler
