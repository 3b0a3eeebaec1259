"""Lists of columns in the texts of functions: each stands once, in `rows`, and is filled in where a mark asks for it.

`{RUN}` are the columns of a run, `{r.RUN}` those of the table `r`, and `{_RUN}` parameters that are named after them.
`{RUN types}` are the columns with their types, `{RUN arrays}` with arrays of their types. `{RUN - state, error}` are
all but these.
"""

import re
from collections.abc import Iterator

from tokimori.stores.rows import ATTEMPT, BIRTH, RUN, SETTLED, names_of

_TYPES = {
    "uuid": "id, node_id, parent_id",
    "integer": "priority, attempt, failures, lost, pid, exit_code, signal",
    "bigint": "incarnation, nominal, due, rank, created, token, started, ended",
    "text": "job_id, origin, state, lane, payload, error, cancel, details, root, result, concurrency_key, blocked_on",
}
"""Of a run's columns."""


def types_of(columns: str) -> list[str]:
    """The types of these columns of a run."""
    types = {name: type_ for type_, names in _TYPES.items() for name in names.split(", ")}
    return [types[name] for name in names_of(columns)]


def without(columns: str, others: str) -> str:
    """The columns without the others."""
    left_out = set(names_of(others))
    return ", ".join(column for column in columns.split(", ") if column.strip('"') not in left_out)


PLANNED = without(BIRTH, "state, created, payload, parent_id, root")
"""What a plan says of its runs, one by one."""
_LISTS = {"RUN": RUN, "BIRTH": BIRTH, "PLANNED": PLANNED, "SETTLED": SETTLED, "ATTEMPT": ATTEMPT}
_MARK = re.compile(rf"\{{([a-z]+\.|_[a-z_]*)?({'|'.join(_LISTS)})( types| arrays)?(?: - ([a-z_, ]+))?\}}")


def filled_in(text: str) -> str:
    """The text, in which each mark is replaced by the columns that it asks for."""
    return _MARK.sub(lambda mark: ", ".join(_asked_for(*mark.groups(default=""))), text)


def _asked_for(prefix: str, name: str, form: str, left_out: str) -> Iterator[str]:
    columns = without(_LISTS[name], left_out)
    if prefix.startswith("_"):
        columns = columns.replace('"', "")
    types = types_of(columns) if form else []
    for place, column in enumerate(columns.split(", ")):
        type_ = f" {types[place]}{'[]' if form == ' arrays' else ''}" if form else ""
        yield f"{prefix}{column}{type_}"
