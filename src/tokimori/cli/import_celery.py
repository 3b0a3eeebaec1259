"""`tokimori job import celery`"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.importing import name_of, text_of
from tokimori.cli.moving import Pages, Wish, at_once, move, with_move_options
from tokimori.cli.parameters import parameters_of, with_parameters
from tokimori.clock import SystemClock
from tokimori.errors import InvalidFile

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry

_NOTES = (
    "Celery beat still sends these tasks: stop it, or they run twice",
    "what Celery calls reports.tasks.send is reports.tasks:send here; a node imports it only if its setting app.stored "
    "allows it, and it must be a plain function there: @app.task makes it an object of Celery",
)
_FILES = (".json", ".toml")
_OWN_FILE = "celerybeat-schedule"


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@with_parameters
@with_move_options
def celery(source: str, *, parameters: tuple[str, ...], dry_run: bool, skip_refused: bool, update: bool) -> None:
    """Import the periodic tasks of Celery beat.

    SOURCE is a database with django-celery-beat's tables, a file or a URL; or a beat_schedule, as FILE.json, FILE.toml
    or JSON from standard input (-). The source is only read. Jobs that exist already stay as they are.
    """
    names = parameters_of(parameters)
    if source.rpartition("/")[2].startswith(_OWN_FILE):
        message = f"{source}: beat's own file holds when tasks ran, as pickles of Celery's classes; it is not read"
        allowed = "the beat_schedule of the app's configuration as JSON or TOML, or django-celery-beat's tables"
        raise InvalidFile(message, field="source", value=source, allowed=allowed)
    is_file = source == "-" or source.lower().endswith(_FILES)
    pages = _of_file(source, names) if is_file else _of_tables(source, names)
    move(pages, _NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _of_file(source: str, parameters: Mapping[str, Sequence[str]]) -> Pages:
    from tokimori.cli.foreign_files import read_mapping
    from tokimori.translators.celery import read_beat_schedule

    said = read_mapping(text_of(source), name_of(source))

    async def read() -> "Iterable[Entry]":
        return read_beat_schedule(said, name_of(source), SystemClock().now(), parameters)

    return at_once(read)


def _of_tables(source: str, parameters: Mapping[str, Sequence[str]]) -> Pages:
    now = SystemClock().now()

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.celery import OTHERS, TASKS, read_celery

        async with opened(source) as tables:
            await check_there(tables, (TASKS,))
            there = await tables.names()
            others = {
                kind: [row async for rows in pages_of(tables, table) for row in rows] if table in there else []
                for kind, table in OTHERS.items()
            }
            async for rows in pages_of(tables, TASKS):
                yield read_celery(rows, others, now, parameters)

    return pages
