"""A door on a service with a memory store."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.programs.compiled import compile_once
from tests.unit.api.asgi import SECRET, Asker
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.node.http_door import formats
from tokimori.service.doors.job_restrictions import JobRestrictions

compile_once()

HEALTHY = Health(status="ok", node_id="n", store_reachable=True, version="1.2.3")


@pytest.fixture
def world() -> World:
    return World()


def an_app(world: World, *, health: Callable[[], Health] = lambda: HEALTHY, **terms: Any) -> ASGIApp:
    """The application of this world's door, with these terms of `create_app`."""
    return create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=health, **terms)


def door_of(world: World) -> Asker:
    """The door of this world."""
    return Asker(
        an_app(world, author_of=lambda _: "ada", allowed=JobRestrictions(users=("ann",)), formats=formats(world.clock))
    )


@pytest.fixture
def door(world: World) -> Asker:
    return door_of(world)
