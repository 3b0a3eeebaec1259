"""The functions of the database that this program calls: installed as a set, under a digest of its text.

Programs of two versions work beside each other: each calls the functions whose names end with the digest of its own
texts. Texts and statements name functions plainly (`tokimori_claim(`); here alone the digest is added.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from tokimori.stores.postgres.columns import filled_in

_MADE = re.compile(r"^CREATE OR REPLACE FUNCTION tokimori_([a-z_]+)\(", re.MULTILINE)
_NAMED = re.compile(r"\btokimori_([a-z_]+)\(")


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """Functions that call each other.

    `names` are theirs, without the common prefix; `digest` ends the installed names; `schema` is the newest that their
    program knows.
    """

    text: str
    names: frozenset[str]
    digest: str
    schema: int

    def rendered(self, statement: str) -> str:
        """Return the statement, which calls the functions of this set."""
        return _NAMED.sub(self._installed, statement)

    def _installed(self, named: re.Match[str]) -> str:
        return f"tokimori_{named[1]}_{self.digest}(" if named[1] in self.names else named[0]

    @property
    def installation(self) -> str:
        """Return the statements that make the functions, in one transaction: they name each other."""
        return f"SET LOCAL check_function_bodies = off;\n\n{self.rendered(self.text)}"


NO_FUNCTIONS = FunctionSet("", frozenset(), "", 0)


def function_set(text: str, schema: int) -> FunctionSet:
    """Return the set of these functions.

    With another schema it is another set: a migration that shuts out older programs drops their sets, even if it
    changes no function.
    """
    digest = sha256(f"{schema}\n{text}".encode()).hexdigest()[:8]
    return FunctionSet(text, frozenset(_MADE.findall(text)), digest, schema)


def known_functions(schema: int) -> FunctionSet:
    """Return the functions of this version, whose newest schema is given."""
    folder = files("tokimori.stores.postgres.functions")
    texts = {entry.name: entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".sql")}
    return function_set(filled_in("\n".join(texts[name] for name in sorted(texts))), schema)
