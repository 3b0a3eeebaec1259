"""Secrets at the door: set, listed and deleted, and never told."""

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.service.world import World
from tokimori.service.secrets import Vault

EVERY = "/api/v2/secrets"
VALUE = "correct horse"


async def test_no_answer_tells_a_value(door: Asker, world: World) -> None:
    """Neither that of setting it, nor a list, nor the audit log, nor the job that names it."""
    made = await door.post(f"{EVERY}/DB", {"value": VALUE, "jobs": ["web-"]}, "PUT")
    assert (made.status, made.json["name"], made.json["jobs"]) == (200, "DB", ["web-"])
    await door.post("/api/v2/jobs", {"id": "web-a", "command": ["p"], "env": {"PW": "{{ secret.DB }}"}})
    told = [await door.get(path) for path in (EVERY, "/api/v2/audit", "/api/v2/jobs/web-a", "/api/v2/openapi.json")]
    assert [each.status for each in told] == [200] * 4
    assert told[0].json == [made.json]
    assert b"{{ secret.DB }}" in told[2].body
    for each in (made, *told[:3]):
        assert VALUE.encode() not in each.body
        assert b"sealed" not in each.body
    assert (await Vault(world.service.secrets).open("DB")).value == VALUE


async def test_no_error_tells_a_value(door: Asker) -> None:
    """Whatever is wrong with it, or with what stands beside it."""
    for name, body in (
        ("DB", {"value": VALUE[:5]}),
        ("DB", {"value": VALUE, "jobs": 7}),
        ("DB", {"value": VALUE, "jobs": ["a b"]}),
        ("DB", {"value": [VALUE]}),
        ("DB", {"valeu": VALUE}),
        ("d b", {"value": VALUE}),
        ("DB", {"value": f"{VALUE}\0"}),
    ):
        answer = await door.post(f"{EVERY}/{name.replace(' ', '%20')}", body, "PUT")
        assert answer.status == 422, answer.body
        assert VALUE[:5].encode() not in answer.body
    assert (await door.get(EVERY)).json == []


async def test_rotating_and_deleting(door: Asker) -> None:
    """How many were encrypted anew; what is not there is not found."""
    await door.post(f"{EVERY}/DB", {"value": VALUE}, "PUT")
    assert (await door.post(f"{EVERY}/rotate", {})).json == {"rotated": 1}
    assert (await door.ask("DELETE", f"{EVERY}/DB", headers=[("host", "localhost")])).json["deleted"]
    assert (await door.ask("DELETE", f"{EVERY}/DB", headers=[("host", "localhost")])).status == 404


@pytest.mark.parametrize("call", ["secrets.open", "secrets._value_of", "secrets._document_or_none", "vault.open"])
async def test_no_call_opens_a_secret(door: Asker, call: str) -> None:
    """What the node itself asks is no method of a door."""
    assert (await door.post(f"/api/v2/calls/{call}", {"args": ["DB"]})).status == 404
