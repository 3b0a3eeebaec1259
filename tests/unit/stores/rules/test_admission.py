"""Admission: which of the ready runs of one claim may run, and which line each of the others joins."""

from dataclasses import dataclass, field
from typing import Any

from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of
from tokimori.stores.rules.admission import Admission, Candidate
from tokimori.stores.rules.lines import Key, LinePlace
from tokimori.stores.rules.rates import Rated

JOB, LANE = Incarnation(1), Lane("default||")


@dataclass
class Known:
    """Lines as a test says; what is asked is noted."""

    free: dict[str, int] = field(default_factory=dict)
    programs: dict[str, LinePlace] = field(default_factory=dict)
    heads: dict[tuple[str, Lane | None], LinePlace] = field(default_factory=dict)
    runs: int = 0
    of_keys: dict[Key, int] = field(default_factory=dict)
    key_heads: dict[Key, LinePlace] = field(default_factory=dict)
    rates: dict[str, Rated] = field(default_factory=dict)
    asked: list[object] = field(default_factory=list)

    def running(self, incarnation: Incarnation) -> int:
        """See `Lines.running`."""
        self.asked.append(incarnation)
        return self.runs

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        """See `Lines.of_key`."""
        self.asked.append(key)
        return self.of_keys.get(key, 0), self.key_heads.get(key)

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        """See `Lines.of_semaphore`."""
        self.asked.append(name)
        return self.free.get(name, 1), self.programs.get(name)

    def rated(self, name: str) -> Rated | None:
        """See `Lines.rated`."""
        return self.rates.get(name)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        """See `Lines.head`."""
        self.asked.append((name, lane))
        return self.heads.get((name, lane))


def a_run(rank: int, **stated: Any) -> Candidate:
    """The run of that rank, of a job without limits unless they are stated."""
    run = Candidate(rank, RunId(f"run-{rank}"), JOB, LANE, 0)
    return run._replace(**stated)


def judged(admission: Admission, *runs: Candidate) -> list[str | None]:
    """What becomes of each: None where it is taken, else the line that it joins."""
    for run in runs:
        admission.takes(run)
    refused = {run_id: line for line, run_id in admission.refused}
    return [refused.get(run.id) for run in runs]


def test_what_a_claim_gives_is_counted() -> None:
    """Places, places of keys and units that the claim gave are gone for the runs that it looks at later."""
    limited = [a_run(rank, max_running=3) for rank in range(3)]
    assert judged(Admission(Known(runs=1)), *limited) == [None, None, LIMIT_LINE]
    keyed = [a_run(rank, concurrency_key="k", max_per_key=2) for rank in range(3)]
    assert judged(Admission(Known(of_keys={(JOB, "k"): 1})), *keyed) == [None, KEY_LINE, KEY_LINE]
    wanting = [a_run(rank, units=[("db", 2)]) for rank in range(3)]
    admission = Admission(Known(free={"db": 5}))
    assert judged(admission, *wanting) == [None, None, line_of("db")]
    assert admission.held == [(run.id, "db", 2) for run in wanting[:2]]


def test_the_first_constraint_that_refuses_is_the_line_that_a_run_joins() -> None:
    """The limit, then the key, then the semaphores by name; who is refused holds nothing of the others."""
    full = Known(free={"a": 0, "b": 0}, of_keys={(JOB, "k"): 1})
    wanting = a_run(1, concurrency_key="k", units=[("a", 1), ("b", 1)])
    assert judged(Admission(full), wanting) == [KEY_LINE]
    assert judged(Admission(full), wanting._replace(concurrency_key=None)) == [line_of("a")]
    admission = Admission(Known(free={"a": 1, "b": 0}))
    assert judged(admission, a_run(1, units=[("a", 1), ("b", 1)]), a_run(2, units=[("a", 1)])) == [line_of("b"), None]
    assert admission.freed.semaphores == {"a"}


def test_nobody_passes_the_head_of_a_line() -> None:
    """A run that came before, a program before it, and a heavy run of the same claim keep those behind waiting."""
    light = a_run(5, units=[("db", 1)])
    assert judged(Admission(Known(heads={("db", LANE): LinePlace(4, "x", 1)})), light) == [line_of("db")]
    assert judged(Admission(Known(heads={("db", LANE): LinePlace(6, "x", 1)})), light) == [None]
    assert judged(Admission(Known(heads={("db", Lane("other||")): LinePlace(4, "x", 1)})), light) == [None]
    assert judged(Admission(Known(programs={"db": LinePlace(5, "p", 1)})), light) == [line_of("db")]
    assert judged(Admission(Known()), a_run(4, units=[("db", 2)]), light) == [line_of("db"), line_of("db")]
    keyed = a_run(5, concurrency_key="k")
    assert judged(Admission(Known(key_heads={(JOB, "k"): LinePlace(4, "x", 1)})), keyed) == [KEY_LINE]


def test_of_runs_of_one_rank_the_id_decides() -> None:
    """Who stands in line is before a run of its rank with a greater id, and behind one with a smaller."""
    wanting, keyed = a_run(5, units=[("db", 1)]), a_run(5, concurrency_key="k")
    for other, joins in (("run-4", True), ("run-6", False)):
        of_units, of_key = (
            Known(heads={("db", LANE): LinePlace(5, other, 1)}),
            Known(key_heads={(JOB, "k"): LinePlace(5, other, 1)}),
        )
        assert judged(Admission(of_units), wanting) == [line_of("db") if joins else None]
        assert judged(Admission(of_key), keyed) == [KEY_LINE if joins else None]


def test_a_store_is_asked_once() -> None:
    """What was read for one run is known for the next; of what nobody wants nothing is asked."""
    known = Known(free={"db": 9})
    judged(Admission(known), *(a_run(rank, concurrency_key="k", max_per_key=9, units=[("db", 1)]) for rank in range(3)))
    assert known.asked == [JOB, (JOB, "k"), "db", ("db", LANE)]
