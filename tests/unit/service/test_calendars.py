"""Named days off, and the jobs that keep them."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.service.world import World
from tokimori.clock import DAY, Moment, format_moment
from tokimori.errors import AlreadyExists, Forbidden, InvalidInput, InvalidSchedule, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.calendar import Calendar, encode_calendar
from tokimori.model.job import Job, JobState
from tokimori.model.run import SkipReason
from tokimori.service.access import Access
from tokimori.service.definitions.arguments import CalendarArguments
from tokimori.service.doors.authorization import authorized

WEEKEND: CalendarArguments = {"weekdays": ["sat", "sun"], "dates": ["2030-01-01"]}


async def a_job(world: World, job_id: str = "job", **fields: object) -> Job:
    """A job at nine every day in UTC, off on the days of `de`; the clock stands at Tuesday, 2030-01-01T00:00:00Z."""
    terms = {"noop": True, "schedule": "0 9 * * *", "time_zone": "UTC", "calendars": ["de"], **fields}
    return await world.add(terms, job_id)


async def test_a_job_is_brought_up_to_date(world: World) -> None:
    """It takes over days that its calendar has got behind its back; one that has them already stays as it is."""
    await world.service.calendars.add("de", weekdays=["sat"])
    job = await a_job(world)
    assert await world.service.jobs.refresh("job") == job
    edit_unseen(world, Calendar(name="de", weekdays=("sun",)))
    refreshed = await world.service.jobs.refresh("job")
    assert (refreshed.definition, refreshed.version) == (job.definition, job.version + 1)
    assert await next_times(world, n=6) == [f"2030-01-0{day}" for day in (1, 2, 3, 4, 5, 7)]
    assert await world.service.jobs.refresh("job") == refreshed


def edit_unseen(world: World, calendar: Calendar) -> None:
    """Have somebody else edit it, who has not come to the jobs yet."""
    documents = world.store.tables.documents
    known = documents["calendar", calendar.name]
    documents["calendar", calendar.name] = replace(known, text=encode_calendar(calendar), version=known.version + 1)


def fail_at(world: World, call: int) -> None:
    """Have that call of `replace_job` from now on interrupted."""
    calls = 0

    def before_replace() -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise InterruptedError

    world.store.before_replace = before_replace


async def next_times(world: World, job_id: str = "job", n: int = 3) -> list[str]:
    return [format_moment(moment)[:10] for moment in await world.service.jobs.next(job_id, n)]


async def test_a_job_keeps_off_the_days_of_its_calendar(world: World) -> None:
    """From the moment at which it is added, in its next moment and in every preview."""
    await world.service.calendars.add("de", **WEEKEND)
    job = await a_job(world)
    assert job.next_due is not None
    assert format_moment(job.next_due) == "2030-01-02T09:00:00Z"
    assert await next_times(world, n=4) == ["2030-01-02", "2030-01-03", "2030-01-04", "2030-01-07"]
    moved = await a_job(world, "moved", schedule="30 9 * * 6", shift="previous")
    assert await next_times(world, "moved", 2) == ["2030-01-04", "2030-01-11"]
    assert (moved.definition.calendars, moved.definition.shift) == (("de",), "previous")


async def test_an_edit_of_a_calendar_reaches_its_jobs(world: World) -> None:
    """Those that name it, and no others; what was not decided yet is decided by the old days first."""
    await world.service.calendars.add("de", weekdays=["sat"])
    await world.service.calendars.add("other")
    job, untouched = await a_job(world), await a_job(world, "untouched", calendars=["other"])
    world.clock.moment = Moment(world.clock.moment + 2 * DAY)
    await world.service.calendars.update("de", dates=["2030-01-01/2030-01-04"], weekdays=None)
    assert await next_times(world) == ["2030-01-05", "2030-01-06", "2030-01-07"]
    edited = await world.service.jobs.get("job")
    assert (edited.version, edited.anchor) == (job.version + 1, job.anchor)
    assert (await world.service.jobs.get("untouched")) == untouched
    (run,) = await world.service.runs.list()
    skips = await world.service.jobs.skips("job")
    assert format_moment(run.nominal) == "2030-01-02T09:00:00Z"
    assert [(format_moment(skip.first), skip.reason) for skip in skips] == [
        ("2030-01-01T09:00:00Z", SkipReason.MISFIRE)
    ]


async def test_days_that_change_while_a_job_takes_them_over_are_not_lost(world: World) -> None:
    """The calendar's edit can't know of the job yet: the job's own edit, or import, looks again."""
    await world.service.calendars.add("de", weekdays=["sat"])
    await a_job(world, calendars=[])

    def calendar_edited() -> None:
        edit_unseen(world, Calendar(name="de", dates=("2030-01-01/2030-01-04",)))

    world.store.before_replace = calendar_edited
    await world.update("job", {"calendars": ["de"]})
    assert (await next_times(world))[0] == "2030-01-05"


async def test_days_that_change_during_an_import_are_not_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for one job that is added."""
    await world.service.calendars.add("de", weekdays=["sat"])
    add_jobs = world.store.add_jobs

    async def edited_before(jobs: Sequence[Job], family: int | None = None) -> None:
        edit_unseen(world, Calendar(name="de", dates=("2030-01-01/2030-01-04",)))
        await add_jobs(jobs, family)

    monkeypatch.setattr(world.store, "add_jobs", edited_before)
    terms = {"noop": True, "schedule": "0 9 * * *", "time_zone": "UTC", "calendars": ["de"]}
    await world.service.jobs.import_all([("job", world.define(terms))])
    assert (await next_times(world))[0] == "2030-01-05"


async def test_an_edit_that_was_interrupted_goes_on(world: World) -> None:
    """The same call again rewrites the jobs that the first one did not reach, and leaves the others alone."""
    await world.service.calendars.add("de")
    await a_job(world, "a")
    await a_job(world, "b")
    fail_at(world, 2)
    with pytest.raises(InterruptedError):
        await world.service.calendars.update("de", **WEEKEND)
    world.store.before_replace = lambda: None
    reached = await world.service.jobs.get("a")
    await world.service.calendars.update("de", **WEEKEND)
    assert await world.service.jobs.get("a") == reached
    assert await next_times(world, "b", 1) == ["2030-01-02"]


async def test_a_job_that_ended_by_an_edit_comes_back_by_the_next(world: World) -> None:
    """Its state follows from its days."""
    await world.service.calendars.add("de")
    await a_job(world, schedule="at 2030-01-05T09:00:00Z")
    await world.service.calendars.update("de", weekdays=["sat"])
    assert (await world.service.jobs.get("job")).state is JobState.FINISHED
    await world.service.calendars.update("de", weekdays=None)
    assert (await world.service.jobs.get("job")).state is JobState.ENABLED


async def test_an_edit_of_a_job_takes_the_days_of_now(world: World) -> None:
    """Naming a calendar, and naming none, both without counting anew."""
    await world.service.calendars.add("de", **WEEKEND)
    job = await a_job(world, calendars=[], schedule="every day")
    world.pass_seconds(60)
    changed = await world.update("job", {"calendars": ["de"]})
    assert (changed.days_off, changed.anchor) == ('{"dates":["2030-01-01"],"weekdays":["sat","sun"]}', job.anchor)
    assert (await world.update("job", {"calendars": None})).days_off is None


async def test_what_a_job_was_added_with_is_what_the_calendar_says(world: World) -> None:
    """An edit between the reading of the calendar and the writing of the job is not lost."""
    await world.service.calendars.add("de")
    read = world.store.add_jobs

    async def add_jobs(jobs_: object, family: int | None = None) -> None:
        await world.service.calendars.update("de", **WEEKEND)
        await read(jobs_, family)  # type: ignore[arg-type]

    world.store.add_jobs = add_jobs  # type: ignore[method-assign]
    job = await a_job(world)
    assert job.days_off == '{"dates":["2030-01-01"],"weekdays":["sat","sun"]}'


async def test_a_calendar_in_use_is_not_deleted(world: World) -> None:
    """The refusal names a job; without one it goes."""
    await world.service.calendars.add("de", **WEEKEND)
    await a_job(world)
    assert await world.service.calendars.jobs("de") == ["job"]
    with pytest.raises(Refused, match="'job'"):
        await world.service.calendars.delete("de")
    await world.service.jobs.delete("job")
    await world.service.calendars.delete("de")
    assert await world.service.calendars.list() == []
    for ask in (world.service.calendars.get, world.service.calendars.delete, world.service.calendars.jobs):
        with pytest.raises(NotFound):
            await ask("de")


async def test_a_job_added_while_its_calendar_goes_brings_it_back(world: World) -> None:
    """The deletion is taken back, and refused."""
    await world.service.calendars.add("de", **WEEKEND)
    delete = world.store.delete_document

    async def delete_document(kind: str, name: str, version: int) -> None:
        await a_job(world)
        await delete(kind, name, version)

    world.store.delete_document = delete_document  # type: ignore[method-assign]
    with pytest.raises(Refused):
        await world.service.calendars.delete("de")
    assert (await world.service.calendars.get("de")).weekdays == ("sat", "sun")


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"dates": ["soon"]}, "dates", "soon"),
        ({"dates": "2030-01-01"}, "dates", "2030-01-01"),
        ({"weekdays": ["sunday"]}, "weekdays", "sunday"),
        ({"weekdays": [1]}, "weekdays", [1]),
        ({"holidays": []}, "holidays", []),
        ({"description": 5}, "description", 5),
        ({"description": "\0"}, "description", "\0"),
    ],
)
async def test_bad_calendars_are_refused(world: World, fields: dict[str, Any], field: str, value: object) -> None:
    """Naming the field, the value and what is allowed; by an edit too, which then changes nothing."""
    with pytest.raises(InvalidInput) as caught:
        await world.service.calendars.add("de", **fields)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed
    await world.service.calendars.add("de", **WEEKEND)
    with pytest.raises(InvalidInput):
        await world.service.calendars.update("de", **fields)
    assert (await world.service.calendars.get("de")).weekdays == ("sat", "sun")


async def test_a_name_is_taken_once_and_is_a_word(world: World) -> None:
    """As a queue's."""
    await world.service.calendars.add("de")
    with pytest.raises(AlreadyExists):
        await world.service.calendars.add("de")
    with pytest.raises(InvalidInput):
        await world.service.calendars.add("d e")
    with pytest.raises(InvalidInput):
        await world.service.calendars.get("d/e")


async def test_a_job_is_refused_whose_calendar_nobody_knows(world: World) -> None:
    """The error says which there are; so is one that its calendars leave no moment, and a shift without calendars."""
    with pytest.raises(InvalidInput, match="there is no calendar 'de'") as caught:
        await a_job(world)
    assert (caught.value.field, caught.value.value) == ("calendars", "de")
    await world.service.calendars.add("de", **WEEKEND)
    with pytest.raises(InvalidSchedule, match="no moment"):
        await a_job(world, schedule="at 2030-01-05T09:00:00Z")
    with pytest.raises(InvalidInput, match="shift"):
        await a_job(world, calendars=[], shift="next")
    with pytest.raises(InvalidInput) as caught:
        await a_job(world, shift="sideways")
    assert (caught.value.field, caught.value.allowed) == ("shift", "next, previous")


async def test_an_explanation_knows_days_off(world: World) -> None:
    """The same calendars, without a job."""
    await world.service.calendars.add("de", **WEEKEND)
    found = await world.service.schedules.explain("0 9 * * *", "UTC", 2, calendars=["de"], shift="next")
    assert [format_moment(moment)[:10] for moment in found.moments] == ["2030-01-02", "2030-01-03"]
    assert "business day" in found.sentence


async def test_days_that_leave_nothing_of_a_schedule_are_refused_before_any_job_has_them(world: World) -> None:
    """The refusal names the job and its schedule; the calendar and all jobs that use it stay as they are."""
    await world.service.calendars.add("de", **WEEKEND)
    jobs = [await a_job(world, "daily"), await a_job(world, "yearly", schedule="0 9 24 12 *")]
    before = await world.service.calendars.get("de")
    with pytest.raises(Refused, match=r"^calendar: 'de' can't be changed so, .*: yearly \(.* 24 12") as refused:
        await world.service.calendars.update("de", dates=["12-24"])
    assert refused.value.field == "calendar"
    assert await world.service.calendars.get("de") == before
    assert [await world.service.jobs.get(job.id) for job in jobs] == jobs
    await world.service.calendars.update("de", dates=["12-25"])


async def test_a_set_whose_calendar_leaves_nothing_of_another_job_changes_nothing(world: World) -> None:
    """Not a part of it is applied."""
    await world.service.sets.apply("a", {}, calendars={"de": {"dates": ["12-25"]}})
    job = await a_job(world, "yearly", schedule="0 9 24 12 *")
    with pytest.raises(Refused, match="yearly"):
        await world.service.sets.apply(
            "a",
            {"other": {"noop": True}},
            calendars={"at": {"dates": ["12-26"]}, "de": {"dates": ["12-24"]}},
            queues={"q": {"paused": True}},
        )
    assert [each.name for each in await world.service.calendars.list()] == ["de"]
    assert (await world.service.jobs.list()).jobs == [job]
    assert await world.service.queues.pauses() == []
    scoped = authorized(world.service, Access(author="t", role=Role.OPERATE, scope=Scope(jobs=("o",))))
    with pytest.raises(Forbidden, match=r"^calendars: it is not within") as refused:
        await scoped.sets.apply("a", {"other": {"noop": True}}, calendars={"de": {"dates": ["12-24"]}})
    assert "yearly" not in str(refused.value)


async def test_a_set_changes_a_calendar_together_with_the_schedule_of_its_job(world: World) -> None:
    """What the job was until then can't have the new days."""
    yearly = {"noop": True, "time_zone": "UTC", "calendars": ["de"]}
    for day in (24, 25):
        declared: Any = {"yearly": {**yearly, "schedule": f"0 9 {day} 12 *"}}
        await world.service.sets.apply("a", declared, calendars={"de": {"dates": [f"12-{49 - day}"]}})
    assert await next_times(world, "yearly", 1) == ["2030-12-25"]
