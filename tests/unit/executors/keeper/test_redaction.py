"""Secrets are hidden however what a process writes is cut."""

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tokimori.executors.keeper.redaction import MASK, Redaction, _occurrences, redacted

LETTERS = st.integers(0, 2).map(lambda letter: b"abc"[letter : letter + 1])
NEEDLES = st.lists(st.lists(LETTERS, min_size=1, max_size=12).map(b"".join), min_size=1, max_size=4)
TEXTS = st.lists(LETTERS, max_size=80).map(b"".join)
CUTS = st.lists(st.integers(0, 80), max_size=8)


def hidden(text: bytes, needles: list[bytes]) -> bytes:
    """The text with each byte looked at: those of overlapping occurrences are one mask."""
    spans = sorted(
        (at, at + len(needle)) for needle in needles for at in range(len(text)) if text.startswith(needle, at)
    )
    told, end = b"", 0
    for start, stop in spans:
        if start >= end:
            told += text[end:start] + MASK
        end = max(end, stop)
    return told + text[end:]


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    """The text, cut there."""
    return [text[start:end] for start, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)])]


@example(b"it is abcdefgh here", [b"abcdefgh"], [10])
@given(TEXTS, NEEDLES, CUTS)
def test_no_cut_shows_anything(text: bytes, needles: list[bytes], cuts: list[int]) -> None:
    """Whatever the pieces are, what is told is what the whole text would be with its secrets hidden."""
    stream = Redaction(needles)
    told = b"".join(map(stream.feed, pieces(text, cuts))) + stream.finish()
    assert told == hidden(text, needles) == redacted(text, needles)


@given(st.binary(min_size=6, max_size=40), st.binary(max_size=40), st.binary(max_size=40), CUTS)
def test_a_value_is_told_nowhere(value: bytes, before: bytes, after: bytes, cuts: list[int]) -> None:
    """Neither before the end of the stream nor with it."""
    stream, told = Redaction([value]), b""
    for piece in pieces(before + value + after, cuts):
        told += stream.feed(piece)
        assert value not in told or value in hidden(before + value + after, [value])
    assert told + stream.finish() == hidden(before + value + after, [value])


def test_a_beginning_behind_one_that_came_to_nothing() -> None:
    """Where the first characters come twice, and only the second time a value follows."""
    stream = Redaction([b"abababab" + b"c" * 12])
    assert stream.feed(b"abababab?abababab") == b"abababab?"
    assert stream.feed(b"c" * 12) == MASK


def test_what_waits_has_a_bound() -> None:
    """Only what may be the beginning of a secret waits, also where secrets overlap without end."""
    stream = Redaction([b"x" * 100])
    assert stream.feed(b"nothing of it") == b"nothing of it"
    told = b"".join(stream.feed(b"x" * 1000) for _ in range(1000))
    assert (told, stream.finish()) == (MASK, b"")
    assert stream.feed(b"x" * 99) == b""
    assert stream.finish() == b"x" * 99


def test_a_long_value_is_looked_for_in_time() -> None:
    """A piece of 64 KiB that nearly holds a value of 16 KiB, again and again, takes no time that grows with both."""
    stream = Redaction([b"ab" * 8000 + b"!"])
    assert stream.feed(b"ab" * 32_000 + b"?") == b"ab" * 32_000 + b"?"


def test_a_value_of_one_letter_is_hidden_in_time() -> None:
    """Where each byte begins an occurrence, only those are looked at that cover the others."""
    looked_at = 0

    class Seen(bytes):
        def find(self, *given: Any) -> int:
            nonlocal looked_at
            looked_at += 1
            return super().find(*given)

    spans = list(_occurrences(Seen(b"a" * 65_536), [b"a" * 16_000]))
    assert (spans[0][0], spans[-1][1]) == (0, 65_536)
    assert all(later[0] < earlier[1] for earlier, later in pairwise(spans))
    assert (len(spans) <= 6, looked_at) == (True, 2)
