"""All jobs are deleted, some at a time."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import Forbidden, InvalidInput
from tokimori.model.access_token import Role, Scope
from tokimori.service.access import Access
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.jobs.deleting import MOST_DELETED


async def add(world: World, job_id: str, *parents: str) -> None:
    await world.service.jobs.add(job_id, noop=True, parents=[{"job": parent} for parent in parents])


async def ids(world: World) -> list[str]:
    return [job.id for job in await world.service.jobs.list()]


async def test_nobody_deletes_all_by_mistake(world: World) -> None:
    """Without its word nothing is deleted; a preview needs none, and deletes nothing."""
    await add(world, "a")
    for confirm in (None, "", "yes", "ALL", True):
        with pytest.raises(InvalidInput) as caught:
            await world.service.jobs.delete_some(confirm)  # type: ignore[arg-type]
        assert (caught.value.field, caught.value.allowed) == ("confirm", "the text all")
    assert [job.id for job in (await world.service.jobs.delete_some(dry_run=True)).jobs] == ["a"]
    assert await ids(world) == ["a"]


async def test_each_job_goes_after_those_that_run_after_it(world: World) -> None:
    """However long the line of jobs is, and whichever way their ids are ordered."""
    line = ["a", *(f"a{number}" for number in range(1_200))]
    parents: list[list[dict[str, str]]] = [[], *([{"job": parent}] for parent in line[:-1])]
    defined = [world.define({"noop": True, "parents": each}) for each in parents]
    await world.service.jobs.import_all([*zip(line, defined, strict=True)])
    done = await world.service.jobs.delete_all("all")
    assert [job.id for job in done.jobs] == line[::-1]
    assert (done.kept, await ids(world)) == ({}, [])


async def test_a_piece_has_a_bound_and_the_next_one_goes_on(world: World) -> None:
    """Also where more jobs run after one than a piece deletes; what is added meanwhile stays."""
    await add(world, "a")
    for number in range(7):
        await add(world, f"child-{number}", "a")
    done = await world.service.jobs.delete_some("all", limit=3)
    assert (len(done.jobs), done.next, "a" in await ids(world)) == (3, "", True)
    world.pass_seconds(1)
    await add(world, "aa")
    deleted = [job.id for job in done.jobs]
    while done.next is not None:
        done = await world.service.jobs.delete_some("all", limit=3, after=done.next, until=done.until)
        assert len(done.jobs) <= 3
        deleted += [job.id for job in done.jobs]
    assert (sorted(deleted), deleted[-1]) == (["a", *(f"child-{number}" for number in range(7))], "a")
    assert await ids(world) == ["aa"]


async def test_what_was_stopped_is_asked_again(world: World) -> None:
    """Nothing is remembered of a piece: whoever asks anew goes on with what is left."""
    for number in range(MOST_DELETED + 5):
        await add(world, f"j{number:03}")
    assert len((await world.service.jobs.delete_some("all")).jobs) == MOST_DELETED
    assert len((await world.service.jobs.delete_all("all")).jobs) == 5


async def test_a_job_after_which_a_new_one_runs_is_kept(world: World) -> None:
    """It is told why; all others are deleted."""
    await add(world, "a")
    await add(world, "b")
    until = world.clock.now()
    world.pass_seconds(1)
    await add(world, "new", "a")
    done = await world.service.jobs.delete_some("all", until=until)
    assert ([job.id for job in done.jobs], [*done.kept], done.next) == (["b"], ["a"], None)
    assert "other jobs run after a" in done.kept["a"]
    assert await ids(world) == ["a", "new"]


async def test_only_admins_of_everything_delete_all(world: World) -> None:
    """Neither who operates nor an admin of some jobs does; each deletion has its entry in the audit log."""
    await add(world, "a")
    await add(world, "b", "a")
    some = Access(author="ci", role=Role.ADMIN, scope=Scope(jobs=("a",)))
    for access in (Access(author="ci", role=Role.OPERATE), some):
        for dry_run in (False, True):
            with pytest.raises(Forbidden):
                await authorized(world.service, access).jobs.delete_some("all", dry_run=dry_run)
    boss = authorized(world.service, Access(author="boss", role=Role.ADMIN))
    await boss.jobs.delete_some(dry_run=True)
    await boss.jobs.delete_some("all")
    found = [each.entry for each in await audited(world.service).audit.list()]
    assert {(each.who, each.what, each.of, each.after) for each in found} == {
        ("boss", "jobs.delete_some", f"job {job_id}", None) for job_id in "ab"
    }
    assert all(each.before["definition"]["target"] for each in found)
