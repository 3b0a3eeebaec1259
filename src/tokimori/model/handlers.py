"""Handlers: code that a node has, by name. A lane names the one that its runs need, a node says which it has."""

import re
from collections.abc import Iterable

Handler = str | re.Pattern[str]
"""An exact name, or a pattern that matches whole names."""


def handles(handlers: Iterable[Handler], name: str) -> bool:
    """Whether one of them is for this name."""
    return any(_is_for(handler, name) for handler in handlers)


def _is_for(handler: Handler, name: str) -> bool:
    return handler == name if isinstance(handler, str) else handler.fullmatch(name) is not None


def handlers_text(handlers: Iterable[Handler]) -> str:
    """For people: names as they are, patterns between slashes, with spaces between."""
    return " ".join(handler if isinstance(handler, str) else f"/{handler.pattern}/" for handler in handlers)
