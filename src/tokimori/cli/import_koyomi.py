"""`tokimori job import koyomi`"""

import os
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tokimori.cli.command import Command
from tokimori.cli.completing import zones
from tokimori.cli.machine_zone import machine_zone
from tokimori.cli.moving import Pages, Wish, move, with_move_options
from tokimori.clock import SystemClock
from tokimori.errors import InvalidFile
from tokimori.schedules.zones import check_zone

if TYPE_CHECKING:
    from tokimori.translators.koyomi import Koyomi
    from tokimori.translators.moving import Entry

_MOST_TIMES = 301
"""Rows of `job_times` that are read of one job: one more than a schedule may have."""
NOTES = (
    "Koyomi's workers still run these jobs: stop them, or they run twice",
    "jobs overlap as they like, as there; `job update ID --max-running 1` ends that",
    "only a node that runs as root can run jobs as other users",
    "commands get a small environment here (PATH, HOME, USER …), and not that of Koyomi's worker: `--env` adds to it",
    "created_on and updated_at are not moved: jobs are as old here as their import",
)


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@click.option("--prefix", metavar="TEXT", default="koyomi", help="Ids are PREFIX-1, PREFIX-2 …; koyomi by default.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone, instead of the configuration's or this machine's.",
)
@with_move_options
def koyomi(source: str, *, prefix: str, time_zone: str | None, dry_run: bool, skip_refused: bool, update: bool) -> None:
    """Import the jobs of Koyomi: SOURCE is its configuration (TOML), or its database, as a file or a URL.

    All entries are checked before anything is imported. Jobs that exist already stay as they are. The source is only
    read.
    """
    from tokimori.translators.koyomi import Koyomi

    found = _configured(Path(source)) if source.endswith(".toml") else Configured(source, None, ())
    zone = time_zone or found.time_zone
    said = Koyomi(machine_zone(os.environ) if zone is None else check_zone(zone), prefix, SystemClock().now())
    move(
        _pages(found.database, said),
        (*found.notes, *NOTES),
        Wish(dry_run=dry_run, skip_refused=skip_refused, update=update),
    )


class Configured(NamedTuple):
    """What a configuration says: the database of the jobs, the zone, and what is not as it was."""

    database: str
    time_zone: str | None
    notes: tuple[str, ...]


def _configured(path: Path) -> Configured:
    from tokimori.cli.importing import text_of
    from tokimori.translators.store_urls import store_url

    try:
        content = tomllib.loads(text_of(str(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise InvalidFile(f"{path}: not TOML: {fault}", field="source", value=str(path)) from None
    connector = _section(content, "datasource", "connector")
    own = {**connector, **_section(connector, "job")}
    if not isinstance(own.get("dsn"), str):
        message = f"{path}: datasource.connector.dsn: it is missing"
        raise InvalidFile(message, field="datasource.connector.dsn", allowed="a DSN such as dbi:mysql:database=koyomi")
    account = {name: _text(own, name) for name in ("user", "password")}
    place = store_url(str(own["dsn"]), Path.cwd(), account, field="datasource.connector.dsn")
    return Configured(place.url, _text(content, "time_zone"), tuple(_notes(content)))


def _section(content: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        below = content.get(name)
        content = below if isinstance(below, Mapping) else {}
    return content


def _text(content: Mapping[str, object], name: str) -> str | None:
    value = content.get(name)
    return value if isinstance(value, str) and value else None


def _notes(content: Mapping[str, object]) -> Iterable[str]:
    worker, module = _section(content, "worker"), _section(content, "datasource", "module")
    if (minutes := worker.get("interval_minutes", 1)) != 1:
        yield f"worker.interval_minutes is {minutes!r}: there jobs of minutes between two ticks never ran, here they do"
    if module.get("semaphore") == "None":
        yield "datasource.module.semaphore is 'None': there every worker ran every job, here one node does"
    if "job" in content or "schedule" in content:
        yield "the settings of its workers are not jobs, and are not moved"


def _pages(database: str, koyomi: "Koyomi") -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import Owned, belonging, check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.koyomi import read_koyomi

        semaphores = Owned("semaphores", "job_id", "job_id")
        async with opened(database) as tables:
            await check_there(tables, ("jobs", "job_times"))
            has_locks = "semaphores" in await tables.names()
            async for jobs in pages_of(tables, "jobs"):
                ids = [number for job in jobs if (number := job.get("id")) is not None]
                times = await belonging(tables, Owned("job_times", "job_id", "id"), ids, _MOST_TIMES)
                locks = await belonging(tables, semaphores, ids, 1) if has_locks else ()
                yield read_koyomi(jobs, times, locks, koyomi)

    return pages
