"""Keiji's tasks, from its workspace or its database."""

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokimori.clock import Moment
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Pages, Rows
from tokimori.formats.importing import of_table, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry
    from tokimori.translators.keiji import Keiji

_TABLE = "task_models"
_NOTES = (
    "Keiji's scheduler still runs these tasks: stop it (`keiji system --stop`), or they run twice",
    "jobs run the programs that Keiji has built, where they are: keep its folder, or build the tasks anew here",
    "they are jobs and no tasks: `tokimori job` shows, pauses, resumes and resolves them",
    "commands get a small environment here (PATH, HOME, USER …), and not that of Keiji's scheduler: `--env` adds to it",
    "what a task wrote stays in Keiji's logs, and its accounts (user_models) are not moved",
)


class KeijiRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Keiji's table `task_models`; `time_zone` is the TIME_ZONE of its settings."""

    task_models: Rows


class Workspace(NamedTuple):
    """Content of a workspace: the database, the zone, and the tasks that have a folder."""

    database: str
    time_zone: str | None = None
    folders: tuple[str, ...] = ()


def _read(said: KeijiRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.keiji import Keiji, read_keiji

    return read_keiji(said.task_models, Keiji(said.time_zone))


def _source(given: Given) -> FormatSource:
    from tokimori.translators.keiji import Keiji

    folder = Path(given.source)
    found = _workspace(folder) if folder.is_dir() else Workspace(given.source)
    zone, zone_notes = given.zone(found.time_zone)
    return FormatSource(_pages(found, Keiji(zone)), (*zone_notes, *_NOTES))


def _workspace(folder: Path) -> Workspace:
    """Read `settings.conf` and the folders of tasks. Raises `InvalidFile`."""
    from tokimori.model.task import read_env

    file = str(folder / "settings.conf")
    settings = read_env(text_of(file).encode(errors="surrogateescape"), file)
    url = settings.get("DB_URL", "default")
    database = str(folder.absolute().parent / ".keiji" / "db" / "keiji.db") if url == "default" else url
    tasks = folder / "tasks"
    folders = sorted(each.name for each in tasks.iterdir() if each.is_dir()) if tasks.is_dir() else []
    return Workspace(database, settings.get("TIME_ZONE", "Africa/Nairobi"), tuple(folders))


def _pages(workspace: Workspace, keiji: "Keiji") -> Pages:
    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.translators.entries import Inactive, Row
        from tokimori.translators.keiji import read_keiji

        built: set[object] = set()

        def read(rows: Iterable[Row]) -> "Iterator[Entry]":
            found = list(rows)
            built.update(row.get("name") for row in found)
            return read_keiji(found, keiji)

        async for page in of_table(workspace.database, _TABLE, read)():
            yield page
        unbuilt = [name for name in workspace.folders if name not in built]
        yield [Inactive(f"tasks/{name}", "it was never built, so that it has no schedule") for name in unbuilt]

    return pages


FORMAT = Format(
    what="tasks of Keiji, which run the programs that it has built",
    help="SOURCE is its workspace (a folder with settings.conf), or its database.",
    request=KeijiRequest,
    example={
        "task_models": [
            {
                "id": 1,
                "name": "ping_google",
                "slug": "ping_google",
                "description": "pings google",
                "schedule_info": '{"units":"seconds","interval":10}',
                "executable": "/home/ann/.keiji/exec/tasks/ping_google.bin",
            }
        ],
    },
    read=_read,
    source=_source,
)
