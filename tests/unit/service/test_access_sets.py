"""What a token of some jobs or queues may apply."""

from typing import Any

import pytest

from tests.unit.service.doors.test_authorization import acting
from tests.unit.service.world import World
from tokimori.errors import Forbidden, NotFound
from tokimori.model.access_token import Role, Scope
from tokimori.service.definitions.definitions import definition_from

CI, QUEUE = Scope(jobs=("ci-",)), Scope(queues=("q",))
NOOP: Any = {"noop": True, "queue": "q"}
FAMILY: Any = {"ci-first": NOOP, "ci-then": {**NOOP, "parents": [{"job": "ci-first"}]}}
SCOPES = pytest.mark.parametrize("scope", [CI, QUEUE], ids=["jobs", "queues"])


async def ids(world: World) -> list[str]:
    return [job.id for job in await world.service.jobs.list()]


@SCOPES
async def test_what_lies_within_the_scope_is_applied(world: World, scope: Scope) -> None:
    """Also where jobs run after others that are declared with them; others of the set stay, and are not told."""
    await world.service.sets.apply("prod", {"other": {"noop": True}, "ci-old": NOOP})
    service = acting(world, Role.OPERATE, scope)
    found = await service.sets.apply("prod", FAMILY)
    assert (found.added, found.kept) == (("ci-first", "ci-then"), ("ci-old",))
    edited: Any = {**FAMILY, "ci-first": {**NOOP, "priority": 2}}
    found = await service.sets.apply("prod", edited)
    assert list(found.changed) == ["ci-first"]
    assert await ids(world) == ["ci-first", "ci-old", "ci-then", "other"]
    assert [(state.name, state.jobs) for state in await service.sets.list()] == [("prod", 3)]
    await service.sets.apply("own", {"ci-own": NOOP})
    await service.sets.apply("own", {}, prune=True)
    assert await ids(world) == ["ci-first", "ci-old", "ci-then", "other"]


@SCOPES
async def test_a_dry_run_is_for_whoever_may_read(world: World, scope: Scope) -> None:
    """What would be changed is not."""
    found = await acting(world, Role.READ, scope).sets.apply("prod", FAMILY, dry_run=True)
    assert (found.added, await ids(world)) == (("ci-first", "ci-then"), [])
    assert (await acting(world, Role.READ).sets.apply("prod", {"any": {"noop": True}}, dry_run=True)).added == ("any",)
    wrong: tuple[Any, ...] = ({}, {"dry_run": False})
    for how in wrong:
        with pytest.raises(Forbidden, match="role"):
            await acting(world, Role.READ, scope).sets.apply("prod", FAMILY, **how)
    with pytest.raises(Forbidden, match="elsewhere"):
        await acting(world, Role.READ, scope).sets.apply("prod", {"elsewhere": {"noop": True}}, dry_run=True)


@SCOPES
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("declared", "resources", "words"),
    [
        ({"elsewhere": {"noop": True}}, {}, "elsewhere"),
        ({"their-ci": {"noop": True}}, {"take_over": True}, "their-ci"),
        ({"ci-in": {**NOOP, "parents": [{"job": "their-ci"}]}}, {}, "their-ci"),
        ({}, {"calendars": {"holidays": {"dates": ["12-25"]}}}, "calendar: 'holidays'"),
        ({}, {"semaphores": {"printer": {"limit": 2}}}, "semaphore: 'printer'"),
        ({}, {"queues": {"other": {"paused": True}}}, "queue: 'other'"),
        ({}, {"queues": {"*": {"paused": True}}}, r"queue: '\*'"),
        ({}, {"prune": True}, "a job of the set prod"),
    ],
    ids=str,
)
async def test_what_lies_outside_is_named_and_nothing_is_applied(
    world: World, scope: Scope, declared: Any, resources: Any, words: str, *, dry_run: bool
) -> None:
    """Jobs of other queues or names, also as neighbours; what is everybody's; what pruning would delete."""
    await world.service.sets.apply("prod", {"their-ci": {"noop": True, "queue": "other"}, "ci-mine": NOOP})
    before = await world.service.jobs.list()
    service = acting(world, Role.OPERATE, scope)
    with pytest.raises(Forbidden, match=words):
        await service.sets.apply("prod", {"ci-mine": NOOP, "ci-new": NOOP, **declared}, **resources, dry_run=dry_run)
    assert await world.service.jobs.list() == before


async def test_a_queue_of_the_scope_is_paused_with_its_jobs(world: World) -> None:
    """And resumed, when it is declared no more; a set of others is not there."""
    service = acting(world, Role.OPERATE, QUEUE)
    await service.sets.apply("prod", FAMILY, queues={"q": {"paused": True}})
    assert [pause.queue for pause in await world.service.queues.pauses()] == ["q"]
    await service.sets.apply("prod", FAMILY, prune=True)
    assert await world.service.queues.pauses() == []
    await world.service.sets.apply("staging", {"theirs": {"noop": True}})
    with pytest.raises(NotFound, match="there is no set 'staging'"):
        await service.sets.list("staging")
    assert [state.name for state in await service.sets.list()] == ["prod"]


async def test_an_import_of_a_family_is_within_a_queue(world: World) -> None:
    """Its parents are not there yet when they are looked at; one of others that is there is refused."""
    service = acting(world, Role.OPERATE, QUEUE)
    pairs = [(job_id, definition_from(fields, time_zone="UTC")) for job_id, fields in FAMILY.items()]
    await world.service.jobs.add("ci-first", noop=True, queue="other")
    with pytest.raises(Forbidden, match="ci-first"):
        await service.jobs.import_all(pairs)
    await world.service.jobs.delete("ci-first")
    assert (await service.jobs.import_all(pairs)).added == ("ci-first", "ci-then")
