"""What became of each occurrence, and whether all of it fits."""

import asyncio
import os
import threading
from bisect import insort

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws import examples
from tests.unit.service.world import World, every_minute
from tokimori.clock import DAY, MINUTE, Moment
from tokimori.engine.fire import fire
from tokimori.engine.rewind import rewind
from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.job import Job
from tokimori.model.ledger import Fate, LedgerLine
from tokimori.model.outcome import Succeeded
from tokimori.model.policies import AnchoredOn, Misfire
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.ports.store import RunFilter
from tokimori.schedules.schedule import Schedule
from tokimori.service.jobs.ledger import LOOKED_AT
from tokimori.service.jobs.writer import schedule_for
from tokimori.stores.memory.tables import RunRow


class Watched:
    """A schedule that notes in which threads it is asked."""

    def __init__(self, schedule: Schedule, threads: set[int]) -> None:
        self._schedule = schedule
        self._threads = threads

    def next_after(self, moment: Moment) -> Moment | None:
        self._threads.add(threading.get_ident())
        return self._schedule.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        return self._schedule.last_before(moment)


async def _fates(world: World, **asked: object) -> list[tuple[str, int]]:
    page = await world.service.jobs.ledger("job", **asked)  # type: ignore[arg-type]
    return [(line.fate.value, line.count) for line in page.lines]


async def _minutes(world: World, n: int) -> None:
    """So many minutes in which a node fires and ends what it fires."""
    for _ in range(n):
        world.pass_seconds(60)
        await world.fire()
        await world.work(Succeeded())


async def test_runs_and_skips_are_told_in_order(world: World) -> None:
    """Each run by itself, skipped ones of one reason together, and what is still to come apart."""
    await world.add(every_minute(), "job")
    await _minutes(world, 2)
    await world.service.jobs.pause("job")
    world.pass_seconds(3 * 60)
    await world.service.jobs.resume("job")
    await _minutes(world, 1)
    last = Moment(world.clock.now() + 2 * MINUTE)
    page = await world.service.jobs.ledger("job", last=last)
    assert [(line.fate, line.count, line.reason) for line in page.lines] == [
        (Fate.RUN, 1, None),
        (Fate.RUN, 1, None),
        (Fate.SKIPPED, 3, "paused"),
        (Fate.RUN, 1, None),
        (Fate.OPEN, 2, None),
    ]
    assert {line.state for line in page.lines if line.fate is Fate.RUN} == {"succeeded"}
    assert page.next is None


async def test_a_backfilled_occurrence_is_a_run(world: World) -> None:
    """Which a backfill made, although the occurrence was skipped before."""
    await world.add(every_minute(), "job")
    await world.service.jobs.pause("job")
    world.pass_seconds(60)
    await world.service.jobs.resume("job")
    now = world.clock.now()
    await world.service.jobs.backfill("job", now, now)
    (line,) = (await world.service.jobs.ledger("job")).lines
    assert (line.fate, line.origin) == (Fate.RUN, "backfill")


async def test_pages_follow_one_another(world: World) -> None:
    """Each begins with the occurrence that the one before did not tell of."""
    await world.add(every_minute(), "job")
    await _minutes(world, 5)
    whole = (await world.service.jobs.ledger("job")).lines
    found: tuple[LedgerLine, ...] = ()
    page = await world.service.jobs.ledger("job", limit=2)
    while page.next is not None:
        found += page.lines
        page = await world.service.jobs.ledger("job", page.next, limit=2)
    assert found + page.lines == whole
    assert len(whole) == 5


async def test_a_run_that_vanished_is_missing(world: World) -> None:
    """Its line and its moment are told, and how many there are."""
    await world.add(every_minute(), "job")
    await _minutes(world, 3)
    gone = (await world.service.jobs.ledger("job")).lines[1]
    assert gone.run_id is not None
    del world.store.tables.history[gone.run_id]
    world.store.tables.ids.remove(gone.run_id)
    verified = await world.service.jobs.verify("job")
    assert (verified.wrong, verified.fates) == (1, {"run": 2, "missing": 1})
    assert [(line.first, line.fate) for line in verified.faults] == [(gone.first, Fate.MISSING)]


async def test_a_run_at_another_moment_is_unscheduled(world: World) -> None:
    """A scheduled run at a moment that the schedule does not name is no occurrence of it."""
    await world.add(every_minute(), "job")
    await _minutes(world, 3)
    line = (await world.service.jobs.ledger("job")).lines[1]
    assert line.run_id is not None
    row = world.store.tables.history[line.run_id]
    row.run = replace(row.run, nominal=Moment(row.run.nominal + 1))
    verified = await world.service.jobs.verify("job")
    assert verified.fates == {"run": 2, "missing": 1, "unscheduled": 1}
    assert verified.wrong == 2


async def test_a_moment_with_two_runs_is_a_fault(world: World) -> None:
    """Both are told, and that there are two."""
    await world.add(every_minute(), "job")
    await _minutes(world, 3)
    line = (await world.service.jobs.ledger("job")).lines[1]
    assert line.run_id is not None
    row = world.store.tables.history[line.run_id]
    again = RunId(uuid7(row.run.created, os.urandom))
    world.store.tables.history[again] = RunRow(replace(row.run, id=again))
    insort(world.store.tables.ids, again)
    verified = await world.service.jobs.verify("job")
    assert (verified.fates, verified.wrong) == ({"run": 3, "twice": 1}, 1)
    assert [(each.first, each.fate) for each in verified.faults] == [(line.first, Fate.TWICE)]
    assert [fate for fate, _ in await _fates(world)] == ["run", "run", "twice", "run"]


async def test_the_ledger_of_a_job_that_was_put_back_fits(world: World) -> None:
    """Before, while and after its time comes to what has run by a clock that was ahead."""
    await world.add(every_minute(misfire=Misfire.ALL), "job")
    await _minutes(world, 2)
    now = world.clock.now()
    ahead = Moment(now + 10 * MINUTE)
    await fire(world.store, ahead, os.urandom, schedule_for)
    job = await rewind(world.store, await world.store.get_job(JobId("job")), schedule_for, now)
    assert isinstance(job, Job)
    await _minutes(world, 20)
    verified = await world.service.jobs.verify("job")
    assert (verified.fates, verified.wrong) == ({"run": 22}, 0)


async def test_an_interval_from_the_last_run_names_what_it_has_run(world: World) -> None:
    """Each run counts the schedule anew, so that only the newest count is known: older runs are no fault."""
    definition = replace(every_minute(), schedule="every 60 seconds", anchored_on=AnchoredOn.LAST_RUN)
    await world.add(definition, "job")
    await _minutes(world, 3)
    world.pass_seconds(75)
    await world.fire()
    verified = await world.service.jobs.verify("job")
    assert (verified.fates, verified.wrong) == ({"run": 4}, 0)
    assert await _fates(world) == [("run", 1)] * 4


async def test_what_was_before_the_last_change_is_unknown(world: World) -> None:
    """Perhaps another schedule named other moments; what is a run or a skip is told as ever."""
    await world.add(every_minute(), "job")
    await _minutes(world, 2)
    await world.update("job", {"schedule": "*/2 * * * * *"})
    verified = await world.service.jobs.verify("job")
    assert verified.wrong == 0
    assert verified.fates["run"] == 2
    assert verified.fates["unknown"] > 0


async def test_what_is_older_than_it_is_kept_was_pruned(world: World) -> None:
    """What is left of it is in the counts of the job."""
    await world.add(every_minute(retention="PT2M", keep_runs=1), "job")
    await _minutes(world, 5)
    world.store.tables.history.clear()
    world.store.tables.ids.clear()
    world.store.tables.skips.clear()
    first = Moment(world.clock.now() - 4 * MINUTE)
    assert (await _fates(world, first=first))[0] == ("pruned", 2)


async def test_what_was_before_the_job_is_no_fault_and_was_not_pruned(world: World) -> None:
    """Nobody decided it."""
    job = await world.add(every_minute(retention="PT2M"), "job")
    assert await _fates(world, first=Moment(job.created - 5 * MINUTE)) == [("before", 6)]


@pytest.mark.parametrize("asked", [{"first": "2030-01-02T00:00:00Z", "last": "2030-01-01T00:00:00Z"}])
async def test_an_empty_range_is_refused(world: World, asked: dict[str, str]) -> None:
    """Naming the field, and from when on it may be."""
    await world.add(every_minute(), "job")
    with pytest.raises(InvalidInput) as caught:
        await world.service.jobs.ledger("job", **asked)  # type: ignore[arg-type]
    assert caught.value.field == "to"


async def test_many_skips_are_read_as_far_back_as_is_needed(world: World) -> None:
    """Whatever their number: more are asked for until they reach far enough."""
    job = await world.add(every_minute(), "job")
    first = job.created
    for n in range(1, 1_500):
        moment = Moment(first - first % MINUTE + n * MINUTE)
        reason = SkipReason.MISFIRE if n % 2 else SkipReason.GRACE
        skips = world.store.tables.skips.setdefault(job.incarnation, {})
        skips[moment] = Skip(first=moment, last=moment, count=1, reason=reason)
    through = Moment(first + 1_499 * MINUTE)
    jobs = world.store.tables.jobs
    jobs[job.id] = replace(jobs[job.id], fired_through=through)
    world.clock.moment = Moment(through + MINUTE)
    verified = await world.service.jobs.verify("job", last=Moment(through - MINUTE))
    assert verified.fates == {"skipped": 1_498}


async def test_what_many_newer_runs_hide_is_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs a job has besides: a bounded number is read, and what is older is no fault."""
    monkeypatch.setattr("tokimori.service.jobs.ledger.PAGE", 10)
    monkeypatch.setattr("tokimori.service.jobs.ledger.MOST_RUNS", 30)
    await world.add(every_minute(), "job")
    await _minutes(world, 2)
    world.pass_seconds(1)  # ids of one millisecond have no order
    for _ in range(200):
        await world.service.jobs.trigger("job")
    calls = world.count("list_runs")
    verified = await world.service.jobs.verify("job")
    assert (verified.wrong, verified.fates) == (0, {"unknown": 2})
    assert len(calls) == 1 + 30 // 10


async def test_no_more_runs_are_read_than_there_may_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of some occurrences, and a few more: not a whole page of what nobody asked for."""
    await world.add(every_minute(), "job")
    await _minutes(world, 60)
    read = list[int]()
    list_runs = world.store.list_runs

    async def counted(wanted: RunFilter) -> list[Run]:
        found = await list_runs(wanted)
        read.append(len(found))
        return found

    monkeypatch.setattr(world.store, "list_runs", counted)
    page = await world.service.jobs.ledger("job", Moment(world.clock.now() - 9 * MINUTE))
    assert [line.fate for line in page.lines] == [Fate.RUN] * 10
    assert sum(read) == 10 + LOOKED_AT


async def test_many_occurrences_are_reckoned_aside(world: World) -> None:
    """A day of minutes does not keep the loop from others."""
    await world.add(every_minute(), "job")
    asked = threading.get_ident()
    threads = set[int]()

    def reckons(job: Job) -> Schedule:
        return Watched(schedule_for(job), threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokimori.service.jobs.ledger.schedule_for", reckons)
        await world.service.jobs.verify("job", last=Moment(world.clock.now() + DAY))
    assert threads
    assert asked not in threads


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.sampled_from(["minute", "late", "day", "pause", "resume", "edit", "backfill", "trigger"]), max_size=8)
)
def test_whatever_happens_to_a_job_its_ledger_fits(deeds: list[str]) -> None:
    """Nothing that people and nodes do leaves an occurrence without a run, a skip or a reason."""

    async def live() -> None:
        world = World()
        await world.add(every_minute(misfire="latest"), "job")
        for deed in deeds:
            await _do(world, deed)
        world.pass_seconds(60)
        await world.fire()
        verified = await world.service.jobs.verify("job")
        assert verified.wrong == 0, verified

    asyncio.run(live())


async def _do(world: World, deed: str) -> None:
    match deed:
        case "minute":
            world.pass_seconds(60)
            await world.fire()
        case "late":
            world.pass_seconds(600)
            await world.fire()
        case "day":
            world.clock.moment = Moment(world.clock.moment + DAY)
        case "pause":
            await world.service.jobs.pause("job")
        case "resume":
            await world.service.jobs.resume("job")
        case "edit":
            await world.update("job", {"schedule": "*/5 * * * *"})
        case "backfill" if (await world.service.jobs.get("job")).state == "enabled":
            now = world.clock.now()
            await world.service.jobs.backfill("job", Moment(now - 10 * MINUTE), now)
        case "trigger" if (await world.service.jobs.get("job")).state == "enabled":
            await world.trigger("job")
        case _:
            world.pass_seconds(1)
