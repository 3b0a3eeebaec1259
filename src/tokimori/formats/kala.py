"""Kala's jobs, from its API, its databases or a file."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.formats.files import name_of, text_of
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest
from tokimori.service.asking import MOST_LISTED

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry

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
    from tokimori.formats.kala_jobs import entries_of
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
    from tokimori.formats.kala_jobs import MOST_JOBS, job_of, jobs_in

    async def at() -> _Jobs:
        from tokimori.sources.kala import told_at

        return jobs_in(await told_at(source), source.partition("?")[0].rpartition("@")[2])

    async def in_redis() -> _Jobs:
        from tokimori.sources.kala import kept_in_redis

        return [job_of(*member) for member in await kept_in_redis(source, MOST_JOBS)]

    async def in_tables() -> _Jobs:
        from tokimori.sources.kala import kept_in_tables

        return [job_of("", text) for text in await kept_in_tables(source)]

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
