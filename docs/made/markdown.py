"""Tables and lists of Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield row(head)
    yield f"|{'---|' * len(head)}"
    yield from map(row, rows)


def row(cells: Sequence[str]) -> str:
    """Return a line of a table; whatever stands in a cell stays in it."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`"


def text(lines: Iterable[str]) -> str:
    """Return the page."""
    return "\n".join([*lines, ""])
