"""Dependents as people ask for them: known parents, no circles, and what becomes of children when a job is deleted."""

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence

import pytest

from tests.unit.service.world import World
from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model import dependents
from tokimori.model.attempt_notes import MOST_INHERITED
from tokimori.model.dependents import Edge, check_acyclic
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.service.jobs import family


async def add(world: World, job_id: str, *parents: str, **fields: object) -> Job:
    """Add a job that runs after these."""
    return await world.add(
        world.define({"noop": True, "parents": [{"job": parent} for parent in parents], **fields}), job_id
    )


async def test_an_unknown_parent_is_refused(world: World) -> None:
    """A job after one that there is not is not added, and the fault names it."""
    with pytest.raises(InvalidInput, match="no job 'nobody'") as caught:
        await add(world, "child", "nobody")
    assert (caught.value.field, caught.value.value) == ("parents", "nobody")
    with pytest.raises(NotFound):
        await world.service.jobs.get("child")


async def test_an_unknown_failure_job_is_refused(world: World) -> None:
    """The same holds for a job that is to run after a failure."""
    with pytest.raises(InvalidInput, match="no job 'nobody'"):
        await add(world, "job", on_failure_job="nobody")


async def test_a_circle_is_refused(world: World) -> None:
    """An edit that would have a job run after itself is refused with the way around, and changes nothing."""
    await add(world, "a")
    await add(world, "b", "a")
    await add(world, "c", "b")
    with pytest.raises(InvalidInput, match="→") as caught:
        await world.update("a", {"parents": [{"job": "c"}]})
    assert set(str(caught.value.value).split(" → ")) == {"a", "b", "c"}
    assert (await world.service.jobs.get("a")).definition.parents == ()


async def test_a_job_after_itself_is_refused(world: World) -> None:
    """The smallest circle is one, too."""
    with pytest.raises(InvalidInput, match="cycle"):
        await add(world, "a", "a")


async def test_an_edit_may_turn_an_edge_around(world: World) -> None:
    """Edges that the edit itself takes away are no part of a circle."""
    await add(world, "a")
    await add(world, "b", "a")
    await world.update("b", {"parents": None})
    await world.update("a", {"parents": [{"job": "b"}]})
    assert [edge.parent for edge in (await world.store.family()).edges] == ["b"]


async def test_a_schedule_beside_parents_is_refused(world: World) -> None:
    """A job runs by its schedule or after others, not both."""
    await add(world, "a")
    with pytest.raises(InvalidInput, match="runs after them"):
        await add(world, "b", "a", schedule="@daily")


async def test_jobs_of_one_import_may_name_each_other(world: World) -> None:
    """Parents may come with their children, in any order."""
    child = world.define({"noop": True, "parents": [{"job": "parent"}]})
    imported = await world.service.jobs.import_all([("child", child), ("parent", world.define({"noop": True}))])
    assert imported.added == ("child", "parent")


async def test_a_family_that_changes_meanwhile_is_checked_again(world: World) -> None:
    """An edit whose check was overtaken by another one is checked and written again."""
    await add(world, "a")
    await add(world, "b")
    store = world.store
    added: list[bool] = []

    def overtake() -> None:
        if not added:
            added.append(True)
            store.tables.family_version += 1

    store.before_replace = overtake
    await world.update("b", {"parents": [{"job": "a"}]})
    assert len((await store.family()).edges) == 1


async def test_a_circle_among_many_edges_is_looked_for_beside_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes half a second where there are 100,000 of them."""
    monkeypatch.setattr(family, "FEW", 1)
    threads = list[int]()

    def noted(edges: Iterable[Edge]) -> None:
        threads.append(threading.get_ident())
        check_acyclic(edges)

    monkeypatch.setattr(family, "check_acyclic", noted)
    await add(world, "a")
    await add(world, "b", "a")
    await add(world, "c", "b")
    with pytest.raises(InvalidInput, match="→"):
        await world.update("a", {"parents": [{"job": "c"}]})
    assert (threads[0], threading.get_ident() in threads[1:]) == (threading.get_ident(), False)


async def test_a_parent_is_not_deleted_by_accident(world: World) -> None:
    """A job after which others run stays, and the fault names them."""
    await add(world, "a")
    await add(world, "b", "a")
    with pytest.raises(Refused, match=r"a can't be deleted, because b run after it: .*--cascade"):
        await world.service.jobs.delete("a")
    assert (await world.service.jobs.get("a")).id == "a"


async def test_deleting_cascades_when_asked_to(world: World) -> None:
    """With its only parent a child goes, and its own children; one with another parent loses this one (Kala)."""
    await add(world, "a")
    await add(world, "other")
    await add(world, "only", "a")
    await add(world, "below", "only")
    await add(world, "both", "a", "other")
    await world.service.jobs.delete("a", cascade=True)
    assert [job.id for job in await world.service.jobs.list()] == ["both", "other"]
    assert [parent.job for parent in (await world.service.jobs.get("both")).definition.parents] == ["other"]


@pytest.mark.parametrize("parent_of", [lambda n: n - 1, lambda _: 0], ids=["a chain", "all after one"])
async def test_a_large_family_is_deleted_job_by_job(world: World, parent_of: Callable[[int], int]) -> None:
    """However long it is: the family is read a few times, and each deletion is a transaction of its own."""
    await add(world, "0")
    for n in range(1, 200):
        await add(world, str(n), str(parent_of(n)))
    reads, deleted = world.count("family"), world.count("delete_job")
    await world.service.jobs.delete("0", cascade=True)
    assert (await world.service.jobs.list()).jobs == []
    assert (len(deleted), len(reads)) == (200, 2)


async def test_only_what_is_parked_is_resolved(world: World) -> None:
    """Resolving a job that runs is refused; a parked one is enabled again."""
    await add(world, "a", on_exhausted="park")
    with pytest.raises(Refused, match="enabled"):
        await world.service.jobs.resolve("a")


async def test_a_child_that_came_while_its_parent_was_deleted_is_told_of(world: World) -> None:
    """The parent then stays, paused: whoever deletes it learns that, and which child would wait for it in silence."""
    await add(world, "a")
    kept, added = world.store.delete_job, list[bool]()

    async def overtaken(job_id: JobId, now: Moment, known: Job | None = None) -> None:
        if not added:
            added.append(True)
            await add(world, "b", "a")
        await kept(job_id, now, known)

    world.store.delete_job = overtaken  # type: ignore[method-assign]
    with pytest.raises(Refused, match="it stays paused: `tokimori job resume a` enables it"):
        await world.service.jobs.delete("a", now=True)
    assert (await world.service.jobs.get("a")).state is JobState.PAUSED
    with pytest.raises(Refused, match="b run after it") as caught:
        await world.service.jobs.delete("a")
    assert "stays paused" not in caught.value.message


async def test_a_job_has_a_bounded_number_of_children(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, by a name and with what is allowed; those that there are may be edited."""
    for name in ("parent", "other"):
        await add(world, name)
    for n in range(3):
        await add(world, f"child-{n}", "parent")
    for most in (2, 3):
        monkeypatch.setattr(dependents, "MOST_CHILDREN", most)
        with pytest.raises(InvalidInput, match="4 jobs would run after parent") as caught:
            await add(world, "child-3", "parent")
        assert (caught.value.field, caught.value.value) == ("parents", "parent")
        assert f"at most {most} jobs" in str(caught.value.allowed)
    monkeypatch.setattr(dependents, "MOST_CHILDREN", 2)
    await world.update("child-0", {"parents": [{"job": "parent"}, {"job": "other"}]})
    await add(world, "child-3", "other")


async def test_a_payload_is_refused_that_is_too_large_for_its_children(world: World) -> None:
    """What all children of a run get is written as it ends: a megabyte for each of a hundred is too much."""
    await add(world, "first")
    await add(world, "second", "first")
    for n in range(100):
        await add(world, f"child-{n}", "second")
    large, fits = f'"{"x" * 2**20}"', f'"{"x" * (MOST_INHERITED // 100 - 2)}"'
    asked: Sequence[Callable[[str], Awaitable[object]]] = (
        lambda payload: world.service.jobs.trigger("first", payload=payload),
        lambda payload: world.service.jobs.trigger_many("first", [{"payload": payload}]),
    )
    for ask in asked:
        with pytest.raises(InvalidInput, match="too many for each of the 100 jobs") as caught:
            await ask(large)
        assert (caught.value.field, caught.value.value) == ("payload", len(large))
        assert str(MOST_INHERITED // 100) in str(caught.value.allowed)
        await ask(fits)
    await world.service.jobs.trigger("child-0", payload=large)
