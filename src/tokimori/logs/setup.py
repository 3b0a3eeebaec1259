"""Set-up of the log: all loggers of the process, uvicorn's too, write through it."""

import logging
import os
import queue
import select
import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, json

from tokimori.errors import InvalidInput
from tokimori.logs.controls import visible, visible_json
from tokimori.logs.file import LogFile
from tokimori.logs.reading import Rotation


class TextFormatter(logging.Formatter):
    """`2030-01-01T00:00:00.123Z INFO tokimori.node: message`, an exception on the lines below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 the base's name
        """Return the time of a record: RFC 3339 in UTC, with milliseconds."""
        return _time_of(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without characters that control a terminal."""
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
    """Return the text without halves of surrogate pairs (file names that are no UTF-8), which JSON can't hold."""
    return text.encode(errors="backslashreplace").decode()


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


MOST_WAITING = 10_000
"""Messages that may wait for a slow reader; further ones are dropped and counted."""
STOP_TIMEOUT = 2.0
"""Seconds that stopping waits for a reader that does not read."""
MOST_HIDDEN = 2_000
"""Texts that are hidden in all messages; beyond them the oldest are forgotten."""
STANDARD_ERROR = 2

_Queue = queue.Queue[logging.LogRecord | None]


_ANNOUNCED = "announced"
NOT_ON_STDERR: Mapping[str, object] = MappingProxyType({_ANNOUNCED: True})
"""`extra` of a message for the log's file alone: readers of standard error get it on standard output."""


@dataclass(frozen=True, slots=True)
class Log:
    """A running log; `stop` writes waiting messages and restores the root logger."""

    _handler: "DroppingQueueHandler"
    _writer: "LogWriter"
    _level_before: int

    def hide(self, texts: Iterable[str]) -> None:
        """Hide these texts in all messages from now on."""
        self._handler.hide(texts)

    def stop(self) -> None:
        """Write the waiting messages that are read within `STOP_TIMEOUT`."""
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._level_before)
        self._handler.close()
        self._writer.stop()


def start_logging(
    *,
    level: str = "info",
    format: Literal["text", "json"] = "text",
    file: Path | None = None,
    rotation: Rotation | None = None,
    stderr: int | None = STANDARD_ERROR,
    announced: bool = False,
) -> Log:
    """Write every message of at least this level to the file descriptor `stderr`, and to the file if one is given.

    `announced`: those, too, that a person sees elsewhere.

    A thread writes, so that a blocked reader delays no one. The file is opened again after it was moved away, as by
    logrotate, and rotated by `rotation`. Raises `InvalidInput` if the file can't be written.
    """
    formatter = JsonFormatter() if format == "json" else TextFormatter()
    outputs: list[logging.Handler] = [] if stderr is None else [DescriptorHandler(stderr, announced=announced)]
    if file is not None:
        outputs.append(_file_handler(file, rotation, stderr, formatter))
    for output in outputs:
        output.setFormatter(formatter)
    waiting: _Queue = queue.Queue(MOST_WAITING)
    writer = LogWriter(waiting, outputs)
    handler = DroppingQueueHandler(waiting)
    root = logging.getLogger()
    level_before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    writer.start()
    return Log(handler, writer, level_before)


class DroppingQueueHandler(QueueHandler):
    """Handler that puts messages into the queue and never waits: if that is full, it drops, counts and reports them."""

    def __init__(self, waiting: _Queue) -> None:
        super().__init__(waiting)
        self._waiting = waiting
        self._dropped = 0
        self._hidden: tuple[str, ...] = ()

    def hide(self, texts: Iterable[str]) -> None:
        """See `Log.hide`."""
        self._hidden = tuple(dict.fromkeys((*self._hidden, *texts)))[-MOST_HIDDEN:]

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record with its arguments and exception as texts, safe from later changes."""
        record = copy(record)
        record.msg, record.args = self._shown(record.getMessage()), None
        if record.exc_info:
            record.exc_text = self._shown(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return record

    def _shown(self, text: str) -> str:
        """Return the texts to hide, the longest first: one may be a part of another."""
        for hidden in sorted((each for each in self._hidden if each in text), key=len, reverse=True):
            text = text.replace(hidden, "***")
        return text

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put the record into the queue, and before it a notice of how many were dropped."""
        try:
            if self._dropped:
                self._waiting.put_nowait(_notice("%d messages were dropped, because nobody read them", self._dropped))
                self._dropped = 0
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped += 1


class LogWriter(threading.Thread):
    """Thread that passes the queue's messages to the outputs until it is stopped.

    The standard library's QueueListener would wait for ever for a reader that does not read.
    """

    def __init__(self, waiting: _Queue, outputs: Sequence[logging.Handler]) -> None:
        super().__init__(name="tokimori-log", daemon=True)
        self._waiting = waiting
        self._outputs = outputs
        self._abandoned = False

    def run(self) -> None:
        """Write until the end mark comes. If an output fails, the others get the message, and all get the next one."""
        while (record := self._waiting.get()) is not None and not self._abandoned:
            for output in self._outputs:
                try:
                    output.handle(record)
                except Exception:  # noqa: S110 a full disk can be reported nowhere
                    pass
        for output in self._outputs:
            output.close()

    def stop(self) -> None:
        """Send the end mark and wait a moment for it to arrive; a writer that is stuck is left behind."""
        try:
            self._waiting.put(None, timeout=STOP_TIMEOUT)
        except queue.Full:
            self._abandoned = True
        else:
            self.join(STOP_TIMEOUT)


class DescriptorHandler(logging.Handler):
    """Handler that writes to a file descriptor directly: a blocked writer would hold the lock of `sys.stderr` at
    exit."""

    def __init__(self, descriptor: int, *, announced: bool = False) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._announced = announced

    def emit(self, record: logging.LogRecord) -> None:
        """Write the whole line; an error is ignored, as it can't be reported."""
        if record.__dict__.get(_ANNOUNCED) and not self._announced:
            return
        try:
            self._write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except OSError:
            pass

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process that shares it has made it non-blocking
                select.select([], [self._descriptor], [])


def _file_handler(
    file: Path, rotation: Rotation | None, stderr: int | None, formatter: logging.Formatter
) -> logging.Handler:
    to_stderr = DescriptorHandler(STANDARD_ERROR if stderr is None else stderr)
    to_stderr.setFormatter(formatter)
    try:
        return LogFile(file, rotation, lambda text: to_stderr.emit(_notice("%s", text)))
    except OSError as fault:
        raise InvalidInput(
            f"log.file: {file}: {fault.strerror}",
            field="log.file",
            value=str(file),
            allowed="a file that can be written",
        ) from None


def _notice(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(__name__, logging.WARNING, "", 0, message, args, None)
