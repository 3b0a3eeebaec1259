"""Progress of a long work on a terminal: a bar on standard error, which a pipe or a file does not get."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tokimori.cli.command import options

if TYPE_CHECKING:
    from rich.progress import Progress

    from tokimori.service.copying import CopyStep, ReportStep

Advance = Callable[[int, int | None], None]
"""Function that receives how much is done, and of how much (None: unknown)."""


@contextmanager
def counting(what: str, unit: str) -> Iterator[Advance]:
    """Yield a bar for counted work: `what` is done, in parts of this `unit`."""
    if not sys.stderr.isatty() or options().plain:
        yield lambda _done, _total: None
        return
    with _bar("{task.fields[counted]}") as progress:
        task = progress.add_task(what, total=None, counted="")

        def advance(done: int, total: int | None) -> None:
            counted = f"{done} {unit}" if total is None else f"{done} of {total} {unit}"
            progress.update(task, completed=done, total=total, counted=counted)

        yield advance


@contextmanager
def copying_bar() -> "Iterator[ReportStep]":
    """Return a bar for a copy; the total number of rows is known only when it verifies."""
    if not sys.stderr.isatty() or options().plain:
        yield lambda _step: None
        return
    with _bar("{task.completed:.0f} rows") as progress:
        task = progress.add_task("copy", total=None)

        def report(step: "CopyStep") -> None:
            verb = "verify" if step.verifying else "copy"
            progress.update(task, description=f"{verb} {step.kind}", completed=step.rows, total=step.total)

        yield report


def _bar(counted: str) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:<18}"), BarColumn(), TextColumn(counted), console=Console(stderr=True)
    )
