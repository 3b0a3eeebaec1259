"""The screen of `tokimori top`, drawn from what was seen, within the size of the terminal. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tokimori.cli.output import printable
from tokimori.cli.table import At, drawn
from tokimori.cli.top_keys import VIEWS, State, Subject, View, chosen, matches
from tokimori.clock import Moment
from tokimori.logs.controls import visible
from tokimori.spelling import amount

if TYPE_CHECKING:
    from rich.console import Console

_HINTS = "1-4 views · ↑↓ choose · f log · / filter · s sort · c cancel · ? keys · q quit"
_LOG_HINTS = "↑↓ scroll · / search · n N next, last · m matches · Esc back · ? keys · q quit"
HELP = """\
1 2 3 4   now, jobs, failures, plan (Tab: the next one)
j k ↑ ↓   choose; Space and b by ten, g and G to the ends
f Enter   log of the chosen run; in the log f goes to its end
/         filter rows; search in a log, then n, N, and m: matches only
s S       sort by the next column; turn the order
Esc       leave the log, or take the filter away
c         cancel the run          t  run the ended run once more
p         pause its job           r  run its job now
?         these keys              q  quit (Ctrl-C, too)
Each order is asked about first."""
_NARROW = 44
"""Columns below which only the name of this view is shown."""
_FRAME = 4
"""Lines above and below the tables: views, counts, a blank one, and keys."""
_HEADINGS = 3
"""Lines of a table beside its rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its cells, and what orders about it are for."""

    subject: Subject
    cells: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A table. `spare` are the columns that a narrow terminal does without, the first one first."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    spare: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """Findings of one look at a view, or at the log of the row that is `followed`.

    The `first` fact is shown before all `facts`.
    """

    now: Moment
    first: str
    facts: Sequence[str] = ()
    tables: Sequence[Listing] = ()
    log: Sequence[str] = ()
    view: View = View.NOW
    followed: Subject | None = None

    def shown(self, state: State) -> list[Listing]:
        """Return the tables with the rows that the filter leaves, in the wanted order."""
        return [_arranged(each, state) for each in self.tables] if self.is_of(state) else []

    def is_of(self, state: State) -> bool:
        """Return whether it is what the state wants to see: else that is still being looked for."""
        return (self.view, self.followed) == (state.view, state.followed)

    def subjects(self, state: State) -> list[Subject]:
        """Return what may be chosen, in the order of the screen."""
        return [row.subject for row in chain.from_iterable(each.rows for each in self.shown(state))]

    @property
    def columns(self) -> int:
        """Return by how many columns can be sorted."""
        return max((len(each.columns) for each in self.tables), default=0)


def _arranged(listing: Listing, state: State) -> Listing:
    rows = [
        row for row in listing.rows if not state.filter or matches(" ".join(map(printable, row.cells)), state.filter)
    ]
    if state.sort is not None and state.sort < len(listing.columns):
        place = state.sort
        known = [row for row in rows if _value(row.cells[place]) is not None]
        rows = sorted(known, key=lambda row: _value(row.cells[place]) or (0, 0.0, ""), reverse=state.backwards) + [
            row for row in rows if _value(row.cells[place]) is None
        ]
    elif state.backwards:
        rows = rows[::-1]
    return Listing(listing.title, listing.columns, rows, listing.spare)


def _value(cell: object) -> tuple[int, float, str] | None:
    """Return by what a cell is sorted; None for an empty one, which is last."""
    if isinstance(cell, At):
        return None if cell.moment is None else (0, float(cell.moment), "")
    if isinstance(cell, Measure):
        return (0, cell.amount, "")
    if isinstance(cell, int | float):
        return (0, float(cell), "")
    text = printable(cell)
    return None if text in ("", "-") else (1, 0.0, text.casefold())


@dataclass(frozen=True, slots=True)
class Measure:
    """A text that is sorted by an amount."""

    text: str
    amount: float

    def __str__(self) -> str:
        return self.text


def screen(console: "Console", seen: Content, state: State, height: int) -> str:
    """Return the lines, at most as many as the height, none wider than the console."""
    with console.capture() as captured:
        _head(console, seen, state)
        if state.help:
            console.print(f"\n{HELP}", markup=False, no_wrap=True, overflow="ellipsis", crop=True)
        elif not seen.is_of(state):
            _print(console, "\n…")
        elif state.followed is not None:
            _log(console, seen, state, height - _FRAME - 1)
        else:
            for listing, room in _rooms(seen.shown(state), height - _FRAME):
                _table(console, seen, listing, state, room)
    lines = captured.get().splitlines()[: height - 1]
    return "\n".join([*lines, *[""] * (height - 1 - len(lines)), _foot(console, state)][-height:])


def _head(console: "Console", seen: Content, state: State) -> None:
    views = "  ".join(f"[{n} {view}]" if view is state.view else f" {n} {view} " for n, view in enumerate(VIEWS, 1))
    if console.width < _NARROW:
        views = f"[{VIEWS.index(state.view) + 1} {state.view}]  1-4"
    parts = [views, *([f"filter {state.filter!r}"] if state.filter else [])]
    if state.sort is not None and (columns := [each.columns for each in seen.tables if state.sort < len(each.columns)]):
        parts.append(f"by {columns[0][state.sort]}{', backwards' if state.backwards else ''}")
    _print(console, "  ".join(parts))
    facts = " · ".join(map(visible, seen.facts))
    with_rest = f" · {facts}" if facts else ""
    from rich.text import Text

    console.print(Text.assemble((seen.first, "bold"), with_rest), no_wrap=True, overflow="ellipsis", crop=True)


def _print(console: "Console", line: str) -> None:
    console.print(line, markup=False, no_wrap=True, overflow="ellipsis", crop=True)


def _foot(console: "Console", state: State) -> str:
    if state.asked is not None:
        line = f"{state.asked}? [y/N]"
    elif state.typing is not None:
        line = f"/{state.typing}"
    else:
        line = state.message or (_LOG_HINTS if state.followed is not None else _HINTS)
    return visible(line)[: console.width]


def _rooms(tables: Sequence[Listing], height: int) -> Iterator[tuple[Listing, int]]:
    """Yield each table that has rows with the number of rows for which there is room.

    Each has an equal share, and the first ones get what others leave.
    """
    found = [each for each in tables if each.rows] or list(tables[:1])
    left = height - _HEADINGS * len(found)
    rooms = [max(1, min(len(each.rows), left // max(1, len(found)))) for each in found]
    left -= sum(rooms)
    for listing, room in zip(found, rooms, strict=True):
        more = max(0, min(len(listing.rows) - room, left))
        left -= more
        yield listing, room + more


def _table(console: "Console", seen: Content, listing: Listing, state: State, room: int) -> None:
    here = chosen(state, seen.subjects(state))
    place = next((n for n, row in enumerate(listing.rows) if row.subject == here), 0)
    first = max(0, min(place - room // 2, len(listing.rows) - room))
    count = f" ({first + 1} to {first + room} of {len(listing.rows)})" if len(listing.rows) > room else ""
    from rich.text import Text

    console.print()
    console.print(Text(f"{listing.title}{count}", "bold"), no_wrap=True, overflow="ellipsis", crop=True)
    rows = [(">" if row.subject == here else " ", *row.cells) for row in listing.rows[first : first + room]]
    if rows:
        drawn(console, ("", *listing.columns), rows, listing.spare, seen.now, warns=False)
    else:
        _print(console, f"nothing with {state.filter!r}" if state.filter else "nothing")


def _log(console: "Console", seen: Content, state: State, room: int) -> None:
    numbered = enumerate(seen.log, 1)
    lines = [(number, line) for number, line in numbered if not state.only or matches(line, state.needle)]
    first = _first_shown([number for number, _ in lines], state.top, room)
    _print(console, "")
    _print(console, _log_title(seen, state))
    for number, line in lines[first : first + room]:
        mark = ">" if state.needle and matches(line, state.needle) else " "
        _print(console, f"{mark}{number:>5} {line}")
    if not lines:
        _print(console, "(nothing yet)" if not seen.log else "no line has it")


def _log_title(seen: Content, state: State) -> str:
    run = state.followed and state.followed.run
    count = amount(len(seen.log), "line")
    where = "at its end" if state.top is None else f"from line {state.top + 1}"
    wanted = f", {'only ' if state.only else ''}{state.needle!r}" if state.needle else ""
    return f"log of run {run}: {count}, {where}{wanted}"


def _first_shown(numbers: Sequence[int], top: int | None, room: int) -> int:
    """Return the place of the first line to show: the one after line `top`; None: the last ones are shown."""
    if top is None:
        return max(0, len(numbers) - room)
    above = sum(number <= top for number in numbers)
    return min(above, max(0, len(numbers) - 1))
