"""Random families under `kill -9` of nodes with slow commits: no child is missing, none doubled, nothing is stuck."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.fleet import Fleet
from tests.cluster.test_limits import empty_store
from tests.contract.stores.families import Family, edges_in, every_run, families, wrong_births
from tokimori.clock import SystemClock
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.run import Run, manual_origin
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.service import service_on
from tokimori.stores.open import open_store

ROOTS = 20_000
FAMILIES = 12
NODES = 2
CALM = 5.0
"""Seconds between two kills."""
PATIENCE = 240
"""Seconds within which all has ended."""


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store."""
    with empty_store(request.param, tmp_path / "tokimori.db", slow=True) as url:
        fleet = Fleet(tmp_path, url)
        yield fleet
        fleet.stop(5)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_no_child_is_missing_or_doubled(fleet: Fleet) -> None:
    """Every end and every complete join of 20,000 roots has its one child, whichever node died in between."""
    family = families(FAMILIES, seed=1)
    asyncio.run(prepare(fleet, family))
    for _ in range(NODES):
        fleet.start_node(module="tests.cluster.family_node")
    fleet.wait_until_up()
    began = time.monotonic()
    while asyncio.run(some_live(fleet)):
        assert time.monotonic() < began + PATIENCE, "some runs do not end"
        time.sleep(CALM)
        if time.monotonic() < began + PATIENCE / 2:
            fleet.kill(next(node for node in fleet.nodes if node.poll() is None))
            fleet.start_node(module="tests.cluster.family_node")
            fleet.wait_until_up()
    assert set(fleet.stop()) == {0}
    runs = asyncio.run(read(fleet))
    print(f"{len(runs)} runs in {time.monotonic() - began:.0f} s, {len(fleet.nodes) - NODES} nodes killed")
    assert wrong_births(edges_in(family), runs) == []
    assert {run.state for run in runs} <= ENDS
    assert sum(run.parent_id is None for run in runs) == sum(1 for _ in requests(family))
    assert [each for each in fleet.folder.glob("node*.log") if "refused" in each.read_text()] == []


def requests(family: Family) -> Iterator[tuple[JobId, str]]:
    """For each root the jobs of one family that have no parent; every second family is the diamond."""
    names = sorted({job.partition("-")[0] for job in family})
    tops = {name: [job for job in family if job.startswith(f"{name}-") and not family[job].parents] for name in names}
    for root in range(ROOTS):
        for job in tops["diamond" if root % 2 else names[root // 2 % len(names)]]:
            yield job, f"s:{root}"


async def opened(fleet: Fleet) -> Store:
    """The store of the fleet."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    return store


async def prepare(fleet: Fleet, family: Family) -> None:
    """The jobs, and their first runs."""
    store = await opened(fleet)
    await store.migrate()
    await service_on(store, SystemClock(), os.urandom).jobs.import_all(list(family.items()))
    asked = list(requests(family))
    for first in range(0, len(asked), 400):
        await asyncio.gather(*(add(store, family, *each) for each in asked[first : first + 400]))
    await store.close()


async def add(store: Store, family: Family, job_id: JobId, root: str) -> None:
    """A request of the job, with this root."""
    now, job = SystemClock().now(), await store.get_job(job_id)
    run_id = RunId(uuid7(now, os.urandom))
    run = Run(
        id=run_id,
        job_id=job_id,
        incarnation=job.incarnation,
        origin=manual_origin(run_id),
        nominal=now,
        due=now,
        state=RunState.READY,
        priority=0,
        rank=rank_of(now, 0),
        lane=lane_of(family[job_id]),
        created=now,
        root=root,
    )
    await store.add_run(run, now)


async def some_live(fleet: Fleet) -> bool:
    """Whether some run has not ended."""
    store = await opened(fleet)
    try:
        return bool(await store.list_runs(RunFilter(states=frozenset(RunState) - ENDS, limit=1)))
    finally:
        await store.close()


async def read(fleet: Fleet) -> list[Run]:
    """All runs."""
    store = await opened(fleet)
    try:
        return await every_run(store)
    finally:
        await store.close()
