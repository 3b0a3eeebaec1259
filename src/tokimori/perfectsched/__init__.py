"""PerfectSched's library for Python, on a store or a node of ours.

    from tokimori import perfectsched

    with perfectsched.open("sqlite:///var/lib/app/tokimori.db") as schedules:
        schedules.add("sched-id", "type1", cron="0 * * * *", delay=30, timezone="Asia/Tokyo", data={"key": "value"})
        task = schedules.poll()
        if task is not None:
            task.finish()

Names and meanings are PerfectSched's, times are whole seconds since 1970. A schedule is one of our jobs, a slot is one
of its runs: every other door shows them. docs/coming-from/perfectsched.md says what differs.
"""

from tokimori.errors import AlreadyExists as AlreadyExistsError
from tokimori.errors import AlreadyFinished as AlreadyFinishedError
from tokimori.errors import ClaimLost as PreemptedError
from tokimori.errors import InvalidConfig as ConfigError
from tokimori.errors import NotFound as NotFoundError
from tokimori.errors import Refused as NotSupportedError
from tokimori.errors import TokimoriError as Error
from tokimori.perfectsched.collection import Schedule, ScheduleCollection, ScheduleWithMetadata, Task, open
from tokimori.perfectsched.config import Config
from tokimori.perfectsched.slots import cron_time, next_time

IdempotentAlreadyExistsError, IdempotentNotFoundError = AlreadyExistsError, NotFoundError
IdempotentAlreadyFinishedError = AlreadyFinishedError

__all__ = [
    "AlreadyExistsError",
    "AlreadyFinishedError",
    "Config",
    "ConfigError",
    "Error",
    "IdempotentAlreadyExistsError",
    "IdempotentAlreadyFinishedError",
    "IdempotentNotFoundError",
    "NotFoundError",
    "NotSupportedError",
    "PreemptedError",
    "Schedule",
    "ScheduleCollection",
    "ScheduleWithMetadata",
    "Task",
    "cron_time",
    "next_time",
    "open",
]
