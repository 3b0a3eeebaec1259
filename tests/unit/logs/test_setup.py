import logging
import os
import queue
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from msgspec import json

from tokimori.errors import InvalidInput
from tokimori.logs import setup
from tokimori.logs.setup import start_logging

log = logging.getLogger("tokimori.test")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


def lines_of(reader: int) -> list[str]:
    return os.read(reader, 1 << 16).decode().splitlines()


def test_messages_of_the_level_and_above(pipe: tuple[int, int]) -> None:
    """Every logger of the process writes here, from the level on; afterwards the root logger is as it was."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    started = start_logging(level="info", stderr=pipe[1])
    log.debug("no")
    log.info("yes %s", "indeed")
    logging.getLogger("uvicorn.error").warning("uvicorn's too")
    started.stop()
    assert [line.split(" ", 1)[1] for line in lines_of(pipe[0])] == [
        "INFO tokimori.test: yes indeed",
        "WARNING uvicorn.error: uvicorn's too",
    ]
    assert (root.level, root.handlers) == before


def test_json_with_exception(pipe: tuple[int, int]) -> None:
    """As JSON a message and its exception make one line."""
    started = start_logging(format="json", stderr=pipe[1])
    try:
        os.environ["GONE"]
    except KeyError:
        log.exception("oops %d", 1)
    started.stop()
    (line,) = lines_of(pipe[0])
    decoded = json.decode(line)
    assert decoded["message"] == "oops 1"
    assert decoded["exception"].endswith("KeyError: 'GONE'")


def test_arguments_are_rendered_at_once(pipe: tuple[int, int]) -> None:
    """What an argument was when the message was written is what is read."""
    started = start_logging(stderr=pipe[1])
    runs = [1]
    log.info("runs %s", runs)
    runs.append(2)
    started.stop()
    assert lines_of(pipe[0])[0].endswith("runs [1]")


def test_file_survives_rotation(pipe: tuple[int, int], tmp_path: Path) -> None:
    """The file gets every message too, also after somebody has moved it away."""
    file = tmp_path / "t.log"
    started = start_logging(file=file, stderr=pipe[1])
    log.info("one")
    while not file.read_text():
        pass
    file.rename(tmp_path / "t.log.1")
    log.info("two")
    started.stop()
    assert (tmp_path / "t.log.1").read_text().endswith("one\n")
    assert file.read_text().endswith("two\n")
    assert len(lines_of(pipe[0])) == 2


def test_a_file_that_fails_silences_nothing_else(pipe: tuple[int, int], tmp_path: Path) -> None:
    """While the folder of the file is gone, standard error gets every message, and the file those after it is back."""
    folder = tmp_path / "logs"
    folder.mkdir()
    file = folder / "t.log"
    started = start_logging(file=file, stderr=pipe[1])
    file.unlink()
    folder.rmdir()
    told = ""
    for word in ("one", "two"):
        log.info(word)
        while not told.endswith(f"{word}\n") and f"{word}\n20" not in told:
            told += os.read(pipe[0], 1 << 16).decode()
    folder.mkdir()
    log.info("three")
    started.stop()
    written = file.read_text()  # the file is written after standard error: it may have been back for the second already
    lost = 1 if "two\n" in written else 2
    assert f"{lost} messages were not written to this file: No such file or directory" in written
    assert "one\n" not in written
    assert written.endswith("three\n")
    told += os.read(pipe[0], 1 << 16).decode()
    assert told.endswith("three\n")
    assert told.count("can't be written (No such file or directory)") == 1


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """A log file that can't be written is bad input, and nothing has been started."""
    before = list(logging.getLogger().handlers)
    with pytest.raises(InvalidInput, match=r"log\.file"):
        start_logging(file=tmp_path / "no" / "t.log")
    assert logging.getLogger().handlers == before


def test_a_reader_that_does_not_read_stops_nobody(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody reads, messages are dropped and counted; the writer goes on, stopping ends, reading resumes."""
    monkeypatch.setattr(setup, "MOST_WAITING", 10)
    monkeypatch.setattr(setup, "STOP_TIMEOUT", 0.05)
    reader, writer = pipe
    started = start_logging(stderr=writer)
    log.info("%d %s", 0, "x" * 100)
    select.select([reader], [], [])  # it has come through; now the pipe is filled, to the last byte
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    for number in range(1, 50):  # more than the queue holds
        log.info("%d %s", number, "x" * 100)
    started.stop()
    stuck = next(thread for thread in threading.enumerate() if thread.name == "tokimori-log")
    first = lines_of(reader)
    assert " 0 xx" in first[0]
    assert len(first) < 1_000
    stuck.join(10)
    assert not stuck.is_alive()


def test_dropped_messages_are_counted() -> None:
    """Once there is room again, the next message follows the number of those that were dropped."""
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(2)
    handler = setup.DroppingQueueHandler(waiting)
    for message in ("a", "b", "c", "d"):
        handler.handle(logging.LogRecord("x", logging.INFO, "", 0, message, None, None))
    got = [waiting.get_nowait(), waiting.get_nowait()]
    handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "e", None, None))
    got += [waiting.get_nowait(), waiting.get_nowait()]
    assert [record and record.getMessage() for record in got] == [
        "a",
        "b",
        "2 messages were dropped, because nobody read them",
        "e",
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_hidden_is_in_no_line(pipe: tuple[int, int], form: Literal["text", "json"]) -> None:
    """Neither in a message nor in its arguments, nor in a traceback; of two the longer goes first."""
    started = start_logging(format=form, stderr=pipe[1])
    started.hide(["hunter", "hunter2"])
    try:
        int("no hunter2 here")
    except ValueError:
        log.exception("hunter and %s", "hunter2")
    started.stop()
    text = "\n".join(lines_of(pipe[0]))
    assert "*** and ***" in text
    assert "no *** here" in text
    assert "hunter" not in text


def test_what_is_hidden_has_a_bound(pipe: tuple[int, int]) -> None:
    """A node that runs for years forgets the oldest."""
    started = start_logging(stderr=pipe[1])
    for number in range(setup.MOST_HIDDEN + 1):
        started.hide([f"<{number}>"])
    log.info("<0> <1> <%d>", setup.MOST_HIDDEN)
    started.stop()
    assert lines_of(pipe[0])[0].endswith("<0> *** ***")
