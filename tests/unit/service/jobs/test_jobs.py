"""What users ask for about jobs, on the memory store."""

import msgspec
import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import ON_DEMAND, World, every_minute
from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    InvalidSchedule,
    NotFound,
    Refused,
    StoreUnavailable,
)
from tokimori.model.decide import Due
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, JobState
from tokimori.model.policies import Misfire
from tokimori.model.run import Skip, SkipReason
from tokimori.model.target import Noop
from tokimori.ports.planning import ALL, Share
from tokimori.service.definitions.imports import Imported
from tokimori.service.store_calls import MOST_TRIES

# Adding


async def test_an_added_job_starts_now(world: World) -> None:
    """What was before it is not caught up with, and its first moment is known."""
    job = await world.add(every_minute(), "j")
    assert (job.anchor, job.fired_through, job.created, job.version) == (NEW_YEAR, NEW_YEAR, NEW_YEAR, 1)
    assert job.next_due == NEW_YEAR + MINUTE
    assert await world.service.jobs.get("j") == job


async def test_a_job_without_an_id_gets_a_new_one(world: World) -> None:
    """Each time another."""
    first, second = await world.add(ON_DEMAND), await world.add(ON_DEMAND)
    assert first.id != second.id


async def test_a_taken_id_is_refused(world: World) -> None:
    """The job that has it stays as it is."""
    job = await world.add(every_minute(), "j")
    with pytest.raises(AlreadyExists) as caught:
        await world.add(ON_DEMAND, "j")
    assert (caught.value.exit_code, caught.value.status, caught.value.value) == (2, 409, "j")
    assert await world.service.jobs.get("j") == job


@pytest.mark.parametrize("schedule", ["at 2029-12-31T23:59:59Z", "0 0 30 2 *", "61 * * * *", "hourly-ish"])
async def test_a_schedule_without_a_future_is_refused(world: World, schedule: str) -> None:
    """A past moment, an impossible date and a bad field, all as errors of the schedule; nothing is added."""
    with pytest.raises(InvalidSchedule) as caught:
        await world.add(Definition(target=Noop(), schedule=schedule), "j")
    assert caught.value.allowed
    assert (await world.service.jobs.list()).jobs == []


@pytest.mark.parametrize(("job_id", "zone"), [("-j", "UTC"), ("a b", "UTC"), ("", "UTC"), ("j", "Europe/Pariss")])
async def test_a_bad_id_or_zone_is_refused(world: World, job_id: str, zone: str) -> None:
    """Nothing is added."""
    with pytest.raises(InvalidInput):
        await world.add(every_minute(time_zone=zone), job_id)
    assert (await world.service.jobs.list()).jobs == []


async def test_a_lost_reply_to_add_strands_nothing(world: World) -> None:
    """The second try finds the first one's job to be ours."""
    world.store.lose_replies = 1
    job = await world.add(ON_DEMAND, "j")
    assert (await world.service.jobs.list()).jobs == [job]


async def test_a_store_that_stays_away_is_reported(world: World) -> None:
    """We do not try for ever."""
    world.store.lose_replies = MOST_TRIES
    with pytest.raises(StoreUnavailable):
        await world.add(ON_DEMAND, "j")


async def test_define_uses_the_zone_of_the_settings(world: World) -> None:
    """Unless the fields name one."""
    assert world.define({"noop": True}).time_zone == "Europe/Paris"


# Importing


async def test_importing_twice_changes_nothing(world: World) -> None:
    """What is there stays, what is missing is added."""
    await world.add(every_minute(), "b")
    jobs = [("a", ON_DEMAND), ("b", ON_DEMAND), ("c", ON_DEMAND)]
    assert await world.service.jobs.import_all(jobs) == Imported(
        added=(JobId("a"), JobId("c")), unchanged=(JobId("b"),)
    )
    before = await world.service.jobs.list()
    assert await world.service.jobs.import_all(jobs) == Imported(
        added=(), unchanged=(JobId("a"), JobId("b"), JobId("c"))
    )
    assert await world.service.jobs.list() == before


@pytest.mark.parametrize(
    "bad",
    [
        ("-", ON_DEMAND),
        ("a", ON_DEMAND),
        ("c", Definition(target=Noop(), schedule="x")),
        ("c", Definition(target=Noop(), priority=1_000)),
        ("c", Definition(target=Noop(), queue="a b")),
    ],
)
async def test_one_bad_job_stops_the_whole_import(world: World, bad: tuple[str, Definition]) -> None:
    """A bad id, the same id twice, a bad schedule or term: nothing is added."""
    with pytest.raises((InvalidInput, AlreadyExists)):
        await world.service.jobs.import_all([("a", ON_DEMAND), bad])
    assert (await world.service.jobs.list()).jobs == []


async def test_a_lost_reply_to_an_import_counts_what_it_did(world: World) -> None:
    """Jobs of the first try are reported as added."""
    world.store.lose_replies = 1
    assert (await world.service.jobs.import_all([("a", ON_DEMAND)])).added == (JobId("a"),)


# Editing


async def test_an_edit_first_decides_by_the_old_definition(world: World) -> None:
    """Minutes due under the old schedule became runs; the new one begins now."""
    await world.add(every_minute(max_running=0), "j")
    world.pass_seconds(50 + 60)
    job = await world.update("j", {"schedule": "@hourly"})
    assert len(await world.service.runs.list()) == 1
    assert (job.version, job.fired_through, job.anchor) == (2, seconds(110), seconds(110))
    assert job.next_due == NEW_YEAR + 60 * MINUTE
    assert await world.service.jobs.skips("j") == []


async def test_what_a_full_catch_up_leaves_is_skipped_by_the_edit(world: World) -> None:
    """Every occurrence is a run or a skip, however many there were."""
    await world.add(every_minute(misfire=Misfire.ALL), "j")
    world.pass_seconds(60 * 3000)
    await world.update("j", {"schedule": "@hourly"})
    runs = await world.service.runs.list(limit=1000)
    (skip,) = await world.service.jobs.skips("j")
    assert (len(runs), skip.reason) == (1000, SkipReason.MISFIRE)
    assert len(runs) + skip.count == 3000


async def test_an_edit_of_other_fields_keeps_the_grid(world: World) -> None:
    """`every 90 seconds` goes on counting from where it did."""
    await world.add(Definition(target=Noop(), schedule="every 90 seconds"), "j")
    world.pass_seconds(30)
    job = await world.update("j", {"priority": 3, "description": "new"})
    assert (job.anchor, job.next_due, job.definition.priority) == (NEW_YEAR, seconds(90), 3)
    moved = await world.update("j", {"schedule": "every 100 seconds"})
    assert (moved.anchor, moved.next_due) == (seconds(30), seconds(130))


async def test_an_edit_that_changes_nothing_is_none(world: World) -> None:
    """The version stays."""
    job = await world.add(every_minute(), "j")
    assert await world.update("j", {"schedule": "* * * * *"}) == job


async def test_a_bad_edit_changes_nothing(world: World) -> None:
    """Not even what was due is decided."""
    job = await world.add(every_minute(), "j")
    world.pass_seconds(600)
    for changes in ({"schedule": "at 2029-01-01T00:00:00Z"}, {"schedule": "x"}, {"nonsense": 1}, {"priority": 500}):
        with pytest.raises(InvalidInput):
            await world.update("j", changes)
    assert await world.service.jobs.get("j") == job
    assert (await world.service.runs.list()).runs == []


async def test_an_edit_of_a_paused_job_leaves_it_paused(world: World) -> None:
    """What it missed under the old definition is skipped as paused, at once."""
    await world.add(every_minute(), "j")
    await world.service.jobs.pause("j")
    world.pass_seconds(600)
    job = await world.update("j", {"schedule": "@hourly"})
    assert (job.state, job.next_due) == (JobState.PAUSED, None)
    (skip,) = await world.service.jobs.skips("j")
    assert (skip.reason, skip.count) == (SkipReason.PAUSED, 10)


async def test_a_finished_job_goes_on_with_a_new_schedule(world: World) -> None:
    """And stays finished under an edit of anything else."""
    await world.add(Definition(target=Noop(), schedule="at 2030-01-01T00:00:10Z"), "j")
    world.pass_seconds(20)
    await world.fire()
    assert (await world.update("j", {"owner": "ada"})).state is JobState.FINISHED
    assert (await world.update("j", {"schedule": "@hourly"})).state is JobState.ENABLED


async def test_an_edit_reads_again_when_the_job_fires_meanwhile(world: World) -> None:
    """A conflict with a node is not the user's concern."""
    await world.add(every_minute(), "j")
    changed = False

    def fired_meanwhile() -> None:
        nonlocal changed
        if not changed:
            changed = True
            world.pass_seconds(60)
            tables = world.store.tables
            job = tables.jobs[JobId("j")]
            tables.jobs[JobId("j")] = msgspec.structs.replace(job, fired_through=seconds(60))

    world.store.before_replace = fired_meanwhile
    job = await world.update("j", {"owner": "ada"})
    assert (job.definition.owner, job.fired_through, job.version) == ("ada", seconds(60), 2)


async def test_an_edit_gives_up_when_others_never_stop(world: World) -> None:
    """Then it is a conflict, exit code 4."""
    await world.add(every_minute(), "j")
    tries = 0

    def edited_meanwhile() -> None:
        nonlocal tries
        tries += 1
        tables = world.store.tables
        job = tables.jobs[JobId("j")]
        tables.jobs[JobId("j")] = msgspec.structs.replace(job, version=job.version + 1)

    world.store.before_replace = edited_meanwhile
    with pytest.raises(Conflict) as caught:
        await world.update("j", {"owner": "ada"})
    assert (tries, caught.value.exit_code) == (MOST_TRIES, 4)


async def test_lost_replies_to_edits_strand_nothing(world: World) -> None:
    """Update, pause, resume and delete are each done once."""
    await world.add(every_minute(), "j")
    world.store.lose_replies = 1
    assert (await world.update("j", {"owner": "ada"})).version == 2
    world.store.lose_replies = 1
    assert (await world.service.jobs.pause("j", "why")).state is JobState.PAUSED
    world.store.lose_replies = 1
    assert (await world.service.jobs.resume("j")).state is JobState.ENABLED
    world.store.lose_replies = 1
    await world.service.jobs.delete("j")
    assert (await world.service.jobs.list()).jobs == []


# Pausing


async def test_a_pause_says_by_whom_and_why_and_is_idempotent(world: World) -> None:
    """The second pause keeps the first one's reason."""
    await world.add(every_minute(), "j")
    first = await world.service.jobs.pause("j", "release")
    assert (first.state, first.by, first.reason) == (JobState.PAUSED, "ada", "release")
    assert await world.service.jobs.pause("j", "again") == first


async def test_what_runs_goes_on_after_a_pause_unless_it_is_to_be_now(world: World) -> None:
    """Only a pause that says so cancels running runs, a second one too; what waits stays, and other jobs run on."""
    await world.add(ON_DEMAND, "j")
    await world.add(ON_DEMAND, "other")
    for job_id in ("j", "j", "other"):
        await world.service.jobs.trigger(job_id)
    running = [claimed.run for claimed in await world.begin(3)]
    waiting = await world.service.jobs.trigger("j")
    await world.service.jobs.pause("j", "release")
    assert [run.cancel for run in await world.service.runs.list()] == [None] * 4
    assert (await world.service.jobs.pause("j", "release", now=True)).state is JobState.PAUSED
    cancels = {run.id: run.cancel for run in await world.service.runs.list()}
    ordered = "its job was paused: release"
    assert [cancels[run.id] for run in running] == [ordered if run.job_id == "j" else None for run in running]
    assert cancels[waiting.id] is None


@pytest.mark.parametrize("now", [False, True])
async def test_what_runs_goes_on_after_a_deletion_unless_it_is_to_be_now(world: World, now: bool) -> None:
    """Only a deletion that says so cancels running runs, those of what goes along too."""
    await world.add(ON_DEMAND, "j")
    await world.add({"noop": True, "parents": [{"job": "j"}]}, "child")
    for job_id in ("j", "child"):
        await world.service.jobs.trigger(job_id)
    await world.begin(2)
    await world.service.jobs.delete("j", cascade=True, now=now)
    cancels = [run.cancel for run in await world.service.runs.list()]
    assert cancels == (["its job was deleted"] * 2 if now else [None] * 2)
    assert (await world.service.jobs.list()).jobs == []


async def test_a_refused_deletion_leaves_the_job_as_it_was(world: World) -> None:
    """Where others run after the job, nothing of it is paused or cancelled, however soon it was to go."""
    await world.add(ON_DEMAND, "j")
    await world.add({"noop": True, "parents": [{"job": "j"}]}, "child")
    await world.service.jobs.trigger("j")
    await world.begin(1)
    with pytest.raises(Refused):
        await world.service.jobs.delete("j", now=True)
    assert (await world.service.jobs.get("j")).state is JobState.ENABLED
    assert [run.cancel for run in await world.service.runs.list()] == [None]


async def test_runs_of_an_earlier_job_of_that_id_go_on(world: World) -> None:
    """What still runs of a deleted job is not touched by what becomes of the next one of that id."""
    await world.add(ON_DEMAND, "j")
    await world.service.jobs.trigger("j")
    await world.begin(1)
    await world.service.jobs.delete("j")
    await world.add(ON_DEMAND, "j")
    await world.service.jobs.pause("j", now=True)
    assert [run.cancel for run in await world.service.runs.list()] == [None]


async def test_an_edit_decides_a_long_absence_before(world: World) -> None:
    """However many pieces that takes: nothing of it is skipped for the edit."""
    await world.add(Definition(target=Noop(), schedule="0 * * * *", misfire=Misfire.SKIP), "j")
    world.pass_seconds(2_000 * DAY / SECOND)
    await world.update("j", {"schedule": "0 0 * * *"})
    (skip,) = await world.store.skips(JobId("j"))
    assert (skip.reason, skip.count) == (SkipReason.MISFIRE, 2_000 * 24 - 1)


async def test_a_resumed_job_records_what_it_missed_without_catch_up(world: World) -> None:
    """One range of skips, no run, and it goes on with the next moment."""
    await world.add(every_minute(misfire=Misfire.ALL), "j")
    await world.service.jobs.pause("j")
    world.pass_seconds(60 * 5 + 1)
    await world.fire()
    job = await world.service.jobs.resume("j")
    await world.fire()
    assert (job.state, job.reason, job.by, job.next_due) == (JobState.ENABLED, None, None, seconds(360))
    assert (await world.service.runs.list()).runs == []
    expected = Skip(first=seconds(60), last=seconds(300), count=5, reason=SkipReason.PAUSED)
    assert await world.service.jobs.skips("j") == [expected]


async def test_resuming_what_runs_changes_nothing(world: World) -> None:
    """It is idempotent."""
    job = await world.add(every_minute(), "j")
    assert await world.service.jobs.resume("j") == job


@pytest.mark.parametrize("schedule", [None, "@reboot", "on demand"])
async def test_a_job_without_moments_is_never_finished(world: World, schedule: str | None) -> None:
    """Pausing, editing and resuming one leaves it enabled."""
    await world.add(Definition(target=Noop(), schedule=schedule), "j")
    await world.service.jobs.pause("j")
    await world.update("j", {"owner": "ada"})
    assert (await world.service.jobs.resume("j")).state is JobState.ENABLED
    assert (await world.update("j", {"owner": "bob"})).state is JobState.ENABLED


# Deleting, asking


async def test_what_is_not_there_is_not_found(world: World) -> None:
    """Every method that names a job or a run says so."""
    missing = "018cc251-f400-7000-8000-000000000000"
    service = world.service
    for call in (
        service.jobs.get("x"),
        service.jobs.update("x", owner="a"),
        service.jobs.delete("x"),
        service.jobs.pause("x"),
        service.jobs.resume("x"),
        service.jobs.trigger("x"),
        service.jobs.next("x"),
        service.jobs.skips("x"),
        service.runs.get(missing),
        service.runs.cancel(missing),
        service.runs.output(missing),
        service.runs.wait(missing),
    ):
        with pytest.raises(NotFound) as caught:
            await call
        assert caught.value.exit_code == 3


async def test_jobs_are_listed_by_id_in_pages(world: World) -> None:
    """`after` goes on where a page ended."""
    for job_id in ("b", "c", "a"):
        await world.add(ON_DEMAND, job_id)
    assert [job.id for job in await world.service.jobs.list(limit=2)] == ["a", "b"]
    assert [job.id for job in await world.service.jobs.list(after="b")] == ["c"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_limits_are_bounded(world: World, limit: int) -> None:
    """The error says the range."""
    for call in (world.service.jobs.list(limit=limit), world.service.runs.list(limit=limit)):
        with pytest.raises(InvalidInput) as caught:
            await call
        assert caught.value.allowed == "1..1000"


async def test_the_next_moments_of_one_job_and_of_all(world: World) -> None:
    """One by one, and together in order; paused jobs have none among all."""
    await world.add(every_minute(), "minutes")
    await world.add(Definition(target=Noop(), schedule="every 90 seconds"), "grid")
    await world.add(every_minute(), "paused")
    await world.service.jobs.pause("paused")
    assert await world.service.jobs.next("paused", 2) == [seconds(60), seconds(120)]
    assert await world.service.jobs.next("minutes", 1, seconds(60)) == [seconds(120)]
    together = [(job.id, moment) for job, moment in await world.service.schedules.upcoming(4)]
    assert together == [
        ("minutes", seconds(60)),
        ("grid", seconds(90)),
        ("minutes", seconds(120)),
        ("grid", seconds(180)),
    ]


async def test_what_comes_next_of_all_asks_for_as_many_jobs_as_one_page(world: World) -> None:
    """However many jobs there are, those are read that are due first, and no more moments are told than a list has."""
    asked: list[tuple[Moment, int]] = []
    due = world.store.due

    async def noted(now: Moment, limit: int, share: Share = ALL) -> list[Due]:
        asked.append((now, limit))
        return (await due(now, limit, share))[:2]

    world.store.due = noted  # type: ignore[method-assign]
    for n in (3, 1, 2):
        await world.add(Definition(target=Noop(), schedule=f"every {n} hours"), f"every-{n}")
    assert [job.id for job, _ in await world.service.schedules.upcoming(3)] == ["every-1", "every-1", "every-2"]
    assert [limit for _, limit in asked] == [1000]
    with pytest.raises(InvalidInput) as caught:
        await world.service.schedules.upcoming(1001)
    assert caught.value.allowed == "1..1000"


async def test_an_import_may_pause_what_it_adds(world: World) -> None:
    """In the same transaction: such a job never fires before somebody resumes it; one that was there goes on."""
    await world.add(every_minute(), "there")
    jobs = [("there", every_minute()), ("new", every_minute()), ("going", every_minute())]
    await world.service.jobs.import_all(jobs, {"there": "as it was", "new": "as it was"})
    states = {job.id: (job.state, job.reason, job.by, job.next_due is None) for job in await world.service.jobs.list()}
    assert states == {
        "there": (JobState.ENABLED, None, None, False),
        "new": (JobState.PAUSED, "as it was", "ada", True),
        "going": (JobState.ENABLED, None, None, False),
    }
