"""Tokens, secrets and entries of the audit log as JSON."""

from datetime import datetime
from typing import Any, ClassVar

from tokimori.model.access_token import Role
from tokimori.service.views.outside import Outside, Sources


class AccessToken(Outside, frozen=True, kw_only=True):
    """A token, without what its holder sends. `expires` null: never."""

    SOURCES: ClassVar[Sources] = {"jobs": "scope.jobs", "queues": "scope.queues"}

    name: str
    role: Role
    jobs: tuple[str, ...]
    queues: tuple[str, ...]
    created: datetime
    by: str | None
    expires: datetime | None


class NewToken(Outside, frozen=True, kw_only=True):
    """A token that was made, and the text that its holder sends."""

    token: AccessToken
    text: str


class Secret(Outside, frozen=True, kw_only=True):
    """A secret without its value. `jobs`: only jobs whose ids begin so may use it; empty: all."""

    SOURCES: ClassVar[Sources] = {"set_at": "at"}

    name: str
    jobs: tuple[str, ...]
    set_at: datetime
    by: str | None


class AuditEntry(Outside, frozen=True, kw_only=True):
    """A change: `who` did `what` to `of`, and its state `before` and `after`; null if it did not exist."""

    SOURCES: ClassVar[Sources] = {name: f"entry.{name}" for name in ("at", "who", "what", "of", "before", "after")}

    id: str
    at: datetime
    who: str | None
    what: str
    of: str
    before: Any
    after: Any
