"""How far a long work is, on a terminal: a bar on standard error, which a pipe or a file does not get."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from tokimori.service.copying import Step, Tell

Advance = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


@contextmanager
def counting(what: str, unit: str) -> Iterator[Advance]:
    """A bar for work whose parts are counted: `what` is done, to so many of this `unit`."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with _bar(f"{{task.completed:.0f}} of {{task.total:.0f}} {unit}") as progress:
        task = progress.add_task(what, total=1)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def copying_bar() -> "Iterator[Tell]":
    """A bar for a copy; the total number of rows is known only when it verifies."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    with _bar("{task.completed:.0f} rows") as progress:
        task = progress.add_task("copy", total=None)

        def tell(step: "Step") -> None:
            verb = "verify" if step.verifying else "copy"
            progress.update(task, description=f"{verb} {step.kind}", completed=step.rows, total=step.total)

        yield tell


def _bar(counted: str) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:<18}"), BarColumn(), TextColumn(counted), console=Console(stderr=True)
    )
