"""A claim looks at a bounded number of ready runs."""

import sqlite3
from collections.abc import Iterator

import pytest

from tests.contract.stores.actors import NOW, a_claim, a_job, a_node, a_request, later
from tokimori.model.ids import JobId
from tokimori.model.transitions import RunState
from tokimori.ports.working import LARGE, is_cut
from tokimori.stores.sqlite import connection, jobs, moves, nodes, runs, working


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """The tables of a store."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    connection.migrate(db, connection.known_migrations(), NOW)
    yield db
    db.close()


def test_a_claim_asked_again_gets_past_a_full_job(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind more runs of a full job than one claim looks at, the next claims find what is free."""
    monkeypatch.setattr(working, "MOST_EXAMINED", 3)
    full, free = a_job("full", max_running=1), a_job("free")
    jobs.add_jobs(db, [full, free])
    for _ in range(12):
        runs.add_run(db, a_request(full), NOW)
    runs.add_run(db, a_request(free, rank=NOW + 1), NOW)
    node = a_node()
    nodes.register(db, node)
    got: list[list[JobId]] = []
    while not got or "free" not in got[-1]:
        lanes = nodes.survey(db, NOW).lanes
        assert lanes, "the free run is still ready"
        taken, has_rest = working.claim(db, a_claim(node.id, lanes, 2), NOW)
        got.append([claimed.run.job_id for claimed in taken])
        assert has_rest is ("free" not in got[-1])
    assert got[0] == ["full"]
    assert 3 <= len(got) <= 5


def test_a_claim_sends_few_runs_to_the_line(db: sqlite3.Connection) -> None:
    """Whoever else writes waits while a claim passes runs of a full job: it passes a thousand, and no more."""
    job, node = a_job(max_running=1), a_node()
    jobs.add_jobs(db, [job])
    runs.add_runs(db, [a_request(job) for _ in range(2_500)], NOW)
    nodes.register(db, node)
    blocked: list[int] = []
    for _ in range(3):
        assert working.claim(db, a_claim(node.id, nodes.survey(db, NOW).lanes, 2), NOW)[1] is (len(blocked) < 2)
        blocked += db.execute("SELECT count(*) FROM tokimori_runs WHERE state = 'blocked'").fetchone()
    assert blocked == [1001, 2003, 2499]


def test_a_claim_looks_into_no_more_lanes_than_it_takes_from(db: sqlite3.Connection) -> None:
    """Of all lanes a claim reads the heads, in one statement, and behind those only where it takes."""
    made = [a_job(f"job-{n}", queue=f"q{n}") for n in range(20)]
    jobs.add_jobs(db, made)
    for n, job in enumerate(made):
        runs.add_run(db, a_request(job, rank=n), NOW)
    node = a_node()
    nodes.register(db, node)
    lanes = nodes.survey(db, NOW).lanes
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    taken, _ = working.claim(db, a_claim(node.id, lanes, 3), NOW)
    assert [claimed.run.rank for claimed in taken] == [0, 1, 2]
    assert sum(" r.lane = " in statement for statement in asked) <= len(taken) + 1


def test_a_claim_takes_no_more_once_payloads_are_large(db: sqlite3.Connection) -> None:
    """Each change of a row writes its payload anew, so one transaction takes few of them; the next claims the rest."""
    job = a_job()
    jobs.add_jobs(db, [job])
    for rank in range(5):
        runs.add_run(db, a_request(job, rank=rank, payload="x" * (LARGE // 2)), NOW)
    node = a_node()
    nodes.register(db, node)
    lanes = nodes.survey(db, NOW).lanes
    got = [working.claim(db, a_claim(node.id, lanes, 32), NOW)[0] for _ in range(3)]
    assert [[claimed.run.rank for claimed in each] for each in got] == [[0, 1], [2, 3], [4]]
    assert [is_cut(each) for each in got] == [True, True, False]


def test_runs_of_a_full_job_count_with_their_payloads(db: sqlite3.Connection) -> None:
    """A claim that only sends large runs to a line ends as early as one that takes them."""
    job = a_job(max_running=1)
    jobs.add_jobs(db, [job])
    for rank in range(6):
        runs.add_run(db, a_request(job, rank=rank, payload="x" * (LARGE // 2)), NOW)
    node = a_node()
    nodes.register(db, node)
    lanes = nodes.survey(db, NOW).lanes
    left = []
    for _ in range(3):
        working.claim(db, a_claim(node.id, lanes, 32), NOW)
        left += db.execute("SELECT count(*) FROM tokimori_runs WHERE state = 'ready'").fetchone()
    assert left == [4, 2, 0]


@pytest.mark.parametrize("reason", [None, "deleted"])
def test_large_runs_follow_their_job_few_at_a_time(db: sqlite3.Connection, reason: str | None) -> None:
    """A step of a pause, an edit or a deletion ends early where payloads are large, and the last one says so."""
    job = a_job()
    jobs.add_jobs(db, [job])
    for rank in range(5):
        runs.add_run(db, a_request(job, rank=rank, payload="x" * (LARGE // 2)), NOW)
    moves.begin_move(db, job.incarnation, None, reason, NOW)
    db.execute("UPDATE tokimori_jobs SET lane = NULL")
    steps = []
    for _ in range(3):
        done = moves.move_runs(db, job.incarnation)
        steps.append((done, *db.execute("SELECT count(*) FROM tokimori_runs WHERE lane IS NOT NULL").fetchone()))
    assert steps == [(False, 3), (False, 1), (True, 0)]


def test_large_runs_become_ready_few_at_a_time(db: sqlite3.Connection) -> None:
    """Each change of a row writes its payload anew: of what is due few are promoted at once where they are large."""
    job = a_job()
    jobs.add_jobs(db, [job])
    for rank in range(5):
        runs.add_run(db, a_request(job, due=later(1 + rank / 8), payload="x" * (LARGE // 2)), NOW)
    assert [jobs.promote(db, later(2), 500) for _ in range(4)] == [2, 2, 1, 0]


def test_large_runs_are_woken_few_at_a_time(db: sqlite3.Connection) -> None:
    """A larger limit of a job wakes those of its line that are large a few at a time, and all of them in the end."""
    job = a_job(max_running=5)
    jobs.add_jobs(db, [job])
    for rank in range(5):
        runs.add_run(db, a_request(job, rank=rank, payload="x" * (LARGE // 2), state=RunState.BLOCKED), NOW)
    moves.begin_move(db, job.incarnation, None)
    waits = "SELECT count(*) FROM tokimori_runs WHERE state = 'blocked'"
    steps = [(moves.move_runs(db, job.incarnation), *db.execute(waits).fetchone()) for _ in range(4)]
    assert steps[-1] == (True, 0)
    assert [left for _, left in steps][:2] == [3, 1]
