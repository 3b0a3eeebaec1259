"""Entries of the audit log as JSON."""

from datetime import datetime
from typing import Any, ClassVar

from tokimori.service.views.outside import Outside, Sources


class EntryView(Outside, frozen=True, kw_only=True):
    """A change: `who` did `what` to `of`, and how that was `before` and `after`; null where there was no such thing."""

    SOURCES: ClassVar[Sources] = {name: f"entry.{name}" for name in ("at", "who", "what", "of", "before", "after")}

    id: str
    at: datetime
    who: str | None
    what: str
    of: str
    before: Any
    after: Any
