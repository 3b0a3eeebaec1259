"""Errors of runs as programs get them: the type of the exception, and its whole traceback."""

import traceback
from types import SimpleNamespace
from typing import Any

import pytest

from tokimori.apps.handle import error_in


def grouped() -> None:
    raise ExceptionGroup("many", [ValueError("a")])


def chained() -> None:
    try:
        int("x")
    except ValueError as before:
        raise RuntimeError("outer") from before


def during() -> None:
    try:
        chained()
    except RuntimeError:
        raise KeyError("then")  # noqa: B904


def noted() -> None:
    fault = OSError("first\nsecond")
    fault.add_note("a note")
    raise fault


def error_of(raises: Any) -> Any:
    """What a handle says of a run whose function has raised this, behind an earlier attempt's traceback."""
    try:
        raises()
    except Exception as fault:
        text = "Traceback (most recent call last):\nold\n\nprinted\n" + "".join(traceback.format_exception(fault))
        run: Any = SimpleNamespace(error="".join(traceback.format_exception_only(fault)).splitlines()[0])
        run.error = run.error.removeprefix("  | ")
        return error_in(run, SimpleNamespace(head=b"", tail=text.encode()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raises", "kind", "parts"),
    [
        (grouped, "ExceptionGroup", ["Exception Group Traceback", "ValueError: a"]),
        (chained, "RuntimeError", ["ValueError: invalid literal", "direct cause", "RuntimeError: outer"]),
        (during, "KeyError", ["ValueError: invalid literal", "direct cause", "another exception", "KeyError: 'then'"]),
        (noted, "OSError", ["OSError: first\nsecond", "a note"]),
    ],
)
def test_an_error_has_its_type_and_its_whole_traceback(raises: Any, kind: str, parts: list[str]) -> None:
    """With what has caused it, the errors of a group, further lines and notes; nothing of what was printed before."""
    error = error_of(raises)
    assert error.type == kind
    assert [part for part in parts if part not in error.traceback] == []
    assert "old" not in error.traceback


def test_what_no_exception_has_said_has_no_type() -> None:
    """Its first word may stand in the output."""
    output: Any = SimpleNamespace(
        head=b"", tail=b"it is\nTraceback (most recent call last):\n  x\nValueError: it took\n"
    )
    run: Any = SimpleNamespace(error="it took longer than 1 s")
    error = error_in(run, output)
    assert error is not None
    assert error.type == ""
