"""Screens of nouns that differ by their columns alone: the values that `noun.html` draws. Texts of others are cut."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from markupsafe import Markup

from tokimori.clock import Moment
from tokimori.errors import NotFound
from tokimori.logs.controls import visible
from tokimori.model.job import Job
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import path
from tokimori.web.filters import Chip, chips, typed, words
from tokimori.web.screen import Moved, Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import Time, short

SHOWN: Final = 100
"""Rows of a page."""
MOST_ASKED: Final = 10
"""Thousands of rows looked through for words, which no store finds."""
MOST_TEXT: Final = 300
"""Characters of a text in a row."""
MOST_BOX: Final = 20_000
"""Characters of a text that stands by itself."""

_T = TypeVar("_T")


class Cell(NamedTuple):
    """A text of a row. `kind`: `st` for the sign of the state `text`, `code` and `q` for their classes,
    `why` for a text with commands between backticks, `clock` for a time that is no distance."""

    text: str = ""
    kind: str = ""
    to: str | None = None
    time: Time | None = None
    says: str = ""
    picture: Markup | None = None


class Column(NamedTuple):
    """The head of a column, and the classes of its cells, such as their places on a phone."""

    head: str
    cls: str = ""


class Row(NamedTuple):
    """Row: its key, its texts, and the acts on the thing `on`."""

    key: str
    cells: Sequence[Cell]
    acts: Sequence[str] = ()
    on: str = ""


class Table(NamedTuple):
    """Rows below a head. `empty` says what an empty one lacks, and `command` what would fill it."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = ""
    command: str = ""
    head: str = ""


class Filter(NamedTuple):
    """The filters of a list: words, and `names`, each with its values if these are few."""

    hint: str
    names: Mapping[str, Sequence[str]]
    chips: Sequence[Chip]

    @property
    def kept(self) -> Sequence[str]:
        """Return the parameters of the address that the form has fields for."""
        return ("q", "after", *self.names)

    @property
    def menus(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the filters with few values."""
        return [(name, values) for name, values in self.names.items() if values]


class Turning(NamedTuple):
    """Links to the next page and back to the first one."""

    more: str | None = None
    first: str | None = None


class Noun(NamedTuple):
    """A list of things, or a thing with its facts. `makes` are acts that make one; `name` is that of the thing."""

    tables: Sequence[Table] = ()
    name: str = ""
    parent: str = ""
    says: Sequence[Cell] = ()
    acts: Sequence[str] = ()
    on: str = ""
    suffix: str = ""
    makes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    facts: Sequence[tuple[str, Cell]] = ()
    boxes: Sequence[tuple[str, str]] = ()
    diff: Sequence[tuple[str, str]] = ()
    filter: Filter | None = None
    page: Turning = Turning()
    note: str = ""


def screens_of(
    place: str,
    show: Callable[[Visit], Awaitable[Noun | Moved]],
    page: Callable[[Visit], Awaitable[Noun | Moved]] | None = None,
    one: str = "{name}",
    names: Mapping[str, Sequence[str]] | None = None,
) -> Sequence[Screen]:
    """Return the screen of a list, to which the rail leads, and that of a thing, which is called `one` in its path.

    `names` are the filters of the list that people may type as `name:value`.
    """

    def drawn(path: str, read: Callable[[Visit], Awaitable[Noun | Moved]], *, leads: bool) -> Screen:
        async def shown(visit: Visit) -> Shown:
            moved = typed(visit, list(names)) if names and leads else None
            found = moved or await read(visit)
            return {"noun": found} if isinstance(found, Noun) else found

        return Screen(path, place, "noun.html", shown, leads)

    alone = [] if page is None else [drawn(f"/{place}/{one}", page, leads=False)]
    return [drawn(f"/{place}", show, leads=True), *alone]


def alone(word: str, name: str, columns: Sequence[Column], row: Row | None) -> Noun:
    """Return the page of a thing that has no more to say than its row. Raises `NotFound` if it has none."""
    if row is None:
        raise NotFound(f"there is no {word} {name!r}", field="name", value=name)
    cells = [(column, cell) for column, cell in zip(columns, row.cells, strict=True) if column.cls != "pa"]
    facts = [(column.head, cell) for column, cell in cells if cell.kind != "st"]
    says = [cell for _, cell in cells if cell.kind == "st"]
    return Noun(name=plain(name), says=says, acts=row.acts, on=row.on, facts=facts)


def plain(text: object, most: int = MOST_TEXT) -> str:
    """Return a user's text for the page: control characters are written out, and it is cut to `most`."""
    cut = str(text)[: most + 1]
    return visible(cut if len(cut) <= most else f"{cut[:most]}…")


def said(text: object, kind: str = "", to: str | None = None) -> Cell:
    """Return a user's text as a cell that links to `to`."""
    return Cell("" if text is None else plain(text), kind, to)


def state(word: str, says: str = "") -> Cell:
    """Return a state with its sign, and `says` in place of its usual words."""
    return Cell(word, "st", says=says)


def when(visit: Visit, moment: Moment | None, zone: str = "") -> Cell:
    """Return a moment as a cell."""
    return Cell() if moment is None else Cell(time=visit.time(moment, zone))


def job_cell(job_id: str) -> Cell:
    """Return the id of a job, that leads to it."""
    return said(job_id, to=path("jobs", job_id))


def run_cell(run_id: str) -> Cell:
    """Return the end of the id of a run, that leads to it."""
    return said(short(run_id), "code", path("runs", run_id))


def by(name: str | None, reason: str | None = None) -> Cell:
    """Return the author of a change and the reason."""
    return said(f"{name or ''}{': ' if name and reason else ''}{reason or ''}")


def job_table(caption: str, ids: Sequence[str], empty: str, command: str = "") -> Table:
    """Return the first of these jobs as a table of their ids."""
    rows = [Row(f"job {each}", (job_cell(each),)) for each in ids[:SHOWN]]
    more = f"{caption} ({len(ids)}, the first {SHOWN})" if len(ids) > SHOWN else caption
    return Table(caption, (Column("Job", "pa wide"),), rows, empty, command, more)


async def jobs_that(visit: Visit, fits: Callable[[Job], bool]) -> Sequence[str]:
    """Return the ids of the jobs that fit, of a bounded number."""
    found: list[str] = []
    after: str | None = None
    for _ in range(MOST_ASKED):
        listed = await visit.service.jobs.list(after=after, limit=MOST_LISTED)
        found += [job.id for job in listed.jobs if fits(job)]
        if (after := listed.next) is None:
            break
    return found


def filters(visit: Visit, hint: str, names: Mapping[str, Sequence[str]] | None = None) -> Filter:
    """Return the filters of a list: active and possible ones."""
    known = names or {}
    return Filter(hint, known, chips(visit, list(known)))


def turning(visit: Visit, after: str | None) -> Turning:
    """Return the links from a page; the next one begins behind `after`, if there is one."""
    first = visit.link(after=None) if visit.one("after") else None
    return Turning(None if after is None else visit.link(after=after), first)


def has(visit: Visit, *texts: object) -> bool:
    """Return if these texts contain all words of the search."""
    looked = words(visit)
    text = " ".join(str(each) for each in texts if each is not None).casefold() if looked else ""
    return all(word in text for word in looked)


async def paged(
    visit: Visit,
    page_of: Callable[[str | None, int], Awaitable[Sequence[_T]]],
    name_of: Callable[[_T], str],
    wanted: Callable[[_T], bool],
) -> tuple[Sequence[_T], Turning]:
    """Return the wanted things of a page, from the list of a service."""
    found: list[_T] = []
    after, is_filtered = visit.one("after"), bool(words(visit)) or set(visit.query) - {"after"} != set()
    for _ in range(MOST_ASKED if is_filtered else 1):
        limit = MOST_LISTED if is_filtered else SHOWN + 1
        page = await page_of(after, limit)
        found += [each for each in page if wanted(each)]
        if len(found) > SHOWN:
            return found[:SHOWN], turning(visit, name_of(found[SHOWN - 1]))
        if len(page) < limit:
            return found, turning(visit, None)
        after = name_of(page[-1])
    return found, turning(visit, after)


def cut(
    visit: Visit, things: Sequence[_T], name_of: Callable[[_T], str], wanted: Callable[[_T], bool]
) -> tuple[Sequence[_T], Turning]:
    """Return the matching things of a page, by name, and the links to its neighbours."""
    after = visit.one("after") or ""
    left = (each for each in things if name_of(each) > after and wanted(each))
    found = list(islice(left, SHOWN + 1))
    return found[:SHOWN], turning(visit, name_of(found[SHOWN - 1]) if len(found) > SHOWN else None)
