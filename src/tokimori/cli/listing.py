"""Common part of lists that are read whole: filter by a text, and sort by a column."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tokimori.cli.command import options
from tokimori.cli.output import print_json
from tokimori.cli.table import At, print_table

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
    def keep(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            ctx.meta[_KEY + name] = value

    return {"expose_value": False, "callback": keep}


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
