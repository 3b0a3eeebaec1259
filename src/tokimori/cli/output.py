"""Output of the program: JSON for programs, tables and lines for people, texts of others without their sequences."""

import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path

from tokimori.cli.command import options
from tokimori.clock import Moment
from tokimori.errors import Refused
from tokimori.logs.controls import CONTROL, visible, visible_json, written_out
from tokimori.schedules.zones import clock_text

NOTHING = "-"
MOST_FAULTS = 20
"""The most faults that a terminal shows: a file of another kind has one on every line."""
STDOUT = 1
"""The descriptor to which `announce` writes."""


def print_json(value: object) -> None:
    """Print one indented JSON document, or a line for each member of a list, or with `-o template` its lines.

    Control characters are escaped on a terminal.
    """

    from msgspec import json

    from tokimori.service.views.outside import as_json

    if (template := options().template) is not None:
        from tokimori.cli.template import rendered

        lines, missing = rendered(template, value)
        print_lines(*lines)
        for line in missing:
            print_notice(line)
        return
    if options().output == "jsonl":
        each = value if isinstance(value, list) else [value]
        print_lines(*(as_json(member).decode() for member in each))
        return
    text = json.format(as_json(value), indent=2).decode() + "\n"
    sys.stdout.write(visible_json(text) if sys.stdout.isatty() else text)


def print_lines(*lines: str) -> None:
    """Print lines of text; on a terminal nothing in them controls it."""
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def print_answer(value: object, *lines: str) -> None:
    """Print a value if the answer is to be JSON, else these lines."""
    if options().as_json:
        print_json(value)
    else:
        print_lines(*lines)


def print_text(text: str) -> None:
    """Print a text as it is, for a file or another program."""
    sys.stdout.write(text)


def write_file(place: Path, text: str) -> None:
    """Write a text to a file, and make its folder. Raises `Refused`."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError as fault:
        message = f"{place}: can't be written: {fault.strerror}"
        raise Refused(message, field="file", value=str(place), allowed="a place that can be written") from None


def announce(line: str) -> None:
    """Print a line at once, although the program goes on."""
    print_lines(line)
    sys.stdout.flush()


def print_notice(line: str) -> None:
    """Print a line that is not part of the answer."""
    sys.stderr.write(f"{visible(line) if sys.stderr.isatty() else line}\n")


def some_of(lines: Sequence[str], more: str) -> Sequence[str]:
    """Return the lines; on a terminal the first of them, and the number of the others."""
    if not sys.stderr.isatty() or len(lines) <= MOST_FAULTS:
        return lines
    return [*lines[:MOST_FAULTS], f"… and {len(lines) - MOST_FAULTS} {more}"]


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print one `name: value` on each line, with the values aligned."""
    width = max(len(name) for name, _ in fields) + 1
    print_lines(*(f"{name + ':':<{width}} {printable(value)}" for name, value in fields))


def local(moment: Moment | None, zone: str) -> str:
    """Return the moment on the clocks of a zone, with its offset."""
    return NOTHING if moment is None else clock_text(moment, zone)


def printable(value: object) -> str:
    """Return the text of a cell: control characters are escaped, so that no job can control the terminal."""
    text = NOTHING if value is None else str(value)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


_COLOUR = r"\x1b\[[0-9;:]{0,60}m"
_OUTPUT = re.compile(rf"(?P<colour>{_COLOUR})|(?P<end>\r\n?)|{CONTROL}")
_BEGUN = re.compile(r"(?:\x1b(?:\[[0-9;:]{0,60})?|\r)\Z")
_PLAIN = b"\x1b[0m"


class TerminalOutput:
    """The output of a run on its way to a terminal, piece by piece: colours pass, all other sequences are written out.

    A carriage return becomes the end of a line, so that nothing is written over. `--plain` takes colours out, too.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")
        self._kept = ""
        self._coloured, self._plain = False, options().plain

    def feed(self, data: bytes) -> bytes:
        """Return the printable form of the next piece. An unfinished sequence waits for its end."""
        text = self._kept + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._kept = "" if begun is None else begun[0]
        return self._shown(text[: len(text) - len(self._kept)])

    def finish(self) -> bytes:
        """Return the rest, and the end of colours."""
        left, self._kept = self._kept + self._decoder.decode(b"", final=True), ""
        return self._shown(left) + (_PLAIN if self._coloured else b"")

    def _shown(self, text: str) -> bytes:
        return _OUTPUT.sub(self._passed, text).encode()

    def _passed(self, found: "re.Match[str]") -> str:
        if found["colour"]:
            self._coloured = not self._plain
            return "" if self._plain else found[0]
        return "\n" if found["end"] else written_out(found)
