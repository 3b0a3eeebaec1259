"""Listener: what a worker process says first decides whether it is let in."""

import asyncio
from collections.abc import Sequence
from time import thread_time

import pytest
from msgspec import defstruct
from msgspec.structs import replace

from tokimori.executors.functions import wire
from tokimori.executors.functions.listener import ANOTHER_VERSION, Connection
from tokimori.executors.functions.wire import FromWorker, Hello, Unloadable, frame, language
from tokimori.turns import Reading

HELLO = Hello(number=3, pid=7, app="a", handlers=[], patterns=[], jobs=[], speaks=language())


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
        self.connection = Connection(Reading(1, thread_time), self._greet, lambda *said: self.heard.append(said))
        self.connection.transport = self.line

    def _greet(self, _: Connection, hello: Hello) -> bool:
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


@pytest.mark.parametrize("speaks", ["another", ""], ids=["newer", "before there was a word for it"])
def test_who_speaks_another_language_is_told_of_as_no_app(speaks: str) -> None:
    """The node was upgraded while it ran: its processes would not understand what they are given."""
    door = Door()
    door.says(replace(HELLO, speaks=speaks))
    assert (door.came, door.line.closed) == ([], True)
    assert door.heard == [(3, [Unloadable(number=3, message=ANOTHER_VERSION)])]


def test_a_language_is_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same each time that it is reckoned, and another one with one more field, or one end less."""
    language.cache_clear()
    assert language() == HELLO.speaks
    with monkeypatch.context() as patched:
        patched.setattr(
            wire, "Declared", defstruct("Declared", [("id", str), ("fields", dict[str, object]), ("new", int)])
        )
        language.cache_clear()
        assert language() != HELLO.speaks
    language.cache_clear()
    monkeypatch.setattr(wire, "ENDS", wire.ENDS[:-1])
    assert language() != HELLO.speaks
    language.cache_clear()
