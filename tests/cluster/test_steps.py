"""Families of single runs under `kill -9`: each step is made once, from the right ends, with the right results."""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.cluster.fleet import Fleet
from tests.cluster.step_node import FANNED, SPAWNED
from tests.cluster.test_families import CALM, PATIENCE, opened, read, some_live
from tests.cluster.test_limits import empty_store
from tokimori.clock import Moment, SystemClock
from tokimori.engine.families import PIECES
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.run import Run, Step
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.definitions.arguments import PlainRequest
from tokimori.service.service import service_on

ROOTS = 1_200
JOINED = 3
KILLS = 4
SPAWNING = 300
JOBS = ("first", "second", "third", "total", "tell", "spawn", "fan")


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store."""
    with empty_store(request.param, tmp_path / "tokimori.db", slow=True) as url:
        fleet = Fleet(tmp_path, url)
        yield fleet
        fleet.stop(5)


def new_id() -> RunId:
    """The id of a step."""
    return RunId(uuid7(Moment(SystemClock().now()), os.urandom))


def step(job: str, *then: Step, joins: int = 0, on_failure: bool = False) -> Step:
    """A step of a new run."""
    return Step(id=new_id(), job=JobId(job), joins=joins, on_failure=on_failure, then=then)


async def prepare(fleet: Fleet) -> None:
    """Roots of which each third is followed by a chain, and the others in threes by a join and what follows that."""
    store = await opened(fleet)
    await store.migrate()
    jobs = service_on(store, SystemClock(), os.urandom).jobs
    for job in JOBS:
        await jobs.add(job, noop=True, max_running=0)
    for _ in range(ROOTS // JOINED // 2):
        chain = [{"then": [step("second", step("third")), step("tell", on_failure=True)]} for _ in range(JOINED)]
        shared = [step("total", step("third"), joins=JOINED), step("tell", on_failure=True)]
        wanted: list[PlainRequest] = [*chain, *({"then": shared} for _ in range(JOINED))]  # type: ignore[list-item]
        await jobs.trigger_many("first", wanted)
    for _ in range(SPAWNING // 100):
        await jobs.trigger_many("spawn", [{"then": [step("third"), step("tell", on_failure=True)]} for _ in range(100)])
    await store.close()


def wrong_steps(runs: Sequence[Run]) -> list[str]:
    """What is missing, doubled or not right of the steps of runs that have ended."""
    known, wrong = {run.id: run for run in runs}, list[str]()
    named = sorted(((step, run) for run in runs for step in run.details.then), key=lambda each: each[0].id)
    for run_id, group in groupby(named, key=lambda each: each[0].id):
        (said, *_), before = zip(*group, strict=True)
        ends = Counter(run.state for run in before)
        due = ends[RunState.FAILED] > 0 if said.on_failure else ends[RunState.SUCCEEDED] >= max(1, said.joins)
        made = known.get(run_id)
        if (made is not None) != due:
            wrong.append(f"{said.job} {run_id}: made {made is not None}, after {ends}")
        elif made is not None and said.joins and made.details.parents != tuple(sorted(run.id for run in before)):
            wrong.append(f"{said.job} {run_id}: parents {made.details.parents}")
        elif made is not None and not said.joins and not said.on_failure and made.payload != before[0].result:
            wrong.append(f"{said.job} {run_id}: payload {made.payload}")
    return wrong


def wrong_spawns(runs: Sequence[Run]) -> list[str]:
    """What is missing, doubled or not right of runs that have waited for others."""
    known, wrong = {run.id: run for run in runs}, list[str]()
    waited = [run for run in runs if run.details.spawned is not None]
    awaited = {run.id for run in runs if run.details.awaited}
    for run in waited:
        children = [known[each] for each in run.details.spawned.ids(run.id) if each in known]  # type: ignore[union-attr]
        awaited -= {each.id for each in children}
        is_good = all(each.state is RunState.SUCCEEDED for each in children)
        result = json.dumps([each.id for each in children], separators=(",", ":")) if is_good else None
        latest = max((each.ended or 0 for each in children), default=0)
        state = RunState.SUCCEEDED if is_good else RunState.FAILED
        if len(children) != SPAWNED or (run.state, run.result) != (state, result) or (run.ended or 0) < latest:
            wrong.append(f"{run.id}: {run.state} {run.result}, after {[(each.id, each.state) for each in children]}")
    return wrong + [f"{each}: of nobody" for each in awaited] + (["none"] if len(waited) < SPAWNING // 2 else [])


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_no_step_is_missing_or_doubled(fleet: Fleet) -> None:
    """Every step of 1,500 roots is made once, when it is due, and each run waits for all that it has spawned."""
    asyncio.run(prepare(fleet))
    for _ in range(2):
        fleet.start_node(module="tests.cluster.step_node")
    fleet.wait_until_up()
    began, kills = time.monotonic(), 0
    while asyncio.run(some_live(fleet)):
        assert time.monotonic() < began + PATIENCE, "some runs do not end"
        time.sleep(CALM / 5)
        if kills < KILLS:
            kills += 1
            fleet.kill(next(node for node in fleet.nodes if node.poll() is None))
            fleet.start_node(module="tests.cluster.step_node")
            fleet.wait_until_up()
    assert set(fleet.stop()) == {0}
    runs = asyncio.run(read(fleet))
    print(f"{len(runs)} runs in {time.monotonic() - began:.0f} s, {kills} nodes killed")
    assert wrong_steps(runs) == []
    assert wrong_spawns(runs) == []
    assert {run.state for run in runs} <= ENDS
    assert sum(run.parent_id is None for run in runs) == ROOTS + SPAWNING
    assert len({run.id for run in runs}) == len(runs)
    assert [each for each in fleet.folder.glob("node*.log") if "refused" in each.read_text()] == []


async def _is_between(fleet: Fleet) -> bool:
    """If some of many spawned runs are kept in documents now."""
    store = await opened(fleet)
    try:
        return len(await store.list_documents(PIECES, limit=3)) == 3
    finally:
        await store.close()


async def _fan(fleet: Fleet) -> None:
    store = await opened(fleet)
    await store.migrate()
    service = service_on(store, SystemClock(), os.urandom).jobs
    for job in JOBS:
        await service.add(job, noop=True, max_running=0)
    await service.trigger_many("fan", [{}, {}])
    await store.close()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_many_spawned_runs_are_made_once(fleet: Fleet) -> None:
    """Of nodes that are killed while 4,000 runs are kept and made piece by piece: none is missing, none doubled."""
    asyncio.run(_fan(fleet))
    began, kills = time.monotonic(), 0
    for _ in range(2):
        fleet.start_node(module="tests.cluster.step_node")
    while asyncio.run(some_live(fleet)):
        assert time.monotonic() < began + 800, "some runs do not end"
        if kills < KILLS and asyncio.run(_is_between(fleet)):
            kills += 1
            fleet.kill(next(node for node in fleet.nodes if node.poll() is None))
            fleet.start_node(module="tests.cluster.step_node")
        time.sleep(0.3)
    assert set(fleet.stop()) == {0}
    runs = asyncio.run(read(fleet))
    print(f"{len(runs)} runs in {time.monotonic() - began:.0f} s, {kills} nodes killed")
    assert kills > 0 and len({run.id for run in runs}) == len(runs)
    fans = [run for run in runs if run.details.spawned is not None]
    ids = {each for run in fans for each in run.details.spawned.ids(run.id)}  # type: ignore[union-attr]
    assert {run.id for run in runs if run.details.awaited} == ids and len(ids) == FANNED * len(fans) > 0
    assert {run.state for run in runs} <= ENDS
