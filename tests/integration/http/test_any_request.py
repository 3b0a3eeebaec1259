"""200,000 requests that nobody means well with, over every route: none is a bug, none takes long."""

import asyncio
import os
import random
from collections.abc import Sequence
from inspect import signature
from time import monotonic, process_time
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import json

from tests.unit.api.asgi import BEARER, SECRET, Answer, Asker
from tests.unit.service.world import World
from tokimori.api.app import PARTS, Health, create_app
from tokimori.api.calls import PATH as CALLS
from tokimori.api.claims import ClaimPaths
from tokimori.api.events import EventRoutes
from tokimori.api.server import HttpDoor
from tokimori.executors.http.callbacks import PATH as CALLBACKS
from tokimori.locks.membership import Program
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.doors.calls import offered
from tokimori.service.service import Service
from tokimori.web.page import Page

REQUESTS = 200_000
OVER_A_SOCKET = 4_000
IN_ONE_WORLD = 2_000
"""Requests, before they meet a new store: one that grows for ever is slow for another reason."""
LONGEST = 2.0
"""Seconds of the processor: far more than any of them takes."""
HEALTH = Health(status="ok", node_id="n", store_reachable=True, version="1")
_METHODS = ("GET", "GET", "POST", "POST", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "X-Y")
_WORDS: Sequence[Any] = (
    *(
        "",
        "j",
        "a",
        "b",
        ".",
        "..",
        "-",
        "é",
        "\x00",
        "\n",
        "\ud800",
        "null",
        "0",
        "-1",
        "1" * 30,
        "x" * 300,
        "%",
        "$ne",
    ),
    *("default", "succeeded", "enabled", "parked", "/", "../..", "<script>", "'; drop table jobs; --", "{}", "noop"),
    *(
        "* * * * *",
        "every 10 minutes",
        "0 0 29 2 *",
        "R/0001-01-01T00:00:00Z/P1D",
        "R5/2030-01-31T00:00:00Z/P1M",
        "@daily",
    ),
    *(
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "2030-01-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "now",
        "Europe/Paris",
    ),
    *("retry", "skip", "latest", "next", "PT1S", "P9999Y", "true", "[]"),
)
_NUMBERS: Sequence[Any] = (0, 1, -1, 2, 10, 1000, 1001, 10**9, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308)
_FIELDS = (
    *(
        "id",
        "noop",
        "command",
        "schedule",
        "exclude",
        "time_zone",
        "name",
        "payload",
        "priority",
        "retry",
        "timeout",
        "queue",
    ),
    *(
        "max_running",
        "max_waiting",
        "on_overlap",
        "misfire",
        "grace",
        "late_after",
        "delay",
        "jitter",
        "starts_at",
        "ends_at",
    ),
    *(
        "parents",
        "after",
        "semaphores",
        "weight",
        "limit",
        "calendars",
        "shift",
        "gap",
        "fold",
        "env",
        "cwd",
        "user",
        "labels",
    ),
    *(
        "runs_remaining",
        "reason",
        "now",
        "from",
        "to",
        "max_running",
        "dry_run",
        "at",
        "in",
        "job_id",
        "key",
        "days",
        "weekend",
    ),
    *(
        "cascade",
        "text",
        "n",
        "before",
        "state",
        "attempt",
        "last_runs",
        "function",
        "http",
        "url",
        "concurrency_key",
        "on",
    ),
)
_QUERY = (
    "n",
    "limit",
    "after",
    "before",
    "text",
    "time_zone",
    "state",
    "job_id",
    "last_runs",
    "label",
    "prefix",
    "fields",
    "since",
    "gap",
    "calendars",
    "run",
    "job",
    "x",
)


WAITS = "wait"
"""What lets an answer wait for up to a minute: it is never said, because nothing comes here."""
CLAIMS = "/api/v2/claims"
_WORKER_SAYS: dict[str, dict[str, Any]] = {
    "claims": {"types": ["resize"], "limit": 1, "alive_time": 300, "labels": {}, "worker": "w"},
    "fail": {"token": 1, "error": "e", "output": "o"},
    "finish": {"token": 1, "result": 1, "output": "o"},
    "retry": {"token": 1, "after": 1},
    "hold": {"token": 1, "reason": "r"},
}


def paths() -> Sequence[Sequence[str]]:
    """The path of every route, in groups that are asked alike often."""
    parts = [each.path for part in PARTS for each in part(lambda _: None).operations()]  # type: ignore[arg-type, return-value]
    parts += [each.path for each in EventRoutes(lambda _: None).operations()]  # type: ignore[arg-type, return-value]
    claims = [each.path for each in ClaimPaths(None).operations()]  # type: ignore[arg-type]
    called = [f"{CALLS}/{name}" for name in offered()]
    others = (
        "/",
        "/healthz",
        "/api/v2/nodes",
        "/api/v1/job/",
        "/static/console.js",
        "/nowhere",
        CALLBACKS + "{run}/1",
    )
    return sorted({*parts, *others}), claims, called


class Hostile:
    """What comes from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known = ["j", "a", "b"]
        self.paths = paths()

    def word(self) -> str:
        rng = self.rng
        match rng.randrange(10):
            case 0:
                return "".join(chr(rng.randrange(1, 0x10FFFF)) for _ in range(rng.randrange(8)))
            case 1 | 2 | 3 | 4 | 5:
                return rng.choice(self.known)
            case _:
                return str(rng.choice(_WORDS))

    def value(self, depth: int = 0) -> Any:
        rng = self.rng
        match rng.randrange(9):
            case 0 | 1 | 2:
                return self.word()
            case 3 | 4:
                return rng.choice(_NUMBERS)
            case 5:
                return rng.choice((True, False, None))
            case 6 if depth < 3:
                return [self.value(depth + 1) for _ in range(rng.randrange(4))]
            case 7 if depth < 3:
                return self.fields(depth + 1)
            case _:
                return None

    def fields(self, depth: int = 0) -> dict[str, Any]:
        some = self.rng.sample(_FIELDS, self.rng.randrange(5))
        return {name: self.value(depth) for name in some}

    def body(self, path: str) -> bytes:
        rng = self.rng
        match rng.randrange(8):
            case 0:
                return rng.choice((b"", b"{", b"null", b"[" * 5000, b'{"id":"\\ud800"}', b"\xff", rng.randbytes(40)))
            case 1 | 2 | 3 if path == "/api/v2/jobs":
                return json.encode({"id": rng.choice(self.known), "noop": True, "schedule": rng.choice(_WORDS[28:34])})
            case 4:
                return b"{}"
            case 5 | 6 | 7 if path.startswith((CLAIMS, CALLS)):
                name = path.rpartition("/")[2]
                return _encoded(self.call(name) if path.startswith(CALLS) else self.of_worker(path))
            case _:
                return _encoded(self.fields())

    def of_worker(self, path: str) -> dict[str, Any]:
        """What a worker says, more or less."""
        takes = _WORKER_SAYS.get(path.rpartition("/")[2], {"token": 1})
        said = {name: value for name, value in takes.items() if self.rng.randrange(10)}
        return said if self.rng.randrange(3) else said | {self.rng.choice(sorted(takes)): self.value()}

    def call(self, name: str) -> dict[str, Any]:
        """A call by name, with arguments that the method has, and any values."""
        takes = [each for each in signature(offered()[name]).parameters if each not in ("self", WAITS)]
        some = self.rng.sample(takes, self.rng.randrange(len(takes) + 1))
        return {"args": [], "kwargs": {each: self.word() if "id" in each else self.value() for each in some}}

    def path(self) -> tuple[str, str]:
        """A path, and the route that it was made from."""
        rng, route = self.rng, self.rng.choice(self.rng.choices(self.paths, weights=(8, 1, 2))[0])
        path = "/".join(
            quote(_text(self.word()), safe="") if part.startswith("{") else part for part in route.split("/")
        )
        if rng.randrange(3) == 0:
            pairs = [(rng.choice(_QUERY), self.value()) for _ in range(rng.randrange(1, 4))]
            path += "?" + "&".join(f"{name}={quote(_text(value))}" for name, value in pairs)
        return path, route


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _encoded(value: object) -> bytes:
    try:
        return json.encode(value)
    except (UnicodeEncodeError, ValueError, OverflowError):
        return b'{"id": "\\ud800"}'


def _door(world: World) -> Asker:
    page = Page(lambda _: world.service, world.clock)
    place = ClaimPlace(world.store, world.clock, os.urandom, Program(host="h", boot_id="b", pid=1, version="0"))
    world.give_place(place)
    app = create_app(
        world.service,
        world.clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: HEALTH,
        pages=page.routes(),
        lost=page.lost,
    )
    return Asker(app)


async def _prepare(service: Service, hostile: Hostile) -> None:
    """A job with runs of every kind that a request can bring about."""
    await service.jobs.add("j", noop=True, schedule="* * * * *", starts_at="2020-01-01T00:00:00Z")
    await service.jobs.add("a", noop=True)
    await service.jobs.add("b", noop=True)
    await service.jobs.add("f", function="resize")
    runs = [await service.jobs.trigger(job) for job in ("a", "a", "b", "f", "f")]
    await service.runs.hold(runs[0].id)
    hostile.known += [run.id for run in runs]


@pytest.mark.prove
@pytest.mark.parametrize("part", range(4))
async def test_no_request_is_a_bug(part: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is asked of whatever path is answered, never with 500, and soon."""
    rng, statuses = random.Random(part), dict[int, int]()
    for start in range(0, REQUESTS // 4, IN_ONE_WORLD):
        world, hostile = World(), Hostile(rng)
        door = _door(world)
        await _prepare(world.service, hostile)
        for number in range(start, start + IN_ONE_WORLD):
            path, route = hostile.path()
            method, body = rng.choice(_METHODS), hostile.body(route)
            headers = [("host", "localhost"), ("content-type", "application/json"), ("accept", "text/html")]
            began, begun = process_time(), monotonic()
            answer = await asyncio.wait_for(door.ask(method, _unquoted(path), headers=headers, chunks=[body]), 60)
            took = min(process_time() - began, monotonic() - begun)
            _check(answer, took, (number, method, path, body))
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
    assert statuses.keys() >= {200, 201, 404, 405, 422}
    assert caplog.records == []


def _check(answer: Answer, took: float, asked: object) -> None:
    assert 200 <= answer.status < 500, (asked, answer)
    assert took < LONGEST, (asked, took)


def _unquoted(path: str) -> str:
    """As a server hands it to the application: the path decoded, the query not."""
    from urllib.parse import unquote

    path, mark, query = path.partition("?")
    return unquote(path).replace("?", "") + mark + query


def _broken(hostile: Hostile) -> bytes:
    """The bytes of a request, of which some were changed, cut or doubled."""
    rng, (path, route) = hostile.rng, hostile.path()
    body = hostile.body(route)
    head = f"{rng.choice(_METHODS)} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: {BEARER['authorization']}\r\n"
    sent = bytearray(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(sent))
        match rng.randrange(4):
            case 0:
                sent[at] = rng.randrange(256)
            case 1:
                del sent[at : at + rng.randrange(1, 20)]
            case 2:
                sent[at:at] = rng.randbytes(rng.randrange(1, 20))
            case _:
                sent[at:at] = sent[at : at + 200]
        sent = sent or bytearray(b"x")
    return bytes(sent)


@pytest.mark.prove
async def test_no_bytes_are_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bytes come, the door answers or closes, never with 500, and answers the next one."""
    world, hostile = World(), Hostile(random.Random(os.urandom(1)[0]))
    await _prepare(world.service, hostile)
    app = create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=lambda: HEALTH)
    door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
    await door.start()
    for _ in range(OVER_A_SOCKET):
        sent = _broken(hostile)
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(sent)
        writer.write_eof()
        try:
            answer = await asyncio.wait_for(reader.read(), 30)
        except ConnectionError:
            answer = b""
        assert b"HTTP/1.1 500" not in answer, sent
        writer.close()
    await door.stop()
    # A secret in which a byte was broken is a wrong one, and is told of.
    assert [record for record in caplog.records if record.name != "tokimori.api.secret"] == []
