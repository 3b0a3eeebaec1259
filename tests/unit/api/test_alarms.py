"""Alarms, expectations and reports over HTTP."""

from tests.unit.api.asgi import Asker
from tests.unit.service.world import World
from tokimori.model.expectation import looked_at


async def test_a_report_needs_no_body(world: World, door: Asker) -> None:
    """It is a good end then, and takes back the alarm; with a body it is what that says."""
    put = await door.post("/api/v2/expectations/backup", {"within": 60, "description": "the office"}, "PUT")
    assert (put.status, put.json["within"], put.json["last_good"]) == (200, 60, None)
    world.pass_seconds(61)
    alarm = looked_at(await world.service.expectations.get("backup"), world.clock.now())[1]
    assert alarm is not None
    await world.service.expectations._alarms.add("backup", alarm)
    (told,) = (await door.get("/api/v2/alarms")).json
    assert (told["kind"], told["name"], told["of_job"]) == ("overdue", "backup", False)
    answer = await door.post("/api/v2/pings/backup", {})
    assert (answer.status, answer.json["last_good"]) == (200, "2030-01-01T00:01:01Z")
    assert (await door.get("/api/v2/alarms")).json == []
    failed = await door.post("/api/v2/pings/backup", {"report": "fail", "log": "disk gone"})
    assert (failed.json["failed"], failed.json["log"]) == ("2030-01-01T00:01:01Z", "disk gone")


async def test_a_report_is_no_get(world: World, door: Asker) -> None:
    """What is read ahead or loaded by a picture reports nothing."""
    await world.service.expectations.set("backup", 60)
    assert (await door.get("/api/v2/pings/backup")).status == 405
    assert (await world.service.expectations.get("backup")).good is None


async def test_lists_have_pages(world: World, door: Asker) -> None:
    """Each names the next one."""
    for name in ("a", "b", "c"):
        await world.service.expectations.set(name, 60)
    first = await door.get("/api/v2/expectations?limit=2")
    assert [each["name"] for each in first.json] == ["a", "b"]
    assert first.headers["link"] == '</api/v2/expectations?limit=2&after=b>; rel="next"'
    rest = await door.get("/api/v2/expectations?limit=2&after=b")
    assert ([each["name"] for each in rest.json], "link" in rest.headers) == (["c"], False)


async def test_what_nobody_expects(door: Asker) -> None:
    """Is not there: the answer says which command expects it."""
    for answer in (await door.post("/api/v2/pings/nothing", {}), await door.get("/api/v2/expectations/nothing")):
        assert (answer.status, answer.json["error"]["field"]) == (404, "name")
        assert "tokimori expect nothing --within" in answer.json["error"]["message"]
