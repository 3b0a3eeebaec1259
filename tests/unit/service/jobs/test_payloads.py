"""The payload of a job, as people give and see it, on the memory store."""

from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Run
from tokimori.service.views.jobs import Job
from tokimori.service.views.runs import Progress, RunDetails
from tokimori.service.views.runs import Run as RunView


async def seen(world: World, run: Run) -> str | None:
    """The payload that `run show` shows."""
    return (await world.service.runs.get(run.id)).run.payload


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ('{ "a": 1 }', '{ "a": 1 }'),
        ('"text"', '"text"'),
        (None, None),
    ],
)
async def test_a_payload_is_kept_as_json(world: World, given: Any, kept: str | None) -> None:
    """A text stays as it was typed; a change takes the place of all of it, and null takes it away."""
    job = await world.add({"noop": True, "payload": given}, "j")
    assert job.definition.payload == Job.made(job).payload == kept
    assert (await world.update("j", {"payload": {"b": None}})).definition.payload == '{"b":null}'
    assert (await world.update("j", {"payload": None})).definition.payload is None


@pytest.mark.parametrize("given", [17, True, "text", {"a": object()}, {1: 2, "b": {3}}])
async def test_what_is_no_payload_is_refused(world: World, given: Any) -> None:
    """The field is named."""
    with pytest.raises(InvalidInput) as fault:
        await world.add({"noop": True, "payload": given}, "j")
    assert fault.value.field == "payload"


async def test_an_edit_changes_what_waits_and_nothing_that_has_begun(world: World) -> None:
    """What a run is shown with is what it gets: that of its job, until its first attempt has ended."""
    await world.add({"noop": True, "payload": "1", "retry": {"attempts": 2}}, "j")
    run = await world.trigger("j")
    assert await seen(world, run) == "1"
    await world.update("j", {"payload": "2"})
    assert await seen(world, run) == "2"
    await world.work(Failed("no"))
    await world.update("j", {"payload": "3"})
    assert await seen(world, run) == "2"
    await world.work(Succeeded(0))
    ended = (await world.service.runs.get(run.id)).run
    assert ended.payload == RunView.made(ended).payload == "2"


async def test_what_is_asked_for_wins(world: World) -> None:
    """A request's payload is that of its run, also where it is empty."""
    await world.add({"noop": True, "payload": "1"}, "j")
    run = await world.service.jobs.trigger("j", payload="")
    assert await seen(world, run) == ""
    await world.work(Succeeded(0))
    assert await seen(world, run) == ""


async def test_a_run_that_never_began_got_nothing(world: World) -> None:
    """It was cancelled while it waited: what its job says is not its own."""
    await world.add({"noop": True, "payload": "1"}, "j")
    run = await world.trigger("j")
    await world.service.runs.cancel(run.id)
    assert await seen(world, run) is None


async def test_a_child_has_what_it_gets_from_its_parent_else_its_own(world: World) -> None:
    """The parent's result, or what the parent was asked for with; what the parent has of its job is not handed on."""
    await world.add({"noop": True, "payload": '"of the parent"'}, "p")
    await world.add({"noop": True, "payload": '"own"', "parents": [{"job": "p"}]}, "c")
    for outcome, expected in ((Succeeded(0, "result"), "result"), (Succeeded(0), '"own"')):
        await world.trigger("p")
        await world.work(outcome)
        (claimed,) = await world.begin(1)
        assert claimed.run.job_id == "c"
        assert await seen(world, claimed.run) == expected


async def test_what_runs_is_shown_with_what_it_got_and_tells(world: World) -> None:
    """Also where its job is edited meanwhile; notes are no output."""
    await world.add({"noop": True, "payload": "1"}, "j")
    run = await world.trigger("j")
    (claimed,) = await world.begin(1)
    notes = Notes(attempt=1, payload="1", progress=0.25, text="a quarter", checkpoint="[1]")
    await world.store.save_outputs([notes_row(run.id, notes)])
    await world.update("j", {"payload": "2"})
    view = RunDetails.made(await world.service.runs.get(run.id))
    assert (view.payload, view.progress, view.checkpoint) == ("1", Progress(fraction=0.25, text="a quarter"), "[1]")
    assert await world.service.runs.output(run.id) is None
    assert await world.service.runs.output(run.id, 0) is None
    assert claimed.run.attempt == 1
