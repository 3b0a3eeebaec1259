"""Tokens at the door: who brings which is let in, and how far."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pytest
from msgspec import json

from tests.unit.api.asgi import JSON, SECRET, Answer, Asker
from tests.unit.api.conftest import an_app
from tests.unit.api.test_moving import JOB, TASK, TIME, UNITS
from tests.unit.service.world import World
from tokimori.api.app import operations
from tokimori.api.guards import Lenient
from tokimori.api.queries import MOST_BODY
from tokimori.api.request_service import Acting
from tokimori.clock import format_moment
from tokimori.foreign.kala.routes import kala_routes
from tokimori.foreign.kala.shapes import PREFIX
from tokimori.node.http_door import formats
from tokimori.service.doors.job_restrictions import UNRESTRICTED, JobRestrictions
from tokimori.web.page import Page

KIND = {"type_code": "a", "worker_uri": "X", "worker_method": "y", "cron_definition": "0 3 * * *"}


class Door:
    """A door with everything at it; each request says who sends it."""

    def __init__(self, world: World, allowed: JobRestrictions = UNRESTRICTED) -> None:
        self.world = world
        page = Page(Acting(world.service).service, world.clock)
        app = an_app(
            world,
            pages=[*page.routes(), *kala_routes(Acting(world.service, lambda _: "kala", allowed=allowed).service)],
            allowed=allowed,
            lenient=Lenient(nameless=(PREFIX,)),
            formats=formats(world.clock),
        )
        self._asker = Asker(app, bare=True)

    async def token(self, role: str, name: str = "ci", **fields: Any) -> str:
        return (await self.world.service.tokens.create(name, role, **fields)).text

    async def ask(
        self, token: str | None, method: str, path: str, value: object = None, host: str = "localhost", **more: str
    ) -> Answer:
        known = {} if token is None else {"authorization": f"Bearer {token}"}
        headers: Mapping[str, str] = {"host": host, **JSON, **known, **more}
        body = b"" if value is None else json.encode(value)
        return await self._asker.ask(method, path, headers=[*headers.items()], chunks=[body])


@pytest.fixture
def gate(world: World) -> Door:
    return Door(world)


async def test_no_token(gate: Door) -> None:
    """Nothing is answered, and a token that nobody made is none."""
    for token in (None, f"tkm_ci_{'0' * 64}", "tkm_", SECRET[:-1]):
        answer = await gate.ask(token, "GET", "/api/v2/jobs")
        assert (answer.status, answer.error["code"]) == (401, "unauthorized")


async def test_wrong_role(gate: Door) -> None:
    """Who may read changes nothing, by whatever path; who operates makes no tokens."""
    await gate.world.add({"noop": True}, "a")
    reads, operates = await gate.token("read"), await gate.token("operate", "cd")
    assert (await gate.ask(reads, "GET", "/api/v2/jobs/a")).status == 200
    for method, path, value in (
        ("POST", "/api/v2/jobs", {"noop": True}),
        ("PATCH", "/api/v2/jobs/a", {"name": "x"}),
        ("DELETE", "/api/v2/jobs/a", None),
        ("POST", "/api/v2/jobs/a/trigger", {}),
        ("POST", "/api/v2/runs", {"job_id": "a"}),
        ("POST", "/api/v2/pause", {}),
        ("PUT", "/api/v2/semaphores/s", {"limit": 1}),
        ("POST", "/api/v2/calendars", {"name": "c"}),
        ("POST", "/api/v2/calls/jobs.delete", {"args": ["a"]}),
        ("POST", "/api/v2/calls/queues.pause", {}),
        ("POST", "/api/v2/calls/tokens.create", {"args": ["x", "admin"]}),
        ("GET", "/api/v2/tokens", None),
        ("POST", "/api/v1/job/", {"name": "x", "command": "true"}),
        ("POST", "/api/v1/job/start/a/", None),
        ("DELETE", "/api/v1/job/a/", None),
    ):
        answer = await gate.ask(reads, method, path, value)
        assert answer.status == 403, (path, answer.body)
        assert b'"forbidden"' in answer.body
    for path in ("/api/v2/tokens", "/api/v2/tokens/ci"):
        answer = await gate.ask(operates, "DELETE" if path.endswith("ci") else "GET", path)
        assert (answer.status, answer.error["field"]) == (403, "role")
    assert [job.id for job in await gate.world.service.jobs.list()] == ["a"]


async def test_a_token_for_pings_does_nothing_else(gate: Door) -> None:
    """A token that stands in crontabs of other machines opens no other operation; who may read reports nothing."""
    for name in ("office-backup", "other"):
        await gate.world.service.expectations.set(name, 3600)
    await gate.world.add({"noop": True}, "office-job")
    run = await gate.world.trigger("office-job")
    token = await gate.token("ping", jobs=["office-"])
    known = {"name": "office-backup", "job_id": "office-job", "run_id": run.id}
    asked = operations(lambda _: None, lambda _: None, formats(gate.world.clock))  # type: ignore[arg-type, return-value]
    answered = set()
    for each in asked:
        path = re.sub(r"{(\w+)[^}]*}", lambda part: known.get(part[1], run.id), each.path)
        answer = await gate.ask(token, each.method, path, each.example)
        if answer.status < 300:
            answered.add(each.id)
        else:
            assert answer.status in {400, 403, 404, 405, 422}, (each.id, answer.status, answer.body)
    assert answered == {"expectation_ping"}
    for path in ("/api/v1/job/", "/metrics", "/", "/api/v2/calls/jobs.list"):
        assert (await gate.ask(token, "POST" if "calls" in path else "GET", path, {})).status >= 400, path
    assert (await gate.ask(token, "POST", "/api/v2/pings/other")).status == 403
    assert (await gate.ask(token, "POST", "/api/v2/calls/expectations.ping", {"args": ["office-backup"]})).status == 200
    for role, status in (("read", 403), ("operate", 200)):
        answer = await gate.ask(await gate.token(role, role), "POST", "/api/v2/pings/office-backup")
        assert answer.status == status


async def test_wrong_scope(gate: Door) -> None:
    """Lists leave out what is not within it, reads do not find it, writes are refused; at each of the APIs."""
    for job_id in ("mail-in", "other"):
        await gate.world.add({"noop": True}, job_id)
    token = await gate.token("operate", jobs=["mail-"])
    assert [job["id"] for job in (await gate.ask(token, "GET", "/api/v2/jobs")).json] == ["mail-in"]
    assert list((await gate.ask(token, "GET", "/api/v1/job/")).json["jobs"]) == ["mail-in"]
    page = (await gate.ask(token, "GET", "/jobs")).body
    assert b"mail-in" in page and b"other" not in page
    statuses = {
        ("GET", "/api/v2/jobs/other"): 404,
        ("GET", "/api/v2/jobs/other/next"): 404,
        ("GET", "/api/v1/job/other/"): 404,
        ("POST", "/api/v2/jobs/other/trigger"): 403,
        ("DELETE", "/api/v2/jobs/other"): 403,
        ("DELETE", "/api/v2/jobs/mail-in"): 200,
    }
    for (method, path), status in statuses.items():
        assert (await gate.ask(token, method, path)).status == status, path
    called = await gate.ask(token, "POST", "/api/v2/calls/jobs.get", {"args": ["other"]})
    assert (called.status, called.error["code"]) == (404, "not_found")
    called = await gate.ask(token, "POST", "/api/v2/calls/jobs.pause", {"args": ["other"], "author": "eve"})
    assert (called.status, called.error["field"]) == (403, "scope")


async def test_expired_token(gate: Door) -> None:
    """From its moment on it is refused, and told why."""
    token = await gate.token("read", expires=60)
    gate.world.pass_seconds(59)
    assert (await gate.ask(token, "GET", "/api/v2/jobs")).status == 200
    over = format_moment(gate.world.clock.now()).replace("00:00:59", "00:01:00")
    gate.world.pass_seconds(1)
    answer = await gate.ask(token, "GET", "/api/v2/jobs")
    assert (answer.status, answer.error["code"]) == (401, "token_expired")
    assert over in answer.error["message"]


async def test_revoked_token(gate: Door) -> None:
    """Two seconds later it opens nothing."""
    token = await gate.token("admin")
    assert (await gate.ask(token, "DELETE", "/api/v2/tokens/ci")).json == {"name": "ci", "revoked": True}
    gate.world.pass_seconds(2)
    assert (await gate.ask(token, "GET", "/api/v2/jobs")).error["code"] == "unauthorized"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000"])
async def test_rebinding_host(gate: Door, host: str) -> None:
    """A right token does not help under a name of others."""
    answer = await gate.ask(await gate.token("admin"), "GET", "/api/v2/jobs", host=host)
    assert (answer.status, answer.error["code"]) == (403, "host_not_allowed")


async def test_cross_origin_post(gate: Door) -> None:
    """A page of others gets nothing, whatever it brings."""
    token = await gate.token("admin")
    answer = await gate.ask(token, "POST", "/api/v2/jobs", {"noop": True}, origin="https://evil.example")
    assert (answer.status, answer.error["code"]) == (403, "origin_not_allowed")
    assert (await gate.world.service.jobs.list()).jobs == []


async def test_what_a_token_orders_is_in_its_name(gate: Door) -> None:
    """By each of the APIs, whatever the client says of itself."""
    await gate.world.add({"noop": True}, "a")
    token = await gate.token("operate")
    assert (await gate.ask(token, "POST", "/api/v2/jobs/a/pause", {})).json["by"] == "ci"
    await gate.world.service.jobs.resume("a")
    await gate.ask(
        token, "POST", "/api/v2/calls/jobs.pause", {"args": ["a"], "author": "eve", "time_zone": "Asia/Tokyo"}
    )
    assert (await gate.world.service.jobs.get("a")).by == "ci"
    await gate.world.service.jobs.resume("a")
    await gate.ask(token, "POST", "/api/v1/job/disable/a/")
    assert (await gate.world.service.jobs.get("a")).by == "ci"


async def test_tokens_are_made_at_the_door(gate: Door) -> None:
    """By an admin; the text is told once, and lets in."""
    admin = await gate.token("admin")
    wanted = {"name": "new", "role": "read", "jobs": ["a"], "expires": 60}
    made = await gate.ask(admin, "POST", "/api/v2/tokens", wanted)
    assert (made.status, made.headers["location"]) == (201, "/api/v2/tokens/new")
    assert (await gate.ask(made.json["text"], "GET", "/api/v2/jobs")).status == 200
    listed = await gate.ask(admin, "GET", "/api/v2/tokens")
    assert [each["name"] for each in listed.json] == ["ci", "new"]
    assert listed.json[1] == made.json["token"] and made.json["text"].encode() not in listed.body
    assert listed.json[1]["by"] == "ci"


async def test_a_job_as_root(world: World) -> None:
    """Who operates makes none, whatever path he takes; nobody does by a name that the settings do not list."""
    gate = Door(world, JobRestrictions(own_user="root", users=("bob",)))
    operates, admin = await gate.token("operate"), await gate.token("admin", "boss")
    plain, named = {"command": "id"}, {"command": "id", "user": "eve"}
    for path, value in (
        ("/api/v2/jobs", plain),
        ("/api/v2/jobs", {**plain, "user": "root"}),
        ("/api/v2/calls/jobs.add", {"args": ["a"], "kwargs": plain}),
        ("/api/v1/job/", {"name": "x", **plain}),
    ):
        answer = await gate.ask(operates, "POST", path, value)
        assert answer.status == 403 and b"root" in answer.body, path
    assert (await gate.ask(admin, "POST", "/api/v2/jobs", named)).error["field"] == "user"
    assert (await gate.ask(SECRET, "POST", "/api/v2/jobs", named)).error["field"] == "user"
    assert (await world.service.jobs.list()).jobs == []
    assert (await gate.ask(operates, "POST", "/api/v2/jobs", {**plain, "user": "bob"})).status == 201
    assert (await gate.ask(admin, "POST", "/api/v2/jobs", plain)).status == 201


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("kala", {"jobs": {"a": {"id": "a", "name": "a", "command": "id", "schedule": "R/2035-01-01T00:00:00Z/P1D"}}}),
        ("koyomi", {"jobs": [JOB], "job_times": [TIME]}),
        ("keiji", {"task_models": [TASK]}),
        ("kojo", {"kojo_job_type": [KIND], "command": ["id"]}),
        ("systemd", {"files": UNITS}),
    ],
)
async def test_an_import_is_no_way_round(world: World, kind: str, said: dict[str, Any]) -> None:
    """What comes from another scheduler is judged as any job: who operates brings in none that would run as root."""
    gate = Door(world, JobRestrictions(own_user="root"))
    path = f"/api/v2/import/{kind}"
    answer = await gate.ask(await gate.token("operate"), "POST", path, said)
    assert answer.status == 403 and b"root" in answer.body, answer.body
    assert (await world.service.jobs.list()).jobs == []
    scoped = await gate.token("operate", "scoped", jobs=["zz-"])
    assert (await gate.ask(scoped, "POST", path, said)).status == 403
    assert (await gate.ask(await gate.token("read", "reader"), "POST", path, said)).status == 403
    done = await gate.ask(await gate.token("admin", "boss"), "POST", path, said)
    assert len(done.json["added"]) == 1


@pytest.mark.parametrize("run", ["..%2F..%2Fsecret", "..", "%2Fetc%2Fpasswd", "a%00b", "x" * 300])
async def test_path_tricks_in_log_names(gate: Door, run: str) -> None:
    """The log of a run is found by the run's id, and an attempt is a number: neither leads to a file."""
    token = await gate.token("operate")
    answer = await gate.ask(token, "GET", f"/api/v2/runs/{unquote(run)}/logs")
    assert answer.status in (404, 422) and b"root:" not in answer.body
    job = await gate.world.service.jobs.add("a", noop=True)
    known = await gate.world.service.jobs.trigger(job.id)
    answer = await gate.ask(token, "GET", f"/api/v2/runs/{known.id}/logs?attempt={run}")
    assert (answer.status, answer.error["field"]) == (422, "attempt")
    answer = await gate.ask(token, "GET", "/api/v2/runs/secret/logs")
    assert (answer.status, answer.error["code"]) == (422, "invalid_input")


async def test_oversized_and_endless_bodies(gate: Door) -> None:
    """A right token lets in no more than a mebibyte, said before or not; what goes on without end is not read on."""
    token = await gate.token("operate")
    big = b"x" * (MOST_BODY + 1)
    known = [("host", "localhost"), *JSON.items(), ("authorization", f"Bearer {token}")]
    for headers in (known, [*known, ("content-length", str(len(big)))]):
        answer = await gate._asker.ask("POST", "/api/v2/jobs", headers=headers, chunks=[big])
        assert (answer.status, answer.error["code"], answer.headers["connection"]) == (413, "too_large", "close")
    endless = [*[b"x" * 2**16] * 17, None]  # who read on would find that the client is gone, and answer nothing
    assert (await gate._asker.ask("POST", "/api/v2/jobs", headers=known, chunks=endless)).status == 413
    assert (await gate.world.service.jobs.list()).jobs == []


@pytest.mark.parametrize("text", ["a\r\nSet-Cookie: x=1", "a\nX: y", "a\rb", "a\0b"])
async def test_header_injection(gate: Door, text: str) -> None:
    """No field of a job becomes a header: neither of an answer of this door, nor of what the job sends."""
    token = await gate.token("operate")
    request = {"url": "http://service.example/"}
    for job in (
        {"id": text, "noop": True},
        {"noop": True, "queue": text},
        {"noop": True, "labels": {"a": text}},
        {**request, "headers": {"X": text}},
        {**request, "headers": {text: "x"}},
        {"url": f"http://service.example/{text}"},
        {**request, "method": text},
    ):
        answer = await gate.ask(token, "POST", "/api/v2/jobs", job)
        assert (answer.status, "set-cookie" in answer.headers) == (422, False), job
    assert (await gate.world.service.jobs.list()).jobs == []


async def test_template_injection(gate: Door) -> None:
    """Only facts of the run and secrets by name are put in, nowhere in a host; a page shows what was typed."""
    token = await gate.token("operate")
    asks = {"url": "http://service.example/"}
    for wrong in ("{{ config }}", "{{ 7*7 }}", "{{ payload.__class__ }}"):
        for fields, field in (({**asks, "body": wrong}, "body"), ({**asks, "headers": {"X": wrong}}, "headers.X")):
            answer = await gate.ask(token, "POST", "/api/v2/jobs", fields)
            assert (answer.status, answer.error["field"]) == (422, field), wrong
    for url in ("http://{{ payload }}/", "http://h/{{ config }}"):
        answer = await gate.ask(token, "POST", "/api/v2/jobs", {"url": url})
        assert (answer.status, answer.error["field"]) == (422, "url"), url
    typed = "{{ 7*7 }}{% for a in b %}${7*7}<%= 7*7 %><b>"
    assert (await gate.ask(token, "POST", "/api/v2/jobs", {"id": "a", "noop": True, "name": typed})).status == 201
    assert (await gate.ask(token, "GET", "/api/v2/jobs/a")).json["name"] == typed
    page = (await gate.ask(token, "GET", "/jobs/a")).body.decode()
    assert "{{ 7*7 }}{% for a in b %}${7*7}&lt;%= 7*7 %&gt;&lt;b&gt;" in page
