"""What a job may want of semaphores."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.service.reasons import Cause, reason_text


async def test_a_weight_above_the_limit_is_refused(world: World) -> None:
    """At add, import and update alike, by field, value and what is allowed; an unknown semaphore has one unit."""
    await world.store.put_semaphore("db", 3, world.clock.now())
    await world.add({"noop": True, "semaphores": ["db:3", "new"]}, "fits")
    heavy = {"noop": True, "semaphores": ["db:4"]}
    definition = Definition(target=Noop(), semaphores=("new:2",))
    for call, field in (
        (lambda: world.add(heavy, "j"), "semaphores"),
        (lambda: world.update("fits", {"semaphores": ["db:4"]}), "semaphores"),
        (lambda: world.service.jobs.import_all([("j", definition)]), "jobs[0].semaphores"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await call()
        assert refused.value.field == field
        assert refused.value.value in {"db:4", "new:2"}
        assert refused.value.allowed in {"db:1 to db:3, or a larger limit first", "new:1, or a larger limit first"}
    assert [job.id for job in await world.service.jobs.list()] == ["fits"]


async def test_a_larger_limit_lets_it_in(world: World) -> None:
    """The limit of the moment counts."""
    heavy = {"noop": True, "semaphores": ["db:4"]}
    await world.store.put_semaphore("db", 4, world.clock.now())
    job = await world.add(heavy, "j")
    assert job.definition.semaphores == ("db:4",)


async def test_what_a_lowered_limit_keeps_out_says_so(world: World) -> None:
    """A weight that only a job states keeps no limit up: job and run say why nothing starts."""
    await world.store.put_semaphore("db", 3, world.clock.now())
    await world.add({"noop": True, "semaphores": ["db:3", "other"]}, "j")
    run = await world.service.jobs.trigger("j")
    assert await world.service.jobs.too_heavy("j") == ()
    await world.service.semaphores.set("db", 2)
    assert await world.begin(1) == []
    why = "3 units of the semaphore db never fit its limit of 2"
    assert await world.service.jobs.too_heavy("j") == (why,)
    for found in (await world.service.jobs.why("j"), await world.service.runs.why(run.id)):
        assert [reason_text(each) for each in found.reasons if each.cause is Cause.TOO_HEAVY] == [
            f"{why}: `tokimori lock set db --limit 3` raises it"
        ]
    await world.service.semaphores.set("db", 3)
    assert len(await world.begin(1)) == 1
    assert (await world.service.runs.why(run.id)).reasons == ()
