"""Listener: what a worker process says first decides whether it is let in."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from time import thread_time
from typing import Any

import msgspec
import pytest
from msgspec import defstruct
from msgspec.structs import replace

from tokimori.executors.functions import wire
from tokimori.executors.functions.listener import ANOTHER_VERSION, WorkerConnection
from tokimori.executors.functions.wire import FromWorker, Hello, Unloadable, frame, language
from tokimori.turns import TurnsOfReaders

HELLO = Hello(number=3, pid=7, app="a", handlers=[], patterns=[], jobs=[], language=language())


class Line(asyncio.Transport):
    """A line that knows whether it was closed."""

    closed = aborted = False

    def close(self) -> None:
        """In peace."""
        self.closed = True

    def abort(self) -> None:
        """At once."""
        self.aborted = True


class Door:
    """Who came, and what was heard."""

    def __init__(self) -> None:
        self.came: list[Hello] = []
        self.heard: list[tuple[int, Sequence[FromWorker]]] = []
        self.line = Line()
        self.connection = WorkerConnection(
            TurnsOfReaders(1, thread_time), self._greet, lambda *said: self.heard.append(said)
        )
        self.connection.transport = self.line

    def _greet(self, _: WorkerConnection, hello: Hello) -> bool:
        self.came.append(hello)
        return True

    def says(self, *messages: FromWorker) -> None:
        """These come in one piece."""
        self.connection._read(frame(messages))


def test_who_speaks_our_language_is_let_in() -> None:
    """What it says behind its hello is heard."""
    door = Door()
    door.says(HELLO)
    assert (door.came, door.heard, door.line.closed) == ([HELLO], [], False)


@pytest.mark.parametrize("another", ["another", ""], ids=["newer", "before there was a word for it"])
def test_who_speaks_another_language_is_told_of_as_no_app(another: str) -> None:
    """The node was upgraded while it ran: its processes would not understand what they are given."""
    door = Door()
    door.says(replace(HELLO, language=another))
    assert (door.came, door.line.closed) == ([], True)
    assert door.heard == [(3, [Unloadable(number=3, message=ANOTHER_VERSION)])]


@pytest.mark.parametrize(
    "hello",
    [
        {"type": "hello", "number": 3, "language": "new"},
        {"type": "hello", "number": 3, "app": "a", "handlers": {"f": 1}, "language": "new"},
        {"type": "hello", "number": 3, "of": "a time before there was a word for it"},
    ],
    ids=["fields are gone", "a field has another type", "older"],
)
def test_a_hello_that_has_changed_itself_is_known_for_one(hello: dict[str, object]) -> None:
    """It says who it is; all else may be unreadable."""
    door = Door()
    body = msgspec.msgpack.encode([hello])
    for piece in (len(body).to_bytes(4, "big") + body[:9], body[9:]):
        door.connection._read(piece)
    assert (door.came, door.line.closed, door.line.aborted) == ([], True, False)
    assert door.heard == [(3, [Unloadable(number=3, message=ANOTHER_VERSION)])]


@pytest.mark.parametrize(
    "said", [{"type": "grown", "number": 3}, {"type": "hello"}, {"type": "hello", "number": "x"}, 7, [[[]]]], ids=str
)
def test_what_nobody_understands_is_cut_off(said: object) -> None:
    """It is no hello of any version."""
    door = Door()
    body = msgspec.msgpack.encode([said])
    door.connection._read(len(body).to_bytes(4, "big") + body)
    assert (door.came, door.heard, door.line.aborted) == ([], [], True)


def test_a_stranger_that_was_let_in_is_cut_off() -> None:
    """A second hello, which nobody understands, comes from a function."""
    door = Door()
    door.says(HELLO)
    body = msgspec.msgpack.encode([{"type": "hello", "number": 3, "language": "new"}])
    door.connection._read(len(body).to_bytes(4, "big") + body)
    assert (door.heard, door.line.aborted) == ([], True)


CHANGED = {
    "a field more": ("Declared", defstruct("Declared", [("id", str), ("fields", dict[str, Any]), ("new", int)])),
    "another default": (
        "ToWorker",
        wire.Begin
        | wire.SendSignal
        | wire.Leave
        | defstruct("End", [("number", int), ("why", str), ("lost", bool, True)], frozen=True, kw_only=True, tag="end"),
    ),
    "another name": (
        "ToWorker",
        wire.Begin | wire.End | wire.SendSignal | defstruct("Leave", [], frozen=True, tag="go"),
    ),
    "an end less": ("ENDS", wire.ENDS[:-1]),
}


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_a_language_is_its_messages(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """With one that has changed it is another language."""
    monkeypatch.setattr(wire, *CHANGED[changed])
    assert language.__wrapped__() != language()


def test_another_process_with_the_same_code_speaks_the_same_language() -> None:
    """However it was started."""
    code = "from tokimori.executors.functions.wire import language; print(language())"
    for options, seed in ((), "1"), (("-O",), "2"), (("-OO",), "0"):
        told = subprocess.run(
            [sys.executable, *options, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == language()
