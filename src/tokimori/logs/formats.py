"""Forms of a message: a line for people, or JSON for programs."""

import logging
from datetime import UTC, datetime

from msgspec import UNSET, Struct, UnsetType, json

from tokimori.logs.controls import visible, visible_json


class TextFormatter(logging.Formatter):
    """`2030-01-01T00:00:00.123Z INFO tokimori.node: message`, an exception on the lines below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 the base's name
        """RFC 3339 in UTC, with milliseconds."""
        return _time_of(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in which nothing controls the terminal that shows it."""
        return visible(super().format(record))


class JsonLine(Struct, frozen=True, kw_only=True):
    """A message as JSON."""

    time: str
    level: str
    logger: str
    message: str
    exception: str | UnsetType = UNSET


class JsonFormatter(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as such a line."""
        exception = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        line = JsonLine(
            time=_time_of(record),
            level=record.levelname.lower(),
            logger=record.name,
            message=_unicode(record.getMessage()),
            exception=_unicode(exception) if exception else UNSET,
        )
        return visible_json(json.encode(line).decode())


def _unicode(text: str) -> str:
    """Return the text without halves of surrogate pairs (bytes of file names that are not UTF-8), which JSON can't
    hold.
    """
    return text.encode(errors="backslashreplace").decode()


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
