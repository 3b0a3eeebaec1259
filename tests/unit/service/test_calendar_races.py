"""Calendars that are edited and deleted while jobs come to name them: whatever order their steps have."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.service.interleaved import Call, Choices, carry_out, in_every_order
from tests.unit.service.world import World
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.calendar import decode_calendar, encode_days_off
from tokimori.model.job import Job

TERMS: Mapping[str, object] = {"noop": True, "schedule": "0 9 * * *", "calendars": ["de"]}


def run(call: Call) -> object:
    """The answer of a call that nobody disturbs; an error is raised."""
    (answer,) = carry_out([call], Choices([]))
    if isinstance(answer, Exception):
        raise answer
    return answer


def a_world() -> World:
    """With a calendar, a job that names none, and no job that names it."""
    world = World()
    run(world.service.calendars.add("de", weekdays=["sat"]))
    run(world.service.jobs.add("plain", noop=True, schedule="0 9 * * *"))
    return world


def add(world: World) -> Call:
    """Add a job that names the calendar."""
    return world.add(TERMS, "job")


def update(world: World) -> Call:
    """Have the job that is there name it."""
    return world.service.jobs.update("plain", calendars=["de"])


def bring_in(world: World) -> Call:
    """Import a job that names it."""
    return world.service.jobs.import_all([("job", world.define(TERMS))])


def delete(world: World) -> Call:
    """Delete the calendar."""
    return world.service.calendars.delete("de")


def edit(world: World) -> Call:
    """Give it more days."""
    return world.service.calendars.update("de", dates=["2030-01-03"])


def edit_weekdays(world: World) -> Call:
    """Give it other days of the week."""
    return world.service.calendars.update("de", weekdays=["sun"])


Act = Callable[[World], Call]
orders = st.lists(st.integers(0, 9), max_size=60)


def named_by(world: World) -> list[Job]:
    """The jobs that name a calendar; every calendar that is named is there, and the jobs have its days of now."""
    calendars = {name: decode_calendar(each.text) for (_, name), each in world.store.tables.documents.items()}
    jobs = [job for job in world.store.tables.jobs.values() if job.definition.calendars]
    for job in jobs:
        assert job.days_off == encode_days_off([calendars[name] for name in job.definition.calendars])
    return jobs


@pytest.mark.parametrize("naming", [add, *(pytest.param(act, marks=pytest.mark.prove) for act in (update, bring_in))])
def test_a_calendar_that_a_job_comes_to_name_is_not_lost(naming: Act) -> None:
    """In every order: the job was refused as there is no such calendar, or it is there, and the calendar too."""
    worlds: list[World] = []

    def begin() -> Sequence[Call]:
        worlds.append(a_world())
        return [naming(worlds[-1]), delete(worlds[-1])]

    seen = set()
    for named, deleted in in_every_order(begin):
        world = worlds.pop()
        seen.add((type(named), type(deleted)))
        assert isinstance(named, InvalidInput) or not isinstance(named, Exception)
        assert isinstance(deleted, Refused | None)
        assert bool(named_by(world)) is not isinstance(named, InvalidInput)
        if isinstance(named, InvalidInput):
            assert (deleted, [*world.store.tables.documents]) == (None, [])
        else:
            (kept,) = world.store.tables.documents.values()
            assert decode_calendar(kept.text).weekdays == ("sat",)
    assert {deleted for _, deleted in seen} == {type(None), Refused}
    assert InvalidInput in {named for named, _ in seen}


def after(world: World, acts: Sequence[Act], order: Sequence[int]) -> list[object]:
    """The answers to acts whose steps have this order."""
    return carry_out([act(world) for act in acts], Choices(order))


def is_error(answer: object) -> bool:
    """Whether that is what a call raised."""
    return isinstance(answer, Exception)


@given(orders, st.sampled_from([add, update, bring_in]))
def test_an_edit_reaches_a_job_that_comes_to_name_it(order: list[int], naming: Act) -> None:
    """Whatever the order, the job has the days of the edited calendar."""
    world = a_world()
    assert not any(map(is_error, after(world, [naming, edit], order)))
    (job,) = named_by(world)
    assert "2030-01-03" in str(job.days_off)


@given(orders)
def test_of_two_edits_none_is_lost(order: list[int]) -> None:
    """Whatever the order, the calendar has what both of them say, and so has a job that names it."""
    world = a_world()
    run(add(world))
    assert not any(map(is_error, after(world, [edit, edit_weekdays], order)))
    (job,) = named_by(world)
    assert job.days_off == '{"dates":["2030-01-03"],"weekdays":["sun"]}'


def test_a_calendar_that_is_edited_meanwhile_is_deleted() -> None:
    """In every order it is gone, and the edit was before it or finds nothing."""
    worlds: list[World] = []

    def begin() -> Sequence[Call]:
        worlds.append(a_world())
        return [edit(worlds[-1]), delete(worlds[-1])]

    for edited, deleted in in_every_order(begin):
        assert deleted is None
        assert isinstance(edited, NotFound) or not is_error(edited)
        assert not worlds.pop().store.tables.documents


@given(orders)
def test_among_many_no_calendar_is_lost(order: list[int]) -> None:
    """Two who delete it, one who edits it and two who name it: every calendar that a job names is there, as it is."""
    world = a_world()
    for answer in after(world, [delete, delete, edit, add, update], order):
        assert isinstance(answer, Refused | InvalidInput | NotFound) or not is_error(answer)
    named_by(world)
