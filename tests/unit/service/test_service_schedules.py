"""What users ask for about schedules."""

import threading

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import World
from tokimori.clock import DAY, SECOND, format_moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.job import Job
from tokimori.schedules.schedule import Fold, Gap, Schedule
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.views.schedules import Explanation


async def test_an_explanation_needs_no_job(world: World) -> None:
    """A text and a zone are enough; the service's zone and now are the defaults."""
    (moment,) = (await world.service.schedules.explain("0 3 * * *", n=1)).moments
    assert format_moment(moment) == "2030-01-01T02:00:00Z"
    (moment,) = (await world.service.schedules.explain("0 3 * * *", "UTC", 1)).moments
    assert format_moment(moment) == "2030-01-01T03:00:00Z"
    after = world.clock.now() + DAY
    (moment,) = (await world.service.schedules.explain("0 3 * * *", "UTC", 1, after)).moments  # type: ignore[arg-type]
    assert format_moment(moment) == "2030-01-02T03:00:00Z"


async def test_gap_and_fold_may_be_words(world: World) -> None:
    """As in the fields of a job."""
    by_words = await world.service.schedules.explain("30 2 * * *", gap="skip", fold="both")
    assert by_words == await world.service.schedules.explain("30 2 * * *", gap=Gap.SKIP, fold=Fold.BOTH)
    assert by_words.warnings == (
        "02:30 does not exist on 2030-03-31; nothing runs then",
        "02:30 comes twice on 2030-10-27; runs both times",
    )


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"text": "x", "gap": "jump"}, "gap", "shift, skip, later"),
        ({"text": "@daily", "fold": ""}, "fold", "first, both"),
        ({"text": "@daily", "n": 0}, "n", "1..10000"),
        ({"text": "@daily", "time_zone": "Mars"}, "time_zone", "an IANA name such as UTC or Europe/Paris"),
        ({"text": "@daily", "time_zone": "europe/paris"}, "time_zone", "Europe/Paris"),
    ],
)
async def test_what_can_not_be_is_refused(world: World, given: dict[str, object], field: str, allowed: str) -> None:
    """Naming the field and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        await world.service.schedules.explain(**given)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.allowed) == (field, allowed)


async def test_a_bad_schedule_is_refused(world: World) -> None:
    """As it is for a job."""
    with pytest.raises(InvalidSchedule) as caught:
        await world.service.schedules.explain("0 0 30 2 *")
    assert caught.value.field == "day of month"


async def test_json_shows_moments_on_both_clocks(world: World) -> None:
    """In UTC, and on the clocks of the zone with their offset and its name."""
    view = Explanation.made(await world.service.schedules.explain("0 3 1 1,7 *", n=2))
    assert [(each.time.isoformat(), each.local, each.zone) for each in view.moments] == [
        ("2030-01-01T02:00:00+00:00", "2030-01-01T03:00:00+01:00", "CET"),
        ("2030-07-01T01:00:00+00:00", "2030-07-01T03:00:00+02:00", "CEST"),
    ]
    assert (view.schedule, view.time_zone) == ("0 3 1 1,7 *", "Europe/Paris")


async def test_a_job_with_parents_is_explained_by_them(world: World) -> None:
    """It runs after them, not only when somebody asks for it."""
    for name in ("a", "b"):
        await world.add({"noop": True}, name)
    await world.add({"noop": True, "parents": [{"job": "a"}, {"job": "b", "on": "failure"}]}, "child")
    assert (await world.service.jobs.explain("child")).sentence == "After a on success, b on failure."


async def test_a_job_is_explained_as_it_is(world: World) -> None:
    """Its moments are those that it will have: counted from its anchor, within its bounds, no more than remain."""
    fields = {"noop": True, "schedule": "every 10 minutes", "ends_at": "2030-01-01T01:00:00Z"}
    job = await world.add(fields, "ping")
    world.pass_seconds(61)
    explanation = await world.service.jobs.explain("ping", 3)
    assert list(explanation.moments) == list(await world.service.jobs.next(job.id, 3))
    assert explanation.moments[0] == NEW_YEAR + 600 * SECOND
    assert explanation.sentence == "Every 10 minutes, counted from when the job is added; until 2030-01-01T01:00:00Z."
    assert explanation.warnings == ()
    assert (await world.service.jobs.explain("ping", 9)).warnings == ("it ends after these 6 moments",)


async def test_a_jump_outside_of_a_jobs_bounds_is_no_surprise(world: World) -> None:
    """Of the clocks' jumps only those count at which the job runs."""
    fields = {"noop": True, "schedule": "30 2 * * *", "time_zone": "Europe/Paris"}
    await world.add({**fields, "ends_at": "2030-05-01T00:00:00Z"}, "winter")
    await world.add({**fields, "starts_at": "2030-05-01T00:00:00Z"}, "summer")
    (winter,) = (await world.service.jobs.explain("winter")).warnings
    assert winter.startswith("02:30 does not exist on 2030-03-31")
    assert all("03-31" not in warning for warning in (await world.service.jobs.explain("summer")).warnings)


async def test_what_comes_next_of_all_is_reckoned_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand schedules take longer than a run on this loop may be late."""
    await world.service.jobs.add("job", noop=True, schedule="@daily")
    threads = set[int]()

    def reckoned(job: Job) -> Schedule:
        threads.add(threading.get_ident())
        return schedule_for(job)

    monkeypatch.setattr("tokimori.service.jobs.reads.schedule_for", reckoned)
    assert len(await world.service.schedules.upcoming(2)) == 2
    assert threads
    assert threading.get_ident() not in threads
