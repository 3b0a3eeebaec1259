"""What the doctor reads, of a store in which things go wrong."""

from collections.abc import Mapping

import pytest

from tests.unit.service.world import NODE, ON_DEMAND, World, every_minute
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import NodeId, PermitId
from tokimori.ports.nodes import Beat
from tokimori.ports.semaphores import UnitRequest
from tokimori.service.definitions.imports import Start
from tokimori.service.doctor.finding import Finding, Level
from tokimori.service.doctor.reader import LISTEN, DoctorReader
from tokimori.service.doctor.rules import findings
from tokimori.service.notifiers import id_of, notifier_fields
from tokimori.service.schema import prepare_schema


@pytest.fixture
def world() -> World:
    return World()


async def texts(world: World) -> Mapping[str, str]:
    """What the service's own doctor says, by check."""

    async def rest(_: float) -> None:
        await world.store.tick(Beat(node=NODE), world.clock.now())

    async def same() -> object:
        return world.store

    tokens, alarms = world.service.tokens.list, world.service.expectations.alarms
    reader = DoctorReader(world.store, same, tokens, alarms=alarms, clock=world.clock, apart=False, rest=rest)  # type: ignore[arg-type]
    return {each.check: each.text for each in findings(await reader.read())}


async def wrong(world: World, *, beats: bool = True, away: bool = False) -> Mapping[str, list[Finding]]:
    """What is wrong, by check, besides what memory can't promise. The node beats while it is listened to."""
    rests = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        if beats and seconds:
            await world.store.tick(Beat(node=NODE), world.clock.now())

    async def opened() -> World:
        raise StoreUnavailable("it is away")

    async def same() -> object:
        return world.store

    reader = DoctorReader(
        world.store,
        opened if away else same,  # type: ignore[arg-type]
        world.service.tokens.list,
        alarms=world.service.expectations.alarms,
        clock=world.clock,
        apart=away,
        rest=rest,
    )
    found = findings(await reader.read())
    alive = [node for node in await world.store.list_nodes() if node.runs_jobs]
    assert rests == [LISTEN if alive else 0]
    by_check: dict[str, list[Finding]] = {}
    for each in found:
        if each.level is not Level.OK and each.check != "promises":
            by_check.setdefault(each.check, []).append(each)
    return by_check


async def test_a_store_at_work(world: World) -> None:
    """With a node that beats, runs, a run that waits in a line and one that holds units, nothing is wrong."""
    await world.register()
    await world.add({"noop": True, "max_running": 1, "semaphores": ["s"]}, "j")
    for _ in range(3):
        await world.trigger("j")
    assert len(await world.begin(5)) == 1
    assert await wrong(world) == {}


async def test_a_node_that_is_frozen(world: World) -> None:
    """A node that does not beat while it is listened to is named."""
    await world.register()
    (found,) = (await wrong(world, beats=False))["nodes"]
    assert "node" in found.text


async def test_what_nobody_fired(world: World) -> None:
    """A job that is due for over a minute is named, and that no node runs; one that is just due is not."""
    await world.add(every_minute(), "j")
    world.pass_seconds(61)
    assert (await wrong(world)).keys() == {"nodes"}
    world.pass_seconds(61)
    found = await wrong(world)
    assert found.keys() == {"nodes", "fired"}
    assert found["fired"][0].text.endswith("not fired: j")


async def test_what_a_dead_node_left(world: World) -> None:
    """Its runs are named until another one has settled them, and so are the units that these hold."""
    await world.register("other")
    await world.register()
    await world.add({"noop": True, "semaphores": ["s"]}, "j")
    await world.trigger("j")
    await world.begin(1)
    record = next(each for each in await world.store.list_nodes() if each.id == NODE)
    assert await world.store.bury(NODE, record.beat, NodeId("other"), world.clock.now())
    assert "running" in await wrong(world, beats=False)


async def test_a_program_that_holds_units(world: World) -> None:
    """Units in the hands of a living program are in order."""
    await world.register()
    wish = UnitRequest(id=PermitId("p"), node=NODE, semaphore="s", rank=0)
    await world.store.acquire(wish, world.clock.now())
    assert await wrong(world) == {}


async def test_semaphores_that_are_away(world: World) -> None:
    """Where the store of the semaphores does not answer, that is said, and everything else is looked at."""
    await world.register()
    found = await wrong(world, away=True)
    assert [each.text for each in found["permits"]] == ["the store of the semaphores can't be read: it is away"]


async def test_tokens_that_expire(world: World) -> None:
    """A token that expires within a week is named, one that has expired too, and one that does not is not."""
    await world.register()
    await world.service.tokens.create("soon", "read", expires=3600)
    await world.service.tokens.create("late", "read", expires=30 * 86_400)
    await world.service.tokens.create("never", "read")
    (soon,) = (await wrong(world))["tokens"]
    assert soon.text == "the token soon expires at 2030-01-01T01:00:00Z"
    world.pass_seconds(3700)
    (over,) = (await wrong(world))["tokens"]
    assert "expired" in over.text
    assert over.mend == "`tokimori token revoke soon` removes it"


async def test_the_service_answers(world: World) -> None:
    """The service says the same, and how bad the worst of it is."""
    await prepare_schema(world.store)
    answer = await world.service.db.doctor()
    assert answer.level is Level.FAIL
    assert [each.check for each in answer.findings if each.level is Level.FAIL] == ["nodes"]


async def test_notifiers_that_jobs_name_and_that_are_gone(world: World) -> None:
    """Each is asked for where it is not among the first jobs; those that are there are not told of."""
    await world.register()
    for name in ("ops", "spare"):
        await world.service.jobs.add(id_of(name), **notifier_fields({"url": "https://example.org/hook"}))
    await world.service.jobs.add("j", noop=True, notify={"failure": ["ops", "spare"]})
    await world.service.jobs.delete(id_of("ops"), force=True)
    [found] = (await wrong(world))["notifiers"]
    assert found.text == "there is no notifier ops; these jobs name it, and notify nobody by it: j"


async def test_all_jobs_are_looked_at(world: World) -> None:
    """However many there are: what is wrong with the last ones is told, and else how many were looked at."""
    jobs = [(f"job-{number:04}", ON_DEMAND) for number in range(1999)]
    for batch in (jobs[:1000], jobs[1000:]):
        await world.service.jobs.import_all(batch)
    await world.register()
    assert await wrong(world) == {}
    told = await texts(world)
    for check in ("jobs", "lanes", "notifiers"):
        assert told[check].endswith(" (1,999 jobs looked at)")
    await world.service.jobs.import_all([("zz-last", ON_DEMAND)], starts={"zz-last": Start(parked_because="it failed")})
    assert [each.text for each in (await wrong(world))["jobs"]] == ["parked by a failure: zz-last"]
    await world.service.jobs.add(id_of("gone"), noop=True, notifier={})
    await world.service.jobs.add("zz-sick", function="nobody", notify={"failure": ["gone"]})
    await world.service.jobs.delete(id_of("gone"), force=True)
    found = await wrong(world)
    assert "zz-sick" in found["lanes"][0].text
    assert "zz-sick" in found["notifiers"][0].text
    await world.service.jobs.delete("zz-last")


async def test_jobs_that_take_too_long_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how far it got, and that there are more."""
    monkeypatch.setattr("tokimori.service.doctor.reader.LONGEST", -1.0)
    await world.service.jobs.import_all([(f"job-{number:04}", ON_DEMAND) for number in range(1000)])
    assert (await texts(world))["jobs"] == "no job is parked (1,000 jobs looked at)"
    await world.service.jobs.add("zz", noop=True)
    assert (await texts(world))["jobs"] == "no job is parked (1,000 jobs looked at, and there are more)"
