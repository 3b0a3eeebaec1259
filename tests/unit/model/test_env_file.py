"""The `.env` of a task says variables, a line each."""

import pytest

from tokimori.errors import InvalidFile
from tokimori.model.task import LARGEST_ENV, read_env


def test_each_line_says_a_variable() -> None:
    """Quotes around a value are taken off; empty lines and those that begin with # say nothing."""
    text = "# a\n\nA=1\nB = two words \nexport C='x y'\nD=\"q\"\nE=\nF=a=b#c\r\n"
    found = read_env(text.encode(), ".env")
    assert found == {"A": "1", "B": "two words", "C": "x y", "D": "q", "E": "", "F": "a=b#c"}


@pytest.mark.parametrize("line", ["A", "1A=x", "A B=x", "=x", "é=x", "A=\0"])
def test_another_line_is_refused(line: str) -> None:
    """The error names the file and the line, and does not show a value."""
    with pytest.raises(InvalidFile, match=r"tasks/t/\.env:2: ") as refused:
        read_env(f"OK=1\n{line}".encode(), "tasks/t/.env")
    assert refused.value.allowed == "NAME=value"


def test_a_file_may_begin_with_a_mark() -> None:
    """As some editors write it."""
    assert read_env(b"\xef\xbb\xbfA=1", ".env") == {"A": "1"}


@pytest.mark.parametrize("content", [b"A=\xff", b"A=1\n" * LARGEST_ENV])
def test_what_can_not_be_read_whole_is_refused(content: bytes) -> None:
    """No task runs with some of its variables, or with half of one."""
    with pytest.raises(InvalidFile, match=r"^\.env: "):
        read_env(content, ".env")
