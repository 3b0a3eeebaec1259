"""Entries of the audit log as JSON."""

from datetime import datetime
from typing import Any, ClassVar

from tokimori.service.views.outside import Outside, Sources


class EntryView(Outside, frozen=True, kw_only=True):
    """A change: `who` did `what` to `of`, and its state `before` and `after`; null if it did not exist."""

    SOURCES: ClassVar[Sources] = {name: f"entry.{name}" for name in ("at", "who", "what", "of", "before", "after")}

    id: str
    at: datetime
    who: str | None
    what: str
    of: str
    before: Any
    after: Any
