"""What came out of each trouble, as a table in Markdown."""

from collections.abc import Sequence

ROW = "trouble"
"""Under this name a test reports its row, so that the summary of all tests can show the table."""
HEADINGS = ("trouble", "occurrences", "runs", "missed", "doubled", "early", "take-over s", "recovery s", "other")


def table(rows: Sequence[Sequence[str]]) -> str:
    """The rows below their headings."""
    lines = [HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    head, *body = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {head} |", f"|{rule}|", *(f"| {line} |" for line in body)])
