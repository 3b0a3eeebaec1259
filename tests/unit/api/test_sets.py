"""`/api/v2/sets`, and the way back from `/api/v2/export`."""

from typing import Any

from tests.unit.api.asgi import Answer, Asker
from tokimori.translators.job_file import read_job_file

BODY: dict[str, Any] = {
    "jobs": [{"id": "nightly", "noop": True, "calendars": ["holidays"], "semaphores": ["printer:2"]}],
    "calendars": {"holidays": {"dates": ["12-25"]}},
    "queues": {"mail": {"paused": True, "reason": "moving"}},
    "semaphores": {"printer": {"limit": 2}},
}


async def put(door: Asker, body: object, name: str = "prod") -> Answer:
    return await door.post(f"/api/v2/sets/{name}", body, method="PUT")


async def test_a_set_is_applied(door: Asker) -> None:
    """The answer says what became of each kind; a dry run says the same."""
    dry = await put(door, {**BODY, "dry_run": True})
    assert (await door.get("/api/v2/jobs")).json == []
    answer = await put(door, BODY)
    assert (answer.status, answer.json) == (dry.status, dry.json)
    found = answer.json
    assert (answer.status, found["set"], found["added"]) == (200, "prod", ["nightly"])
    assert {kind: found[kind]["added"] for kind in ("calendars", "queues", "semaphores")} == {
        "calendars": ["holidays"],
        "queues": ["mail"],
        "semaphores": ["printer"],
    }
    assert (await put(door, BODY)).json["queues"]["unchanged"] == ["mail"]
    assert (await door.get("/api/v2/audit")).json[0]["after"] == {
        "added": ["nightly"],
        "calendars": {"added": ["holidays"]},
        "queues": {"added": ["mail"]},
        "semaphores": {"added": ["printer"]},
    }


async def test_what_is_exported_is_applied_without_a_change(door: Asker) -> None:
    """As JSON and as TOML, the whole and a set; later pages have jobs only, and so has what names them."""
    await put(door, BODY)
    await door.post("/api/v2/calendars", {"name": "other", "weekdays": ["sat"]})
    exported = (await door.get("/api/v2/export/json?set=prod")).json
    assert exported == {**BODY, "jobs": [{**BODY["jobs"][0], "time_zone": "Europe/Paris"}]}
    answer = (await put(door, exported)).json
    assert {kind for kind in ("added", "changed", "adopted", "removed") if answer[kind]} == set()
    text = (await door.get("/api/v2/export/toml?set=prod")).json["toml"]
    read = read_job_file(text, file="x.toml")
    assert (read.set, [each.path for each in read.resources]) == (
        "prod",
        ["calendars.holidays", "semaphores.printer", "queues.mail"],
    )
    assert list((await door.get("/api/v2/export/json")).json["calendars"]) == ["holidays", "other"]
    for query in ("id=nightly", "after=a"):
        assert list((await door.get(f"/api/v2/export/json?{query}")).json) == ["jobs"]


async def test_what_is_invalid_is_named_with_its_place(door: Asker) -> None:
    """A misspelt field, a wrong type and a wrong value, in each kind."""
    for said, field in (
        ({"calendars": {"c": {"datez": []}}}, "calendars.c.datez"),
        ({"calendars": {"c": 3}}, "calendars"),
        ({"queues": {"q": {"paused": 1}}}, "queues.q.paused"),
        ({"semaphores": {"s": {"limit": "2"}}}, "semaphores.s.limit"),
        ({"semaphore": {}}, "semaphore"),
    ):
        answer = await put(door, {"jobs": [], **said})
        assert (answer.status, answer.error["field"].split("[")[0]) == (422, field), answer.error
    answer = await put(door, {"jobs": [], "queues": {f"q{n}": {"paused": True} for n in range(1001)}})
    assert answer.status == 422


async def test_what_is_of_another_set_is_a_conflict(door: Asker) -> None:
    """Named, and with the way out."""
    await put(door, BODY)
    answer = await put(door, {"jobs": [], "semaphores": {"printer": {"limit": 3}}}, "staging")
    assert (answer.status, answer.error["value"]) == (409, "['semaphore printer']")
    assert "it is of the set prod" in answer.error["message"]
