"""The duty that raises and takes back alarms, on a memory store."""

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.service.world import World
from tokimori.clock import HOUR, SECOND, Moment
from tokimori.engine.overdue import IDLE, MOST, NEWEST, PAGE, REST, Overdue
from tokimori.errors import StoreUnavailable
from tokimori.model.document import Document
from tokimori.model.encoding import stored_definition
from tokimori.model.expectation import KIND, SETTLED, AlarmKind
from tokimori.model.ids import JobId, NodeId
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.ports.store import RunFilter
from tokimori.service.jobs.writer import schedule_for

NODE = NodeId("node")


class Watched(World):
    """A service, and two nodes that look whether anything is overdue."""

    def __init__(self) -> None:
        super().__init__()
        self.duties = [Overdue(self.store, 0, schedule_for) for _ in range(2)]

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, in which both nodes walk at the end."""
        self.clock.moment = Moment(self.clock.moment + round(seconds * SECOND))
        for duty in self.duties:
            duty.next_at = -inf
            while duty.next_at < self.clock.monotonic() + 1:
                await duty.step(NODE, self.clock.now(), self.clock.monotonic())

    async def ends(self, job_id: str, outcome: Outcome) -> Moment:
        """Have a run of the job end so; when that was."""
        await self.trigger(job_id)
        await self.work(outcome)
        return self.clock.now()

    async def alarms(self) -> list[tuple[str, str]]:
        """Kind and name of each."""
        return [(each.kind.value, each.name) for each in await self.service.expectations.alarms()]


@pytest.fixture
def world() -> Watched:
    """A fresh one."""
    return Watched()


async def test_a_job_that_does_not_end_well_is_overdue(world: Watched) -> None:
    """A failure is no good end; the alarm stays until one comes, and says since when and by when."""
    await world.service.jobs.add("j", noop=True, expect_within=100)
    began = world.clock.now()
    await world.pass_time(99)
    assert await world.alarms() == []
    await world.ends("j", Failed("broken"))
    await world.pass_time(2)
    (alarm,) = await world.service.expectations.alarms()
    assert (alarm.kind, alarm.name, alarm.of_job) == (AlarmKind.OVERDUE, "j", True)
    assert (alarm.expected_by, alarm.last_good) == (began + 100 * SECOND, None)
    await world.pass_time(60)
    assert await world.service.expectations.alarms() == [alarm]
    ended = await world.ends("j", Succeeded())
    await world.pass_time(11)
    assert await world.service.expectations.alarms() == []
    assert (await world.service.expectations.get("j")).good == ended


async def test_one_alarm_is_raised_once(world: Watched) -> None:
    """However many nodes look, and however often: its document is written once."""
    await world.service.jobs.add("j", noop=True, expect_within=10)
    await world.pass_time(11)
    first = await world.store.get_document("alarm", "j")
    for _ in range(5):
        await world.pass_time(11)
    assert await world.store.get_document("alarm", "j") == first


async def test_a_paused_job_is_not_overdue(world: Watched) -> None:
    """Its alarm goes, and the time counts from when it is resumed."""
    await world.service.jobs.add("j", noop=True, expect_within=100)
    await world.pass_time(101)
    await world.service.jobs.pause("j")
    await world.pass_time(11)
    assert await world.alarms() == []
    await world.pass_time(5000)
    assert await world.alarms() == []
    await world.service.jobs.resume("j")
    await world.pass_time(99)
    assert await world.alarms() == []
    await world.pass_time(2)
    assert await world.alarms() == [("overdue", "j")]


async def test_a_parked_job_is_overdue(world: Watched) -> None:
    """Nobody has wanted it to stop."""
    await world.service.jobs.add("j", noop=True, expect_within=100, on_exhausted="park")
    await world.ends("j", Failed("broken"))
    await world.pass_time(101)
    assert await world.alarms() == [("overdue", "j")]


async def test_what_is_not_due_is_not_overdue(world: Watched) -> None:
    """A daily job with a weekend off, or one that begins in a month, is expected from its next moment on."""
    await world.service.jobs.add("j", noop=True, schedule="0 0 1 2 *", expect_within=100)
    await world.pass_time(20 * 86_400)
    assert await world.alarms() == []
    await world.pass_time(12 * 86_400)
    assert await world.alarms() == [("overdue", "j")]


async def test_a_finished_job_is_overdue_if_its_last_run_did_not_end_well(world: Watched) -> None:
    """After its last good end nothing is expected any more."""
    terms: dict[str, Any] = {"noop": True, "runs_remaining": 1, "expect_within": 50}
    await world.service.jobs.add("bad", schedule="every 100 seconds", **terms)
    await world.service.jobs.add("good", schedule="every 101 seconds", **terms)
    world.pass_seconds(102)
    await world.fire()
    await world.work(Failed("broken"), Succeeded())
    await world.pass_time(100)
    assert await world.alarms() == [("overdue", "bad")]
    await world.pass_time(10_000)
    assert await world.alarms() == [("overdue", "bad")]


async def test_a_deleted_job_is_forgotten(world: Watched) -> None:
    """So is one that expects nothing any more: with their alarms."""
    for job_id in ("deleted", "edited"):
        await world.service.jobs.add(job_id, noop=True, expect_within=100)
    await world.pass_time(101)
    await world.service.jobs.delete("deleted")
    await world.service.jobs.update("edited", expect_within=None)
    await world.pass_time(11)
    assert await world.alarms() == []
    assert await world.store.list_documents(KIND) == []


async def test_a_job_that_this_version_cannot_read_keeps_its_alarm(world: Watched) -> None:
    """Nobody has done what was expected: nothing is known to be well, and none is raised that was not there."""
    for job_id in ("late", "young"):
        await world.service.jobs.add(job_id, noop=True, expect_within=100 if job_id == "late" else 10_000)
    await world.pass_time(101)
    for job in await world.service.jobs.list():
        world.store.tables.jobs[job.id] = replace(job, definition=stored_definition('{"target":{"type":"rocket"}}'))
    before = await world.service.expectations.alarms()
    await world.pass_time(20_000)
    assert await world.service.expectations.alarms() == before
    assert await world.alarms() == [("overdue", "late")]


async def test_a_job_that_is_about_to_be_written_is_not_forgotten(world: Watched) -> None:
    """Its expectation is there before it: who looks in between leaves it alone for a minute."""
    await world.service.expectations._of_job(JobId("j"), world.define({"noop": True, "expect_within": 5}))
    await world.pass_time(6)
    assert len(await world.store.list_documents(KIND)) == 1
    world.clock.moment = Moment(world.clock.moment + SETTLED + HOUR)
    await world.pass_time(1)
    assert await world.store.list_documents(KIND) == []


async def test_another_time_counts_at_once(world: Watched) -> None:
    """An edit that expects a good end sooner is looked at with the next walk."""
    await world.service.jobs.add("j", noop=True, expect_within=100_000)
    await world.pass_time(50)
    await world.service.jobs.update("j", expect_within=40)
    await world.pass_time(1)
    assert await world.alarms() == [("overdue", "j")]


async def test_a_step_looks_at_few(world: Watched) -> None:
    """The beat behind it is not late, however many are overdue at once; the walk goes on soon."""
    for number in range(PAGE + 30):
        await world.service.expectations.set(f"e{number:04}", 10)
    world.clock.moment = Moment(world.clock.moment + 11 * SECOND)
    duty = world.duties[0]
    await duty.step(NODE, world.clock.now(), world.clock.monotonic())
    assert len(await world.service.expectations.alarms()) == MOST
    await world.pass_time(0)
    assert len(await world.service.expectations.alarms()) == PAGE + 30


async def test_what_fails_hinders_no_other(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a job that the store does not give, nor an expectation that a newer version has written."""
    await world.service.jobs.add("a", noop=True, expect_within=10)
    await world.service.expectations.set("b", 10)
    await world.store.put_document(Document(kind=KIND, name="0", text='{"new": 1}', version=1), None)

    async def away(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store, "get_job", away)
    await world.pass_time(11)
    assert await world.alarms() == [("overdue", "b")]


async def test_an_alarm_that_a_crash_kept_from_being_raised_comes_later(world: Watched) -> None:
    """The look is written before the alarm: who dies in between leaves it to the next look."""
    await world.service.expectations.set("b", 10)
    put = world.store.put_document

    async def dies(document: Document, replaces: int | None) -> None:
        if document.kind == "alarm":
            raise StoreUnavailable("dead")
        await put(document, replaces)

    world.store.put_document = dies  # type: ignore[method-assign]
    await world.pass_time(11)
    assert await world.alarms() == []
    world.store.put_document = put  # type: ignore[method-assign]
    await world.pass_time(11)
    assert await world.alarms() == [("overdue", "b")]


async def test_an_alarm_that_a_crash_kept_from_being_taken_back_goes_later(world: Watched) -> None:
    """It does not stand until the next good end is missed, a day later perhaps."""
    await world.service.jobs.add("j", noop=True, expect_within=1000)
    await world.pass_time(1001)
    await world.ends("j", Succeeded())
    delete = world.store.delete_document

    async def dies(kind: str, name: str, version: int) -> None:
        raise StoreUnavailable("dead")

    world.store.delete_document = dies  # type: ignore[method-assign]
    await world.pass_time(11)
    assert await world.alarms() == [("overdue", "j")]
    world.store.delete_document = delete  # type: ignore[method-assign]
    await world.pass_time(11)
    assert await world.alarms() == []


async def test_no_alarm_stays_of_what_nobody_expects(world: Watched) -> None:
    """Who ends it just before the alarm is raised finds none, and nobody would look at it again."""
    await world.service.expectations.set("b", 10)
    put = world.store.put_document

    async def ended_first(document: Document, replaces: int | None) -> None:
        if document.kind == "alarm":
            await world.service.expectations.delete("b")
        await put(document, replaces)

    world.store.put_document = ended_first  # type: ignore[method-assign]
    await world.pass_time(11)
    assert await world.alarms() == []


async def test_where_nothing_is_expected_nobody_asks_often(world: Watched) -> None:
    """A look in over a minute, or sooner where the store tells of a change."""
    duty = world.duties[0]
    await duty.step(NODE, world.clock.now(), 5)
    assert duty.next_at == 5 + IDLE
    duty.wake(6)
    duty.wake(7)
    assert duty.next_at == 6 + REST
    await world.service.expectations.set("b", 10)
    await duty.step(NODE, world.clock.now(), 10)
    assert duty.next_at == 10 + REST


async def test_a_job_is_looked_at_again_behind_who_writes_it(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that look between the two statements of an edit see the job before it, and not for an hour or a day."""

    async def looked_at_first(work: Callable[..., Awaitable[None]], *given: Any) -> None:
        await world.pass_time(0)
        await work(*given)

    await world.service.jobs.add("sooner", noop=True, expect_within=500_000)
    await world.service.jobs.add("resumed", noop=True, expect_within=100)
    await world.service.jobs.pause("resumed")
    await world.pass_time(SETTLED / SECOND)
    for name in ("add_jobs", "replace_job"):
        monkeypatch.setattr(world.store, name, partial(looked_at_first, getattr(world.store, name)))
    await world.service.jobs.add("added", noop=True, expect_within=100)
    await world.service.jobs.update("sooner", expect_within=170)
    await world.service.jobs.resume("resumed")
    await world.pass_time(SETTLED / SECOND)
    await world.pass_time(51)
    assert await world.alarms() == [("overdue", "added"), ("overdue", "resumed"), ("overdue", "sooner")]


async def test_an_alarm_tells_what_was_reported_since(world: Watched) -> None:
    """What is overdue and then reports a failure has failed, and the alarm has what it wrote; it is the same alarm."""
    await world.service.expectations.set("backup", 10)
    await world.pass_time(11)
    (overdue,) = await world.service.expectations.alarms()
    await world.service.expectations.ping("backup", "fail", "disk gone")
    await world.pass_time(1)
    (failed,) = await world.service.expectations.alarms()
    assert (failed.kind, failed.log, failed.since) == (AlarmKind.FAILED, "disk gone", overdue.since)
    await world.service.expectations.ping("backup", "fail", "tape gone")
    await world.pass_time(1)
    assert [each.log for each in await world.service.expectations.alarms()] == ["tape gone"]


async def test_a_good_end_behind_failures_is_found_without_the_whole_history(
    world: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for among a bounded number of the newest ended runs, which a store finds at once."""
    await world.service.jobs.add("j", noop=True, expect_within=7200)
    await world.pass_time(7000)
    await world.ends("j", Succeeded())
    for _ in range(2 * NEWEST[0]):
        await world.ends("j", Failed("no"))
    asked, list_runs = list[RunFilter](), world.store.list_runs

    async def noted(wanted: RunFilter) -> list[Run]:
        asked.append(wanted)
        return await list_runs(wanted)

    monkeypatch.setattr(world.store, "list_runs", noted)
    await world.pass_time(300)
    assert await world.alarms() == []
    assert [each.limit for each in asked] == [*NEWEST]
    assert {each.states for each in asked} == {ENDS}


async def test_a_clock_that_ran_ahead_is_forgotten(world: Watched) -> None:
    """What nodes saw and heard in a year to come keeps no alarm, and keeps off none, when the clock is set back."""
    for name in ("good", "bad", "paused"):
        await world.service.jobs.add(name, noop=True, expect_within=7200)
    await world.service.jobs.pause("paused")
    await world.service.expectations.set("backup", 7200)
    now = world.clock.now()
    await world.pass_time(365 * 86_400)
    await world.service.expectations.ping("backup", "fail")
    for name in ("good", "bad") * NEWEST[0]:
        await world.ends(name, Succeeded())
    await world.pass_time(11)
    world.clock.moment = Moment(now + HOUR)
    await world.service.expectations.ping("backup")
    await world.service.jobs.resume("paused")
    await world.pass_time(61)
    assert await world.alarms() == []
    await world.ends("good", Succeeded())
    await world.service.expectations.ping("backup")
    await world.pass_time(7000)
    await world.pass_time(7200 - 7000 + 12)
    assert await world.alarms() == [
        ("overdue", "backup"),
        ("overdue", "bad"),
        ("overdue", "good"),
        ("overdue", "paused"),
    ]
    await world.ends("good", Succeeded())
    await world.service.expectations.ping("backup")
    await world.pass_time(12)
    assert await world.alarms() == [("overdue", "bad"), ("overdue", "paused")]
