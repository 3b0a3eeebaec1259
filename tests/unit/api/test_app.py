import asyncio
import gzip

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.unit.api.asgi import JSON, SECRET, Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.errors import Bug, StoreUnavailable
from tokimori.model.outcome import Succeeded
from tokimori.web.page import Page


async def test_health(door: Asker) -> None:
    """A healthy node answers 200 and says who it is."""
    answer = await door.get("/healthz")
    assert answer.status == 200
    assert answer.json == {"status": "ok", "node_id": "n", "store_reachable": True, "version": "1.2.3"}


async def test_unhealthy(world: World) -> None:
    """A node that can't reach its store answers 503, so that a load balancer leaves it alone, but it lives."""
    state = Health(status="store unreachable", node_id="n", store_reachable=False, version="1")
    door = Asker(create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=lambda: state))
    answer = await door.get("/healthz")
    assert (answer.status, answer.json["store_reachable"]) == (503, False)
    assert (await door.get("/livez")).json == {"status": "alive"}


@pytest.mark.parametrize(("why", "status"), [(None, 200), ("the node stops", 503)])
async def test_ready(world: World, why: str | None, status: int) -> None:
    """Whether new work may be sent here is told to everybody, with the reason; a healthy node may be not ready."""
    app = an_app(
        world,
        unready=lambda: why,
    )
    stranger = Asker(app, bare=True)
    answer = await stranger.ask("GET", "/readyz", headers=[("host", "localhost")])
    assert (answer.status, answer.json) == (status, {"status": why or "ready"})
    assert (await stranger.ask("GET", "/healthz", headers=[("host", "localhost")])).status == 200


async def test_nodes(world: World, door: Asker) -> None:
    """Nodes are listed with host, process and state."""
    await world.add({"noop": True}, "a")
    await world.service.jobs.trigger("a")
    await world.work(Succeeded())
    (node,) = (await door.get("/api/v2/nodes")).json
    assert (node["id"], node["host"], node["pid"], node["state"]) == ("node", "h", 1, "alive")


async def test_unknown_path(door: Asker) -> None:
    """An unknown path is an error of ours, as JSON."""
    answer = await door.get("/api/v2/nope")
    assert (answer.status, answer.error["code"]) == (404, "not_found")


async def test_unknown_method(door: Asker) -> None:
    """A method that a path does not have is refused, naming those that it has."""
    answer = await door.post("/healthz")
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == set(answer.error["allowed"].split(", ")) == {"GET", "HEAD"}


async def test_what_nobody_answers_is_not_asked_to_be_json(door: Asker) -> None:
    """A method or a path that there is not is told as that; what would be answered has to be JSON."""
    host = [("host", "localhost")]
    statuses = [
        (await door.ask(method, path, headers=host)).status
        for method, path in (("PUT", "/api/v2/jobs"), ("POST", "/api/v2/nope"), ("POST", "/api/v2/jobs"))
    ]
    assert statuses == [405, 404, 415]


async def test_errors_have_their_status(world: World) -> None:
    """A store that does not answer is 503, in the same shape as on the command line."""

    async def fail(_: Request) -> Response:
        raise StoreUnavailable("the store did not answer")

    app = an_app(
        world,
        pages=[Route("/fail", fail)],
    )
    answer = await Asker(app).get("/fail")
    assert answer.status == 503
    assert answer.error == {
        "code": "store_unavailable",
        "message": "the store did not answer",
        "field": None,
        "value": None,
        "allowed": None,
    }


async def test_a_bug_tells_strangers_nothing(world: World) -> None:
    """A bug of ours is 500 without its details, under the same headers, and is raised again for the log."""

    async def fail(_: Request) -> Response:
        raise KeyError("secret")

    app = an_app(
        world,
        pages=[Route("/fail", fail)],
    )
    sent = []

    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def send(message: object) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/fail",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {SECRET}".encode())],
    }
    with pytest.raises(KeyError):
        await app(scope, receive, send)
    text = repr(sent)
    assert "'status': 500" in text
    assert "secret" not in text
    assert "nosniff" in text


async def test_a_bug_that_we_find_ourselves_is_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It answers 500, and the log has a line with all that leads to it; other errors of ours leave none.

    The line has no parameters of the address: the secret may be among them.
    """

    async def fail(request: Request) -> Response:
        raise Bug("a rule of ours does not hold") if request.url.path == "/bug" else StoreUnavailable("away")

    pages = [Route("/bug", fail), Route("/away", fail)]
    app = an_app(world, pages=pages)
    assert (await Asker(app).get("/away")).status == 503
    assert caplog.records == []
    answer = await Asker(app).get("/bug?token=hidden")
    assert (answer.status, answer.error["code"]) == (500, "bug")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "GET /bug failed")
    assert "in fail" in caplog.text and "a rule of ours does not hold" in caplog.text and "hidden" not in caplog.text


async def test_a_bug_that_the_page_meets_is_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong while the page is made is no page, but a line in the log."""

    async def fail(**_: object) -> None:
        raise Bug("a rule of ours does not hold")

    monkeypatch.setattr(world.service.jobs, "list", fail)
    pages = Page(lambda _: world.service, world.clock).routes()
    app = an_app(world, pages=pages)
    assert (await Asker(app).get("/")).status == 500
    assert [record.getMessage() for record in caplog.records] == ["GET / failed"]


async def test_each_request_has_its_own_author(world: World) -> None:
    """What two users pause at the same door is recorded as theirs, jobs and queues alike, and nobody else's."""
    app = an_app(
        world,
        author_of=lambda request: request.headers["user"],
    )
    door = Asker(app)

    async def pause(user: str, what: str) -> object:
        headers = [("host", "localhost"), ("user", user), *JSON.items()]
        return (await door.ask("POST", f"/api/v2/{what}/pause", headers=headers)).json["by"]

    for job_id in ("a", "b"):
        await world.add({"noop": True}, job_id)
    asked = [("ann", "jobs/a"), ("bob", "jobs/b"), ("ann", "queues/mail"), ("bob", "queues/web")]
    assert await asyncio.gather(*(pause(user, what) for user, what in asked)) == ["ann", "bob", "ann", "bob"]
    assert {job.id: job.by for job in await world.service.jobs.list()} == {"a": "ann", "b": "bob"}
    assert {each.queue: each.by for each in await world.service.queues.pauses()} == {"mail": "ann", "web": "bob"}
    assert (await world.service.jobs.pause((await world.service.jobs.resume("a")).id)).by == "ada"


async def test_a_door_that_knows_nobody_acts_in_its_own_name(world: World) -> None:
    """As long as nobody has to say who they are."""
    await world.add({"noop": True}, "a")
    door = Asker(an_app(world))
    assert (await door.post("/api/v2/jobs/a/pause", {})).json["by"] == "http"


async def test_all_methods_of_a_path_are_named(door: Asker) -> None:
    """A path with several routes names the methods of all of them."""
    answer = await door.post("/api/v2/jobs/hello", {}, method="POST")
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "PATCH", "DELETE"}
    assert answer.error["allowed"] == answer.headers["allow"]


async def test_an_unknown_parameter_is_named(door: Asker) -> None:
    """With those that there are."""
    answer = await door.get("/api/v2/jobs?foo=1")
    assert (answer.status, answer.error["field"], answer.error["value"]) == (422, "foo", "1")
    assert answer.error["message"] == "foo: there is no such parameter"
    assert "limit" in answer.error["allowed"]


async def test_what_was_seen_is_not_sent_again(door: Asker) -> None:
    """Who names the tag of an answer gets an empty 304 as long as it is the same; an error has no tag."""
    first = await door.get("/api/v2/jobs")
    known = {"if-none-match": f'"other", {first.headers["etag"]}'}
    again = await door.get("/api/v2/jobs", **known)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    await door.post("/api/v2/jobs", {"id": "hello", "command": "true"})
    changed = await door.get("/api/v2/jobs", **known)
    assert changed.status == 200 and changed.headers["etag"] != first.headers["etag"]
    assert "etag" not in (await door.get("/api/v2/jobs/missing")).headers


async def test_long_answers_are_compressed(door: Asker) -> None:
    """For whoever takes that; the tag is the same."""
    for n in range(30):
        await door.post("/api/v2/jobs", {"id": f"job-{n}", "command": "true"})
    plain = await door.get("/api/v2/jobs")
    packed = await door.get("/api/v2/jobs", **{"accept-encoding": "gzip"})
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 5
    assert packed.headers["etag"] == plain.headers["etag"]
