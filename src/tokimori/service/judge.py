"""Judge of jobs that somebody may not make: see `judging`."""

from collections.abc import Awaitable, Callable, Mapping

from tokimori.model.ids import JobId
from tokimori.model.job import Definition

Beside = Mapping[JobId, Definition]
"""What is written together with a job, perhaps before it."""
Judge = Callable[[JobId, Definition, Beside], Awaitable[None]]
"""Refuses a job, as it would be after a change, with an error. It is asked just before the job is written."""
