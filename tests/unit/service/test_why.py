"""Why a run or a job does not start: each cause is made here for real, and read from the answer."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_job, a_run
from tests.unit.service.test_service_unreadable import ROCKET
from tests.unit.service.world import NODE, ON_DEMAND, World, every_minute
from tokimori.clock import HOUR, MINUTE, Moment
from tokimori.engine.settle import change_of
from tokimori.errors import Refused
from tokimori.model.encoding import stored_definition
from tokimori.model.expectation import looked_at
from tokimori.model.ids import Incarnation, NodeId, PermitId, RunId
from tokimori.model.job import JobState
from tokimori.model.lanes import DRAINING_LABEL, HANDLERS_LABEL, ONLY_LABEL, SHORT_LABEL, SILENT_LABEL, UNABLE_LABEL
from tokimori.model.outcome import Failed, Hold, Succeeded, spawns_of
from tokimori.model.policies import Approval, Approver
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import UnitRequest
from tokimori.ports.working import Claimed
from tokimori.schedules.zones import clock_text
from tokimori.service.reasons import Cause, Reason, reason_text
from tokimori.service.schema import StoreOnDemand
from tokimori.service.service import service_on
from tokimori.service.why.reading import WhyReading
from tokimori.service.why.run import NAMED, why_run
from tokimori.stores.redis.address import address_of
from tokimori.stores.redis.store import RedisStore
from tokimori.testing.manual import ManualNode

ROOT = Path(__file__).parents[3]


async def of_run(world: World, run_id: str) -> Mapping[Cause, Reason]:
    """The reasons by cause."""
    return {reason.cause: reason for reason in (await world.service.runs.why(run_id)).reasons}


async def of_job(world: World, job_id: str = "j") -> Mapping[Cause, Reason]:
    """The reasons by cause."""
    return {reason.cause: reason for reason in (await world.service.jobs.why(job_id)).reasons}


async def one_waits(world: World, **terms: object) -> str:
    """A job `j` with a living node, and a run of it that was asked for."""
    await world.register()
    await world.add({"noop": True, **terms}, "j")
    return (await world.trigger("j")).id


async def test_nothing_holds_what_is_about_to_start_or_has(world: World) -> None:
    """What is ready is said to start soon, by which node; of a run that runs or succeeded there is nothing to say."""
    run = await one_waits(world)
    (reason,) = (await of_run(world, run)).values()
    assert (
        reason.cause is Cause.NEXT
        and "the node node on h could run it" in reason.text
        and "node.max_load" in str(reason.mend)
    )
    await world.begin(1)
    assert await of_run(world, run) == {}
    assert Cause.ON_DEMAND in await of_job(world)


@pytest.mark.parametrize(("cause", "verb"), [(Cause.PARKED, "resolve"), (Cause.PAUSED, "resume")])
async def test_a_stopped_job(world: World, cause: Cause, verb: str) -> None:
    """By whom it is paused, or with which error it is parked, and the command; a forced run may start."""
    first = await one_waits(world, on_exhausted="park", max_running=1)
    second = (await world.trigger("j")).id
    if cause is Cause.PARKED:
        await world.work(Failed(error="it broke"))
    else:
        await world.service.jobs.pause("j", "it broke")
    forced = await world.service.jobs.trigger("j", "key", force=True)
    by = " by ada" if cause is Cause.PAUSED else ""
    words = f"job j is {cause}{by} (it broke): `tokimori job {verb} j` enables it"
    assert reason_text((await of_run(world, first))[cause]) == reason_text((await of_job(world))[cause]) == words
    assert reason_text((await of_run(world, second))[cause]) == words
    assert cause not in await of_run(world, forced.id)
    await world.service.jobs.resume("j")
    assert cause not in {**await of_run(world, second), **await of_job(world)}


@pytest.mark.parametrize(("queue", "name"), [("default", "default"), (None, "--all")])
async def test_a_paused_queue(world: World, queue: str | None, name: str) -> None:
    """Of the run's queue, or of everything: since when, by whom and why, and the command."""
    run = await one_waits(world)
    await world.service.queues.pause(queue, "repairs")
    what = "everything" if queue is None else "queue default"
    words = f"{what} is paused since 2030-01-01T00:00:01Z by ada: repairs: `tokimori queue resume {name}` ends that"
    assert reason_text((await of_run(world, run))[Cause.QUEUE_PAUSED]) == words
    assert Cause.QUEUE_PAUSED in await of_job(world)
    await world.service.queues.resume(queue)
    assert Cause.QUEUE_PAUSED not in await of_run(world, run)


async def test_a_held_run(world: World) -> None:
    """By a person or by its own code, with the reason."""
    run = await one_waits(world)
    await world.service.runs.hold(run, "wait for Ann")
    (reason,) = (await of_run(world, run)).values()
    assert reason_text(reason) == (
        f"a person has to say how it goes on: wait for Ann: `tokimori run resume {run}` lets it go on"
    )
    await world.service.runs.resume(run)
    await world.work(Hold("look at it"))
    assert (await of_run(world, run))[Cause.HELD].text.endswith("look at it")


async def test_a_run_that_waits_for_those_it_has_spawned(world: World) -> None:
    """How many of them have not ended, which, and the command that ends all."""
    run = await one_waits(world)
    await world.work(spawns_of([("j", None), ("j", None)]))
    reason = (await of_run(world, run))[Cause.SPAWNED]
    first, second = (each.run_id for each in reason.holders)
    assert reason_text(reason) == (
        f"it waits for 2 of the 2 runs that it has spawned, among them run {first} of job j and run {second} of job j: "
        f"`tokimori run cancel {run} --family` ends it and them"
    )


async def test_a_run_that_waits_for_an_approval(world: World) -> None:
    """Who may answer and by when, in the zone of the job, with both commands."""
    run = await one_waits(world)
    await world.work(Hold("asks", Approval(approver=Approver.ADMIN, asked=NEW_YEAR, until=NEW_YEAR)), started=False)
    assert reason_text((await of_run(world, run))[Cause.APPROVAL]) == (
        "it waits for an approval: the role admin may answer, until 2030-01-01 01:00:00+01:00: "
        f"`tokimori run approve {run}` lets it begin, `tokimori run refuse {run}` ends it"
    )


async def test_no_node(world: World) -> None:
    """Where none runs, programs beside."""
    await world.add({"noop": True}, "j")
    run = await world.trigger("j")
    reason = (await of_run(world, run.id))[Cause.NO_NODE]
    assert reason_text(reason) == "it waits for a node, and none runs: `tokimori serve` starts one"
    assert (await of_job(world))[Cause.NO_NODE] == reason
    await world.register()
    assert Cause.NO_NODE not in await of_run(world, run.id)


async def test_no_node_that_may_run_it(world: World) -> None:
    """What the nodes of now lack is said: the labels of the one that lacks least, or that all have functions alone."""
    await world.add({"noop": True}, "free")
    await world.add({"noop": True, "labels": {"gpu": "yes", "zone": "a"}}, "bound")
    free, bound = [(await world.trigger(name)).id for name in ("free", "bound")]

    async def lacks(run_id: str) -> str | None:
        reason = (await of_run(world, run_id)).get(Cause.NO_SUCH_NODE)
        return None if reason is None else reason.text

    await world.register("functions", {HANDLERS_LABEL: "f", ONLY_LABEL: "yes"})
    assert "a node that runs more than" in str(await lacks(free))
    await world.register("bare")
    assert await lacks(free) is None
    assert "a node with the labels gpu=yes, zone=a, and none" in str(await lacks(bound))
    await world.register("zoned", {"zone": "a"})
    assert "a node with the label gpu=yes, and none" in str(await lacks(bound))
    await world.register("right", {"zone": "a", "gpu": "yes"})
    assert await lacks(bound) is None


async def test_no_node_with_its_function(world: World) -> None:
    """Until a node that runs now has a handler of it; the run is not lost."""
    await world.add({"function": "reports.nightly"}, "f")
    run = await world.trigger("f")
    await world.register()
    waits = (
        "it waits for a node with a handler of the function 'reports.nightly', and none that runs now has one: "
        "`tokimori serve --app MODULE:NAME` runs the app that has it"
    )
    for node, handlers in (("one", "reports.nightl"), ("two", r"mails /reports\..*/")):
        assert reason_text((await of_run(world, run.id))[Cause.NO_SUCH_NODE]) == waits
        await world.register(node, {HANDLERS_LABEL: handlers})
    assert [*await of_run(world, run.id)] == [Cause.NEXT]


async def test_no_node_that_can_start_its_function(world: World) -> None:
    """Why the one that has its handler can't, until it can or another one runs."""
    await world.add({"function": "f"}, "f")
    run = await world.trigger("f")
    await world.register("one", {HANDLERS_LABEL: "f", UNABLE_LABEL: "app: no module named shop"})
    assert reason_text((await of_run(world, run.id))[Cause.NO_SUCH_NODE]) == (
        "it waits for the node one on h, which has a handler of the function 'f' and can start none now (app: no module"
        " named shop): mend its app; the node tries again by itself, and at once after `kill -HUP 1` there"
    )
    await world.register("two", {HANDLERS_LABEL: "f"})
    assert [*await of_run(world, run.id)] == [Cause.NEXT]


async def test_a_node_whose_machine_is_short_of_something(world: World) -> None:
    """Of what, unless another one could run it."""
    await world.add({"noop": True}, "f")
    run = await world.trigger("f")
    await world.register("one", {SHORT_LABEL: "no more processes"})
    assert reason_text((await of_run(world, run.id))[Cause.NO_SUCH_NODE]).startswith(
        "it waits for the node one on h, which claims nothing: no more processes: the node tries again by itself"
    )
    await world.register("two")
    assert [*await of_run(world, run.id)] == [Cause.NEXT]


async def test_all_nodes_full(world: World) -> None:
    """Of those that could run it each has as many runs as it has places: how many, and what makes more."""
    await world.add({"noop": True}, "other")
    await world.trigger("other")
    await world.begin(1)
    run = await one_waits_beside(world)
    reason = (await of_run(world, run))[Cause.NODES_FULL]
    assert reason.text == "it is ready, and the node that could run it is full: 1 of 1 places are taken"
    assert "node.concurrency" in str(reason.mend)
    await world.register("free")
    assert [*await of_run(world, run)] == [Cause.NEXT]


async def test_more_run_than_are_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody knows whether the nodes are full, and it is not said that they are."""
    monkeypatch.setattr("tokimori.service.why.reader.MOST_READ", 1)
    await world.add({"noop": True}, "other")
    await world.trigger("other")
    await world.begin(1)
    await world.register("free")
    reason = (await of_run(world, await one_waits_beside(world)))[Cause.NODES_FULL]
    assert reason.text == "it is ready, and the nodes may be full: 1 runs or more go on"


async def one_waits_beside(world: World, **terms: object) -> str:
    """As `one_waits`, where the node is there already."""
    await world.add({"noop": True, **terms}, "j")
    return (await world.trigger("j")).id


@pytest.mark.parametrize(
    ("terms", "cause", "option"),
    [
        ({"max_running": 5}, Cause.PLACE, "--max-running 6"),
        ({"concurrency_key": "k", "max_running_per_key": 5}, Cause.KEY, "--max-running-per-key 6"),
    ],
)
async def test_a_place_of_a_job_or_a_key(world: World, terms: dict[str, Any], cause: Cause, option: str) -> None:
    """A few of the runs that have it are named, by their node, and the others counted."""
    await one_waits(world, **terms)
    runs = [await world.trigger("j") for _ in range(5)]
    assert len(await world.begin(5)) == 5
    assert await world.begin(1) == []
    reason = (await of_run(world, runs[-1].id))[cause]
    assert (len(reason.holders), reason.others) == (NAMED, 5 - NAMED)
    assert (reason.holders[0].run_id, reason.holders[0].host) == (runs[3].id, "h")
    assert f"held by run {runs[3].id}, run {runs[2].id}, run {runs[1].id} and 2 others" in reason_text(reason)
    assert reason.mend == f"`tokimori job update j {option}` lets one more run"
    assert (await of_job(world))[cause] == reason


async def test_a_place_that_is_kept_for_another(world: World) -> None:
    """Where none of its job runs, the one before it in line is named: it was made ready, and is not claimed yet."""
    await one_waits(world, max_running=1)
    second, third = [(await world.trigger("j")).id for _ in range(2)]
    (claimed,) = await world.begin(1)
    assert await world.begin(1) == []
    await end(world, claimed)
    reason = (await of_run(world, third))[Cause.PLACE]
    assert reason_text(reason).endswith(f"(max_running 1), held by run {second}, which is next in line")
    assert reason.mend is None
    assert Cause.NEXT in await of_run(world, second)


async def end(world: World, claimed: Claimed) -> None:
    """The run succeeds."""
    now = world.clock.now()
    change = change_of(claimed, Succeeded(0), owner=NODE, now=now, chance=0, started=now, pid=7)
    await world.store.settle([change], NODE, now)


async def test_units_of_a_semaphore(world: World) -> None:
    """Runs of other jobs and programs that hold them are named, and the limit that would let it in."""
    await world.register()
    await world.service.semaphores.set("db", 2)
    await world.store.acquire(UnitRequest(id=PermitId("p"), node=NodeId(NODE), semaphore="db", rank=NEW_YEAR), NEW_YEAR)
    await world.add({"noop": True, "semaphores": ["db"]}, "other")
    holder = await world.trigger("other")
    await world.begin(1)
    run = await one_waits_beside(world, semaphores=["db:2"])
    await world.begin(1)
    reason = (await of_run(world, run))[Cause.SEMAPHORE]
    assert reason_text(reason) == (
        "it waits for units of the semaphore db (2 of 2 are held, and it wants 2), held by pid 1 on h and "
        f"run {holder.id} of job other: `tokimori lock set db --limit 4` lets it in"
    )


async def test_a_rate_tells_what_is_taken_and_when_its_line_goes_on(world: World) -> None:
    """Of a semaphore, and of the job itself; with what sets a larger one."""
    await world.register()
    await world.service.semaphores.set("api", rate="1/1h")
    await one_waits_beside(world, semaphores=["api"], max_running=0)
    run = await world.trigger("j")
    await world.begin(1)
    assert await world.begin(1) == []
    reason = (await of_run(world, run.id))[Cause.RATE]
    zone = (await world.service.jobs.get("j")).definition.time_zone
    on = clock_text(Moment(world.clock.now() + HOUR), zone)
    assert reason_text(reason) == (
        f"it waits for units of the semaphore api: of its rate 1/h 1 is taken; its line goes on at {on}: "
        "`tokimori lock set api --rate N/T` sets a larger one"
    )
    await world.add({"noop": True, "rate_limit": "1/1h"}, "paced")
    _first, second = [await world.trigger("paced") for _ in range(2)]
    await world.begin(1)
    assert await world.begin(1) == []
    reason = (await of_run(world, second.id))[Cause.RATE]
    assert "it waits for the rate of its job: of its rate 1/h 1 is taken" in reason_text(reason)
    assert reason.mend == "`tokimori job update paced --rate-limit N/T` sets a larger one"


async def test_more_units_than_there_are(world: World) -> None:
    """The limit was lowered since: the run and its job say how far it has to be raised."""
    await world.service.semaphores.set("db", 2)
    run = await one_waits(world, semaphores=["db:2"])
    assert Cause.TOO_HEAVY not in await of_job(world)
    await world.service.semaphores.set("db", 1)
    await world.begin(1)
    words = "2 units of the semaphore db never fit its limit of 1: `tokimori lock set db --limit 2` raises it"
    assert reason_text((await of_run(world, run))[Cause.TOO_HEAVY]) == words
    assert reason_text((await of_job(world))[Cause.TOO_HEAVY]) == words


async def test_who_stands_first_is_served_first(world: World) -> None:
    """Units are free, and too few for the one before it: it says that others stand before it."""
    await world.service.semaphores.set("db", 2)
    await one_waits(world, semaphores=["db"])
    await world.begin(1)
    for job_id, semaphore in (("heavy", "db:2"), ("light", "db")):
        await world.add({"noop": True, "semaphores": [semaphore]}, job_id)
    _heavy, light = [await world.trigger(job_id) for job_id in ("heavy", "light")]
    assert await world.begin(1) == []
    reason = (await of_run(world, light.id))[Cause.SEMAPHORE]
    assert "and others stand before it in its line, held by run" in reason_text(reason) and reason.mend is None


async def test_the_store_of_the_semaphores_is_away(world: World) -> None:
    """Nobody listens there: the semaphore, what the store says, and which setting names it."""
    away = StoreOnDemand(RedisStore(address_of("redis://127.0.0.1:1/0"), world.clock))
    service = service_on(world.store, world.clock, os.urandom, semaphore_store=away)
    await world.register("node", {"tokimori:semaphores": "yes"})
    await service.jobs.add("j", noop=True, semaphores=["db"])
    world.pass_seconds(1)
    run = await service.jobs.trigger("j")
    (reason,) = (await service.runs.why(run.id)).reasons
    assert reason.cause is Cause.SEMAPHORES_AWAY
    assert reason.text.startswith("the store of the semaphore db does not answer: ")
    (unknown, *_) = (await world.service.runs.why(run.id)).reasons
    assert (unknown.cause, "which this program does not know" in unknown.text) == (Cause.SEMAPHORES_AWAY, True)


async def test_units_in_another_store(world: World) -> None:
    """A ready run whose units somebody holds there; where no node knows that store this is said."""
    elsewhere = World()
    service = service_on(world.store, world.clock, os.urandom, semaphore_store=StoreOnDemand(elsewhere.store))
    await service.jobs.add("j", noop=True, semaphores=["db"])
    await world.register("bare")
    run = await service.jobs.trigger("j")
    (lacks,) = (await service.runs.why(run.id)).reasons
    assert (lacks.cause, "knows the store of its semaphores" in lacks.text) == (Cause.NO_SUCH_NODE, True)
    await world.register("node", {"tokimori:semaphores": "yes"})
    await elsewhere.register("session")
    wish = UnitRequest(id=PermitId("p"), node=NodeId("session"), semaphore="db", rank=NEW_YEAR)
    await elsewhere.store.acquire(wish, NEW_YEAR)
    (reason,) = (await service.runs.why(run.id)).reasons
    assert "units of the semaphore db in another store (1 of 1 is held), held by pid 1 on h" in reason_text(reason)


async def test_what_is_not_due(world: World) -> None:
    """Until when, in the job's zone; of a retry, which attempt; what holds it then, too, is said already."""
    await world.register()
    await world.add({"noop": True, "retry": {"attempts": 2, "delay": 60}}, "j")
    later = await world.service.jobs.trigger("j", at="2030-01-01T01:00:00Z")
    assert (await of_run(world, later.id))[Cause.NOT_DUE].text == "it is not due until 2030-01-01 02:00:00+01:00"
    run = await world.trigger("j")
    await world.work(Failed(error="no luck"))
    text = (await of_run(world, run.id))[Cause.NOT_DUE].text
    assert text == "it is not due until 2030-01-01 01:01:01+01:00, when its attempt 2 begins"
    await world.service.jobs.pause("j")
    assert [*await of_run(world, run.id)] == [Cause.NOT_DUE, Cause.PAUSED]


async def test_what_its_schedule_says(world: World) -> None:
    """When it is due next; a window that opens, or has closed; no further moment, no more runs; parents."""
    await world.register()
    daily = {"noop": True, "schedule": "0 12 * * *"}
    jobs: dict[str, dict[str, Any]] = {
        "plain": {},
        "opens": {"starts_at": "2030-02-01T00:00:00"},
        "counted": {"runs_remaining": 1},
        "closes": {"ends_at": "2030-01-01T13:00:00"},
        "once": {"schedule": "at 2030-01-01T12:00:00Z"},
    }
    for job_id, terms in jobs.items():
        await world.add({**daily, **terms}, job_id)
    await world.add({"noop": True, "parents": [{"job": "plain"}]}, "child")
    plain = (await of_job(world, "plain"))[Cause.NOT_DUE]
    assert plain.text == "its next run is due at 2030-01-01 12:00:00+01:00"
    assert plain.mend == "`tokimori job trigger plain` runs it now"
    opens = await of_job(world, "opens")
    assert opens[Cause.WINDOW].text == "its window opens at 2030-02-01 00:00:00+01:00 (starts_at)"
    assert (await of_job(world, "child"))[Cause.PARENTS].text == "it runs after plain"
    world.pass_seconds(86_400)
    await world.fire()
    closed = (await of_job(world, "closes"))[Cause.WINDOW]
    assert closed.text == "its window closed at 2030-01-01 13:00:00+01:00 (ends_at)"
    assert closed.mend == "`tokimori job update closes --ends-at TIME` moves that"
    assert "runs_remaining is 0" in (await of_job(world, "counted"))[Cause.FINISHED].text
    assert "names no further moment" in (await of_job(world, "once"))[Cause.FINISHED].text


async def test_a_day_off(world: World) -> None:
    """What would have been today, or would be next, and in which calendar; where nothing falls out nothing is said."""
    await world.register()
    await world.service.calendars.add("feasts", dates=["2030-01-02"])
    await world.add({"noop": True, "schedule": "0 12 * * *", "calendars": ["feasts"]}, "j")
    assert Cause.DAY_OFF not in await of_job(world)
    for seconds, is_said in ((13 * 3600, True), (86_400, True), (86_400, False)):
        world.pass_seconds(seconds)
        await world.fire()
        reason = (await of_job(world)).get(Cause.DAY_OFF)
        assert (reason is not None) is is_said
        if reason is not None:
            assert reason.text == "2030-01-02 12:00:00+01:00 falls on a day off in feasts"
            assert reason.mend == "`tokimori calendar show feasts` shows its days off"


async def test_an_occurrence_that_became_no_run(world: World) -> None:
    """Which it was, why, by which run, and what keeps the next one."""
    await world.register()
    await world.add({"noop": True, "schedule": "* * * * *"}, "j")
    world.pass_seconds(60)
    await world.fire()
    (claimed,) = await world.begin(1)
    world.pass_seconds(60)
    await world.fire()
    assert reason_text((await of_job(world))[Cause.SKIPPED]) == (
        "its newest occurrence, 2030-01-01 01:02:00+01:00, became no run, because as many of its runs were active as "
        f"max_running allows, held by run {claimed.run.id}: `tokimori job update j --on-overlap queue` keeps such "
        "ones; `tokimori job skips j` lists them"
    )


@pytest.mark.parametrize(("epsilon", "cause"), [(30, Cause.EPSILON), (90, None)])
async def test_epsilon(world: World, epsilon: float, cause: Cause | None) -> None:
    """A failed run whose next try would come too late is not tried again, and says so."""
    await world.register()
    await world.add({"noop": True, "retry": {"attempts": 3, "delay": 60, "epsilon": epsilon}}, "j")
    run = await world.trigger("j")
    await world.work(Failed(error="no luck"))
    found = await of_run(world, run.id)
    assert (Cause.EPSILON if Cause.EPSILON in found else None) is cause
    if cause is not None:
        assert found[cause].text == (
            "it failed: no luck; its next try would begin over 30 s after its nominal time (epsilon)"
        )
        assert "`tokimori job update j --retry-epsilon SECONDS`" in str(found[cause].mend)


async def test_what_has_ended(world: World) -> None:
    """A run that was cancelled, or failed with its last attempt, says how, and what asks for another one."""
    run = await one_waits(world, on_exhausted="park")
    await world.service.runs.cancel(run, "not needed")
    (reason,) = (await of_run(world, run)).values()
    assert reason_text(reason) == f"it was cancelled: not needed: `tokimori run retry {run}` runs it again"
    failed = await world.trigger("j")
    await world.work(Failed(error="no luck"))
    assert [each.text for each in (await world.service.runs.why(failed.id)).reasons] == [
        "it failed: no luck, and is not tried again",
        "job j is parked (no luck)",
    ]
    await world.service.jobs.resolve("j")
    await world.trigger("j")
    await world.begin(1)
    await world.service.jobs.delete("j")
    assert "its job was deleted" in (await of_run(world, failed.id))[Cause.ENDED].text
    (gone,) = (await of_job(world)).values()
    assert gone.cause is Cause.DELETED


async def test_a_job_that_is_ahead_of_the_time(world: World) -> None:
    """It says so, the doctor names it, and a person may put it back; not one that is as it should be."""
    await world.add(every_minute(max_running=0), "j")
    now = world.clock.now()
    world.pass_seconds(24 * 3600)
    await world.fire()
    assert Cause.AHEAD not in await of_job(world)
    with pytest.raises(Refused, match="is not ahead of the time"):
        await world.service.jobs.rewind("j")
    world.clock.moment = now
    assert "`tokimori job rewind j`" in str((await of_job(world))[Cause.AHEAD].mend)
    (named,) = [each for each in (await world.service.db.doctor()).findings if each.check == "ahead"]
    assert named.text.endswith(": j")
    assert (await world.service.jobs.rewind("j")).next_due == Moment(now + MINUTE)
    assert Cause.AHEAD not in await of_job(world)


def test_a_run_of_a_deleted_job() -> None:
    """One that a node has still to cancel says so; so does one whose job's id is that of another job now."""
    run, job = a_run(state=RunState.READY), a_job(ON_DEMAND)
    gone = replace(job, incarnation=a_run().incarnation, state=JobState.DELETED)
    for found in (None, gone, replace(job, incarnation=Incarnation(run.incarnation + 1))):
        (reason,) = why_run(WhyReading(now=NEW_YEAR, job=found, run=run), run).reasons
        assert (reason.cause, reason.mend) == (Cause.DELETED, f"`tokimori run cancel {run.id}` does it now")


async def test_a_definition_that_nobody_here_can_read(world: World) -> None:
    """A newer version has written it: what is unknown, and what mends that."""
    run = await one_waits(world)
    job = replace(await world.service.jobs.get("j"), definition=stored_definition(ROCKET))
    world.store.tables.jobs[job.id] = job
    for found in (await of_job(world), await of_run(world, run)):
        assert "rocket" in found[Cause.UNREADABLE].text and "install the version" in str(found[Cause.UNREADABLE].mend)


async def test_a_clock_that_its_node_does_not_trust() -> None:
    """While the store's clock disagrees with the node's nothing is decided, and who asks at that node is told."""
    node = ManualNode()
    await node.join()
    service = service_on(node.store, node.clock, os.urandom, trusts_time=lambda: node.node.trusts_its_time)
    await service.jobs.add("j", noop=True, schedule="* * * * *")
    node.clock.advance(20)
    node.clock.jump(120)
    await node.node.cycle()
    (reason,) = (await service.jobs.why("j")).reasons
    assert reason.cause is Cause.CLOCK and "nothing is decided until they agree" in reason.text
    await node.pass_time(10)
    assert Cause.CLOCK not in {each.cause for each in (await service.jobs.why("j")).reasons}


async def test_what_is_due_and_was_not_decided(world: World) -> None:
    """A node is there, and has still to decide it: since when, and where to look if that takes long."""
    await world.register()
    await world.add({"noop": True, "schedule": "* * * * *"}, "j")
    world.pass_seconds(100)
    reason = (await of_job(world))[Cause.NEXT]
    assert reason.text.startswith("it has been due since 2030-01-01 01:01:00+01:00, and the node node on h")
    assert "`tokimori node list`" in str(reason.mend)
    late = await world.service.jobs.trigger("j", at="2030-01-01T00:02:00Z")
    world.pass_seconds(100)
    assert [*await of_run(world, late.id)] == [Cause.NEXT]


async def test_an_overdue_job(world: World) -> None:
    """Since when something was expected, and when a run of it has ended well last; beside it what holds it."""
    await world.add({"noop": True, "expect_within": 60}, "j")
    known = await world.service.expectations.ping("j")
    world.pass_seconds(61)
    assert Cause.OVERDUE not in await of_job(world)
    alarm = looked_at(known, world.clock.now())[1]
    assert alarm is not None
    await world.service.expectations._alarms.add("j", alarm)
    found = await of_job(world)
    assert found[Cause.OVERDUE].text == (
        "it is overdue: a good end was expected by 2030-01-01 01:01:00+01:00, and the last good end was at "
        "2030-01-01 01:00:00+01:00"
    )
    assert [*found] == [Cause.OVERDUE, Cause.NO_NODE, Cause.ON_DEMAND]


async def test_a_run_whose_process_is_drained(world: World) -> None:
    """Because of which run, and until when; others of the node, and of other processes, are not told of it."""
    run = await one_waits(world)
    await world.begin(1)
    until = "2030-01-01T00:00:30Z"
    labels = {DRAINING_LABEL: f"41 other {until}; 42 stuck {until}"}
    now = await world.store.get_run(RunId(run))
    nodes = [replace(node, labels=labels) for node in await world.store.list_nodes()]
    job = await world.service.jobs.get("j")
    for pid, found in ((42, f"draining for run stuck, until {until}: "), (7, None)):
        reading = WhyReading(now=NEW_YEAR, job=job, run=now, nodes=nodes)
        reasons = {each.cause: each for each in why_run(reading, replace(now, pid=pid)).reasons}
        assert (Cause.DRAINING in reasons) is (found is not None)
        assert found is None or reasons[Cause.DRAINING].text.startswith(found)


@pytest.mark.parametrize(
    ("who", "text", "mend"),
    [
        ("stuck", "run stuck blocks it", "`tokimori run cancel stuck`"),
        ("a,b", "one of these runs blocks it: a, b", "`tokimori run cancel a`"),
        ("stopped", "the process is stopped", "`kill -CONT 42` on h"),
        ("-", "something that is no run blocks it", "the log of the node"),
    ],
)
async def test_a_run_whose_process_does_not_answer(world: World, who: str, text: str, mend: str) -> None:
    """Which run is why, and what mends it."""
    run = await one_waits(world)
    await world.begin(1)
    labels = {SILENT_LABEL: f"41 other 2030-01-01T00:00:00Z; 42 {who} 2030-01-01T00:00:30Z"}
    now = await world.store.get_run(RunId(run))
    nodes = [replace(node, labels=labels) for node in await world.store.list_nodes()]
    reading = WhyReading(now=NEW_YEAR, job=await world.service.jobs.get("j"), run=now, nodes=nodes)
    (reason,) = [each for each in why_run(reading, replace(now, pid=42)).reasons if each.cause is Cause.SILENT]
    assert reason.text == f"its worker process (pid 42) has not answered since 2030-01-01T00:00:30Z: {text}"
    assert (reason.mend or "").startswith(mend)
    assert not why_run(reading, replace(now, pid=7)).reasons


def test_every_cause_is_made_here_and_told_of() -> None:
    """A new one needs a test that makes it, and a line in docs/how-to/why.md."""
    source, page = Path(__file__).read_text(), (ROOT / "docs/how-to/why.md").read_text()
    assert [cause for cause in Cause if f"Cause.{cause.name}" not in source] == []
    assert [cause for cause in Cause if f"| {cause} |" not in page] == []


async def test_a_run_that_is_tried_again_says_who_holds_its_key(world: World) -> None:
    """Begun, failed and tried again beside the run that was asked for since; of runs of other keys nothing is said."""
    await world.add({"noop": True, "retry": {"attempts": 2, "delay": 60}}, "j")
    first = await world.service.jobs.trigger("j", key="k", unique="until_start")
    await world.work(Failed("again"))
    assert Cause.BESIDE not in await of_run(world, first.id)
    world.pass_seconds(1)
    await world.service.jobs.trigger("j", key="other", unique="until_start")
    second = await world.service.jobs.trigger("j", key="k", unique="until_start")
    assert second.id != first.id
    reason = (await of_run(world, first.id))[Cause.BESIDE]
    assert second.id in reason.text and [each.run_id for each in reason.holders] == [second.id]
    assert Cause.BESIDE not in await of_run(world, second.id)
