"""Limits of jobs: locked gates, counts of running and active runs, and the next in their lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tokimori.model.ids import Incarnation
from tokimori.stores.mysql.statements import BY_KEY, Answer, sql
from tokimori.stores.rules.lines import room

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
_ACTIVE = f"""
SELECT incarnation, most_active, (SELECT COUNT(*) FROM tokimori_runs
    WHERE incarnation = j.incarnation AND state IN ('waiting', 'ready', 'blocked', 'running'))
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
