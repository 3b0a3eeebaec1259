"""Notifiers over HTTP: jobs under a name of their own."""

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.service.world import World

HOOK = {"name": "ops", "url": "https://example.org/hook"}


async def test_a_notifier_is_added_tried_and_deleted(world: World, door: Asker) -> None:
    """It is the job `notifier:NAME`, with the attempts that most receivers want."""
    added = await door.post("/api/v2/notifiers", {**HOOK, "notifier": {"bundle": 60}, "retry": {"delay": 1}})
    assert (added.status, added.headers["location"]) == (201, "/api/v2/notifiers/ops")
    assert (added.json["id"], added.json["method"], added.json["notifier"]) == ("notifier:ops", "POST", {"bundle": 60})
    assert (added.json["retry"]["attempts"], added.json["retry"]["delay"]) == (6, 1)
    await world.service.jobs.add("other", noop=True)
    assert [each["id"] for each in (await door.get("/api/v2/notifiers")).json] == ["notifier:ops"]
    assert (await door.get("/api/v2/notifiers/ops")).json == added.json
    asked = await door.post("/api/v2/notifiers/ops/test", {})
    assert (asked.status, asked.json["job_id"], '"count":1' in asked.json["payload"]) == (201, "notifier:ops", True)
    gone = await door.post("/api/v2/notifiers/ops", {}, "DELETE")
    assert gone.json == {"name": "ops", "deleted": True}
    for path, method in (("ops", "GET"), ("ops", "DELETE"), ("ops/test", "POST"), ("other", "GET")):
        assert (await door.post(f"/api/v2/notifiers/{path}", {}, method)).status == 404


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"retry": 5}, "retry"),
        ({"retry": "often"}, "retry"),
        ({"name": None}, "notifier"),
        ({"name": "a b"}, "notifier"),
        ({"name": 5}, "notifier"),
        ({"notifier": None}, "notifier"),
        ({"notifier": 5}, "notifier"),
        ({"method": 5}, "method"),
        ({"schedule": "@daily"}, "schedule"),
        ({"notify": {"failure": ["ops"]}}, "notify"),
    ],
)
async def test_what_is_wrong_is_named(door: Asker, fields: dict[str, object], field: str) -> None:
    """By its field."""
    answer = await door.post("/api/v2/notifiers", {**HOOK, **fields})
    assert (answer.status, answer.json["error"]["field"]) == (422, field)
