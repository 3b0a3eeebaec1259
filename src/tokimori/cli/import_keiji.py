"""`tokimori job import keiji`"""

import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tokimori.cli.command import Command
from tokimori.cli.completing import zones
from tokimori.cli.machine_zone import machine_zone
from tokimori.cli.moving import Pages, Wish, move, with_move_options
from tokimori.schedules.zones import check_zone

if TYPE_CHECKING:
    from tokimori.translators.keiji import Keiji
    from tokimori.translators.moving import Entry

TABLE = "task_models"
NOTES = (
    "Keiji's scheduler still runs these tasks: stop it (`keiji system --stop`), or they run twice",
    "jobs run the programs that Keiji has built, where they are: keep its folder, or build the tasks anew here",
    "commands get a small environment here (PATH, HOME, USER …), and not that of Keiji's scheduler: `--env` adds to it",
    "what a task wrote stays in Keiji's logs, and its accounts (user_models) are not moved",
)


class Workspace(NamedTuple):
    """What a workspace says: the database, the zone, and the tasks that have a folder."""

    database: str
    time_zone: str | None = None
    folders: tuple[str, ...] = ()


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone, instead of the workspace's or this machine's.",
)
@with_move_options
def keiji(source: str, *, time_zone: str | None, dry_run: bool, skip_refused: bool, update: bool) -> None:
    """Import the tasks of Keiji: SOURCE is its workspace (a folder with settings.conf), or its database.

    A job runs the program that Keiji has built. All entries are checked before anything is imported. Jobs that exist
    already stay as they are. The source is only read.
    """
    from tokimori.translators.keiji import Keiji

    found = _workspace(Path(source)) if Path(source).is_dir() else Workspace(source)
    zone = time_zone or found.time_zone
    said = Keiji(machine_zone(os.environ) if zone is None else check_zone(zone))
    move(_pages(found, said), NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _workspace(folder: Path) -> Workspace:
    """What `settings.conf` and the folders of tasks say. Raises `InvalidFile`."""
    from tokimori.cli.importing import text_of
    from tokimori.model.env_file import read_env

    file = str(folder / "settings.conf")
    settings = read_env(text_of(file).encode(errors="surrogateescape"), file)
    url = settings.get("DB_URL", "default")
    database = str(folder.absolute().parent / ".keiji" / "db" / "keiji.db") if url == "default" else url
    tasks = folder / "tasks"
    folders = sorted(each.name for each in tasks.iterdir() if each.is_dir()) if tasks.is_dir() else []
    return Workspace(database, settings.get("TIME_ZONE", "Africa/Nairobi"), tuple(folders))


def _pages(workspace: Workspace, keiji: "Keiji") -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.keiji import read_keiji
        from tokimori.translators.moving import LeftOut

        built: set[object] = set()
        async with opened(workspace.database) as tables:
            await check_there(tables, (TABLE,))
            async for rows in pages_of(tables, TABLE):
                built |= {row.get("name") for row in rows}
                yield read_keiji(rows, keiji)
        unbuilt = [name for name in workspace.folders if name not in built]
        yield [LeftOut(f"tasks/{name}", "it was never built, so that it has no schedule") for name in unbuilt]

    return pages
