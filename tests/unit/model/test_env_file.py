"""The `.env` of a task says variables, a line each."""

import pytest

from tokimori.errors import InvalidFile
from tokimori.model.env_file import read_env


def test_each_line_says_a_variable() -> None:
    """Quotes around a value are taken off; empty lines and those that begin with # say nothing."""
    text = "# a\n\nA=1\nB = two words \nexport C='x y'\nD=\"q\"\nE=\nF=a=b#c\r\n"
    found = read_env(text, ".env")
    assert found == {"A": "1", "B": "two words", "C": "x y", "D": "q", "E": "", "F": "a=b#c"}


@pytest.mark.parametrize("line", ["A", "1A=x", "A B=x", "=x", "é=x", "A=\0"])
def test_another_line_is_refused(line: str) -> None:
    """The error names the file and the line, and does not show a value."""
    with pytest.raises(InvalidFile, match=r"tasks/t/\.env:2: ") as refused:
        read_env(f"OK=1\n{line}", "tasks/t/.env")
    assert refused.value.allowed == "NAME=value"
