"""Output of an attempt for the page: a range of its lines, or the lines that contain a text."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from tokimori.clock import Moment
from tokimori.model.run import Output
from tokimori.schedules.zones import on_clocks
from tokimori.service.tasks.outputs import timed_lines, unread
from tokimori.web.ansi import Piece, read
from tokimori.web.visit import Visit
from tokimori.web.words import full_time

SHOWN: Final = 1_000
"""Lines of a range."""
_BEFORE: Final = 200
"""Lines that are shown before one to which a link leads."""
_MOST_MARKS: Final = 50
"""Matches within a line that are marked."""


class ShownLine(NamedTuple):
    """Line with its number and the time of its first byte. Matched parts have the look `mark`."""

    number: int
    time: str
    full: str
    pieces: Sequence[Piece]
    hit: bool


class LogView(NamedTuple):
    """Shown lines, the number of all, and addresses of the other ranges. `at` is the line of a match.

    `begins` is the number of the first one. A browser that has the lines before `known` gets only the rest.
    """

    lines: Sequence[ShownLine]
    begins: int
    known: int
    total: int
    size: int
    missed: int
    numbered: bool
    times_known: bool
    timed: bool
    fault: str
    matches: int
    at: int
    earlier: str | None
    later: str | None
    start: str | None
    before: str | None
    after: str | None


async def log_view(visit: Visit, output: Output | None, zone: str, *, running: bool) -> LogView | None:
    """Return the lines that the address asks for, read in a thread; None if there is no output."""
    if output is None or output.size == 0:
        return None
    return await asyncio.to_thread(_view, visit, output, visit.zone_of(zone), running)


def line_asked(visit: Visit, name: str = "line") -> int | None:
    """Return the number of a line in the address; None if there is none."""
    given = visit.one(name) or ""
    return max(1, int(given)) if given.isascii() and given.isdigit() and len(given) < 10 else None


def _view(visit: Visit, output: Output, zone: str, running: bool) -> LogView:
    timed, _ = timed_lines(output)
    count = len(timed)
    sought, line = (visit.one("find") or "")[:200], line_asked(visit)
    look_for = re.compile(re.escape(sought), re.IGNORECASE) if sought else None
    texts = [text for _, text in timed]
    found = _matching(texts, look_for)
    only = bool(look_for and visit.one("only"))
    places: Sequence[int] = found if only else range(1, count + 1)
    at = line if line in found else None if line or not found else found[-1]
    first = _first(places, line_asked(visit, "from"), line or at)
    last = min(len(places), first + SHOWN)
    here = line or at or 0
    numbered = not (running and unread(output, 0)[0] > 0)
    known = int(visit.part) if running and numbered and not only and visit.part.isdecimal() else 0
    shown = [n for n in places[first:last] if n >= known]
    begin, end = (shown[0], shown[-1]) if shown else (1, 0)
    before = [text for text in texts[: begin - 1] if "\x1b" in text]  # for its colours, which may last
    pieces = dict(enumerate(islice(read([*before, *texts[begin - 1 : end]]), len(before), None), begin))
    return LogView(
        lines=[
            ShownLine(n, *_times(timed[n - 1][0], zone), list(marked(pieces[n], look_for)), n == here) for n in shown
        ],
        begins=places[first] if first < last else 0,
        known=known,
        total=count,
        size=output.size,
        missed=max(0, unread(output, 0)[0]),
        numbered=numbered,
        times_known=bool(output.times),
        timed=bool(output.times) and visit.one("notimes") is None,
        fault="" if found or not sought else f"No line has {sought!r} in it.",
        matches=len(found),
        at=found.index(at) + 1 if at else 0,
        earlier=_link(visit, **{"from": places[max(0, first - SHOWN)]}) if first else None,
        later=_link(visit, **{"from": places[last]}) if last < len(places) else None,
        start=_link(visit, **{"from": 1}) if first else None,
        before=_to(visit, next((n for n in reversed(found) if n < here), None)),
        after=_to(visit, next((n for n in found if n > here), None)),
    )


def _matching(texts: Sequence[str], sought: re.Pattern[str] | None) -> Sequence[int]:
    """Return the numbers of the lines that contain the text."""
    if sought is None:
        return ()
    lines = ("".join(piece.text for piece in each) for each in read(texts))
    return [n for n, line in enumerate(lines, 1) if sought.search(line)]


def _first(places: Sequence[int], begin: int | None, line: int | None) -> int:
    """Return the index of the first line that is shown: the newest ones are, unless another is asked for."""
    newest = max(0, len(places) - SHOWN)
    if begin is not None:
        return min(sum(1 for n in places if n < begin), max(0, len(places) - 1))
    if line is None or not places or line >= places[newest]:
        return newest
    return max(0, sum(1 for n in places if n < line) - _BEFORE)


def _link(visit: Visit, **changes: int | None) -> str:
    return visit.link(**{"from": None, "line": None, **changes})


def _to(visit: Visit, line: int | None) -> str | None:
    return None if line is None else f"{_link(visit, line=line)}#L{line}"


def _times(at: Moment | None, zone: str) -> tuple[str, str]:
    return ("", "") if at is None else (f"{on_clocks(zone, at):%H:%M:%S.%f}"[:-3], full_time(at, zone))


def marked(pieces: Sequence[Piece], sought: re.Pattern[str] | None) -> Iterator[Piece]:
    """Yield the pieces, cut at both ends of each match. Matched ones have the look `mark` as well."""
    text = "".join(each.text for each in pieces)
    spans = [found.span() for found in islice(sought.finditer(text), _MOST_MARKS)] if sought else []
    if not spans:
        yield from pieces
        return
    place = 0
    for piece in pieces:
        end = place + len(piece.text)
        cuts = sorted({place, end, *(cut for span in spans for cut in span if place < cut < end)})
        for begin, stop in pairwise(cuts):
            is_match = any(first <= begin < last for first, last in spans)
            look = f"mark {piece.look}".rstrip() if is_match else piece.look
            yield Piece(text[begin:stop], look)
        place = end
