"""URLs of stores on servers, and namespaces: one installation's part of a database."""

import re
from collections.abc import Callable, Set
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

from tokimori.errors import InvalidInput

PLAIN = "tokimori_"
"""Prefix of tables, indexes and functions in statements and migrations."""
ALLOWED = "1 to 20 of a-z 0-9 _, with a letter or digit at both ends and between two _"
_NAME = re.compile(r"(?=.{1,20}\Z)[a-z0-9]+(_[a-z0-9]+)*", re.ASCII)
_LITERAL_OR_PLAIN = re.compile(rf"'(?:[^'\\]++|\\.|'')*+'|{PLAIN}", re.DOTALL)


class Namespace(Struct, frozen=True):
    """One installation's part of a database; without a name, the default one.

    Names are in lower case, because databases ignore case. Two underscores end the name, and are in no other name of
    ours, so that no name is ambiguous.
    """

    name: str = ""

    @property
    def prefix(self) -> str:
        """Return the prefix that replaces `PLAIN`."""
        return f"{PLAIN}{self.name}__" if self.name else PLAIN

    def rendered(self, statement: str) -> str:
        """Return the statement, which holds no values, with this installation's names."""
        return statement.replace(PLAIN, self.prefix) if self.name else statement

    def rendered_around_literals(self, statement: str) -> str:
        """Return the same for a statement with values as literals."""
        if not self.name:
            return statement
        return _LITERAL_OR_PLAIN.sub(lambda found: self.prefix if found[0] == PLAIN else found[0], statement)


UNNAMED = Namespace()


def is_allowed(name: str) -> bool:
    """Return whether an installation may have that name."""
    return _NAME.fullmatch(name) is not None


def invalid(kind: str, allowed: str, fault: str) -> InvalidInput:
    """Return the error of a URL, without the URL, as it may hold a password."""
    return InvalidInput(f"store: {kind}: {fault}; allowed: {allowed}", field="store", value=kind, allowed=allowed)


def read(
    url: str, server: str, known: Set[str], invalid: Callable[[str], InvalidInput]
) -> tuple[SplitResult, int | None, dict[str, str]]:
    """Return its parts, its port, and its settings, all of them known. Raises `InvalidInput`."""
    try:
        parts = urlsplit(url)
        port = parts.port
        settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise invalid(f"can't be read as the URL of a {server} server") from None
    for unknown in settings.keys() - known:
        raise invalid(f"there is no setting {unknown!r}; settings are {', '.join(sorted(known))}")
    return parts, port, settings
