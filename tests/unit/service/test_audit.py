"""Who has changed what."""

import inspect
import logging
import os

import pytest

from tests.unit.service.world import World
from tests.unit.virtual import Link
from tokimori.clock import SECOND, Moment
from tokimori.errors import Forbidden, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.audit import MOST_SHOWN
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.service.access import Access
from tokimori.service.audit import Audit, record
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.operation import Inside
from tokimori.service.service import table

UNRECORDED = {"expectations.ping", "db.doctor", "db.migrate", "db.retire", "db.sql", "db.check"}
"""What is reported is in the expectation; the rest changes nothing here."""


def test_every_change_is_recorded() -> None:
    """Whatever needs more than the right to read, and is no list; messages and claims say by whom they are."""
    for name, each in table().items():
        noun, _, verb = name.partition(".")
        is_change = each.role is not Role.READ and verb != "list" and noun not in ("channels", "claims")
        assert (is_change and name not in UNRECORDED) == (each.audit is not None), name


async def test_a_change_is_recorded_with_before_and_after(world: World) -> None:
    """Newest first: by whom, when, with which method; what did not change anything is not there."""
    service = audited(world.service)
    await service.jobs.add("a", noop=True, name="old")
    for name in ("new", "new"):
        world.pass_seconds(1)
        await service.acting_as("bob").jobs.update("a", name=name)
    world.pass_seconds(1)
    await service.jobs.delete("a")
    deleted, updated, added = [each.entry for each in await service.audit.list()]
    assert [entry.what for entry in (added, updated, deleted)] == ["jobs.add", "jobs.update", "jobs.delete"]
    assert [entry.who for entry in (added, updated, deleted)] == ["ada", "bob", "ada"]
    assert {entry.of for entry in (added, updated, deleted)} == {"job a"}
    assert added.before is None and deleted.after is None
    names = [entry["definition"]["name"] for entry in (updated.before, updated.after, deleted.before)]
    assert names == ["old", "new", "new"]
    assert updated.at - added.at == 1_000_000


async def test_an_entry_that_can_t_be_written_anew_stays(world: World) -> None:
    """Where the store goes away behind the first writing, the log has that one."""
    link, behind = Link(world.store), [60 * SECOND, 0]

    async def now() -> Moment:
        link.lose_call["put_document"] = link.calls["put_document"]
        return Moment(world.clock.now() - behind.pop(0))

    await record(Audit[Inside](link.store, now, os.urandom, "ada"), "pause", "job a", None, None)
    assert link.calls["put_document"] == 2
    (entry,) = await Audit[Inside](world.store, now, os.urandom, None).list()
    assert entry.entry.of == "job a"


async def test_a_large_set_has_several_entries(world: World) -> None:
    """Each thing that was changed is named, however many there are: an entry of all would be too large to be kept."""
    service = audited(world.service)
    declared = {f"{'long' * 60}-{number}": {"noop": True} for number in range(600)}
    await service.sets.apply("ours", declared, semaphores={"s": {"limit": 1}})  # type: ignore[arg-type]
    found = [each.entry for each in await service.audit.list()]
    assert {(entry.what, entry.of) for entry in found} == {("sets.apply", "set ours")}
    assert {name for entry in found for name in entry.after.get("added", ())} == set(declared)
    assert [entry.after["semaphores"] for entry in found if "semaphores" in entry.after] == [{"changed": ["s"]}]
    assert len(found) == 3


async def test_each_kind_of_change_is_recorded(world: World) -> None:
    """Jobs, runs, queues, calendars, semaphores and tokens; of a token what it may do, not what it is."""
    service = audited(world.service)
    job = await service.jobs.add(noop=True)
    run = await service.jobs.trigger(job.id)
    await service.runs.cancel(run.id)
    await service.queues.pause("web", "repairs")
    await service.queues.resume("web")
    await service.jobs.pause(job.id)
    await service.calendars.add("cal", dates=["12-25"])
    await service.semaphores.set("s", 3)
    made = await service.tokens.create("ci", "read")
    await service.tokens.revoke("ci")
    await service.jobs.import_all([("b", world.define({"noop": True}))])
    found = {each.entry.what: each.entry for each in await service.audit.list()}
    assert found.keys() == {
        "jobs.add",
        "jobs.trigger",
        "runs.cancel",
        "queues.pause",
        "queues.resume",
        "jobs.pause",
        "calendars.add",
        "semaphores.set",
        "tokens.create",
        "tokens.revoke",
        "jobs.import_all",
    }
    assert (found["jobs.trigger"].of, found["jobs.trigger"].after) == (f"job {job.id}", {"run": run.id})
    assert (found["runs.cancel"].of, found["runs.cancel"].after["state"]) == (f"run {run.id}", "cancelled")
    assert (found["queues.pause"].of, found["queues.resume"].after) == ("queue web", None)
    assert found["tokens.create"].after["role"] == "read"
    assert made.token.digest not in str(found) and made.text not in str(found)
    assert found["jobs.import_all"].after == {"added": ["b"]}


async def test_pages_of_the_log(world: World) -> None:
    """Each begins behind the last entry of the one before."""
    service = audited(world.service)
    for number in range(5):
        await service.jobs.add(f"j{number}", noop=True)
        world.pass_seconds(1)
    first = await service.audit.list(limit=3)
    rest = await service.audit.list(first[-1].id, 3)
    assert [each.entry.of for each in (*first, *rest)] == [f"job j{number}" for number in (4, 3, 2, 1, 0)]


async def test_doors_record_and_only_admins_read(world: World) -> None:
    """Under the name of the token; what was refused changed nothing and is not there."""
    operates = authorized(world.service, Access(author="ci", role=Role.OPERATE))
    await operates.jobs.add("a", noop=True)
    with pytest.raises(Forbidden):
        await operates.tokens.create("x", "read")
    with pytest.raises(Forbidden, match=r"Reading the audit log"):
        await operates.audit.list()
    (found,) = await authorized(world.service, Access(author="boss", role=Role.ADMIN)).audit.list()
    assert (found.entry.who, found.entry.what) == ("ci", "jobs.add")


async def test_what_is_too_large_leaves_its_size(world: World) -> None:
    """An entry is a document, which has a bound."""
    service = audited(world.service)
    await service.jobs.add(
        "a",
        command=["cat"],
        stdin="x" * (MOST_SHOWN // 2),
        description="x" * 4_000,
        env={f"V{n}": "x" * 4_000 for n in range(12)},
    )
    (found,) = await service.audit.list()
    assert found.entry.after["left_out"].endswith(" bytes")


async def test_a_change_stands_though_the_log_can_not_be_written(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It is done by then; the node's log tells what the audit log lacks."""

    async def away(*_: object) -> None:
        raise StoreUnavailable("gone")

    world.store.put_document = away  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING):
        assert (await audited(world.service).jobs.add("a", noop=True)).id == "a"
    assert "'ada' did jobs.add to job a" in caplog.text
    assert inspect.iscoroutinefunction(audited(world.service).jobs.add)


async def test_what_a_method_answers_is_not_read_once_more(world: World) -> None:
    """The log has it as it was answered: the store is asked for no job that was just written, and for no run."""
    asked: list[object] = []
    job_of, run_of = world.store.get_job, world.store.get_run

    async def noted_job(job_id: JobId) -> Job:
        asked.append(job_id)
        return await job_of(job_id)

    async def noted_run(run_id: RunId) -> Run:
        asked.append(run_id)
        return await run_of(run_id)

    world.store.get_job, world.store.get_run = noted_job, noted_run  # type: ignore[method-assign]
    service = audited(world.service)
    await service.jobs.add("a", noop=True, name="new")
    assert asked == []
    world.pass_seconds(1)
    run = await service.jobs.trigger("a")
    asked.clear()
    world.pass_seconds(1)
    await service.runs.cancel(run.id)
    assert asked.count(run.id) == 1, "what it was before"
    cancelled, _, added = [each.entry for each in await service.audit.list()]
    assert (added.after["state"], added.after["definition"]["name"]) == ("enabled", "new")
    assert (cancelled.before["state"], cancelled.after["state"]) == ("ready", "cancelled")
