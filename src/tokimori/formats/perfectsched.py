"""PerfectSched's schedules, from its configuration or its database."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Rows
from tokimori.formats.importing import of_table, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_NOTES = (
    "PerfectSched's workers still run these schedules: stop them before, or slots run twice",
    "a job runs where a node has a handler of its type (`tokimori worker`), or a program polls for it",
)


class PerfectSchedRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of PerfectSched's table; `table` becomes the queue of the jobs. `retry_wait` is in seconds."""

    rows: Rows
    table: str = "schedules"
    retry_wait: Annotated[float, Meta(ge=0)] = 300


class Configured(NamedTuple):
    """Content of a configuration: the database, the table, and how long a retry waits."""

    database: str
    table: str | None = None
    retry_wait: float = 300


def _read(said: PerfectSchedRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.perfectsched import PerfectSched, read_perfectsched

    return read_perfectsched(said.rows, PerfectSched(said.table, said.retry_wait, said.time_zone))


def _source(given: Given) -> FormatSource:
    from tokimori.sources.tables import check_table
    from tokimori.translators.perfectsched import PerfectSched, read_perfectsched

    is_file = "://" not in given.source and given.source.endswith((".yml", ".yaml"))
    found = _configured(given.source, given.options["environment"]) if is_file else Configured(given.source)
    table = check_table(given.options["table"] or found.table or "schedules")
    context = PerfectSched(table, found.retry_wait, given.zone("UTC")[0])
    return FormatSource(of_table(found.database, table, lambda rows: read_perfectsched(rows, context)), _NOTES)


def _configured(file: str, environment: str) -> Configured:
    """Read one section of `config/perfectsched.yml`. Raises `InvalidFile`."""
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


FORMAT = Format(
    what="schedules of PerfectSched, with the slots that were missed",
    help="SOURCE is its configuration (YAML), or its database, as a file or a URL. Without a zone it is UTC.",
    request=PerfectSchedRequest,
    example={
        "rows": [
            {
                "id": "sched-id",
                "timeout": 1_900_000_030,
                "next_time": 1_900_000_000,
                "cron": "0 * * * *",
                "delay": 30,
                "data": '{"type":"type1","key":"value"}',
                "timezone": "Asia/Tokyo",
            }
        ],
    },
    read=_read,
    source=_source,
    options=(
        Option("table", "The table, instead of the configuration's; schedules by default.", "NAME"),
        Option("environment", "The section of the configuration.", "NAME", "development", short="e"),
    ),
)
