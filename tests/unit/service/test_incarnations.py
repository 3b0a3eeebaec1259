"""A token of one queue sees nothing of what had the same id in another queue, nor of a job before it came into it."""

from typing import Any

import pytest

from tests.unit.service.tasks.test_tasks import build
from tests.unit.service.world import World
from tokimori.errors import Forbidden, NotFound
from tokimori.model.access_token import Role, Scope
from tokimori.model.audit import KIND, decode_entry
from tokimori.model.outcome import Failed
from tokimori.model.run import Run
from tokimori.service.access import Access
from tokimori.service.definitions.arguments import RunFilters
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.service import Service

SECRET = "salaries"


def of_queue(world: World, queue: str, role: Role = Role.OPERATE) -> Service:
    return authorized(world.service, Access(author=queue, role=role, scope=Scope(queues=(queue,))))


async def a_past(world: World) -> Run:
    """A job of the queue qb, with an expectation, that has failed once."""
    await world.add({"noop": True, "queue": "qb", "payload": f'"{SECRET}"', "expect_within": 3600}, "payroll")
    await world.service.expectations.ping("payroll", "fail", SECRET)
    run = await world.service.jobs.trigger("payroll", "key", payload=f'"{SECRET}"')
    await world.register()
    await world.work(Failed(SECRET))
    world.pass_seconds(1)
    return await world.store.get_run(run.id)


async def made_anew(world: World) -> None:
    """Another job gets the id, in the queue qa."""
    await world.service.jobs.delete("payroll")
    await of_queue(world, "qa").jobs.add("payroll", noop=True, queue="qa", expect_within=3600)


async def moved(world: World) -> None:
    """The job goes to the queue qa."""
    await world.update("payroll", {"queue": "qa", "payload": None})


async def told(service: Service, run: Run) -> list[Any]:
    """Whatever a token may ask of a job."""
    log: list[Any] = [await service.jobs.stats("payroll"), await service.jobs.counts("payroll")]
    log += [await service.runs.list(job_id=run.job_id), await service.runs.list()]
    log += [(await service.runs.list(job_id=run.job_id)).runs, (await service.runs.list()).runs]
    log += [(await service.runs.last(["payroll"]))[run.job_id], await service.jobs.skips("payroll")]
    log += [(await service.jobs.ledger("payroll")).lines, await service.jobs.why("payroll")]
    log += [await service.expectations.get("payroll"), await service.expectations.alarms()]
    return log


@pytest.mark.parametrize("became", [made_anew, moved])
async def test_what_was_of_another_queue_is_not_told(world: World, became: Any) -> None:
    """Neither by lists, counts and statistics, nor by the run itself."""
    run = await a_past(world)
    await became(world)
    world.pass_seconds(1)
    service = of_queue(world, "qa")
    log = await told(service, run)
    assert SECRET not in repr(log) and run.id not in repr(log)
    assert (log[0].outcomes, log[1]) == ({}, [])
    for ask in (service.runs.get, service.runs.output, service.runs.why, service.runs.wait):
        with pytest.raises(NotFound):
            await ask(run.id)
    for change in (service.runs.cancel, service.runs.retry, service.runs.restart, service.runs.hold):
        with pytest.raises(Forbidden):
            await change(run.id)
    if became is moved:
        with pytest.raises(Forbidden):
            await service.jobs.trigger("payroll", "key")
    mine = await service.jobs.trigger("payroll")
    assert [each.id for each in await service.runs.list(job_id=run.job_id)] == [mine.id]
    assert (await service.runs.get(mine.id)).run.id == mine.id


@pytest.mark.parametrize("became", [made_anew, moved])
async def test_what_was_of_a_queue_stays_of_it(world: World, became: Any) -> None:
    """Its token reads the run still, and nothing of the job that has the id now."""
    run = await a_past(world)
    await became(world)
    await world.service.jobs.update("payroll", time_zone="Asia/Tokyo")
    new = await world.service.jobs.trigger("payroll")
    service = of_queue(world, "qb")
    assert [each.id for each in await service.runs.list(job_id=run.job_id)] == [run.id]
    found = await service.runs.get(run.id)
    assert (found.run.error, found.run.payload, found.is_job_deleted) == (SECRET, f'"{SECRET}"', True)
    assert found.time_zone == world.service.time_zone
    (shown,) = await service.runs.summaries([run])
    assert (shown.time_zone, shown.is_job_deleted) == (world.service.time_zone, True)
    assert (await service.runs.why(run.id)).reasons == ()
    assert [(each.outcome, each.count) for each in await service.jobs.counts("payroll")] == [("failed", 1)]
    assert (await service.jobs.stats("payroll")).outcomes == {"failed": 1}
    for call in (service.jobs.get, service.jobs.ledger, service.jobs.skips, service.expectations.get):
        with pytest.raises(NotFound):
            await call("payroll")
    with pytest.raises(NotFound):
        await service.runs.get(new.id)
    with pytest.raises(Forbidden):
        await service.runs.retry(run.id)


async def test_events_go_by_the_queue_of_their_time(world: World) -> None:
    """Ends of runs and changes of jobs, and the audit log says which queue it was; an old entry says none."""
    owner, start = audited(world.service), (await world.service.events.read_all()).after
    await owner.jobs.add("payroll", noop=True, queue="qb")
    run = await owner.jobs.trigger("payroll")
    await world.register()
    await world.work(Failed("no"))
    world.pass_seconds(1)
    await owner.jobs.pause("payroll", SECRET)
    world.pass_seconds(1)
    await owner.jobs.delete("payroll")
    world.pass_seconds(1)
    await owner.jobs.add("payroll", noop=True, queue="qa")
    entries = [decode_entry(each.text) for each in await world.store.list_documents(KIND)]
    assert [entry.queues.get("payroll") for entry in entries] == [("qa",), *4 * [("qb",)]]
    world.pass_seconds(1)
    mine = (await of_queue(world, "qa").events.read_all("all", start)).events
    assert [event.what for event in mine] == ["job.added"] and SECRET not in repr(mine)
    theirs = (await of_queue(world, "qb").events.read_all("all", start)).events
    assert {event.what for event in theirs} == {"job.added", "run.failed", "job.paused", "job.deleted"}
    assert [event.run.id for event in theirs if event.run] == [run.id]


async def test_what_is_ordered_of_a_job_leaves_the_runs_of_another(world: World) -> None:
    """A run of a deleted job that still runs is not cancelled with those of the job that has its id now."""
    await world.add({"noop": True, "queue": "qb"}, "payroll")
    run = await world.trigger("payroll")
    await world.register()
    await world.begin(1)
    await made_anew(world)
    service = of_queue(world, "qa")
    assert await service.jobs.cancel("payroll") == 0
    assert (await world.store.get_run(run.id)).cancel is None
    assert [each.id for each in await of_queue(world, "qb").runs.list()] == [run.id]


async def test_a_stopped_job_hides_no_run_of_its_own(world: World) -> None:
    """Its runs have no lane: they are of its queue, and what had ended before it came there is not."""
    await world.add({"noop": True, "queue": "qb"}, "payroll")
    await world.trigger("payroll")
    await world.service.jobs.pause("payroll")
    (old,) = await world.service.runs.list()
    assert old.lane is None
    await world.service.runs.cancel(old.id)
    world.pass_seconds(1)
    service = of_queue(world, "qb")
    assert [each.id for each in await service.runs.list()] == [old.id]
    await world.update("payroll", {"queue": "qa"})
    assert (await of_queue(world, "qa").runs.list()).runs == []


async def test_a_task_is_of_the_job_that_runs_its_builds(world: World) -> None:
    """A job of another queue that gets its name has neither its builds nor its log."""
    details = await build(world.service, name="payroll")
    await world.update("payroll", {"queue": "qb"})
    theirs = of_queue(world, "qb")
    assert (await theirs.tasks.get("payroll")).record.name == "payroll"
    await world.service.jobs.delete("payroll")
    service = of_queue(world, "qa")
    await service.jobs.add("payroll", noop=True, queue="qa")
    assert await service.tasks.list() == []
    for ask in (service.tasks.get, service.tasks.logs, service.tasks.builds, service.tasks.state):
        with pytest.raises(NotFound):
            await ask("payroll")
    for change in (service.tasks.rollback, service.tasks.restart, service.tasks.delete):
        with pytest.raises(Forbidden):
            await change("payroll")
    with pytest.raises(Forbidden):
        await service.jobs.update("payroll", build=f"payroll@{details.record.current}")


async def test_what_is_expected_elsewhere_is_in_no_queue(world: World) -> None:
    """A job that is made under its name opens nothing of it."""
    await world.service.expectations.set("nas", 60, description=SECRET)
    service = of_queue(world, "qa")
    await service.jobs.add("nas", noop=True, queue="qa")
    assert await service.expectations.list() == []
    with pytest.raises(NotFound):
        await service.expectations.get("nas")
    with pytest.raises(Forbidden):
        await service.expectations.ping("nas")
    with pytest.raises(Forbidden):
        await service.expectations.set("nas", 5)


async def test_a_search_says_nothing_of_the_job_that_has_the_id_now(world: World) -> None:
    """Runs of a queue are not found by what the job says since it is in another one."""
    run = await a_past(world)
    await moved(world)
    await world.service.jobs.update("payroll", owner=SECRET, labels={"team": SECRET})
    service, owner = of_queue(world, "qb"), world.service
    filters: tuple[RunFilters, ...] = ({"owner": SECRET}, {"label": f"team={SECRET}"}, {"queue": "qa"})
    for wanted in filters:
        assert [each.id for each in (await owner.runs.list(**wanted)).runs] == [run.id]
        assert (await service.runs.list(**wanted)).runs == []
    assert [each.id for each in (await service.runs.list()).runs] == [run.id]
