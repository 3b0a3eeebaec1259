"""Tasks for tests."""

from datetime import UTC, datetime

from tokimori.apps.task import Task
from tokimori.clock import from_datetime
from tokimori.executors.functions.wire import Facts

NOMINAL = datetime(2030, 1, 1, tzinfo=UTC)


def a_facts(payload: str | None = None) -> Facts:
    """What is known of a first attempt."""
    moment = from_datetime(NOMINAL)
    return Facts(job_id="job", run_id="run", attempt=1, token=7, payload=payload, scheduled_at=moment, due_at=moment)


def a_task(payload: str | None = None, written: list[str] | None = None) -> Task:
    """A task whose output goes to a list."""
    return Task(a_facts(payload), (written if written is not None else []).append)
