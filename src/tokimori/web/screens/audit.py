"""The audit log: who has changed what, and what it was before."""

from collections.abc import Iterable, Sequence
from difflib import ndiff
from typing import Any, Final

from msgspec import json

from tokimori.clock import Moment
from tokimori.errors import NotFound
from tokimori.model.audit import older_than
from tokimori.schedules.stamp import past_moment_text
from tokimori.service.audit import Recorded
from tokimori.service.validation import MOST_LISTED, moment_of
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    MOST_ASKED,
    SHOWN,
    Cell,
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    plain,
    said,
    screens_of,
    turning,
    when,
)
from tokimori.web.screen import Act
from tokimori.web.tabs.changes import in_words, sides
from tokimori.web.visit import Visit

MOST_LINES: Final = 1_000
"""Lines of a thing that are shown."""
LONGEST_SHOWN: Final = 60
"""Characters of a change in the list."""
MOST_COMPARED: Final = 400
"""Number of lines that are compared without delay."""
_NAMES: Final = {"who": (), "what": (), "of": (), "since": (), "until": ()}
_COLUMNS: Final = (
    *(
        Column("What", "pa"),
        Column("Of", "wide pf"),
        Column("Who", "pc"),
        Column("When", "n pb"),
        Column("Change", "w2"),
    ),
)


async def show(visit: Visit) -> Noun:
    """Return the changes that the filters want, newest first."""
    found, after = await _found(visit)
    rows = [_row(visit, each) for each in found]
    return Noun(
        [
            Table(
                "Changes, newest first",
                _COLUMNS,
                rows,
                "Nothing has been changed yet. Whatever is, stands here:",
                "tokimori audit list",
            )
        ],
        filter=filters(visit, "Filter changes: words, or who: what: of: since: until:", _NAMES),
        page=turning(visit, after),
    )


def _moment(visit: Visit, name: str) -> Moment | None:
    text = visit.one(name)
    return None if text is None else moment_of(name, past_moment_text(name, text, visit.now), visit.service.time_zone)


async def _found(visit: Visit) -> tuple[Sequence[Recorded], str | None]:
    """Return the newest matches among the entries of one page, and the place to continue."""
    since, until = _moment(visit, "since"), _moment(visit, "until")
    after = max(visit.one("after") or "", "" if until is None else older_than(Moment(until - 1)))
    sought = {name: (visit.one(name) or "").casefold() for name in ("who", "what", "of")}
    found: list[Recorded] = []
    is_filtered = visit.one("q") is not None or any(sought.values())
    limit = MOST_LISTED if is_filtered else SHOWN + 1
    for _ in range(MOST_ASKED if is_filtered else 1):
        page = await visit.service.audit.list(after or None, limit)
        for each in page:
            if since is not None and each.entry.at < since:
                return found, None
            if not _matches(visit, each, sought):
                continue
            if len(found) == SHOWN:
                return found, found[-1].id
            found.append(each)
        if len(page) < limit:
            return found, None
        after = page[-1].id
    return found, after


def _matches(visit: Visit, each: Recorded, sought: dict[str, str]) -> bool:
    entry = each.entry
    texts = {"who": entry.who or "", "what": entry.what, "of": entry.of}
    return has(visit, *texts.values()) and all(text in texts[name].casefold() for name, text in sought.items())


def _row(visit: Visit, each: Recorded) -> Row:
    entry = each.entry
    cells = (
        said(entry.what, to=path("audit", each.id)),
        said(entry.of, to=_place(entry.of)),
        said(entry.who or "unknown"),
        when(visit, entry.at),
        said(plain(in_words(entry), LONGEST_SHOWN), "q"),
    )
    return Row(f"entry {each.id}", cells)


async def page(visit: Visit) -> Noun:
    """Return the page of a change, with how the thing was before and after."""
    wanted = visit.parts["entry_id"]
    before_it = f"{wanted[:-1]}{chr(max(1, ord(wanted[-1]) - 1))}~"
    found = await visit.service.audit.list(before_it, 1)
    if not found or found[0].id != wanted:
        raise NotFound(f"there is no entry {wanted!r}", field="id", value=wanted)
    entry = found[0].entry
    of = said(entry.of, to=_place(entry.of))
    return Noun(
        name=plain(entry.what),
        says=(of, said(entry.who or "unknown"), Cell(time=visit.time(entry.at))),
        facts=(
            ("When", said(visit.time(entry.at).full)),
            ("Who", said(entry.who or "unknown")),
            ("Of", of),
            ("Id", said(wanted, "code")),
        ),
        diff=_diff(*sides(entry)),
    )


def _place(of: str) -> str | None:
    """Return where the thing of a change is, if it has a page."""
    word, _, name = of.partition(" ")
    has_page = name and word in ("job", "run", "queue", "semaphore", "calendar", "task", "expectation", "set", "node")
    return path(f"{word}s", name) if has_page else None


def _diff(before: Any, after: Any) -> Sequence[tuple[str, str]]:
    old, new = _lines(before), _lines(after)
    changes: Iterable[str] = [*(f"- {each}" for each in old), *(f"+ {each}" for each in new)]
    if len(old) + len(new) < MOST_COMPARED:
        changes = ndiff(old, new)
    return [({"-": "d", "+": "p"}.get(each[:1], ""), plain(each)) for each in changes if not each.startswith("?")]


def _lines(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    return json.format(json.encode(value), indent=2).decode().splitlines()[:MOST_LINES]


ACTS: Final[tuple[Act, ...]] = ()
SCREENS: Final = screens_of("audit", show, page, "{entry_id}", names=_NAMES)
