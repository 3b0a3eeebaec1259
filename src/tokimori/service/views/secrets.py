"""Secrets of jobs as JSON."""

from datetime import datetime
from typing import ClassVar

from tokimori.service.views.outside import Outside, Sources


class SecretView(Outside, frozen=True, kw_only=True):
    """A secret without its value. `jobs`: only jobs whose ids begin so may use it; empty: all."""

    SOURCES: ClassVar[Sources] = {"set_at": "at"}

    name: str
    jobs: tuple[str, ...]
    set_at: datetime
    by: str | None
