"""Runs that have not begun when their requests expire end as skipped, by a duty or by the node that claims them."""

from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_run, seconds
from tests.unit.service.world import ON_DEMAND, World
from tokimori.engine.expire import EVERY, Expirer
from tokimori.engine.work import Work
from tokimori.model.ids import NodeId, RunId
from tokimori.model.request import EXPIRY, expiries_of
from tokimori.model.run import Details, expired, never_begun
from tokimori.model.transitions import RunState
from tokimori.ports.working import Claimed

NODE = NodeId("node")


async def test_runs_end_when_their_moment_has_come() -> None:
    """The first by their moments, each as skipped; the next look is when the next one is due, or in ten seconds."""
    world = World()
    await world.add(ON_DEMAND, "j")
    runs = [await world.service.jobs.trigger("j", expires=f"{n}s", at="1s") for n in (2, 4)]
    expirer = Expirer(world.store, 0)
    assert await expirer.step(NODE, NEW_YEAR, 0) is False
    assert expirer.next_at == 2
    await expirer.step(NODE, seconds(2), 2)
    assert [(await world.store.get_run(run.id)).state for run in runs] == [RunState.SKIPPED, RunState.WAITING]
    assert expirer.next_at == 4
    await expirer.step(NODE, seconds(4), 4)
    assert (await world.store.get_run(runs[1].id)).error == (
        "it had not begun by 2030-01-01T00:00:04Z, when its request expired"
    )
    await expirer.step(NODE, seconds(5), 5)
    assert expirer.next_at == 5 + EVERY
    assert await world.store.list_documents(EXPIRY) == []


async def test_what_has_no_run_is_forgotten() -> None:
    """A request that another run answered leaves no moment behind; one without a run goes when its moment has come."""
    world = World()
    await world.add(ON_DEMAND, "j")
    first = await world.service.jobs.trigger("j", unique="until_end", expires="9s")
    again = await world.service.jobs.trigger("j", unique="until_end", expires="2s")
    assert again.id == first.id
    assert len(await world.store.list_documents(EXPIRY)) == 1
    (gone,) = expiries_of(replace(a_run(), details=Details(expires=seconds(2))))
    await world.store.put_document(gone, None)
    await Expirer(world.store, 0).step(NODE, seconds(3), 3)
    assert len(await world.store.list_documents(EXPIRY)) == 1
    assert (await world.store.get_run(first.id)).state is RunState.READY


async def test_a_run_that_was_changed_expires_when_the_newer_request_says() -> None:
    """Its facts are those of the newer request."""
    world = World()
    await world.add(ON_DEMAND, "j")
    first = await world.service.jobs.trigger("j", unique="until_end", expires="2s")
    await world.service.jobs.trigger("j", unique="until_end", on_duplicate="replace", expires="5s")
    expirer = Expirer(world.store, 0)
    for second in (3, 6):
        assert (await world.store.get_run(first.id)).state is not RunState.SKIPPED
        for _ in range(3):
            await expirer.step(NODE, seconds(second), expirer.next_at)
    assert (await world.store.get_run(first.id)).state is RunState.SKIPPED


async def test_a_claimed_run_that_has_expired_does_not_begin() -> None:
    """Its node ends it at once, as skipped and without an attempt; one that has begun before goes on."""
    world = World()
    job = await world.add(ON_DEMAND, "j")
    run = await world.store.get_run((await world.service.jobs.trigger("j", expires="2s")).id)
    work = Work(4)
    late = replace(run, state=RunState.RUNNING, attempt=1)
    begun = replace(late, id=RunId("begun"), attempt=2)
    work.accept([Claimed(run=each, definition=job.definition) for each in (late, begun)], NODE, seconds(3))
    assert [task.run_id for task in work.next_tasks()] == ["begun"]
    (change,) = work.unsettled.batch(0)
    assert (change.run_id, change.state, change.attempt) == (run.id, RunState.SKIPPED, None)
    assert change.details is not None and change.details.unbegun == 1


def test_what_has_begun_does_not_expire() -> None:
    """An attempt that never began counts for nothing."""
    facts = Details(expires=seconds(2), unbegun=1)
    run = replace(a_run(), state=RunState.RUNNING, attempt=2, details=facts)
    assert expired(run, seconds(2)) is not None
    assert expired(run, seconds(1)) is None
    assert never_begun(replace(run, attempt=3)) is False
    assert expired(replace(run, attempt=3), seconds(2)) is None
