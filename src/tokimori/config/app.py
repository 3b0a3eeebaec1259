"""The app of a node: which one, and the processes that run its functions."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tokimori.errors import InvalidInput
from tokimori.model.handlers import pattern_of_stored
from tokimori.model.policies import Seconds

Count = Annotated[int, Meta(ge=1)]


class AppSettings(Struct, frozen=True, kw_only=True):
    """The app whose functions a node runs, and its worker processes."""

    load: Annotated[str | None, Meta(description="The app, as MODULE:NAME or FILE.py:NAME; none: no functions.")] = None
    only: Annotated[bool, Meta(description="Whether the node runs functions of the app alone, and no commands.")] = (
        False
    )
    include: Annotated[tuple[str, ...], Meta(description="Folders where modules of the app are looked for first.")] = ()
    require: Annotated[tuple[str, ...], Meta(description="Modules that are imported before the app.")] = ()
    stored: Annotated[
        tuple[str, ...],
        Meta(
            description="What jobs may name and a node imports though no app declares it, such as reports.tasks:*;"
            " none: nothing."
        ),
    ] = ()
    attached: Annotated[str | None, Meta(description="The socket of a program that runs the functions itself.")] = None
    reload: Annotated[
        bool, Meta(description="Whether new worker processes take over when a Python file changes: for development.")
    ] = False
    processes: Annotated[int, Meta(ge=1, le=1000, description="Worker processes; by default one for each core.")]
    concurrency: Annotated[int, Meta(ge=1, le=10_000, description="Runs at a time in each worker process.")] = 16
    drain: Annotated[
        Seconds | None,
        Meta(
            description="Seconds that the runs beside one that does not end get to finish before their worker process"
            " is ended; none: node.stop_grace."
        ),
    ] = None
    most_runs: Annotated[
        Count | None, Meta(description="After so many runs a worker process is replaced; none: never.")
    ] = None
    most_memory: Annotated[
        Count | None, Meta(description="With more MiB in memory a worker process is replaced; none: never.")
    ] = None


def bad_patterns(app: AppSettings) -> Iterator[str]:
    """Yield the faults of patterns for stored functions."""
    for text in app.stored:
        try:
            pattern_of_stored(text)
        except InvalidInput as fault:
            yield f"{fault.message}; allowed: {fault.allowed}"
