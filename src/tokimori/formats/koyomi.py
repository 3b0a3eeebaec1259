"""Koyomi's jobs, from its configuration or its database."""

import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Pages, Rows
from tokimori.formats.importing import text_of
from tokimori.service.validation import MOST_LISTED

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry
    from tokimori.translators.koyomi import Koyomi

_MOST_TIMES = 301
"""Rows of `job_times` that are read of one job: one more than a schedule may have."""
_NOTES = (
    "Koyomi's workers still run these jobs: stop them, or they run twice",
    "jobs overlap as they like, as there; `job update ID --max-running 1` ends that",
    "only a node that runs as root can run jobs as other users",
    "commands get a small environment here (PATH, HOME, USER …), and not that of Koyomi's worker: `--env` adds to it",
    "created_on and updated_at are not moved: jobs are as old here as their import",
)


class KoyomiRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Koyomi's tables, with the `time_zone` of its configuration. Ids are `prefix`-1, `prefix`-2 …"""

    jobs: Rows
    job_times: Annotated[tuple[dict[str, Any], ...], Meta(max_length=20 * MOST_LISTED)] = ()
    semaphores: Rows = ()
    prefix: str = "koyomi"


class Configured(NamedTuple):
    """Content of a configuration: the database of the jobs, the zone, and what is not as it was."""

    database: str
    time_zone: str | None = None
    notes: tuple[str, ...] = ()


def _read(said: KoyomiRequest, now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.koyomi import Koyomi, read_koyomi

    return read_koyomi(said.jobs, said.job_times, said.semaphores, Koyomi(said.time_zone, said.prefix, now))


def _source(given: Given) -> FormatSource:
    from tokimori.translators.koyomi import Koyomi

    found = _configured(Path(given.source)) if given.source.endswith(".toml") else Configured(given.source)
    zone, zone_notes = given.zone(found.time_zone)
    return FormatSource(
        _pages(found.database, Koyomi(zone, given.options["prefix"], given.now)), (*found.notes, *zone_notes, *_NOTES)
    )


def _configured(path: Path) -> Configured:
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


FORMAT = Format(
    what="jobs of Koyomi",
    help="SOURCE is its configuration (TOML), or its database, as a file or a URL.",
    request=KoyomiRequest,
    example={
        "jobs": [{"id": 1, "user": "", "command": "make report", "memo": ""}],
        "job_times": [
            {"job_id": 1, "year": "*", "month": "*", "day": "*", "hour": "3", "minute": "0", "weekday": "*"},
        ],
    },
    read=_read,
    source=_source,
    options=(Option("prefix", "Ids are TEXT-1, TEXT-2 …; koyomi by default.", "TEXT", "koyomi"),),
)
