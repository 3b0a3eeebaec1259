"""`tokimori job import perfectsched`"""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tokimori.cli.command import Command
from tokimori.cli.moving import Pages, Wish, move, with_move_options

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry
    from tokimori.translators.perfectsched import PerfectSched

NOTES = (
    "PerfectSched's workers still run these schedules: stop them before, or slots run twice",
    "a job runs where a node has a handler of its type (`tokimori worker`), or a program polls for it",
)


class Configured(NamedTuple):
    """What a configuration says: the database, the table, and how long a retry waits."""

    database: str
    table: str | None = None
    retry_wait: float = 300


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@click.option("--table", metavar="NAME", help="The table, instead of the configuration's; schedules by default.")
@click.option("-e", "--environment", metavar="NAME", default="development", help="The section of the configuration.")
@with_move_options
def perfectsched(
    source: str, *, table: str | None, environment: str, dry_run: bool, skip_refused: bool, update: bool
) -> None:
    """Import the schedules of PerfectSched: SOURCE is its configuration (YAML), or its database, as a file or a URL.

    Slots that were missed come along. All entries are checked before anything is imported. Jobs that exist already
    stay as they are. The source is only read.
    """
    from tokimori.sources.tables import check_table
    from tokimori.translators.perfectsched import PerfectSched

    is_file = "://" not in source and source.endswith((".yml", ".yaml"))
    found = _configured(source, environment) if is_file else Configured(source)
    said = PerfectSched(check_table(table or found.table or "schedules"), found.retry_wait)
    move(
        _pages(found.database, said),
        NOTES,
        Wish(dry_run=dry_run, skip_refused=skip_refused, update=update),
    )


def _configured(file: str, environment: str) -> Configured:
    """One section of `config/perfectsched.yml`. Raises `InvalidFile`."""
    from tokimori.cli.importing import text_of
    from tokimori.errors import InvalidFile
    from tokimori.translators.store_urls import store_url
    from tokimori.translators.yaml_tree import Faults, read_documents

    faults = Faults(file)
    documents = list(read_documents(text_of(file), faults))
    sections = documents[0].fields() if documents else {}
    if (section := sections.get(environment)) is None:
        names = ", ".join(sections) or "none"
        raise InvalidFile(f"{file}: it has no section {environment!r}", field="environment", allowed=names)
    url, table, ca = (section.scalar(name, str, "") for name in ("url", "table", "sslca"))
    retry_wait = section.scalar("retry_wait", int, 300)
    if not url:
        section.refuse("url: it is missing; allowed: the URL of a database")
    if faults.lines:
        raise InvalidFile("\n".join(faults.texts()), field="source", value=file)
    found = store_url(url, Path.cwd(), {"sslca": ca}, field="url")
    return Configured(found.url, table or None, retry_wait)


def _pages(database: str, perfectsched: "PerfectSched") -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.perfectsched import read_perfectsched

        async with opened(database) as tables:
            await check_there(tables, (perfectsched.table,))
            async for rows in pages_of(tables, perfectsched.table):
                yield read_perfectsched(rows, perfectsched)

    return pages
