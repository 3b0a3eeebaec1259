"""A door on a service with a memory store."""

import pytest

from tests.unit.api.asgi import SECRET, Asker
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.node.formats import formats
from tokimori.service.allowed import Allowed

HEALTHY = Health(status="ok", node_id="n", store_reachable=True, version="1.2.3")


@pytest.fixture
def world() -> World:
    return World()


def door_of(world: World) -> Asker:
    """The door of this world."""
    app = create_app(
        world.service,
        world.clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: HEALTHY,
        author_of=lambda _: "ada",
        allowed=Allowed(users=("ann",)),
        formats=formats(),
    )
    return Asker(app)


@pytest.fixture
def door(world: World) -> Asker:
    return door_of(world)
