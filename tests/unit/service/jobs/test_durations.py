"""Durations of many jobs are read at once, and used again for a while."""

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import NODE, World
from tokimori.engine.settle import change_of
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import JobId
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized


async def ran(world: World, job_id: str, seconds: float, outcome: Outcome) -> None:
    """A run of so many seconds."""
    await world.trigger(job_id)
    (claimed,) = await world.begin(1)
    began = world.clock.now()
    world.pass_seconds(seconds)
    change = change_of(claimed, outcome, owner=NODE, now=world.clock.now(), chance=0, started=began, pid=7)
    await world.store.settle([change], NODE, world.clock.now())


@pytest.fixture
async def jobs(world: World) -> World:
    """A job that takes 1 to 20 seconds, and one that only fails."""
    for job_id, queue in (("a", "web"), ("b", "mail")):
        await world.add({"noop": True, "queue": queue}, job_id)
    for seconds in range(1, 21):
        await ran(world, "a", seconds, Succeeded())
    await ran(world, "b", 3, Failed("no"))
    await ran(world, "a", 100, Failed("no"))
    return world


async def test_half_and_most_runs_take_so_long(jobs: World) -> None:
    """Good runs count alone, and all jobs are read by one question, which is not repeated soon."""
    asked = jobs.count("last_runs")
    found = {str(k): v for k, v in (await jobs.service.jobs.durations(["a", "b", "none"])).items()}
    assert (found["a"].p50, found["a"].p95, found["a"].runs) == (10, 19, 20)
    assert (found["b"].p50, found["b"].p95, found["b"].runs) == (None, None, 0)
    assert list(found) == ["a", "b", "none"]
    assert await jobs.service.jobs.durations(["a"]) == {"a": found["a"]}
    assert len(asked) == 1
    await ran(jobs, "a", 30, Succeeded())
    jobs.pass_seconds(30)
    assert (await jobs.service.jobs.durations(["a"]))[JobId("a")].runs == 21
    for bad in (["no id"], ["a"] * 101, "a"):
        with pytest.raises(InvalidInput) as caught:
            await jobs.service.jobs.durations(bad)
        assert caught.value.field == "job_ids"


async def test_durations_are_those_in_scope(jobs: World) -> None:
    """A token of a queue is told of its jobs alone."""
    mine = authorized(jobs.service, Access(author="t", role=Role.READ, scope=Scope(queues=("web",))))
    assert (await mine.jobs.durations(["a"]))[JobId("a")].runs == 20
    with pytest.raises(NotFound):
        await mine.jobs.durations(["b"])


async def test_durations_come_over_http(jobs: World) -> None:
    """By job, in seconds."""
    answer = await Asker(an_app(jobs)).get("/api/v2/durations?job_id=a&job_id=b")
    assert answer.json == {
        "a": {"p50": 10.0, "p95": 19.0, "runs": 20, "succeeded": 20, "failed": 1},
        "b": {"p50": None, "p95": None, "runs": 0, "succeeded": 0, "failed": 1},
    }


async def test_the_last_seven_days_are_counted(jobs: World) -> None:
    """More runs than are measured, and no older ones; of a token's queue those in scope alone."""
    jobs.pass_seconds(7 * 24 * 3600)
    for _ in range(60):
        await ran(jobs, "a", 1, Succeeded())
    await ran(jobs, "a", 1, Failed("no"))
    found = (await jobs.service.jobs.durations(["a"]))[JobId("a")]
    assert (found.succeeded, found.failed, found.runs) == (60, 1, 49)
    mine = authorized(jobs.service, Access(author="t", role=Role.READ, scope=Scope(queues=("web",))))
    seen = (await mine.jobs.durations(["a"]))[JobId("a")]
    assert (seen.succeeded, seen.failed) == (49, 1)
    await jobs.service.jobs.update("a", queue="mail")
    await jobs.service.jobs.update("b", queue="web")
    of_b = (await mine.jobs.durations(["b"]))[JobId("b")]
    assert (of_b.succeeded, of_b.failed, of_b.runs) == (0, 0, 0)
