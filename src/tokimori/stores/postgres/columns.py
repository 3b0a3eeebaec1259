"""Lists of columns in the texts of functions: each is defined once, in `rows`, and replaces its mark.

`{RUN}` are the columns of a run, `{r.RUN}` those of the table `r`, and `{_RUN}` parameters that are named after them.
`{RUN types}` are the columns with their types, `{RUN arrays}` with arrays of their types. `{RUN - state, error}` are
all but these.
"""

import re
from collections.abc import Iterator
from typing import get_args, get_type_hints

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, NodeId, RunId, Token
from tokimori.model.run import Run
from tokimori.stores.rows import ATTEMPT, BIRTH, RUN, SETTLED, names_of

_TYPES: dict[object, str] = {
    **dict.fromkeys((RunId, NodeId), "uuid"),
    **dict.fromkeys((Incarnation, Moment, Token), "bigint"),
    int: "integer",
}
"""Types of the fields of a run that are not text."""


def types_of(columns: str) -> list[str]:
    """Return the types of these columns of a run. A rank is a moment less a head start, and others are as large."""
    kinds = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Run).items()} | dict.fromkeys(
        ("rank", "cpu", "memory"), (Moment,)
    )
    return [_TYPES.get(kinds[name][0], "text") for name in names_of(columns)]


def without(columns: str, others: str) -> str:
    """Return the columns without the others."""
    left_out = set(names_of(others))
    return ", ".join(column for column in columns.split(", ") if column.strip('"') not in left_out)


PLANNED = without(BIRTH, "state, created, payload, parent_id, root")
"""Columns that a plan gives for each of its runs."""
OWN = "id, token, started, ended, pid, exit_code, signal, error, result, details, cpu, memory"
"""Columns that a change gives for its own run."""
COMMON, MOVED = "incarnation, node_id, state", 'due, "rank", failures, lost'
"""Columns that are the same in most changes of a batch, and columns that a success leaves as they are."""
_LISTS = {"RUN": RUN, "BIRTH": BIRTH, "PLANNED": PLANNED, "SETTLED": SETTLED, "ATTEMPT": ATTEMPT}
_LISTS |= {"CHANGE": f"{OWN}, {COMMON}, {MOVED}", "MOVED": MOVED}
_MARK = re.compile(rf"\{{([a-z]+\.|_[a-z_]*)?({'|'.join(_LISTS)})( types| arrays)?(?: - ([a-z_, ]+))?\}}")


def filled_in(text: str) -> str:
    """Return the text, in which each mark is replaced by the columns that it asks for."""
    return _MARK.sub(lambda mark: ", ".join(_asked_for(*mark.groups(default=""))), text)


def _asked_for(prefix: str, name: str, form: str, left_out: str) -> Iterator[str]:
    columns = without(_LISTS[name], left_out)
    if prefix.startswith("_"):
        columns = columns.replace('"', "")
    types = types_of(columns) if form else []
    for place, column in enumerate(columns.split(", ")):
        type_ = f" {types[place]}{'[]' if form == ' arrays' else ''}" if form else ""
        yield f"{prefix}{column}{type_}"
