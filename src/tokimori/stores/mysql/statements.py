"""Statements with their values written into them, so that several travel to the server as one packet."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tokimori.clock import MINUTE
from tokimori.model.ids import Incarnation
from tokimori.model.run import NEVER
from tokimori.stores.rules.lines import room

SHARED = "/*M!100600 LOCK IN SHARE MODE */ /*!80000 FOR SHARE */"
"""Shared lock in the syntax of either server: each skips the other's comment."""
BY_KEY = "FORCE INDEX (PRIMARY)"
"""Hint to use the key: if statistics say that a table is empty, the server would read, and lock, all of it."""
NOW = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
"""Expression for the server's time."""
_MOST_ROWS, _MOST_CHARACTERS = 500, 2**17


def sql(text: str, *values: object) -> str:
    """Return the statement with each `%s` replaced by a value: a tuple stands for `(a, b)`, a list for `a, b`."""
    return text % tuple(_literal(value) for value in values)


class Large(str):
    """Statement with one long row: its largest value, and the place of that."""

    field: str
    size: int


def insert(verb: str, table: str, columns: str, rows: Sequence[Sequence[object]], rest: str = "") -> Iterator[str]:
    """Return `INSERT` or `REPLACE` statements of rows, each short enough for any server; none without rows."""
    piece: list[str] = []
    length = 0
    for row in rows:
        values = _literal(tuple(row))
        if piece and (len(piece) == _MOST_ROWS or length + len(values) > _MOST_CHARACTERS):
            yield f"{verb} INTO {table} ({columns}) VALUES {', '.join(piece)} {rest}"
            piece, length = [], 0
        if len(values) > _MOST_CHARACTERS:
            yield _large(f"{verb} INTO {table} ({columns}) VALUES {values} {rest}", columns, row)
        else:
            piece.append(values)
            length += len(values)
    if piece:
        yield f"{verb} INTO {table} ({columns}) VALUES {', '.join(piece)} {rest}"


def _large(text: str, columns: str, row: Sequence[object]) -> Large:
    statement = Large(text)
    texts = (value if isinstance(value, bytes) else str(value).encode(errors="replace") for value in row)
    statement.size, statement.field = max(zip(map(len, texts), columns.replace('"', "").split(", "), strict=True))
    return statement


def delete(table: str, ids: Iterable[Hashable], key: str = "id") -> Iterator[str]:
    """Return the statement that deletes rows by the beginning of their primary keys."""
    keys = list(ids)
    if keys:
        yield sql(f"DELETE t FROM {table} t {BY_KEY} WHERE t.{key} IN (%s)", keys)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            # No more than the server asks for: the driver's own takes 50 times as long for the double quotes of a JSON
            return "'" + value.replace("\\", r"\\").replace("'", r"\'") + "'"
        case int():
            return str(int(value))
        case bytes():
            return f"x'{value.hex()}'"
        case tuple():
            return f"({', '.join(map(_literal, value))})"
        case list():
            return ", ".join(map(_literal, value)) if value else "NULL"
        case _:
            raise TypeError(type(value))


class Answer(NamedTuple):
    """Answer of the server to one statement: rows, or how many it changed."""

    rows: list[tuple[Any, ...]]
    changed: int


# Chosen without a lock, then locked: no other gate is waited for. The limit keeps the inner query from being merged.
_LOCK_GATES = f"""
SELECT gate.incarnation
FROM (
    SELECT incarnation FROM tokimori_jobs {BY_KEY}
    WHERE incarnation IN (%s) AND (max_running > 0 OR incarnation IN (%s))
    ORDER BY incarnation LIMIT 1000000
) chosen STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation
ORDER BY gate.incarnation FOR UPDATE"""
# A statement of its own, after the locks: within one it would count what was there before it waited for them.
_PLACES = f"""
SELECT incarnation, max_running,
    (SELECT COUNT(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running'),
    EXISTS (SELECT 1 FROM tokimori_runs
        WHERE incarnation = j.incarnation AND state = 'blocked' AND blocked_on IS NULL)
FROM tokimori_jobs j {BY_KEY} WHERE incarnation IN (%s) AND max_running > 0"""
# The gates are locked by then: no other transaction adds a run of theirs.
IS_ACTIVE = f'"rank" < {NEVER - 1_000 * MINUTE}'
"""Condition that leaves out runs which wait for what they have spawned: an index has their ranks, which are as far."""
_ACTIVE = f"""
SELECT incarnation, most_active, (SELECT COUNT(*) FROM tokimori_runs
    WHERE incarnation = j.incarnation AND state IN ('waiting', 'ready', 'blocked', 'running') AND {IS_ACTIVE})
FROM tokimori_jobs j {BY_KEY} WHERE incarnation IN (%s) AND most_active IS NOT NULL"""


class Places(NamedTuple):
    """Places of a job (0: any number), how many are taken, and if runs wait for one.

    Only a claim that holds the gate sends a run to the line: so nobody joins while another one holds it.
    """

    limit: int
    running: int
    has_line: bool


def lock_gates(limited: Iterable[Incarnation], all_of: Iterable[Incarnation] = ()) -> str:
    """Lock the gates of jobs with a limit, and of `all_of`, which may have none."""
    others = sorted(set(all_of))
    return sql(_LOCK_GATES, sorted({*limited, *others}), others)


def count_places(jobs: Iterable[Incarnation]) -> str:
    """Read limits, and count running runs, of jobs with a limit; `places_of` reads the answer."""
    return sql(_PLACES, sorted(set(jobs)))


def places_of(answer: Answer) -> dict[Incarnation, Places]:
    """Return the result of `count_places`."""
    return {incarnation: Places(limit, running, bool(line)) for incarnation, limit, running, line in answer.rows}


def count_active(jobs: Iterable[Incarnation]) -> str:
    """Count the active runs of jobs with a bound on them; `rooms_of` reads the answer."""
    return sql(_ACTIVE, sorted(set(jobs)))


def rooms_of(answer: Answer) -> dict[Incarnation, int]:
    """Return how many more active runs these jobs may have; other jobs have no bound."""
    return {incarnation: most - active for incarnation, most, active in answer.rows}


def wake(freed: Counter[Incarnation], places: Mapping[Incarnation, Places]) -> Iterator[str]:
    """Make the next in line ready, as many as places were freed. Runs of a paused job are claimed after its resume.

    Only the lines of jobs with locked gates move; other jobs have no limit.
    """
    for incarnation in sorted(freed):
        place = places.get(incarnation)
        woken = 0 if place is None or not place.has_line else room(place.running, place.limit, freed[incarnation])
        if woken:
            yield sql(
                """UPDATE tokimori_runs FORCE INDEX (tokimori_runs_line) SET state = 'ready'
                WHERE incarnation = %s AND state = 'blocked' AND blocked_on IS NULL ORDER BY "rank", id LIMIT %s""",
                *(incarnation, woken),
            )
