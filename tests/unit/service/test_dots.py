"""Names that mean a folder in an address: `/api/v2/jobs/../pause` is `/api/v2/pause` for whoever sends it."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import JobId
from tokimori.model.lanes import Pause

DOTS = [".", ".."]
pytestmark = pytest.mark.parametrize("name", DOTS)


@pytest.fixture
def world() -> World:
    return World()


async def test_nothing_is_called_so(world: World, name: str) -> None:
    """No job, queue, calendar or semaphore, by whatever way; the error says what is allowed."""
    service = world.service
    await service.jobs.add("a", noop=True)
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "id": lambda: service.jobs.add(name, noop=True),
        "queue": lambda: service.jobs.add("b", noop=True, queue=name),
        "calendars": lambda: service.jobs.add("b", noop=True, schedule="@daily", calendars=[name]),
        "semaphores": lambda: service.jobs.add("b", noop=True, semaphores=[name]),
        "calendar": lambda: service.calendars.add(name, weekdays=["sat"]),
        "semaphore": lambda: service.semaphores.set(name, 1),
    }
    for field, act in acts.items():
        with pytest.raises(InvalidInput) as refused:
            await act()
        assert refused.value.field == field
        assert "neither . nor .." in str(refused.value.allowed)
    with pytest.raises(InvalidInput):
        await service.jobs.update("a", queue=name)
    with pytest.raises(InvalidInput):
        await service.jobs.import_all([(name, ON_DEMAND)])
    with pytest.raises(InvalidInput):
        await service.queues.pause(name)
    for ask in (service.jobs.pause, service.jobs.trigger, service.jobs.get):
        with pytest.raises(NotFound):
            await ask(name)
    assert [job.id for job in await service.jobs.list()] == ["a"]


async def test_what_an_older_version_has_taken_can_go(world: World, name: str) -> None:
    """Such a job can be deleted, and such a queue resumed; where there is none, nothing is done."""
    service = world.service
    job = await service.jobs.add("a", noop=True)
    await world.store.add_jobs([replace(job, id=JobId(name), incarnation=7)])
    await world.store.add_pause(Pause(queue=name, since=world.clock.moment))
    await service.jobs.delete(name)
    assert [job.id for job in await service.jobs.list()] == ["a"]
    assert await service.queues.resume(name) is not None
    assert await service.queues.pauses() == []
    with pytest.raises(NotFound):
        await service.jobs.delete(name)
    with pytest.raises(InvalidInput):
        await service.queues.resume(name)
