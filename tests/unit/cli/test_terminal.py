"""What reaches a terminal of texts that others wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.cli.output import TerminalOutput
from tokimori.logs.controls import visible


def shown(*pieces: bytes) -> str:
    """What a terminal gets of an output that comes in these pieces."""
    output = TerminalOutput()
    return (b"".join(map(output.feed, pieces)) + output.finish()).decode()


def test_only_colours_pass() -> None:
    """They end with the output; nothing goes on in the next prompt."""
    assert shown(b"\x1b[1;31mred\x1b[0m plain\t1\n") == "\x1b[1;31mred\x1b[0m plain\t1\n\x1b[0m"
    assert shown(b"plain\n") == "plain\n"


@pytest.mark.parametrize(
    ("sequence", "said"),
    [
        (b"\x1b[2J", r"\x1b[2J"),
        (b"\x1b]0;title\x07", r"\x1b]0;title\x07"),
        (b"\x1b]52;c;cm0gLXJm\x1b\\", r"\x1b]52;c;cm0gLXJm\x1b" + "\\"),
        (b"\x1b[6n", r"\x1b[6n"),
        (b"\x1bP+q544e\x1b\\", r"\x1bP+q544e\x1b" + "\\"),
        (b"\xc2\x9b2J", r"\x9b2J"),
        (b"\x9b2J", r"\x9b2J"),
        (b"a\x08b\x7f", r"a\x08b\x7f"),
        ("\u202egnp.exe".encode(), r"\u202egnp.exe"),
        (b"12 %\r13 %\r\nend", "12 %\n13 %\nend"),
    ],
)
def test_all_else_is_written_out(sequence: bytes, said: str) -> None:
    """What moves, hides, answers or reaches the clipboard, and what would write over a line."""
    assert shown(sequence) == said


@given(st.lists(st.sampled_from([b"\x1b", b"[", b"31", b";", b"m", b"\r", b"\n", b"x", b"\xc3", b"\xbc", b"\x9b"])))
def test_where_an_output_is_cut_changes_nothing(pieces: list[bytes]) -> None:
    """It comes as it grows, and a sequence may come in halves."""
    assert shown(*pieces) == shown(b"".join(pieces))


def test_lines_of_texts_pass_no_colour() -> None:
    """Names, reasons and errors have none of their own."""
    assert visible("a\x1b[31mb\n\tc\r") == "a\\x1b[31mb\n\tc\\r"
