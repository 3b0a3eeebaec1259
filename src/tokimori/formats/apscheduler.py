"""APScheduler 3, from the table of its SQLAlchemyJobStore."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import field

from tokimori.clock import Moment
from tokimori.formats.calls import JUMPS, PARAMETERS, parameters_of
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Rows
from tokimori.formats.importing import of_table

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_NOTES = (
    "APScheduler still runs these jobs: stop it, or they run twice",
    "a node imports the functions only if its setting app.stored allows it, such as app.stored = ['reports.tasks:*']",
    JUMPS,
)


class ApschedulerRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of APScheduler's table: `id`, and `job_state` in Base64, which is read as data.

    `parameters` are the names of a function's parameters, for jobs with args.
    """

    rows: Rows
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)


def _read(said: ApschedulerRequest, now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.apscheduler import from_base64, read_apscheduler

    return read_apscheduler(map(from_base64, said.rows), now, said.parameters)


def _source(given: Given) -> FormatSource:
    from tokimori.sources.tables import check_table
    from tokimori.translators.apscheduler import KEY, read_apscheduler

    names, table = parameters_of(given.options["parameters"]), check_table(given.options["table"])
    return FormatSource(
        of_table(given.source, table, lambda rows: read_apscheduler(rows, given.now, names), KEY), _NOTES
    )


FORMAT = Format(
    what="jobs of APScheduler 3, of whose pickles nothing is run",
    help="""SOURCE is the database of its SQLAlchemyJobStore, a file or a URL. Jobs are kept there as pickles. They are
    read as data: nothing of them is imported or run.""",
    request=ApschedulerRequest,
    example={"rows": []},
    read=_read,
    source=_source,
    options=(Option("table", "The table, if it is named otherwise.", "NAME", "apscheduler_jobs"), PARAMETERS),
    names_zones=True,
)
