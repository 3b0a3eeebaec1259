"""`tokimori job import kala`"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command
from tokimori.cli.importing import name_of, text_of
from tokimori.cli.moving import Pages, Wish, move, with_move_options
from tokimori.clock import SystemClock
from tokimori.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry

_NOTES = ("Kala still runs these jobs: stop it, or they run twice", "the statistics of their runs stay in Kala")
_Jobs = Sequence[Mapping[str, Any]]
_BY_THE_API = "the address of a running Kala, such as http://127.0.0.1:8000, whose API shows the same jobs"


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@with_move_options
def kala(source: str, *, dry_run: bool, skip_refused: bool, update: bool) -> None:
    """Import the jobs of Kala.

    SOURCE is the address of a running Kala (http://HOST:PORT), a file with what GET /api/v1/job/ answers (- reads
    standard input), or its database: redis://HOST:PORT/NUMBER, postgresql://… or mysql://…. The source is only read.
    Jobs keep their ids. Jobs that exist already stay as they are.
    """
    move(_pages(_reader(source)), _NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _pages(read: Callable[[], Awaitable[_Jobs]]) -> Pages:
    now = SystemClock().now()

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.node.kala_jobs import entries_of
        from tokimori.translators.families import in_pages

        for page in in_pages(entries_of(await read(), now)):
            yield page

    return pages


def _reader(source: str) -> Callable[[], Awaitable[_Jobs]]:
    """What reads the jobs, as often as it is asked. Raises `InvalidInput`, and `InvalidFile`."""
    from tokimori.node.kala_jobs import MOST_JOBS, job_of, jobs_in

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
