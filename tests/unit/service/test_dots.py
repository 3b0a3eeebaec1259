"""Names that mean a folder in an address: `/api/v2/jobs/../pause` is `/api/v2/pause` for whoever sends it."""

from collections.abc import Awaitable, Callable

import pytest

from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import InvalidInput

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
        with pytest.raises(InvalidInput):
            await ask(name)
    assert [job.id for job in await service.jobs.list()] == ["a"]
