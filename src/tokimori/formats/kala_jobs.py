"""Kala's jobs, from wherever it keeps them, as entries of an import."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.foreign.kala.moving import from_go, kept_job, parents_of
from tokimori.service.imports import Start
from tokimori.translators.gob import read_gob
from tokimori.translators.moving import AT_ONCE, Entry, Moved, Refused, checked, entries, shown, told

MOST_JOBS = 100_000
Jobs = Sequence[Mapping[str, Any]]
_FAULT = "\0fault"
"""In place of a job: why it can't be read."""


def jobs_in(text: str | bytes, name: str) -> Jobs:
    """Return the jobs of an answer: `{"jobs": {id: job}}`, what is in that, or a list. Raises `InvalidFile`."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        raise InvalidFile(f"{name}: not JSON: {fault}", field="source", value=name, allowed="JSON") from None
    if isinstance(found, dict) and isinstance(found.get("jobs"), dict | list):
        found = found["jobs"]
    jobs = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        allowed = 'what GET /api/v1/job/ answers: {"jobs": {ID: {…}}}'
        raise InvalidFile(f"{name}: it holds no jobs of Kala", field="source", value=name, allowed=allowed)
    if len(jobs) > MOST_JOBS:
        message = f"{name}: it has more than {MOST_JOBS} jobs"
        raise InvalidFile(message, field="source", value=name, allowed=f"at most {MOST_JOBS}")
    return jobs


def job_of(job_id: str, value: bytes) -> Mapping[str, Any]:
    """Return a job as Redis has it, a gob of Go or JSON, or as a table has it, where only the JSON knows its id."""
    try:
        found = _in_json(value) if value.lstrip().startswith(b"{") else from_go(read_gob(value))
    except InvalidInput as fault:
        return {"id": job_id, _FAULT: told(fault)}
    if not isinstance(found, dict):
        return {"id": job_id, _FAULT: "gob: it is no struct"}
    return {**found, "id": job_id or found.get("id")}


def _in_json(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        raise InvalidInput(f"it is not JSON: {fault}", field="job", allowed="a job as JSON") from None


def entries_of(jobs: Jobs, now: Moment) -> Iterator[Entry]:
    """Yield the jobs with their ids, and why some can't come."""
    parents = parents_of(jobs)
    for number, job in enumerate(jobs):
        job_id = str(job.get("id") or "")
        place = f"job {job_id}" if job_id else f"jobs, number {number}"
        if _FAULT in job:
            yield Refused(place, job[_FAULT])
            continue

        def translate(job: Mapping[str, Any] = job, job_id: str = job_id, place: str = place) -> Iterator[Entry]:
            kept = kept_job(job, parents.get(job_id, ()), now)
            yield checked(
                Moved(
                    place=place,
                    job_id=job_id,
                    definition=kept.definition,
                    start=Start(paused_because="disabled in Kala") if kept.disabled else AT_ONCE,
                    runs_remaining=kept.runs_remaining,
                    warnings=tuple(f"{member}: {shown(value)}: {what}" for member, value, what in kept.warnings),
                )
            )

        yield from entries(place, translate)
