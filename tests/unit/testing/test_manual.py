"""A node that is ticked by hand does what a real one does, in no time."""

import pytest

from tests.unit.examples import a_definition
from tokimori.clock import DAY, SECOND, parse_moment
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask
from tokimori.service.definitions.definitions import fields_of
from tokimori.testing.manual import NEW_YEAR, ManualNode


async def test_a_year_of_a_daily_job() -> None:
    """Every day has its run, which begins when it is due."""
    node = ManualNode()
    await node.join()
    await node.service.jobs.add("daily", **fields_of(a_definition(schedule="0 9 * * *", time_zone="Europe/Berlin")))
    await node.pass_time(365 * DAY / SECOND)
    runs = await node.runs()
    assert len(runs) == 365
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert all(run.started == run.nominal for run in runs)
    assert parse_moment("2030-07-01T07:00:00Z") in {run.nominal for run in runs}


async def test_a_test_says_how_attempts_end() -> None:
    """What fails is retried when its policy says so."""
    tried = []

    def second_time_lucky(task: AttemptTask) -> Outcome:
        tried.append(task.attempt)
        return Succeeded(0) if task.attempt == 2 else Failed("exit code 1", 1)

    node = ManualNode(second_time_lucky)
    await node.join()
    retry = Retry(attempts=2, delay=30)
    await node.service.jobs.add("once", **fields_of(a_definition(schedule="at 2030-01-01T00:01:00Z", retry=retry)))
    await node.pass_time(60)
    (run,) = await node.runs()
    assert (run.state, tried) == (RunState.WAITING, [1])
    await node.pass_time(30)
    (run,) = await node.runs()
    assert (run.state, tried) == (RunState.SUCCEEDED, [1, 2])


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_seed_makes_the_same_ids(seed: int) -> None:
    """Two nodes of one seed agree in everything."""
    nodes = [ManualNode(seed=seed) for _ in range(2)]
    for node in nodes:
        await node.join()
        await node.service.jobs.add("minutely", **fields_of(a_definition(schedule="* * * * *")))
        await node.pass_time(300)
    assert await nodes[0].runs() == await nodes[1].runs()
    assert nodes[0].clock.now() == NEW_YEAR + 300 * SECOND
