"""Tables and lists of Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"
CODE = re.compile(r"`([^`|]*\|[^`]*)`")
"""Code with a bar in it."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield row(head)
    yield f"|{'---|' * len(head)}"
    yield from map(row, rows)


def row(cells: Sequence[str]) -> str:
    """Return a line of a table; whatever stands in a cell stays in it."""
    return f"| {' | '.join(_within(' '.join(cell.split())) for cell in cells)} |"


def _within(cell: str) -> str:
    """Return a cell in which no bar ends it. Readers differ on bars in code, so there an entity stands for it."""
    coded = CODE.sub(lambda found: f"<code>{escape(found[1]).replace('|', '&#124;')}</code>", cell)
    return coded.replace("|", chr(92) + "|")


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`"


def text(lines: Iterable[str]) -> str:
    """Return the page."""
    return "\n".join([*lines, ""])
