"""The settings of a node's log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tokimori.model.policies import Seconds


class LogSettings(Struct, frozen=True, kw_only=True):
    """Log of a node: where it is written, and what becomes of old files."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The lowest level of messages that are written.")
    ] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="Lines for people, or JSON for programs.")] = "text"
    file: Annotated[Path | None, Meta(description="A file to which messages are written too.")] = None
    stderr: Annotated[bool, Meta(description="Whether messages are written to standard error.")] = True
    rotate: Annotated[
        bool, Meta(description="Whether a new file is begun where log.file is full or old (Keiji: ROTATE_LOGS).")
    ] = False
    max_size: Annotated[
        int,
        Meta(ge=1024, description="Bytes that a log file may have before a new one is begun (Keiji: LOG_MAX_SIZE)."),
    ] = 10 * 2**20
    max_age: Annotated[
        Seconds,
        Meta(
            description="A new file is begun at each whole multiple of so many seconds since 1970 (86400: at midnight"
            " UTC); 0: never for its age."
        ),
    ] = 0
    keep: Annotated[int, Meta(ge=0, le=10_000, description="Old log files that are kept; 0: all of them.")] = 10
    compress: Annotated[bool, Meta(description="Whether old log files are compressed with gzip.")] = True


def log_faults(log: LogSettings) -> Iterator[str]:
    """Yield what contradicts itself."""
    if not log.stderr and log.file is None:
        yield "log.stderr: false, but there is no log.file: messages would go nowhere; allowed: true, or name a file"
