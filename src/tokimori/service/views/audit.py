"""Entries of the audit log as JSON."""

from typing import Any

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.service.audit import Recorded


class EntryView(Struct, frozen=True, kw_only=True):
    """A change: `who` did `what` to `of`, and how that was `before` and `after`; null where there was no such thing."""

    id: str
    at: str
    who: str | None
    what: str
    of: str
    before: Any
    after: Any


def entry_view(recorded: Recorded) -> EntryView:
    """Return the entry as JSON shows it."""
    entry = recorded.entry
    return EntryView(
        id=recorded.id,
        at=format_moment(entry.at),
        who=entry.who,
        what=entry.what,
        of=entry.of,
        before=entry.before,
        after=entry.after,
    )
