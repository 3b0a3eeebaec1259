"""A list that is shown again and again, on a terminal, until Ctrl-C."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from tokimori.cli.command import options
from tokimori.cli.session import in_service
from tokimori.cli.table import table_text
from tokimori.errors import Refused

if TYPE_CHECKING:
    from tokimori.service.service import Service

_T = TypeVar("_T")
Table = tuple[Sequence[str], Sequence[Sequence[object]], Sequence[str]]
"""Columns, rows, and the columns that a narrow terminal can do without."""
INTERVAL = 2.0
"""Seconds between two looks."""
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def watched(look: Callable[["Service"], Awaitable[_T]], table_of: Callable[[_T], Table]) -> NoReturn:
    """Show the table of the current values, again and again. Raises `Refused` without a terminal."""
    if options().output not in ("table", "wide") or not sys.stdout.isatty():
        message = "watch: the list is drawn anew on a terminal, and this is none"
        raise Refused(message, field="watch", allowed="a terminal, and no --json or --output")

    async def act(service: "Service") -> NoReturn:
        while True:
            shown(table_text(*table_of(await look(service))))
            await asyncio.sleep(INTERVAL)

    in_service(act)
    raise AssertionError("only Ctrl-C ends it")


def shown(text: str) -> None:
    """Replace the content of the terminal by the lines, as many as fit."""
    lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST)
    sys.stdout.flush()
