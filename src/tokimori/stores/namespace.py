"""Installations that share a database: everything of one that has a name there has the installation's own one in it."""

import re

from msgspec import Struct

PLAIN = "tokimori_"
"""With what the names of tables, indexes and functions begin in statements and migrations."""
ALLOWED = "1 to 20 of a-z 0-9 _, with a letter or digit at both ends and between two _"
_NAME = re.compile(r"(?=.{1,20}\Z)[a-z0-9]+(_[a-z0-9]+)*", re.ASCII)
_LITERAL_OR_PLAIN = re.compile(rf"'(?:[^'\\]|\\.|'')*'|{PLAIN}", re.DOTALL)


class Namespace(Struct, frozen=True):
    """One installation's part of a database; without a name, that of whoever asked for none.

    Lower case alone: databases take names that differ in nothing else for the same. Two underscores end the name, and
    are in no other one of ours, so that none can be read in two ways.
    """

    name: str = ""

    @property
    def prefix(self) -> str:
        """Return the prefix that stands in place of `PLAIN`."""
        return f"{PLAIN}{self.name}__" if self.name else PLAIN

    def rendered(self, statement: str) -> str:
        """Return the statement, which holds no values, with this installation's names."""
        return statement.replace(PLAIN, self.prefix) if self.name else statement

    def rendered_around_literals(self, statement: str) -> str:
        """Return the same for one that holds values as literals."""
        if not self.name:
            return statement
        return _LITERAL_OR_PLAIN.sub(lambda found: self.prefix if found[0] == PLAIN else found[0], statement)


UNNAMED = Namespace()


def is_allowed(name: str) -> bool:
    """Return whether an installation may have that name."""
    return _NAME.fullmatch(name) is not None
