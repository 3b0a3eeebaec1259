"""Jobs are defined anew, edited only as somebody knows them, and added once."""

from typing import Any

import pytest

from tests.unit.api.asgi import JSON, Answer, Asker
from tests.unit.service.world import World
from tokimori.model.job import Job

JOB = "/api/v2/jobs/a"


async def send(door: Asker, method: str, path: str, body: bytes, **headers: str) -> Answer:
    """One with headers."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return await door.ask(method, path, headers=[("host", "localhost"), *JSON.items(), *named], chunks=[body])


@pytest.fixture
async def job(world: World) -> Job:
    fields: dict[str, Any] = {"noop": True, "owner": "ann", "retry": {"attempts": 3, "delay": 5}, "labels": {"a": "b"}}
    return await world.add(fields, "a")


async def test_a_job_is_defined_anew(world: World, door: Asker, job: Job) -> None:
    """Fields that are not said get their defaults, those below fields too; the runs of the job stay."""
    run = await world.trigger("a")
    put = await door.post(JOB, {"command": "x", "retry": {"attempts": 2}, "time_zone": "UTC"}, "PUT")
    assert (put.status, put.json["command"], put.json["owner"], put.json["labels"]) == (200, "x", None, {})
    assert (put.json["retry"]["attempts"], put.json["retry"]["delay"]) == (2, 0)
    assert (await world.service.runs.get(run.id)).is_job_deleted is False
    again = await door.post(JOB, {"command": "x", "retry": {"attempts": 2}, "time_zone": "UTC"}, "PUT")
    assert again.json["version"] == put.json["version"]


async def test_a_job_that_is_missing_is_added(door: Asker) -> None:
    """So the same request may be sent at any time."""
    put = await door.post(JOB, {"noop": True}, "PUT")
    assert (put.status, put.headers["location"]) == (201, JOB)
    assert (await door.post(JOB, {"noop": True, "id": "a"}, "PUT")).error["field"] == "id"
    assert (await send(door, "PUT", "/api/v2/jobs/b", b'{"noop": true}', if_match=put.headers["etag"])).status == 404


@pytest.mark.parametrize(
    ("method", "body"), [("PATCH", b'{"owner": "eve"}'), ("PUT", b'{"noop": true}'), ("DELETE", b"")]
)
async def test_what_has_been_edited_since_stays(world: World, door: Asker, job: Job, method: str, body: bytes) -> None:
    """Whoever names the tag of a job that somebody has edited since changes nothing; with the new one it goes on."""
    old = (await door.get(JOB)).headers["etag"]
    await world.update("a", {"owner": "bob"})
    refused = await send(door, method, JOB, body, if_match=old)
    assert (refused.status, refused.error["code"]) == (412, "outdated")
    assert (await world.service.jobs.get("a")).definition.owner == "bob"
    new = (await door.get(JOB)).headers["etag"]
    assert (await send(door, method, JOB, body, if_match=f'"x", {new}')).status == 200


async def test_the_tag_of_an_edit_is_that_of_the_next(door: Asker, job: Job) -> None:
    """An edit answers with the tag by which the next one may be sent; any tag will do where somebody says so."""
    first = await send(door, "PATCH", JOB, b'{"owner": "eve"}', if_match="*")
    second = await send(door, "PATCH", JOB, b'{"owner": "bob"}', if_match=first.headers["etag"])
    assert (first.status, second.status, second.json["owner"]) == (200, 200, "bob")


async def test_a_job_is_added_once_by_a_key(door: Asker) -> None:
    """The same request with the same key gets the same job; another one with it, or without a key, is refused."""
    path, body = "/api/v2/jobs", b'{"noop": true, "owner": "ann"}'
    first = await send(door, "POST", path, body, idempotency_key="17")
    second = await send(door, "POST", path, body, idempotency_key="17")
    assert (first.status, second.status, second.json["id"]) == (201, 200, first.json["id"])
    other = await send(door, "POST", path, b'{"noop": true}', idempotency_key="17")
    assert (other.status, other.error["field"]) == (422, "Idempotency-Key")
    named = b'{"id": "b", "noop": true}'
    statuses = [(await send(door, "POST", path, named, idempotency_key="18")).status for _ in range(2)]
    assert [*statuses, (await send(door, "POST", path, named)).status] == [201, 200, 409]


async def test_a_run_is_made_once_by_a_key(door: Asker, job: Job) -> None:
    """The header is the request's, the body's is the job's run: each may be given alone, and both together."""
    path = f"{JOB}/trigger"
    first, second = [await send(door, "POST", path, b"{}", idempotency_key="17") for _ in range(2)]
    assert (first.status, second.status, second.json["id"]) == (201, 200, first.json["id"])
    by_key = (await door.post(path, {"key": "17"})).json["id"]
    assert by_key != first.json["id"]
    both = [await send(door, "POST", path, b'{"key": "17", "payload": "1"}', idempotency_key="18") for _ in range(2)]
    assert [each.json["id"] for each in both] == [by_key, by_key]
    for body in (b'{"key": "16"}', b'{"payload": "1"}'):
        for key in ("17", "18"):
            refused = await send(door, "POST", path, body, idempotency_key=key)
            assert (refused.status, refused.error["field"]) == (422, "Idempotency-Key")
    assert (await send(door, "POST", "/api/v2/runs", b'{"job_id": "a"}', idempotency_key="17")).status == 422
    for wrong in ("", "x" * 256):
        assert (await send(door, "POST", path, b"{}", idempotency_key=wrong)).error["field"] == "Idempotency-Key"


async def test_a_key_of_a_request_is_its_sender_s(world: World, door: Asker, job: Job) -> None:
    """Another principal gets a run of his own for it, and it is known for a day."""
    path, body = f"{JOB}/trigger", b"{}"
    runs = {(await send(door, "POST", path, body, idempotency_key="17")).json["id"]}
    for name in ("ann", "bob"):
        token = f"Bearer {(await world.service.tokens.create(name, 'operate')).text}"
        stranger = Asker(door._app, bare=True)
        answers = [
            await send(stranger, "POST", path, body, idempotency_key="17", authorization=token) for _ in range(2)
        ]
        runs |= {each.json["id"] for each in answers}
    assert len(runs) == 3
    world.pass_seconds(86401)
    later = await send(door, "POST", path, b'{"payload": "1"}', idempotency_key="17")
    assert later.status == 201 and later.json["id"] not in runs


async def test_a_job_is_put_only_where_there_is_none(door: Asker) -> None:
    """With `If-None-Match: *` nothing is changed; another word is refused."""
    first = await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true}', if_none_match="*")
    assert first.status == 201
    second = await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true, "owner": "eve"}', if_none_match="*")
    assert (second.status, second.error["code"], second.error["field"]) == (412, "outdated", "If-None-Match")
    assert (await door.get("/api/v2/jobs/new")).json["owner"] is None
    for wrong in ({"if_none_match": '"x"'}, *({"if_none_match": "*", "if_match": tag} for tag in ('"x"', "*"))):
        assert (await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true}', **wrong)).status == 422


async def test_a_job_that_must_be_there_is_not_added(door: Asker) -> None:
    """Whichever tag it is to have."""
    for tag in ("*", '"1"'):
        assert (await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true}', if_match=tag)).status == 404
    assert (await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true}')).status == 201
    assert (await send(door, "PUT", "/api/v2/jobs/new", b'{"noop": true}', if_match="*")).status == 200


async def test_a_misspelt_name_gets_a_hint(door: Asker) -> None:
    """The name that was meant is told, of fields and of parameters."""
    assert "did you mean schedule?" in (await door.post("/api/v2/jobs", {"shedule": "@daily"})).error["message"]
    assert "did you mean limit?" in (await door.get("/api/v2/jobs?limt=3")).error["message"]
