"""Cause of a failure: a short text that is the same for failures with the same cause; and muted causes. Pure."""

import hashlib
import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.document import texts_of
from tokimori.model.run import LONG, Output, Run
from tokimori.model.transitions import RunState

LONGEST_CAUSE = 200
"""Characters."""
_LONGEST_LINE, _MOST_LINES, _MOST_BYTES = 1_000, 100, 16 * 1024
"""Characters of a line, lines, and bytes of an output that are looked at: what matters is said last."""
_ID_DIGITS = 12
ID = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}\Z", re.ASCII)
"""Form of the id of a cause."""
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])")
"""Escape sequences of terminals (ECMA-48)."""
_STOCK = re.compile(r"exit code \d+\Z|signal \d+ \(\S+\)\Z|it took longer than \S+ s\Z", re.ASCII)
"""Errors that say no more than the kind of the failure."""
_FRAME = re.compile(
    r"\s+at \S|\s*\.\.\. \d+ more|\s+\S+\.go:\d+|goroutine \d+|[\w./*]+\([^)]*\)\Z|exit status \d+|Node\.js v\d|note: "
    r"|\S*make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error) (?:A complete log|\s*$)"
)
"""Lines of stack traces, and of programs that only say that another one has failed."""
_WORD = re.compile(r"[^\W\d_]{2}")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_PATH = r"[\w.@+~%=-]{1,255}"
_OUT = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "#"),
        (rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? )?{_MONTH} +\d{{1,2}}\b", "#"),
        (rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? )?\d{{1,2}}[ /-]{_MONTH}[ /-]\d{{2,4}}\b", "#"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?Z\b| ?[+-]\d\d:?\d\d\b)?", "#"),
        (r"(\b\w{2,20}://[^/\s\"'<>]{1,255})/[^\s\"'<>]*", r"\1/…"),
        (r"(?<!\w)[A-Za-z]:\\[^\s\"'<>:|]+", "…"),
        (rf"(?<![\w/:…<])(?:~|\.{{1,2}})?(?:/{_PATH})+/?", "…"),
        (rf"(?<![\w/:.@+~%=-])(?:{_PATH}/)+[\w-]{{1,255}}\.\w{{1,8}}\b", "…"),
        (r"\b0[xX][0-9a-fA-F]+", "#"),
        (r"(?<![0-9A-Za-z])(?=[a-fA-F]*\d)[0-9a-fA-F]{6,}(?![0-9A-Za-z])", "#"),
        (r"(?<![0-9A-Za-z])[0-9a-fA-F]{8,}(?![0-9A-Za-z])", "#"),
        (r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?![\w:])", "#"),
        (r"\d+", "#"),
        (r"(?:(?<!\w)[+-])?#(?:[-+:/.,T ]{1,2}#)+", "#"),
    )
)
"""What differs between failures with one cause, and the mark instead of it."""


def reckoned(outcome: str, exit_code: int | None, signal: int | None, error: str, output: Output | None) -> str:
    """Return the cause of a failed end: its kind and exit, and the last meaningful line without what varies.

    `outcome` is the word for it in `tokimori.model.settle.WORDS`.
    """
    return cause_and_line(outcome, exit_code, signal, error, output)[0]


def cause_and_line(
    outcome: str, exit_code: int | None, signal: int | None, error: str, output: Output | None
) -> tuple[str, str | None]:
    """Return the same, and its line as it was written; None if the cause has it so."""
    said = "" if _STOCK.match(error) else last_line(error)
    said = said or last_line(b"" if output is None else output.tail or output.head)
    ended = [f"signal {signal}"] * (signal is not None) or [f"exit {exit_code}"] * (exit_code is not None)
    kind, line = ended[0] if ended and outcome == "failed" else outcome, steady(said)
    return _shortened(f"{kind}: {line}" if line else kind), None if said == line else said[:LONGEST_CAUSE]


def steady(line: str) -> str:
    """Return the line without numbers, hex, UUIDs, dates and paths: what stays is the same each time."""
    line = line[:_LONGEST_LINE]
    for pattern, instead in _OUT:
        line = pattern.sub(instead, line)
    return _shortened(line.lstrip(" \t#-[]():|,>").rstrip())


def last_line(text: str | bytes) -> str:
    """Return the last line that says something; "" if none does."""
    text = text[-_MOST_BYTES:].decode(errors="replace") if isinstance(text, bytes) else text[-_MOST_BYTES:]
    spare = ""
    for raw in text.splitlines()[: -_MOST_LINES - 1 : -1]:
        line = plain(raw[:_LONGEST_LINE])
        if _WORD.search(line) is None:
            continue
        if _FRAME.match(line) is None:
            return line.strip()
        spare = spare or line.strip()
    return spare


def plain(line: str) -> str:
    """Return the line without escape sequences of terminals, and without characters that no one sees."""
    if line.isprintable():
        return line
    bare = ANSI.sub("", line).replace("\t", " ")
    return bare if bare.isprintable() else "".join(filter(str.isprintable, bare))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_CAUSE else f"{text[: LONGEST_CAUSE - 1]}…"


def cause_in(run: Run) -> str | None:
    """Return the cause of a failed run; one that ended otherwise after all has none.

    That of a run that an older version has ended is reckoned from its error.
    """
    if run.state is not RunState.FAILED or run.error == LONG:
        return None if run.state is not RunState.FAILED else run.details.cause
    error, outcome = run.error or "", "lost" if run.failures == 0 and run.lost else "failed"
    return run.details.cause or reckoned(outcome, run.exit_code, run.signal, error, None)


def cause_id(cause: str) -> str:
    """Return the id of a cause, by which people and addresses name it."""
    return hashlib.sha256(cause.encode(errors="replace")).hexdigest()[:_ID_DIGITS]


VARIABLE = "TRACEPARENT"
"""Variable in which programs pass it to those that they start, by OpenTelemetry's conventions."""
HEADER = "traceparent"
_ALLOWED = "a traceparent of W3C Trace Context, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^\n]*)?")
_LONGEST = 512


def traceparent_in(text: str | None) -> str | None:
    """Return the traceparent in a text from outside, in the form of version 00; None if it is invalid.

    Of later versions it takes the parts that all have.
    """
    found = None if text is None or len(text) > _LONGEST else _FORM.fullmatch(text.strip(" \t"))
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None) or not trace.strip("0") or not span.strip("0"):
        return None
    return f"00-{trace}-{span}-{flags if version == '00' else f'{int(flags, 16) & 1:02x}'}"


def check_traceparent(given: object) -> str | None:
    """Check a `traceparent` that somebody names on purpose. Raises `InvalidInput`."""
    if given is None:
        return None
    found = traceparent_in(given) if isinstance(given, str) else None
    if found is None:
        message = f"traceparent: {given!r} is none"
        raise InvalidInput(message, field="traceparent", value=given, allowed=_ALLOWED)
    return found


KIND: Final = "mute"
MOST_MUTED: Final = 100
"""Causes that are muted at the same time: each look at failures reads all of them."""


class Mute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A muted cause of failures: its id, its text, from when and until when, by whom and why."""

    id: str
    cause: str
    since: Moment
    until: Moment
    by: str | None = None
    reason: str | None = None

    def anew(self, now: Moment) -> "Mute":
        """Return the mute as if it began then, for as long."""
        return replace(self, since=now, until=Moment(self.until - self.since + now))


encode_mute, decode_mute = texts_of(Mute)
