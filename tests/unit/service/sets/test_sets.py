"""Sets of jobs: what applying one changes, and whose jobs it never touches."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.service.world import World
from tests.unit.turns import turns_of_others
from tokimori.errors import Conflict, InvalidInput, Refused
from tokimori.model.job import JobState
from tokimori.service.definitions.differences import FieldChange
from tokimori.service.sets.app_jobs import Declared, declare
from tokimori.service.sets.resources import Changes
from tokimori.service.sets.work import Applied

NIGHTLY = {"command": "make report", "schedule": "0 3 * * *"}
Jobs = Mapping[str, Any]


async def applied(world: World, jobs: Jobs, name: str = "prod", **how: Any) -> Applied:
    """What applying a set did."""
    return await world.service.sets.apply(name, jobs, **how)


def done(found: Changes) -> dict[str, object]:
    """All of it that is not empty, but for the name of the set."""
    names = ("added", "changed", "adopted", "removed", "kept", "unchanged", "refused")
    return {name: value for name in names if (value := getattr(found, name))}


async def schedule_in(world: World, job_id: str = "nightly") -> str | None:
    return (await world.service.jobs.get(job_id)).definition.schedule


async def test_jobs_are_added_once_and_follow_what_is_declared(world: World) -> None:
    """Applied again nothing is changed, and a change is told field by field; what is not said gets its default back."""
    first = {"nightly": {**NIGHTLY, "priority": 3, "retry": {"attempts": 3}}, "other": {"noop": True}}
    assert done(await applied(world, first)) == {"added": ("nightly", "other")}
    before = await world.service.jobs.list()
    assert done(await applied(world, first)) == {"unchanged": ("nightly", "other")}
    assert await world.service.jobs.list() == before
    found = await applied(world, {**first, "nightly": {**NIGHTLY, "schedule": "0 4 * * *", "retry": {"attempts": 4}}})
    assert found.changed == {
        "nightly": (
            FieldChange(field="priority", old=3, new=None),
            FieldChange(field="retry.attempts", old=3, new=4),
            FieldChange(field="schedule", old="0 3 * * *", new="0 4 * * *"),
        )
    }
    definition = (await world.service.jobs.get("nightly")).definition
    assert (definition.schedule, definition.priority, definition.retry.attempts) == ("0 4 * * *", 0, 4)


async def test_a_dry_run_changes_nothing_and_says_the_same(world: World) -> None:
    """Also of what would be refused."""
    await applied(world, {"nightly": NIGHTLY, "gone": {"noop": True}})
    await world.service.jobs.update("gone", priority=1)
    before = await world.service.jobs.list()
    found = await applied(world, {"new": {"noop": True}, "nightly": {"noop": True}}, prune=True, dry_run=True)
    assert (found.added, list(found.changed), found.removed, list(found.refused)) == (
        ("new",),
        ["nightly"],
        (),
        ["gone"],
    )
    assert await world.service.jobs.list() == before


async def test_a_dry_run_expects_nothing(world: World) -> None:
    """What a new job is expected to do is written with the job; a name that is expected elsewhere is refused before."""
    watched = {"nightly": {"noop": True, "expect_within": 60}}
    await applied(world, watched, dry_run=True)
    assert await world.service.expectations.list() == []
    await world.service.expectations.set("nightly", 60)
    with pytest.raises(Refused, match="tokimori expect nightly --never"):
        await applied(world, watched, dry_run=True)
    await world.service.expectations.delete("nightly")
    await applied(world, watched)
    assert [each.of_job for each in await world.service.expectations.list()] == [True]


async def test_what_is_not_declared_any_more_is_kept_unless_it_is_pruned(world: World) -> None:
    """Only jobs of this very set are."""
    await applied(world, {"nightly": NIGHTLY, "old": NIGHTLY})
    await applied(world, {"theirs": NIGHTLY}, "staging")
    await world.service.jobs.add("by-hand", noop=True)
    assert done(await applied(world, {"nightly": NIGHTLY})) == {"kept": ("old",), "unchanged": ("nightly",)}
    assert done(await applied(world, {}, prune=True)) == {"removed": ("nightly", "old")}
    assert [job.id for job in await world.service.jobs.list()] == ["by-hand", "theirs"]


async def test_jobs_of_others_are_taken_over_only_when_asked_to(world: World) -> None:
    """Those of another set, even where they are alike; then they are of this one, and the other leaves them alone."""
    await applied(world, {"nightly": NIGHTLY}, "staging")
    with pytest.raises(Conflict, match="nightly: it is of the set staging"):
        await applied(world, {"nightly": NIGHTLY, "new": NIGHTLY})
    assert [job.id for job in await world.service.jobs.list()] == ["nightly"]
    assert done(await applied(world, {"nightly": NIGHTLY}, take_over=True)) == {"adopted": ("nightly",)}
    assert done(await applied(world, {}, "staging", prune=True)) == {}
    assert done(await applied(world, {"nightly": NIGHTLY})) == {"unchanged": ("nightly",)}


async def test_an_edit_by_hand_is_never_overwritten_in_silence(world: World) -> None:
    """Neither by a change nor by pruning; undone by hand the job follows again, and so it does when taken over."""
    await applied(world, {"nightly": NIGHTLY})
    await world.service.jobs.update("nightly", schedule="0 5 * * *")
    for jobs in ({"nightly": NIGHTLY}, {}):
        with pytest.raises(Conflict, match="edited by hand since"):
            await applied(world, jobs, prune=True)
    assert await schedule_in(world) == "0 5 * * *"
    await world.service.jobs.update("nightly", schedule="0 3 * * *")
    assert list((await applied(world, {"nightly": {**NIGHTLY, "priority": 1}})).changed) == ["nightly"]
    await world.service.jobs.update("nightly", schedule="0 5 * * *")
    assert list((await applied(world, {"nightly": NIGHTLY}, take_over=True)).changed) == ["nightly"]
    assert await schedule_in(world) == "0 3 * * *"


async def test_what_was_edited_to_what_is_declared_now_is_no_edit(world: World) -> None:
    """Somebody had made the change by hand before it was declared: from then on the job follows as before."""
    await applied(world, {"nightly": NIGHTLY})
    await world.service.jobs.update("nightly", priority=1)
    assert done(await applied(world, {"nightly": {**NIGHTLY, "priority": 1}})) == {"unchanged": ("nightly",)}
    assert list((await applied(world, {"nightly": NIGHTLY})).changed) == ["nightly"]


async def test_a_job_added_by_hand_is_adopted_where_it_is_alike(world: World) -> None:
    """Where it differs it stays, and is told."""
    await world.service.jobs.add("nightly", command="make report", schedule="0 3 * * *")
    assert done(await applied(world, {"nightly": NIGHTLY})) == {"adopted": ("nightly",)}
    await world.service.jobs.add("other", noop=True)
    with pytest.raises(Conflict, match="other: somebody has added it by hand"):
        await applied(world, {"nightly": NIGHTLY, "other": NIGHTLY})


async def test_apps_and_sets_leave_each_other_alone(world: World) -> None:
    """A set does not change a job of an app, nor an app one of a set, even where both declare the same."""
    said = {"function": "app.nightly", "schedule": "0 3 * * *", "owner": "app"}
    await applied(world, {"ours": said})
    told = await declare(world.service.jobs, Declared(app="app", jobs={"ours": said, "its": said}))
    assert len(told) == 1
    assert "the set prod declares it" in told[0]
    with pytest.raises(Conflict, match="its: an app declares it"):
        await applied(world, {"its": said})


async def test_one_invalid_job_leaves_all_as_it_was(world: World) -> None:
    """Whatever is wrong with it, in its fields, its calendars or the jobs after which it runs; the error names it."""
    await applied(world, {"nightly": NIGHTLY})
    before = await world.service.jobs.list()
    good = {"nightly": {**NIGHTLY, "priority": 1}, "new": NIGHTLY}
    for bad, field in (
        ({"noop": True, "retry": {"attempts": "x"}}, "bad.retry.attempts"),
        ({"noop": True, "schedule": "61 * * * *"}, "bad.minute"),
        ({"noop": True, "calendars": ["none"]}, "bad.calendars"),
        ({"noop": True, "parents": [{"job": "nobody"}]}, "bad.parents"),
        ("text", "bad"),
    ):
        with pytest.raises(InvalidInput) as caught:
            await applied(world, {**good, "bad": bad})
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match="not a word"):
        await applied(world, good, "two words")
    assert await world.service.jobs.list() == before


async def test_jobs_that_run_after_each_other_change_places(world: World) -> None:
    """Whatever the order in which they are written, and parents are pruned after the children that go with them."""
    await applied(world, {"a": {"noop": True}, "b": {"noop": True, "parents": [{"job": "a"}]}})
    turned = {"a": {"noop": True, "parents": [{"job": "b"}]}, "b": {"noop": True}}
    assert set((await applied(world, turned)).changed) == {"a", "b"}
    await world.service.jobs.add("c", noop=True, parents=[{"job": "a"}])
    with pytest.raises(Conflict, match="a: it is not declared any more, but c runs after it"):
        await applied(world, {}, prune=True)
    assert len(await world.service.jobs.list()) == 3
    await world.service.jobs.delete("c")
    assert done(await applied(world, {}, prune=True)) == {"removed": ("a", "b")}


async def test_a_count_of_runs_is_said_once(world: World) -> None:
    """`runs_remaining` counts down from when the job is added."""
    jobs = {"nightly": {**NIGHTLY, "runs_remaining": 5}}
    await applied(world, jobs)
    await world.service.jobs.update("nightly", runs_remaining=2)
    assert done(await applied(world, jobs)) == {"unchanged": ("nightly",)}
    assert (await world.service.jobs.get("nightly")).runs_remaining == 2


async def test_a_job_whose_schedule_is_over_stays_as_it_is(world: World) -> None:
    """It is as declared, though it could not be added any more."""
    jobs = {"once": {"noop": True, "schedule": "at 2030-06-01T00:00:00Z"}}
    await applied(world, jobs)
    world.pass_seconds(86_400 * 365)
    assert done(await applied(world, jobs)) == {"unchanged": ("once",)}


async def test_an_edit_between_the_look_and_the_change_is_seen(world: World) -> None:
    """The job is looked at again in the change itself."""
    await applied(world, {"nightly": NIGHTLY})
    edits = iter([("nightly", 7)])

    def edit() -> None:
        for job_id, priority in edits:
            job = world.store.tables.jobs[job_id]  # type: ignore[index]
            changed = replace(job, version=job.version + 1, definition=replace(job.definition, priority=priority))
            world.store.tables.jobs[job_id] = changed  # type: ignore[index]

    world.store.before_replace = edit
    with pytest.raises(Conflict, match="edited by hand since"):
        await applied(world, {"nightly": {**NIGHTLY, "schedule": "0 4 * * *"}})
    assert await schedule_in(world) == "0 3 * * *"


def once_before_a_change(world: World, act: Callable[[], Awaitable[object]], call: str = "replace_job") -> None:
    """Somebody acts while the next edit of a job, or another call, is on its way to the store."""
    change, acts = getattr(world.store, call), [act]

    async def changed(*args: Any) -> None:
        while acts:
            await acts.pop()()
        await change(*args)

    setattr(world.store, call, changed)


@pytest.mark.parametrize("call", ["replace_job", "delete_job"])
@pytest.mark.parametrize("how", ["taken over", "edited", "deleted"])
async def test_what_is_pruned_is_looked_at_again(world: World, how: str, call: str) -> None:
    """A job that another set has got meanwhile, or somebody has edited, stays; one that is gone is gone."""
    await applied(world, {"nightly": NIGHTLY, "gone": {"noop": True}})
    acts: Mapping[str, Callable[[], Awaitable[object]]] = {
        "taken over": lambda: applied(world, {"gone": {"noop": True}}, "staging", take_over=True),
        "edited": lambda: world.service.jobs.update("gone", priority=1),
        "deleted": lambda: world.service.jobs.delete("gone"),
    }
    once_before_a_change(world, acts[how], call)
    later = {"nightly": {**NIGHTLY, "schedule": "0 4 * * *"}}
    if how == "deleted":
        assert (await applied(world, later, prune=True)).removed == ("gone",)
        return
    with pytest.raises(Conflict, match="job gone: somebody has changed it meanwhile: apply the set again"):
        await applied(world, later, prune=True)
    assert (await world.service.jobs.get("gone")).state is JobState.ENABLED


async def test_a_node_has_its_turn_while_a_set_is_looked_at(world: World) -> None:
    """Where each job is read, compared and checked: a thousand took 0.09 s in one step."""
    jobs = {f"job-{number}": NIGHTLY for number in range(50)}
    async with turns_of_others() as turns:
        await applied(world, jobs, dry_run=True)
    assert turns.count >= 100
    await applied(world, jobs)
    async with turns_of_others() as turns:
        await applied(world, jobs, dry_run=True)
    assert turns.count >= 150
