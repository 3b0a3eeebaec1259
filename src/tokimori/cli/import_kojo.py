"""`tokimori job import kojo`"""

import shlex
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.importing import name_of, text_of
from tokimori.cli.moving import Pages, Wish, at_once, move, with_move_options
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry

_NOTES = (
    "Kōjō still runs these jobs: stop it, or they run twice; those that have ended stay there",
    "a function CLASS::METHOD waits for a worker that takes it at a node's door, as one in PHP can; --command runs it",
)
_FILES = (".yml", ".yaml", ".php")


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@click.option("--command", metavar="TEXT", help="Run this, with class and method behind it, in place of a function.")
@with_move_options
def kojo(source: str, *, command: str | None, dry_run: bool, skip_refused: bool, update: bool) -> None:
    """Import Kōjō's job types, and the jobs that were asked for and still wait for their time.

    SOURCE is its database (a URL of MySQL or PostgreSQL, or a file of SQLite), or a file that lists job types by the
    names of their columns: FILE.yml, FILE.php (an array that it returns), or YAML from standard input (-). The source
    is only read. Jobs that exist already stay as they are.
    """
    words = _words(command)
    is_file = source == "-" or source.lower().endswith(_FILES)
    pages = _of_file(source, words) if is_file else _of_tables(source, words)
    move(pages, _NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError as fault:
        message = f"command: {command!r} can't be split: {fault}"
        raise InvalidInput(message, field="command", value=command, allowed="a program and its arguments") from None


def _of_file(source: str, command: Sequence[str]) -> Pages:
    from tokimori.translators.kojo import read_types, rows_of_file

    rows = rows_of_file(text_of(source), name_of(source))

    async def read() -> "Iterable[Entry]":
        return read_types(rows, command)

    return at_once(read)


def _of_tables(source: str, command: Sequence[str]) -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.kojo import (
            JOB_KEY,
            JOBS,
            TYPE_KEY,
            TYPES,
            placed_jobs,
            placed_types,
            read_types,
            read_waiting,
        )

        async with opened(source) as tables:
            await check_there(tables, (TYPES,))
            types = placed_types([row async for rows in pages_of(tables, TYPES, TYPE_KEY) for row in rows])
            yield read_types(types, command)
            if JOBS not in await tables.names():
                return
            async for rows in pages_of(tables, JOBS, JOB_KEY):
                yield read_waiting(placed_jobs(rows), types, command)

    return pages
