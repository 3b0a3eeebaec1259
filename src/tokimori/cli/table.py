"""Tables and lists: drawn to fit on a terminal, whole elsewhere, or in the form that `--output` names."""

import csv
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from tokimori.cli.command import options
from tokimori.cli.output import NOTHING, local, print_json, print_lines, printable
from tokimori.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Moment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_SHORTEST_ID = 13
"""The part of a run's or a node's id that holds its millisecond."""
_SHORTEST_END = 8
"""The part of a run's id that is shown, at its end."""
_CUT_TO = 14
"""A column is cut to this before another is left out."""
_GAP = 2
_STATES = {
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "running": ("▶", "cyan"),
    "ready": ("•", "cyan"),
    "waiting": ("○", "default"),
    "blocked": ("‖", "yellow"),
    "held": ("‖", "yellow"),
    "cancelled": ("-", "default"),
    "skipped": ("-", "default"),
    "parked": ("✗", "red"),
    "failing": ("✗", "red"),
    "overdue": ("!", "red"),
    "paused": ("‖", "yellow"),
    "enabled": ("✓", "green"),
    "finished": ("-", "default"),
    "alive": ("✓", "green"),
    "left": ("-", "default"),
    "dead": ("✗", "red"),
}
"""The sign and the colour of a state; other words have neither."""


class At(Struct, frozen=True):
    """A moment: on a terminal how far it is from now, elsewhere on the clocks of its zone."""

    moment: Moment | None
    zone: str

    def __str__(self) -> str:
        return local(self.moment, self.zone)


class Id(Struct, frozen=True):
    """A run's or node's id. A terminal shows enough of it to distinguish the rows, and at least its millisecond."""

    text: str | None

    def __str__(self) -> str:
        return NOTHING if self.text is None else self.text


class Short(Id, frozen=True):
    """A run's id: on a terminal its last digits, by which commands take it. The first ones are those of its minute."""


class State(Struct, frozen=True):
    """The word of a state: on a terminal with its sign and colour."""

    word: str

    def __str__(self) -> str:
        return self.word


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, spare: Sequence[str] = ()) -> None:
    """Print a table; `spare` are the columns that a narrow terminal can do without, the first one first."""
    match options().output:
        case "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *(map(printable, row) for row in rows)])
        case "ids":
            place = next((columns.index(name) for name in ("ID", "NAME") if name in columns), 0)
            print_lines(*dict.fromkeys(printable(row[place]) for row in rows))
        case "wide":
            sys.stdout.write(_whole(columns, rows))
        case _ if sys.stdout.isatty():
            sys.stdout.write(table_text(columns, rows, spare))
        case _:
            sys.stdout.write(_whole(columns, rows))


def print_found(
    value: object, columns: Sequence[str], rows: Sequence[Sequence[object]], *, spare: Sequence[str] = ()
) -> None:
    """Print a value if the answer is to be JSON, else a table, as `print_table` does."""
    if options().as_json:
        print_json(value)
    else:
        print_table(columns, rows, spare=spare)


def _whole(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return every cell in full, one below the other, with control characters escaped."""
    table = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return "".join(f"{line}\n" for line in lines)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str]) -> str:
    """Return the lines of a table as this terminal shows it; with `--output wide` as wide as its cells are."""
    from tokimori.clock import SystemClock

    if options().output == "wide":
        return _whole(columns, rows)
    console = terminal()
    with console.capture() as captured:
        drawn(console, columns, rows, spare, SystemClock().now())
    return captured.get()


def terminal(*, stderr: bool = False) -> "Console":
    """Return the terminal, as standard output or error. `--plain`: nothing but text; NO_COLOR: no colours."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, color_system=None if options().plain else "auto")


def drawn(
    console: "Console",
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    spare: Sequence[str],
    now: Moment,
    *,
    warns: bool = True,
) -> None:
    """Draw a line for each row, within the console's width; if it `warns`, also which columns have no room."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = dict(zip(columns, _shown(columns, rows, now), strict=True))
    widths = {name: max(map(cell_len, (name, *(cell.plain for cell in of)))) for name, of in cells.items()}
    ids = [
        name
        for name, of in zip(columns, zip(*rows, strict=True), strict=False)
        if any(isinstance(each, Id) for each in of)
    ]
    fitted = fit(widths, spare, console.width, ids)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, width in fitted.items():
        table.add_column(Text(name, "bold"), width=width, no_wrap=True, overflow="ellipsis")
    for row in zip(*(cells[name] for name in fitted), strict=True):
        table.add_row(*row)
    console.print(table)
    if warns and (left_out := [name for name in columns if name not in fitted]):
        console.print(f"[dim]{', '.join(left_out)} and whole texts: --output wide[/dim]")


def fit(widths: Mapping[str, int], spare: Sequence[str], room: int, whole: Collection[str] = ()) -> dict[str, int]:
    """Return the shown columns with their widths.

    Spare columns are dropped first, then the widest are cut, those in `whole` last.
    """
    fitted = dict(widths)
    for name in spare:
        if sum((width if each in whole else min(width, _CUT_TO)) + _GAP for each, width in fitted.items()) <= room:
            break
        fitted.pop(name, None)
    while (too_wide := sum(fitted.values()) + _GAP * len(fitted) - room) > 0:
        cut = {name: width for name, width in fitted.items() if width > 1 and name not in whole} or fitted
        widest = max(cut, key=cut.__getitem__)
        if cut[widest] == 1:
            break
        next_widest = max((width for name, width in cut.items() if name != widest), default=1)
        fitted[widest] = max(cut[widest] - too_wide, min(next_widest, cut[widest] - 1), 1)
    return fitted


def _shown(columns: Sequence[str], rows: Sequence[Sequence[object]], now: Moment) -> "list[list[Text]]":
    """Return the cells of each column, as a terminal shows them."""
    shown = []
    for place in range(len(columns)):
        of = [row[place] for row in rows]
        ids = [cell for cell in of if isinstance(cell, Id) and cell.text]
        ends = [str(cell)[::-1] for cell in ids if isinstance(cell, Short)]
        length = shortest(ends, _SHORTEST_END) if ends else shortest([str(cell) for cell in ids])
        shown.append([_cell(cell, now, length) for cell in of])
    return shown


def _cell(cell: object, now: Moment, length: int) -> "Text":
    from rich.text import Text

    match cell:
        case At(moment=moment) if moment is not None:
            return Text(distance(Moment(moment), now))
        case Short(text=text) if text is not None:
            return Text(text[-length:])
        case Id(text=text) if text is not None:
            return Text(text[:length])
        case State(word=word) if word in _STATES and not options().plain:
            sign, colour = _STATES[word]
            return Text(f"{sign} {word}", colour)
        case _:
            return Text(printable(cell))


def shortest(ids: Sequence[str], least: int = _SHORTEST_ID) -> int:
    """Return the number of characters that distinguish ids, at least those of their millisecond."""
    ordered = sorted(set(ids))
    longest = 0
    for one, other in pairwise(ordered):
        same = next(n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        longest = max(longest, same)
    return max(least, longest + 1)


def distance(moment: Moment, now: Moment) -> str:
    """Return how far a moment is, in its two largest units: `3m 20s ago`, `in 2d 4h`, `now`."""
    left = abs(moment - now)
    if left < SECOND:
        return "now"
    return f"{lasted(left)} ago" if moment < now else f"in {lasted(left)}"


def lasted(length: int) -> str:
    """Return a number of microseconds in their two largest units, such as `1h 30m`; below a second in milliseconds."""
    if length < SECOND:
        return f"{length // MILLISECOND}ms"
    units = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)]
    first = next(n for n, (_, unit) in enumerate(units) if length >= unit)
    parts, left = list[str](), length
    for name, unit in units[first : first + (2 if length < 100 * DAY else 1)]:
        number, left = divmod(left, unit)
        parts += [f"{number}{name}"] if number else []
    return " ".join(parts)


_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
Row = Sequence[object]
Listed = Sequence[tuple[_T, Sequence[Row]]]
"""Things, each with its rows: most have one."""


def listing(columns: Sequence[str]) -> Callable[[_F], _F]:
    """Return the options `--text`, `--sort` and `--reverse`, which `print_list` reads."""
    names = [_name(column) for column in columns]

    def add(command: _F) -> _F:
        for option in (
            click.option("--reverse", is_flag=True, help="The other way round.", **_store_option("reverse")),
            click.option("--sort", type=click.Choice(names), help="Sort by this column.", **_store_option("sort")),
            click.option("--text", metavar="TEXT", help="Only rows that hold this text.", **_store_option("text")),
        ):
            command = option(command)
        return command

    return add


def print_list(
    columns: Sequence[str], listed: Listed[_T], view: Callable[[_T], object], *, spare: Sequence[str] = ()
) -> None:
    """Print the wanted rows in their order; as JSON what `view` makes of each thing."""
    if options().as_json:
        print_json([view(each) for each, _ in _asked_for(columns, listed)])
    else:
        print_table(columns, rows_of(columns, listed), spare=spare)


def rows_of(columns: Sequence[str], listed: Listed[_T]) -> Sequence[Row]:
    """Return the same rows, for a table that is drawn again and again."""
    return [row for _, rows in _asked_for(columns, listed) for row in rows]


def _asked_for(columns: Sequence[str], listed: Listed[_T]) -> Listed[_T]:
    """Return the list that the options of this command ask for."""
    meta = click.get_current_context().meta
    return wanted(columns, listed, meta.get(_KEY + "text"), meta.get(_KEY + "sort"), reverse=_KEY + "reverse" in meta)


def wanted(
    columns: Sequence[str], listed: Listed[_T], text: str | None, sort: str | None, *, reverse: bool = False
) -> Listed[_T]:
    """Return the rows with the text in one of their cells, in any case, sorted by the column, empty ones last. Pure."""
    sought = (text or "").casefold()
    kept = [each for each in listed if any(sought in str(cell).casefold() for row in each[1] for cell in row)]
    if sort is None:
        return kept[::-1] if reverse else kept
    place = [_name(column) for column in columns].index(sort)
    keys = [(_key(each[1][0][place]), each) for each in kept]
    there = sorted((pair for pair in keys if pair[0] is not None), key=lambda pair: pair[0], reverse=reverse)
    return [each for _, each in there] + [each for key, each in keys if key is None]


_KEY = "tokimori.listing."


def _store_option(name: str) -> dict[str, Any]:
    def store(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            ctx.meta[_KEY + name] = value

    return {"expose_value": False, "callback": store}


def _name(column: str) -> str:
    return column.lower().replace(" ", "-")


def _key(cell: object) -> Any:
    """Return the sort key of a cell; None for an empty one."""
    match cell:
        case At(moment=moment):
            return None if moment is None else (0, moment)
        case None | "":
            return None
        case int() | float():
            return 0, cell
        case _:  # a column may hold moments and words
            return 1, str(cell).casefold()
