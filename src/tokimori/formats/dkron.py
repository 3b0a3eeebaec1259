"""Dkron's jobs, from what its API answers."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Rows
from tokimori.formats.importing import name_of, text_of
from tokimori.model.words import json_fault

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_ALLOWED = "what GET /v1/jobs answers: a list of jobs, or one job"
_NOTES = (
    "Dkron still runs these jobs: stop it, or they run twice",
    "a job whose tags name a node runs where a node has the labels: TOKIMORI_NODE_LABELS=NAME=VALUE",
    "commands get a small environment here (PATH, HOME, USER …), and not that of Dkron's agent: `--env` adds to it",
)


class DkronRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer of Dkron to `GET /v1/jobs`. `time_zone` is that of jobs without one."""

    jobs: Rows


def _pages(jobs: Sequence[Mapping[str, Any]], zone: str) -> "Iterator[Sequence[Entry]]":
    from tokimori.translators.dkron import read_dkron
    from tokimori.translators.families import in_pages

    return in_pages(read_dkron(jobs, zone))


def _read(said: DkronRequest, _now: Moment) -> "Iterator[Entry]":
    for page in _pages(said.jobs, said.time_zone):
        yield from page


def _source(given: Given) -> FormatSource:
    zone, zone_notes = given.zone()
    found = [job for file in given.sources for job in _jobs_in(file)]

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        for page in _pages(found, zone):
            yield page

    return FormatSource(pages, (*zone_notes, *_NOTES))


def _jobs_in(file: str) -> Sequence[Mapping[str, Any]]:
    """Return the jobs of a file. Raises `InvalidFile`."""
    text, name = text_of(file), name_of(file)
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        why = json_fault(fault, text)
        raise InvalidFile(f"{name}: not JSON: {why}", field="source", value=name, allowed=_ALLOWED) from None
    jobs = [found] if isinstance(found, dict) else found
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise InvalidFile(f"{name}: it holds no jobs of Dkron", field="source", value=name, allowed=_ALLOWED)
    return jobs


FORMAT = Format(
    what="jobs of Dkron under their names, with those that run after them",
    help="""Sources are files with what GET /v1/jobs answers; - reads standard input. A job without a timezone is in
    this machine's, as there, or in that of --timezone.""",
    request=DkronRequest,
    example={
        "jobs": [
            {
                "name": "report",
                "schedule": "0 0 3 * * *",
                "timezone": "Europe/Paris",
                "executor": "shell",
                "executor_config": {"command": "make report", "cwd": "/srv"},
                "concurrency": "forbid",
                "retries": 2,
            }
        ],
    },
    read=_read,
    source=_source,
    metavar="FILE...",
    takes_many=True,
)
