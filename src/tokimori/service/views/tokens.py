"""Tokens as JSON."""

from datetime import datetime
from typing import ClassVar

from tokimori.model.access_token import Role
from tokimori.service.views.outside import Outside, Sources


class TokenView(Outside, frozen=True, kw_only=True):
    """A token, without what its holder sends. `expires` null: never."""

    SOURCES: ClassVar[Sources] = {"jobs": "scope.jobs", "queues": "scope.queues"}

    name: str
    role: Role
    jobs: tuple[str, ...]
    queues: tuple[str, ...]
    created: datetime
    by: str | None
    expires: datetime | None


class NewTokenView(Outside, frozen=True, kw_only=True):
    """A token that was made, and the text that its holder sends."""

    token: TokenView
    text: str
