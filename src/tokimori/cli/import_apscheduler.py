"""`tokimori job import apscheduler`"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.moving import Pages, Wish, move, with_move_options
from tokimori.cli.parameters import parameters_of, with_parameters
from tokimori.clock import SystemClock

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry

_NOTES = (
    "APScheduler still runs these jobs: stop it, or they run twice",
    "a node imports the functions only if its setting app.stored allows it, such as app.stored = ['reports.tasks:*']",
)


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@click.option("--table", metavar="NAME", default="apscheduler_jobs", help="The table, if it is named otherwise.")
@with_parameters
@with_move_options
def apscheduler(
    source: str, *, table: str, parameters: tuple[str, ...], dry_run: bool, skip_refused: bool, update: bool
) -> None:
    """Import the jobs of APScheduler 3: SOURCE is the database of its SQLAlchemyJobStore, a file or a URL.

    Jobs are kept there as pickles. They are read as data: nothing of them is imported or run. The database is only
    read. Jobs that exist already stay as they are.
    """
    from tokimori.sources.tables import check_table

    pages = _pages(source, check_table(table), parameters_of(parameters))
    move(pages, _NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _pages(source: str, table: str, parameters: Mapping[str, Sequence[str]]) -> Pages:
    now = SystemClock().now()

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.apscheduler import KEY, read_apscheduler

        async with opened(source) as tables:
            await check_there(tables, (table,))
            async for rows in pages_of(tables, table, KEY):
                yield read_apscheduler(rows, now, parameters)

    return pages
