"""Kala's client for programs: docs/coming-from/kala.md names every call of the Go client with ours.

from tokimori.kala import KalaClient

kala = KalaClient("http://127.0.0.1:8000", secret="…")
job_id = kala.create_job({"name": "report", "command": "make report", "schedule": "R/2030-01-01T00:00:00Z/P1D"})
print(kala.get_job(job_id).next_run_at)
"""

from tokimori.errors import InvalidInput as JobCreationError
from tokimori.errors import NotFound as JobNotFound
from tokimori.errors import Refused as GenericError
from tokimori.foreign.kala.shapes import JobStat, KalaStats, Metadata, Remote
from tokimori.foreign.kala.shapes import KalaJob as Job
from tokimori.kala.client import KalaClient

__all__ = [
    "GenericError",
    "Job",
    "JobCreationError",
    "JobNotFound",
    "JobStat",
    "KalaClient",
    "KalaStats",
    "Metadata",
    "Remote",
]
