"""Schedules, and the tasks that their slots become."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from zoneinfo import ZoneInfo

import msgspec

from tokimori.clock import SECOND
from tokimori.errors import AlreadyFinished, ClaimLost, NotFound
from tokimori.model.job import Job
from tokimori.model.transitions import RunState
from tokimori.perfectsched.slots import seconds_at
from tokimori.service.claimed import ClaimedRun
from tokimori.service.given import Span
from tokimori.service.jobs import schedule_for

if TYPE_CHECKING:
    from tokimori.perfectsched.collection import ScheduleCollection

log = logging.getLogger("tokimori.perfectsched")


class Schedule:
    """The schedule of a key, whether there is one or not."""

    def __init__(self, collection: "ScheduleCollection", key: str) -> None:
        self._collection = collection
        self.key = key

    def exists(self) -> bool:
        """Return whether the collection has it."""
        try:
            self._collection.job(self.key)
        except NotFound:
            return False
        return True

    def metadata(self) -> "ScheduleWithMetadata":
        """Return its content now. Raises `NotFound`."""
        return ScheduleWithMetadata.of_job(self._collection, self._collection.job(self.key))

    def delete(self) -> None:
        """Delete it, and what waits of it; a task that somebody has goes on. Raises `NotFound`."""
        self._collection.job(self.key)
        self._collection.client.delete(self.key)

    def modify(
        self,
        *,
        cron: str | None = None,
        delay: Span | None = None,
        timezone: str | ZoneInfo | None = None,
        type: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        """Change what is given, from the next slot on; what is None stays. Raises `NotFound` and `InvalidInput`."""
        said = {"schedule": cron, "delay": delay, "time_zone": timezone, "function": type, "payload": data}
        changes: Any = {name: value for name, value in said.items() if value is not None}
        self._collection.job(self.key)
        self._collection.client.update(self.key, **changes)


class ScheduleWithMetadata(Schedule):
    """A schedule with what it says.

    `next_time` is the next slot of which nothing was decided yet, `next_run_time` when that is to run: None where no
    more comes, as while it is paused.
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
        """Return the task of a job."""
        definition, due = job.definition, job.next_due
        schedule = cls(collection, job.id)
        schedule.type, schedule.data = definition.target.handler, data_of(definition.payload)
        schedule.cron, schedule.delay, schedule.timezone = definition.schedule, definition.delay, definition.time_zone
        schedule.next_time = None if due is None else seconds_at(schedule_for(job).next_after(job.fired_through))
        schedule.next_run_time = seconds_at(due)
        return schedule


class Task(ScheduleWithMetadata):
    """A slot to work on, until somebody says `finish`, `retry` or `release`, or nobody a word for its alive time.

    `scheduled_time` is the slot, `scheduled_run_time` when it was due; `attempt` counts how often it was given away.
    Once it is no longer this task's, `heartbeat`, `retry` and `release` raise `PreemptedError` (`ClaimLost`), and
    change nothing.
    """

    scheduled_time: int
    scheduled_run_time: int
    run_id: str
    attempt: int

    @classmethod
    def of_run(cls, collection: "ScheduleCollection", run: ClaimedRun) -> Self:
        """Return the task of a run that was claimed."""
        task = cls(collection, run.job_id)
        task.type, task.data = run.type, data_of(run.payload)
        task.cron, task.delay, task.timezone = run.schedule, run.delay, run.time_zone
        task.scheduled_time = task.next_time = run.nominal // SECOND
        task.scheduled_run_time = task.next_run_time = run.due // SECOND
        task.run_id, task.attempt = run.run_id, run.attempt
        task._of = run
        task._finished = False
        return task

    _of: ClaimedRun
    _finished: bool

    def heartbeat(self, alive_time: Span | None = None) -> str | None:
        """Say that somebody works on it: it stays for another `alive_time` (that of its poll by default).

        The reason for which it is to end, where a person has cancelled it.
        """
        claims, run = self._collection.client.claims, self._of
        return claims.heartbeat(run.run_id, run.token, alive_time=alive_time).cancel

    def finish(self) -> None:
        """End it as done. Raises `AlreadyFinished` if it was before, and `ClaimLost` if somebody else may have it."""
        run = self._of
        if self._finished:
            raise self._already_finished()
        try:
            self._collection.client.claims.finish(run.run_id, run.token)
        except ClaimLost:
            if self._collection.client.get_run(run.run_id).run.state is RunState.SUCCEEDED:
                raise self._already_finished() from None
            raise
        self._finished = True
        log.info("finished the slot %d of %r", self.scheduled_time, self.key)

    def retry(self, retry_wait: Span | None = None) -> None:
        """Ask for the same slot again, after `retry_wait` (that of the configuration by default)."""
        after = self._collection.config.retry_wait if retry_wait is None else retry_wait
        self._collection.client.claims.retry(self._of.run_id, self._of.token, after=after)
        log.info("the slot %d of %r is to come again", self.scheduled_time, self.key)

    def release(self) -> None:
        """Somebody else is to take it, at once."""
        self._collection.client.claims.release(self._of.run_id, self._of.token)

    def _already_finished(self) -> AlreadyFinished:
        return AlreadyFinished(
            f"the slot {self.scheduled_time} of {self.key!r} is finished already, and nothing was changed",
            field="token",
            value=self._of.token,
            allowed="a task that is not finished",
        )


def data_of(payload: str | None) -> Any:
    """Return the data of a schedule: its payload, which is JSON. Whoever triggers a job by hand may give any text."""
    if payload is None:
        return {}
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return payload
