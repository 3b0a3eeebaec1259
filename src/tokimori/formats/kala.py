"""Kala's jobs, from its API, its databases or a file."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.foreign.kala.stored_jobs import from_go, parents_of, stored_job
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest
from tokimori.formats.importing import name_of, text_of
from tokimori.model.words import json_fault
from tokimori.service.definitions.imports import Start
from tokimori.service.validation import MOST_LISTED
from tokimori.translators.entries import Entry, Moved, Refused, checked, entries, fault_text, shown
from tokimori.translators.gob import read_gob

MOST_JOBS = 100_000
Jobs = Sequence[Mapping[str, Any]]
_FAULT = "\0fault"
"""In place of a job: why it can't be read."""


def jobs_in(text: str | bytes, name: str) -> Jobs:
    """Return the jobs of an answer: `{"jobs": {id: job}}`, what is in that, or a list. Raises `InvalidFile`."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        raise InvalidFile(
            f"{name}: not JSON: {json_fault(fault, text)}", field="source", value=name, allowed="JSON"
        ) from None
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
        return {"id": job_id, _FAULT: fault_text(fault)}
    if not isinstance(found, dict):
        return {"id": job_id, _FAULT: "gob: it is no struct"}
    return {**found, "id": job_id or found.get("id")}


def _in_json(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        raise InvalidInput(
            f"it is not JSON: {json_fault(fault, value)}", field="job", allowed="a job as JSON"
        ) from None


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
            kept = stored_job(job, parents.get(job_id, ()), now)
            yield checked(
                Moved(
                    place=place,
                    job_id=job_id,
                    definition=kept.definition,
                    start=Start(paused_because="disabled in Kala" if kept.disabled else None, since=kept.last_run),
                    runs_remaining=kept.runs_remaining,
                    warnings=tuple(f"{member}: {shown(value)}: {what}" for member, value, what in kept.warnings),
                )
            )

        yield from entries(place, translate)


if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_NOTES = ("Kala still runs these jobs: stop it, or they run twice", "the statistics of their runs stay in Kala")
_Jobs = Sequence[Mapping[str, Any]]
_BY_THE_API = "the address of a running Kala, such as http://127.0.0.1:8000, whose API shows the same jobs"


class KalaRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer of Kala to `GET /api/v1/job/`: jobs by id."""

    jobs: Annotated[dict[str, dict[str, Any]], Meta(max_length=MOST_LISTED)]


def _read(said: KalaRequest, now: Moment) -> "Iterator[Entry]":
    for page in _pages_of(list(said.jobs.values()), now):
        yield from page


def _pages_of(jobs: _Jobs, now: Moment) -> "Iterator[Sequence[Entry]]":
    from tokimori.translators.families import in_pages

    return in_pages(entries_of(jobs, now))


def _source(given: Given) -> FormatSource:
    read = _reader(given.source)

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        for page in _pages_of(await read(), given.now):
            yield page

    return FormatSource(pages, _NOTES)


def _reader(source: str) -> Callable[[], Awaitable[_Jobs]]:
    """Return what reads the jobs, as often as it is asked. Raises `InvalidInput`, and `InvalidFile`."""

    async def at() -> _Jobs:
        from tokimori.sources.kala import jobs_at_node

        return jobs_in(await jobs_at_node(source), source.partition("?")[0].rpartition("@")[2])

    async def in_redis() -> _Jobs:
        from tokimori.sources.kala import jobs_in_redis

        return [job_of(*member) for member in await jobs_in_redis(source, MOST_JOBS)]

    async def in_tables() -> _Jobs:
        from tokimori.sources.kala import jobs_in_tables

        return [job_of("", text) for text in await jobs_in_tables(source)]

    match source.partition("://")[0].lower() if "://" in source else "":
        case "http" | "https":
            return at
        case "redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix":
            return in_redis
        case "postgresql" | "postgres" | "mysql" | "mariadb":
            return in_tables
        case "" if not source.lower().endswith(".db"):
            found = jobs_in(text_of(source), name_of(source))

            async def read() -> _Jobs:
                return found

            return read
        case "":
            message = f"{source}: Kala's file of BoltDB is not read"
            raise InvalidFile(message, field="source", value=source, allowed=_BY_THE_API)
        case other:
            message = f"source: {other}:// is not read"
            raise InvalidInput(message, field="source", value=other, allowed=_BY_THE_API)


FORMAT = Format(
    what="jobs of Kala under their ids, with those that follow them",
    help="""SOURCE is the address of a running Kala (http://HOST:PORT), a file with what GET /api/v1/job/ answers (-
    reads standard input), or its database: redis://HOST:PORT/NUMBER, postgresql://… or mysql://…. Jobs keep their
    ids.""",
    request=KalaRequest,
    example={
        "jobs": {
            "93b65499-b211-49ce-57e0-19e735cc5abd": {
                "id": "93b65499-b211-49ce-57e0-19e735cc5abd",
                "name": "test_job",
                "command": "bash /tmp/example.sh",
                "schedule": "R2/2030-06-04T19:25:16-07:00/PT10S",
            }
        },
    },
    read=_read,
    source=_source,
    names_zones=True,
)
