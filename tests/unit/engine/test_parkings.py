"""What the engine parks is in the audit log."""

import asyncio
import logging

import pytest

from tests.unit.service.world import NODE, World
from tokimori.engine.fire import park
from tokimori.engine.parkings import TOGETHER, record_parked
from tokimori.engine.settle import change_of
from tokimori.errors import StoreUnavailable
from tokimori.model.audit import decode_entry
from tokimori.model.document import Document
from tokimori.model.ids import JobId
from tokimori.model.outcome import Failed


@pytest.fixture
def world() -> World:
    """A new one."""
    return World()


async def test_a_job_that_can_t_be_decided_is_told_of(world: World) -> None:
    """With how it was before, and why it is parked."""
    job = await world.service.jobs.add("a", noop=True)
    await park(world.store, job, "its schedule can't be decided")
    (document,) = await world.store.list_documents("audit")
    entry = decode_entry(document.text)
    assert (entry.who, entry.what, entry.of, entry.after["reason"]) == (
        "tokimori",
        "park",
        "job a",
        "its schedule can't be decided",
    )
    assert (entry.before["state"], entry.after["state"]) == ("enabled", "parked")


async def test_a_job_that_was_changed_meanwhile_is_not_parked(world: World) -> None:
    """And nobody is told that it was."""
    job = await world.service.jobs.add("a", noop=True)
    await world.service.jobs.update("a", name="new")
    await park(world.store, job, "its schedule can't be decided")
    assert await world.store.list_documents("audit") == []


async def test_a_long_error_is_cut_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It may have 64 KiB, and is stored with the run."""
    caplog.set_level(logging.INFO, "tokimori.engine")
    await world.service.jobs.add("j", noop=True)
    await world.trigger("j")
    [claimed] = await world.begin(1)
    at = world.clock.now()
    change = change_of(claimed, Failed("x" * 65_536), owner=NODE, now=at, chance=0, started=at)
    await record_parked(world.store, [change], await world.store.settle([change], NODE, at))
    assert f"run {claimed.run.id} of job j failed: {'x' * 500}" in [each.getMessage() for each in caplog.records]


async def test_many_are_told_of_some_at_a_time(world: World) -> None:
    """One after the other they would hold up the node, and all at once the store."""
    for number in range(3 * TOGETHER):
        await world.add({"noop": True, "on_exhausted": "park"}, f"j{number}")
        await world.trigger(f"j{number}")
    claimed = await world.begin(3 * TOGETHER)
    at = world.clock.now()
    changes = [change_of(each, Failed("it broke"), owner=NODE, now=at, chance=0, started=at) for each in claimed]
    verdicts = await world.store.settle(changes, NODE, at)
    putting, most, put = 0, 0, world.store.put_document

    async def slow(document: Document, replaces: int | None) -> None:
        nonlocal putting, most
        putting += 1
        most = max(most, putting)
        await asyncio.sleep(0)
        putting -= 1
        await put(document, replaces)

    world.store.put_document = slow  # type: ignore[method-assign]
    await record_parked(world.store, changes, verdicts)
    assert most == TOGETHER
    told = [decode_entry(each.text).of for each in await world.store.list_documents("audit", limit=100)]
    assert sorted(told) == sorted(f"job {each.job_id}" for each in changes)
    assert len(told) == 3 * TOGETHER


async def test_a_run_that_fails_when_its_job_is_parked_is_told_of_by_nobody(world: World) -> None:
    """It changes nothing any more: the entry says with which error the job was parked, and there is one."""
    await world.add({"noop": True, "on_exhausted": "park"}, "a")
    for _ in range(2):
        await world.trigger("a")
    at, told = world.clock.now(), []
    for claimed, error in zip(await world.begin(2), ("first", "second"), strict=True):
        changes = [change_of(claimed, Failed(error), owner=NODE, now=at, chance=0, started=at)]
        await record_parked(world.store, changes, await world.store.settle(changes, NODE, at))
        told.append([decode_entry(each.text).after["reason"] for each in await world.store.list_documents("audit")])
    assert told == [["first"], ["first"]]


async def test_a_store_that_is_away_fails_no_parking(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The job is parked, and the node's log says what the audit log lacks."""

    async def away(_document: Document, _replaces: int | None) -> None:
        raise StoreUnavailable("nobody answers")

    world.store.put_document = away  # type: ignore[method-assign, assignment]
    job = await world.service.jobs.add("a", noop=True)
    with caplog.at_level(logging.WARNING):
        await park(world.store, job, "its schedule can't be decided")
    assert (await world.store.get_job(JobId("a"))).state == "parked"
    assert "audit log that job a was parked" in caplog.text


async def test_the_log_says_what_failed_and_what_is_parked(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """And, at level debug, each decision."""
    caplog.set_level(logging.DEBUG, "tokimori.engine")
    await world.service.jobs.add("j", noop=True, schedule="every 10 seconds", on_exhausted="park")
    world.pass_seconds(11)
    await world.fire()
    [claimed] = await world.begin(1)
    at = world.clock.now()
    change = change_of(claimed, Failed("exit code 3", exit_code=3), owner=NODE, now=at, chance=0, started=at)
    await record_parked(world.store, [change], await world.store.settle([change], NODE, at))
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"job j: decided: runs: {claimed.run.id} for ") for line in said)
    assert f"run {claimed.run.id} of job j failed: exit code 3" in said
    assert "job j is parked: exit code 3; `tokimori job resolve j` enables it" in said
