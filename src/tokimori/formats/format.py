"""Shape of a foreign format, from which every door is made: an importer is a file, and a line in `registry.py`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from tokimori.clock import Moment
from tokimori.schedules.zones import check_zone
from tokimori.service.validation import MOST_LISTED

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

Pages = Callable[[], AsyncIterator["Iterable[Entry]"]]
"""Read all entries of a source from its beginning, some at a time."""
Rows = Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_LISTED)]
"""Rows of a table, by column: what is binary there as a text."""
Text = Annotated[str, Meta(max_length=1 << 17)]
"""A text that is imported, in characters: YAML of this length takes a thread a second or two."""


class ImportRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every import.

    `dry_run`: jobs are only read and shown. `skip_refused`: those that can't be moved are left out. `update`: jobs that
    exist and differ are changed. `time_zone` is that of times without one.
    """

    dry_run: bool = False
    skip_refused: bool = False
    update: bool = False
    time_zone: str = "UTC"


class Option(NamedTuple):
    """An option of a format in a terminal. Without a `metavar` and `choices` it is a flag."""

    name: str
    help: str
    metavar: str | None = None
    default: str | None = None
    choices: tuple[str, ...] = ()
    is_repeated: bool = False
    short: str | None = None


class FormatSource(NamedTuple):
    """Source on a command line: its entries, and notes for people once jobs came in."""

    pages: Pages
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Words of a command line: the sources, and the format's own options by name. `user` is who gave them.

    `networks` are the private addresses to which the settings of this machine let requests go.
    """

    sources: tuple[str, ...]
    options: Mapping[str, Any]
    time_zone: str | None
    machine_zone: Callable[[], str]
    networks: Callable[[], Sequence[str]]
    user: str
    now: Moment

    @property
    def source(self) -> str:
        """Return the only source."""
        return self.sources[0]

    def zone(self, configured: str | None = None) -> tuple[str, tuple[str, ...]]:
        """Return the zone of times without one, and a note if that is only this machine's. Raises `InvalidInput`."""
        if found := self.time_zone or configured:
            return check_zone(found), ()
        zone = self.machine_zone()
        return zone, (f"times without a zone are read in that of this machine, {zone}; --timezone names another",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. `read` reads what is sent to a node, `source` what a command line names.

    `what` is what comes in, `help` describes the source.
    """

    what: str
    help: str
    request: type[ImportRequest]
    example: Mapping[str, object]
    read: Callable[[Any, Moment], "Iterable[Entry]"]
    source: Callable[[Given], FormatSource]
    options: tuple[Option, ...] = ()
    metavar: str = "SOURCE"
    takes_many: bool = False
    names_zones: bool = False
    """Every time of the format has its zone."""
