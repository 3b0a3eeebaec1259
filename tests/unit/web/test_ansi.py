import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.web.ansi import Piece, read

_KNOWN = {"b", "q", "i", "u", "gone", "on", "t", "acc", "bad", "green", "amber", "busy", "violet", "cyan"}
_SEQUENCES = st.sampled_from(
    [
        *(
            "\x1b[31m",
            "\x1b[1;92m",
            "\x1b[0m",
            "\x1b[m",
            "\x1b[48;5;196m",
            "\x1b[38;2;0;200;0m",
            "\x1b[7m",
            "\x1b[99999m",
        ),
        *("\x1b]8;;http://a\x07", "\x1b]8;;\x1b\\", "\x1b]0;title\x07", "\x1b[2J", "\x1b[", "\x1bP", "\x1b", "\x9b31m"),
    ]
)
_TEXTS = st.lists(st.one_of(_SEQUENCES, st.text(st.characters(), max_size=5)), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("plain", [("plain", "")]),
        ("", []),
        ("\x1b[31mred\x1b[0m not", [("red", "bad t"), (" not", "")]),
        ("\x1b[1;32mOK\x1b[22m ok\x1b[39m.", [("OK", "b green t"), (" ok", "green t"), (".", "")]),
        ("\x1b[38;5;196mA\x1b[38;2;10;20;250mB", [("A", "bad t"), ("B", "busy t")]),
        ("\x1b[41;97malarm\x1b[49m", [("alarm", "on bad")]),
        ("\x1b[2J\x1b[1;1Hgone to\x1b[K", [("gone to", "")]),
        ("\x1b]0;a title\x07text", [("text", "")]),
        ("\x1b]8;;https://e.org/\x1b\\here\x1b]8;;\x1b\\ on", [("here", ""), (" <https://e.org/>", "q"), (" on", "")]),
        ("a\x00b\x7f\u202ec", [("a␀b␡[U+202E]c", "")]),
        ("tab\tstays", [("tab\tstays", "")]),
        ("\x1b[38;5m\x1b[;;;mx", [("x", "")]),
    ],
)
def test_what_terminals_read_becomes_pieces_of_text(line: str, pieces: list[tuple[str, str]]) -> None:
    """Colours and bold become classes, links and titles text or nothing, all else that is unseen a name."""
    (found,) = read([line])
    assert list(found) == [Piece(*each) for each in pieces]


def test_a_colour_lasts_beyond_its_line() -> None:
    """It does until it is ended, as in a terminal."""
    assert [list(each) for each in read(["\x1b[33mone", "two\x1b[0m", "three"])] == [
        [Piece("one", "amber t")],
        [Piece("two", "amber t")],
        [Piece("three")],
    ]


@given(st.lists(_TEXTS, max_size=4))
def test_nothing_that_acts_comes_through(lines: list[str]) -> None:
    """Whatever is written, there is no control or turning character left, and no class but known ones."""
    found = list(read(lines))
    assert len(found) == len(lines)
    for piece in (piece for line in found for piece in line):
        assert not [each for each in piece.text if unicodedata.category(each) in ("Cc", "Cs") and each != "\t"]
        assert not set(piece.text) & set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
        assert set(piece.look.split()) <= _KNOWN
