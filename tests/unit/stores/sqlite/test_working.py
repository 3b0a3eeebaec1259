"""A claim looks at a bounded number of ready runs; and what programs of older schemas leave behind is cleared away."""

import sqlite3
from collections.abc import Iterator

import pytest

from tests.contract.stores.actors import NOW, a_claim, a_job, a_node, a_request
from tokimori.model.ids import JobId, PermitId
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat
from tokimori.ports.semaphores import Grant, Wish
from tokimori.stores.sqlite import jobs, nodes, runs, schema, semaphores, working


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """The tables of a store."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(db, schema.known_migrations(), NOW)
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
        got.append([claimed.run.job_id for claimed in working.claim(db, a_claim(node.id, lanes, 2), NOW)])
    assert got[0] == ["full"]
    assert 3 <= len(got) <= 5


def test_what_an_older_program_leaves_is_given_back(db: sqlite3.Connection) -> None:
    """A program that knows nothing of permits buries a node and settles its run: the next tick gives them back."""
    owner, heir = a_node(), a_node()
    for each in (owner, heir):
        nodes.register(db, each)
    job = a_job(semaphores=("db:2", "api"))
    jobs.add_jobs(db, [job])
    semaphores.put_semaphore(db, "db", 3, NOW)
    lost, waiting = (runs.add_run(db, a_request(job, rank=NOW + n), NOW) for n in range(2))
    working.claim(db, a_claim(owner.id, nodes.survey(db, NOW).lanes, 5), NOW)
    wish = Wish(id=PermitId("p"), node=owner.id, semaphore="db", rank=NOW - 1)
    assert semaphores.acquire(db, wish, NOW) == Grant(token=1)
    db.execute("UPDATE tokimori_nodes SET state = 'dead' WHERE id = ?", (owner.id,))
    nodes.tick(db, Beat(node=heir.id), NOW)
    assert [each.used for each in semaphores.list_semaphores(db, limit=5)] == [1, 2]
    db.execute("DELETE FROM tokimori_runs WHERE id = ?", (lost.id,))
    nodes.tick(db, Beat(node=heir.id), NOW)
    assert [each.used for each in semaphores.list_semaphores(db, limit=5)] == [0, 0]
    assert runs.get_run(db, waiting.id).state is RunState.READY
