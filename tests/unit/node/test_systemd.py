"""Telling who started a node that it is ready."""

from pathlib import Path

from tokimori.node.systemd import VARIABLE, Listener, starter_of


def test_who_started_it_is_told_once() -> None:
    """He hears it, and what the process starts is not told of him."""
    listener = Listener()
    environ = {VARIABLE: listener.address, "PATH": "/bin"}
    starter = starter_of(environ)
    assert environ == {"PATH": "/bin"}
    assert not listener.hears_ready(0)
    starter.tell_ready()
    assert listener.hears_ready(5)
    listener.close()
    starter.tell_ready()  # nobody is there any more


def test_nobody_wants_to_be_told(tmp_path: Path) -> None:
    """Without the variable nothing is sent, and an address where nobody listens is no fault: neither raises."""
    starter_of({}).tell_ready()
    starter_of({VARIABLE: str(tmp_path / "nobody")}).tell_ready()
