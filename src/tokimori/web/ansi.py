"""Reader of what programs write for terminals: colours and bold become classes, all else becomes text. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tokimori.model.cause import ANSI

_TONES: Final = ("", "bad", "green", "amber", "busy", "violet", "cyan", "")
"""Classes of the eight colours of terminals; black and white are the ink."""
_MARKS: Final = {1: "b", 2: "q", 3: "i", 4: "u", 9: "gone"}
_ENDS: Final = {22: ("b", "q"), 23: ("i",), 24: ("u",), 29: ("gone",)}
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_LINK: Final = "\x1b]8;"
_MOST_NUMBERS: Final = 32


class Piece(NamedTuple):
    """A text in one look; `look` holds classes of the page, and is empty for plain text."""

    text: str
    look: str = ""


class _Look(NamedTuple):
    marks: frozenset[str] = frozenset()
    ink: str = ""
    ground: str = ""
    link: str = ""

    def classes(self) -> str:
        tone = f"on {self.ground}" if self.ground else f"{self.ink} t" if self.ink else ""
        return " ".join([*sorted(self.marks), *([tone] if tone else [])])


def read(lines: Iterable[str]) -> Iterator[Sequence[Piece]]:
    """Yield the pieces of each line. A colour lasts until it is ended, as in a terminal, beyond its line too."""
    look = _Look()
    for line in lines:
        if "\x1b" not in line:
            yield (Piece(visible(line), look.classes()),) if line else ()
            continue
        pieces: list[Piece] = []
        place = 0
        for found in ANSI.finditer(line):
            _add(pieces, line[place : found.start()], look)
            place, sequence = found.end(), found[0]
            if sequence.startswith(_LINK):
                if look.link:
                    pieces.append(Piece(f" <{visible(look.link)}>", "q"))
                look = look._replace(link=sequence.rstrip("\x07\\\x1b").split(";", 2)[-1])
            elif sequence.startswith("\x1b[") and sequence.endswith("m"):
                look = _changed(look, sequence[2:-1])
        _add(pieces, line[place:], look)
        yield pieces


def visible(text: str) -> str:
    """Return the text with names in place of characters that are invisible or reorder others."""
    return text if text.isprintable() else _UNSEEN.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 32:
        return chr(0x2400 + code)
    return "␡" if code == 127 else f"[U+{code:04X}]"


def _add(pieces: list[Piece], text: str, look: _Look) -> None:
    if text:
        pieces.append(Piece(visible(text), look.classes()))


def _changed(look: _Look, said: str) -> _Look:
    """Return the look after these numbers of `SGR`; unknown ones change nothing."""
    numbers = [
        int(each) if each.isascii() and each.isdigit() and len(each) < 4 else 0 for each in re.split("[;:]", said)
    ]
    rest = iter(numbers[:_MOST_NUMBERS])
    for number in rest:
        tens, one = divmod(number, 10)
        if number == 0:
            look = _Look(link=look.link)
        elif number in _MARKS:
            look = look._replace(marks=look.marks | {_MARKS[number]})
        elif number in _ENDS:
            look = look._replace(marks=look.marks - set(_ENDS[number]))
        elif number == 7:
            look = look._replace(ground=look.ink or "acc")
        elif number == 27:
            look = look._replace(ground="")
        elif tens in (3, 9, 4, 10):
            tone = _tone(one, rest)
            look = look._replace(ink=tone) if tens in (3, 9) else look._replace(ground=tone)
    return look


def _tone(one: int, rest: Iterator[int]) -> str:
    """Return the tone of a colour's last digit; 8 is followed by one of 256 colours, or by red, green and blue."""
    if one != 8:
        return _TONES[one] if one < len(_TONES) else ""
    kind = next(rest, 0)
    if kind == 5:
        number = next(rest, 0)
        if number < 16:
            return _TONES[number % 8]
        if number > 231:
            return ""
        cube = number - 16
        return _nearest(cube // 36 * 51, cube // 6 % 6 * 51, cube % 6 * 51)
    return _nearest(next(rest, 0), next(rest, 0), next(rest, 0)) if kind == 2 else ""


def _nearest(red: int, green: int, blue: int) -> str:
    """Return the tone of the colours among the three that are strong."""
    most, least = max(red, green, blue), min(red, green, blue)
    middle = (most + least) / 2
    return _TONES[(red > middle) + 2 * (green > middle) + 4 * (blue > middle)] if most - least > 40 else ""
