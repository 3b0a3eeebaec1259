"""Texts of others on a terminal: no sequence that moves, hides or sends anything."""

import re
from codecs import getincrementaldecoder

from tokimori.cli.command import options
from tokimori.logs.controls import CONTROL, written_out

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
