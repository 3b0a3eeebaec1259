"""Telling who started a node that it is ready."""

import os
from pathlib import Path

import pytest

from tokimori.node.systemd import VARIABLE, Listener, starter_of


def test_who_started_it_is_told_once() -> None:
    """He hears it, and what the process starts is not told of him."""
    listener = Listener()
    environ = {VARIABLE: listener.address, "PATH": "/bin"}
    starter = starter_of(environ)
    assert environ == {"PATH": "/bin"}
    assert not listener.receives_ready(0)
    starter.report_ready()
    assert listener.receives_ready(5)
    listener.close()
    starter.report_ready()  # nobody is there any more


def test_nobody_wants_to_be_told(tmp_path: Path) -> None:
    """Without the variable nothing is sent, and an address where nobody listens is no fault: neither raises."""
    starter_of({}).report_ready()
    starter_of({VARIABLE: str(tmp_path / "nobody")}).report_ready()


def test_signs_of_life_come_twice_as_often_as_they_must() -> None:
    """A starter that watches hears that the loop goes on; children are told nothing of that."""
    listener, later = Listener(), list[float]()
    environ = {VARIABLE: listener.address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    starter = starter_of(environ)
    starter.report_alive(lambda seconds, _: later.append(seconds))
    assert (environ, later) == ({}, [15.0])
    assert listener._socket.recv(100) == b"WATCHDOG=1"
    listener.close()


@pytest.mark.parametrize("said", [{}, {"WATCHDOG_USEC": "no"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}])
def test_without_a_watch_nothing_is_told(said: dict[str, str]) -> None:
    """A watch of another process, or none, makes no timer."""
    starter_of(dict(said)).report_alive(lambda *_: pytest.fail("it asks for a timer"))
