"""Two nodes on a store that refuses a few rows by chance, whichever statement touches them: all else goes on."""

import time
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from tests.cluster.refused import CHECKS, OCCURRENCES, SCHEDULED, Refused, RefusedWorld, let_scripts_refuse
from tests.contract.stores.refusing import WORDS, opened
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, RetryIn
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState

SECONDS = 40
"""For so long stores are tried, each with one world after the other."""
REFUSING, CALM, WELL = 120.0, 30.0, 100.0
"""Virtual seconds: of refusals, of those that are left in the end, and after the store takes everything again."""
LINES = {"limited": "limited", "keyed": "k", "holder": "db", "other-holder": "db"}
"""For what the runs of a job wait. As long as the store refuses the end of one, they wait for its place or units."""
MOST_ASKED = 40
"""Calls a second of a node that has nothing to do but what is refused."""


@pytest.mark.parametrize("name", CHECKS)
def test_a_script_holds_the_line_before_which_it_is_refused(name: str) -> None:
    """A script of Redis has the line before which the proof below refuses it: a change of it is noticed at once."""
    text = (files("tokimori.stores.redis") / "scripts" / f"{name}.lua").read_text()
    assert text.count(CHECKS[name][0]) == 1, "say anew in tests/cluster/refused.py before which line it is refused"


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
async def test_whatever_is_refused_hinders_nothing_else(kind: str, tmp_path: Path) -> None:
    """Whatever rows the store refuses: every other run ends once, and nothing loops, is lost or keeps units."""
    began, seed = time.monotonic(), 0
    while time.monotonic() < began + SECONDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        await one_world(kind, folder, seed)
        seed += 1
    print(f"{kind}: {seed} worlds in {time.monotonic() - began:.0f} s")


async def one_world(kind: str, folder: Path, seed: int) -> None:
    """A store of its own, in which the laws must hold."""
    async with opened(kind, folder) as database:
        if kind == "redis":
            let_scripts_refuse(database.store, WORDS)
        world = RefusedWorld(database, seed)
        await world.prepare()
        refused = await world.refuse(1 + seed % 3)
        told = f"{kind}, seed {seed}: {'; '.join(refused.faults)}"
        for _ in range(1 + seed % 2):
            await world.join()
        await world.live_on(REFUSING)
        before = _asked(world)
        await world.live_on(CALM)
        assert _asked(world) - before < MOST_ASKED * CALM * len(world.members), told
        runs = await world.runs()
        assert broken(world, runs, refused) == [], told
        await world.accept()
        await world.live_on(WELL)
        runs = await world.runs()
        assert broken(world, runs, refused) == [], told
        parked = {job.id for job in await database.store.list_jobs() if job.state is JobState.PARKED}
        left = [run for run in runs if run.state not in ENDS and run.job_id not in parked]
        assert left == [], told
        assert {each.used for each in await database.store.list_semaphores()} == {0}, told


def _asked(world: RefusedWorld) -> int:
    return sum(member.link.calls.total() for member in world.members)


def broken(world: RefusedWorld, runs: list[Run], refused: Refused) -> list[str]:
    """Laws that do not hold."""
    found = [
        f"{run.job_id} began attempt {number} {count} times"
        for run in runs
        for number in range(1, run.attempt + 1)
        if (count := world.begun[run.id, number]) > 1
    ]
    parked = {run.job_id for run in runs if run.state is RunState.FAILED and run.job_id == "parking"}
    held = {LINES.get(run.job_id) for run in runs if refused.concerns(run) and run.state not in ENDS}
    for run in runs:
        if refused.concerns(run) or (run.state is RunState.BLOCKED and LINES.get(run.job_id, run.job_id) in held):
            continue
        if run.state not in ENDS and run.job_id not in parked:
            found.append(f"{run.job_id} {run.id} is {run.state}")
        elif run.state in ENDS and run.state is not RunState.CANCELLED:
            last = world.told[run.id][-1]
            expected = RunState.FAILED if isinstance(last, Failed) else RunState.SUCCEEDED
            again = sum(isinstance(each, RetryIn) for each in world.told[run.id])
            if (run.state, run.attempt) != (expected, 1 + again):
                found.append(f"{run.job_id} {run.id} is {run.state} at attempt {run.attempt}: {world.told[run.id]}")
    return found + _children(runs, refused) + _occurrences(runs, refused)


def _children(runs: list[Run], refused: Refused) -> list[str]:
    """Each end has the one run of each child that follows it."""
    born = Counter((run.parent_id, run.job_id) for run in runs if run.parent_id is not None)
    found = [f"{number} runs of {job} after {parent}" for (parent, job), number in born.items() if number > 1]
    for run in runs:
        if run.job_id == "plain" and run.state in ENDS and not refused.concerns(run):
            wanted = {"heir"} | ({"mourner"} if run.state is RunState.FAILED else set())
            if {job for parent, job in born if parent == run.id} != wanted:
                found.append(f"{run.id} has not the children {wanted}")
    return found


def _occurrences(runs: list[Run], refused: Refused) -> list[str]:
    """Each moment of a schedule became one run."""
    found = []
    for name in SCHEDULED:
        moments = [run.nominal for run in runs if run.job_id == name]
        if len(set(moments)) != len(moments) or (name not in refused.jobs and len(moments) != OCCURRENCES):
            found.append(f"{name} has {len(moments)} runs at {len(set(moments))} moments")
    return found
