"""Handlers: code of a node, by name. A lane names the handler that its runs need, a node names those that it has."""

import re
from collections.abc import Iterable

from tokimori.errors import InvalidInput

Handler = str | re.Pattern[str]
"""An exact name, or a pattern that matches whole names."""


_TOLD_PATTERN = re.compile(r"(?:^| )/(.*?)/(?= |$)")
_OWN_FLAGS = re.compile(r"\A\s*\(\?[aiLmsux]+\)")
_FLAGS = ((re.ASCII, "a"), (re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.VERBOSE, "x"))
_STORED_PATTERN = re.compile(r"[\w.*]+:[\w.*]+")
MOST_NAME = 255
"""The longest name of a handler, in characters."""


def check_handler_name(name: str, *, field: str) -> str:
    """Return the name, if a handler can have it. It becomes a part of a lane, where `|` separates parts.

    Raises `InvalidInput`.
    """
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable() or not name.strip() or "|" in name:
        raise InvalidInput(
            f"{field}: {name!r} is not the name of a handler",
            field=field,
            value=name,
            allowed=f"1 to {MOST_NAME} printable characters without |, not all of them blank",
        )
    return name


def handles(handlers: Iterable[Handler], name: str) -> bool:
    """Return whether one of the handlers has this name."""
    return any(_is_for(handler, name) for handler in handlers)


def _is_for(handler: Handler, name: str) -> bool:
    return handler == name if isinstance(handler, str) else handler.fullmatch(name) is not None


def text_of_pattern(pattern: re.Pattern[str]) -> str:
    """Return the pattern as a text that says its flags, too, such as `(?i)resize`: compiled, it matches the same."""
    said = "".join(letter for flag, letter in _FLAGS if pattern.flags & flag)
    return f"(?{said}){_OWN_FLAGS.sub('', pattern.pattern, count=1)}" if said else pattern.pattern


def pattern_of_stored(text: str) -> str:
    """Return the regular expression of a pattern for stored functions: `MODULE:NAME`, where `*` is any part of a name.

    Raises `InvalidInput`.
    """
    if not _STORED_PATTERN.fullmatch(text):
        raise InvalidInput(
            f"app.stored: {text!r} is not a pattern", field="app.stored", value=text, allowed="such as reports.tasks:*"
        )
    return r"[\w.]*".join(re.escape(part) for part in text.split("*"))


def how_to_allow(name: str) -> str | None:
    """Return, for people, how to allow a node to import a stored function; None for other names."""
    module, colon, path = name.partition(":")
    if not colon or not _STORED_PATTERN.fullmatch(name) or "*" in name or not path:
        return None
    return (
        f'a node imports what a job names if its setting app.stored allows it: app.stored = ["{module}:*"] in '
        f"tokimori.toml, or TOKIMORI_APP_STORED={module}:*"
    )


def is_told(name: str, text: str) -> bool:
    """Return if a text of `handlers_text` has a handler for this name."""
    if f" {name} " in f" {text} ":
        return True
    try:
        return any(re.fullmatch(pattern, name) for pattern in _TOLD_PATTERN.findall(text))
    except re.error:
        return False  # a handler of another version, or a name with a blank and a slash


def handlers_text(handlers: Iterable[Handler]) -> str:
    """For people: names as they are, patterns between slashes, with spaces between."""
    return " ".join(handler if isinstance(handler, str) else f"/{text_of_pattern(handler)}/" for handler in handlers)
