"""Members of a list's things, for callers that want only some."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import fields

from tokimori.errors import InvalidInput
from tokimori.spelling import hint


def members_of(views: Sequence[Struct], kind: type[Struct], names: Sequence[str]) -> Sequence[Any]:
    """Return the views with the members of these names, in that order; without names all of them. Raises
    `InvalidInput`.

    A member that a view does not have is left out.
    """
    if not names:
        return views
    known = [field.encode_name for field in fields(kind)]
    for name in names:
        if name not in known:
            raise _unknown(name, known)
    plain = (to_builtins(view) for view in views)
    return [{name: view[name] for name in names if name in view} for view in plain]


def _unknown(name: str, known: Sequence[str]) -> InvalidInput:
    message = f"fields: there is no member {name!r}{hint(name, known)}"
    return InvalidInput(message, field="fields", value=name, allowed=", ".join(known))
