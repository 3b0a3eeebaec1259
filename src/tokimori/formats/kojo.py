"""Kōjō's job types, and the jobs that were asked for and still wait, from its tables, YAML or PHP."""

import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Pages, Rows
from tokimori.formats.importing import at_once, name_of, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_NOTES = ("Kōjō still runs these jobs: stop it, or they run twice; those that have ended stay there",)
_OF_FUNCTIONS = (
    "a function CLASS::METHOD waits for a worker that takes it over HTTP, as one in PHP can; --command runs it",
)
_FILES = (".yml", ".yaml", ".php")


class KojoRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Kōjō's tables. With a `command` its words, class and method are run, else functions CLASS::METHOD."""

    kojo_job_type: Rows
    kojo_job: Rows = ()
    command: tuple[str, ...] = ()


def _read(said: KojoRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.kojo import placed_jobs, placed_types, read_types, read_waiting

    types = placed_types(said.kojo_job_type)
    yield from read_types(types, said.command, said.time_zone)
    yield from read_waiting(placed_jobs(said.kojo_job), types, said.command, said.time_zone)


def _source(given: Given) -> FormatSource:
    from tokimori.translators.kojo import read_types, rows_of_file

    command, zone = _words(given.options["command"]), given.zone("UTC")[0]
    notes = _NOTES if command else _NOTES + _OF_FUNCTIONS
    if given.source != "-" and not given.source.lower().endswith(_FILES):
        return FormatSource(_of_tables(given.source, command, zone), notes)
    rows = rows_of_file(text_of(given.source), name_of(given.source))
    return FormatSource(at_once(partial(read_types, rows, command, zone)), notes)


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError as fault:
        message = f"command: {command!r} can't be split: {fault}"
        raise InvalidInput(message, field="command", value=command, allowed="a program and its arguments") from None


def _of_tables(source: str, command: Sequence[str], zone: str) -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators import kojo as tables_of

        async with opened(source) as tables:
            await check_there(tables, (tables_of.TYPES,))
            rows = [row async for page in pages_of(tables, tables_of.TYPES, tables_of.TYPE_KEY) for row in page]
            types = tables_of.placed_types(rows)
            yield tables_of.read_types(types, command, zone)
            if tables_of.JOBS not in await tables.names():
                return
            async for page in pages_of(tables, tables_of.JOBS, tables_of.JOB_KEY):
                yield tables_of.read_waiting(tables_of.placed_jobs(page), types, command, zone)

    return pages


FORMAT = Format(
    what="job types of Kōjō, and jobs that were asked for and still wait for their time",
    help="""SOURCE is its database (a URL of MySQL or PostgreSQL, or a file of SQLite), or a file of job types by the
    names of their columns: FILE.yml, FILE.php (an array that it returns), or YAML from standard input (-). Its
    schedules are in UTC.""",
    request=KojoRequest,
    example={
        "kojo_job_type": [
            {
                "type_code": "queue_reader",
                "name": "Queue reader",
                "worker_uri": "\\Acme\\Reader",
                "worker_method": "work",
                "can_work_in_parallel": True,
                "cron_expression": "* * * * *",
                "schedule_limit": 5,
                "schedule_limit_allowance": 5,
                "is_enabled": True,
                "auto_complete_success": True,
                "auto_delete_interval_duration": "PT1H",
            }
        ],
    },
    read=_read,
    source=_source,
    options=(Option("command", "Run this, with class and method behind it, in place of a function.", "TEXT"),),
)
