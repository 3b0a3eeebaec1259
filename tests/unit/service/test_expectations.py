"""What is expected elsewhere: who says so, and who reports."""

import asyncio

import pytest

from tests.unit.service.world import World
from tokimori.clock import SECOND
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.expectation import Alarm, AlarmKind
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.expectations import MOST_LOG


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_a_report_is_the_last_good_end(world: World) -> None:
    """The next one is expected from there; a start and a failure are known, and move nothing."""
    service = world.service
    await service.expectations.set("backup", 100, description="the office")
    world.pass_seconds(30)
    started = await service.expectations.ping("backup", "start")
    assert (started.started, started.good) == (world.clock.now(), None)
    world.pass_seconds(5)
    known = await service.expectations.ping("backup", log="12 GB")
    assert (known.good, known.log, known.description) == (world.clock.now(), "12 GB", "the office")
    assert known.expected_by == world.clock.now() + 100 * SECOND
    world.pass_seconds(5)
    failed = await service.expectations.ping("backup", "fail")
    assert (failed.has_failed, failed.expected_by, failed.log) == (True, known.expected_by, "12 GB")


async def test_a_good_report_takes_back_the_alarm(world: World) -> None:
    """At once: nobody has to wait for a node."""
    known = await world.service.expectations.set("backup", 100)
    world.pass_seconds(101)
    now = world.clock.now()
    alarm = Alarm(kind=AlarmKind.OVERDUE, name="backup", since=now, expected_by=known.expected_by, within=100)
    await world.service.expectations._alarms.add("backup", alarm)
    assert await world.service.expectations.alarms() == [alarm]
    await world.service.expectations.ping("backup")
    assert await world.service.expectations.alarms() == []


async def test_many_may_report_at_the_same_time(world: World) -> None:
    """A fleet that does so at a full hour, of which each reads the same and one at a time gets on."""
    await world.service.expectations.set("backup", 100)
    reports = [world.service.expectations.ping("backup", "fail" if n == 49 else "ok", log=str(n)) for n in range(50)]
    assert {known.log for known in await asyncio.gather(*reports)} == {str(n) for n in range(50)}
    assert (await world.service.expectations.get("backup")).failed == world.clock.now()


async def test_what_nobody_expects_cannot_be_reported(world: World) -> None:
    """A misspelt name is told at once, with the command that mends it, and not taken for a new one."""
    with pytest.raises(NotFound, match="tokimori expect bakcup --within"):
        await world.service.expectations.ping("bakcup")
    assert await world.service.expectations.list() == []


async def test_a_report_keeps_the_end_of_a_long_text(world: World) -> None:
    """There it says how it ended."""
    await world.service.expectations.set("backup", 100)
    known = await world.service.expectations.ping("backup", log="x" * MOST_LOG + "end")
    assert known.log is not None
    assert (len(known.log), known.log[-4:]) == (MOST_LOG, "xend")


async def test_another_time_keeps_what_was_reported(world: World) -> None:
    """Whoever changes the time counts from the same last good end, and says nothing of what it is."""
    await world.service.expectations.set("backup", 100, description="the office")
    good = (await world.service.expectations.ping("backup")).good
    world.pass_seconds(5)
    changed = await world.service.expectations.set("backup", 200)
    assert (changed.good, changed.within, changed.description) == (good, 200, "the office")
    assert (await world.service.expectations.set("backup", 200, description="")).description is None
    await world.service.expectations.delete("backup")
    with pytest.raises(NotFound):
        await world.service.expectations.get("backup")


@pytest.mark.parametrize(
    ("name", "within", "field"),
    [("../x", 5, "name"), ("..", 5, "name"), ("", 5, "name"), ("b", 0.5, "within"), ("b", "x", "within")],
)
async def test_a_wrong_expectation_is_refused(world: World, name: str, within: float, field: str) -> None:
    """The field is named, and what is allowed."""
    with pytest.raises(InvalidInput) as refused:
        await world.service.expectations.set(name, within)
    assert refused.value.field == field
    assert refused.value.allowed


async def test_a_wrong_report_is_refused(world: World) -> None:
    """The words that are allowed are named."""
    await world.service.expectations.set("backup", 100)
    with pytest.raises(InvalidInput, match="report: 'done'") as refused:
        await world.service.expectations.ping("backup", "done")
    assert refused.value.allowed == "ok, start, fail"


async def test_one_name_is_one_thing(world: World) -> None:
    """What runs elsewhere has the name of no job of which something is expected, and the other way round."""
    await world.service.jobs.add("j", noop=True, expect_within=60)
    with pytest.raises(Refused, match="job update j"):
        await world.service.expectations.set("j", 100)
    with pytest.raises(Refused, match="job update j"):
        await world.service.expectations.delete("j")
    await world.service.expectations.set("elsewhere", 100)
    with pytest.raises(Refused, match="expect elsewhere --never"):
        await world.service.jobs.add("elsewhere", noop=True, expect_within=60)


async def test_a_job_may_be_reported_from_outside(world: World) -> None:
    """What was done by hand counts as a good end of it."""
    await world.service.jobs.add("j", noop=True, expect_within=60)
    world.pass_seconds(30)
    known = await world.service.expectations.ping("j")
    assert (known.of_job, known.good) == (True, world.clock.now())


async def test_reports_at_the_same_time_lose_nothing(world: World) -> None:
    """Each is written over the one before."""
    await world.service.expectations.set("backup", 100)
    await asyncio.gather(*(world.service.expectations.ping("backup", each) for each in ("ok", "start", "fail")))
    known = await world.service.expectations.get("backup")
    assert None not in (known.good, known.started, known.failed)


async def test_a_token_of_some_jobs_reaches_those_alone(world: World) -> None:
    """What is listed is left out, what is reported is refused; a token that only reads reports nothing."""
    for name in ("backup-1", "other"):
        await world.service.expectations.set(name, 100)
    some = authorized(world.service, Access(author="t", role=Role.OPERATE, scope=Scope(jobs=("backup-",))))
    assert [each.name for each in await some.expectations.list()] == ["backup-1"]
    await some.expectations.ping("backup-1")
    with pytest.raises(Forbidden):
        await some.expectations.ping("other")
    with pytest.raises(NotFound):
        await some.expectations.get("other")
    reader = authorized(world.service, Access(author="t", role=Role.READ))
    with pytest.raises(Forbidden):
        await reader.expectations.ping("backup-1")
