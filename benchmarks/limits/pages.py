"""Lists that are asked for over HTTP, of 100 each: the first page, one in the middle and the last one, each by itself;
and screens of the page, as a browser gets them.

The door is in this process, and so is its client: what a cell says contains both.
"""

import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlencode

from benchmarks.http_clients import Client, request
from benchmarks.limits.filling import HISTORY_DAYS
from benchmarks.limits.verbs import Bench
from tokimori.api.app import Health, create_app
from tokimori.api.request_service import Acting
from tokimori.api.server import HttpDoor
from tokimori.clock import DAY, Moment, SystemClock, format_moment
from tokimori.model.retention import first_id_at
from tokimori.ports.store import Store
from tokimori.randomness import Randomness
from tokimori.service.service import service_on
from tokimori.web.page import Page

SECRET = "s" * 43
OFTEN = 20
PAGES = ("first page", "middle", "last page")
LIMIT = 100
SCREENS = (
    *("/", "/jobs", "/jobs?sort=worst", "/jobs?state=failing", "/runs", "/runs?state=failed", "/failures", "/plan"),
    *("/plan?span=week", "/graph", "/queues", "/sets", "/wall", "/calendar.ics", "/jobs/big"),
)
Query = Mapping[str, object]


async def lists_over_http(bench: Bench) -> None:
    """Each list that an index serves."""
    async with _client(bench.store) as client:
        for verb, (path, queries) in _lists(bench).items():
            for page, query in zip(PAGES[-len(queries) :], queries, strict=True):
                url = f"/api/v2/{path}?{urlencode({'limit': LIMIT, **query})}"
                await bench.measure(f"HTTP: {verb}, {page}", lambda url=url: _body(client, url), OFTEN)  # type: ignore[misc]


async def screens(bench: Bench) -> None:
    """Each that shows many things."""
    async with _client(bench.store) as client:
        for path in SCREENS:
            await bench.measure(f"screen: {path}", partial(client.ask_for, request("GET", path, SECRET)), OFTEN)


def _lists(bench: Bench) -> Mapping[str, tuple[str, Sequence[Query]]]:
    """What is asked for, by what it is called: the path, and a query for each page."""
    size, big = bench.size, {"job_id": bench.filled.big.id}
    failed, ready = {"state": "failed"}, {"state": "ready"}
    others = size.jobs - size.queues - 3
    some = f"job-{others // 2:06}"[:-3]
    return {
        "100 jobs": ("jobs", [{}, {"after": f"job-{others // 2:06}"}, {"after": f"queue-{size.queues - 101:06}"}]),
        "100 jobs of 1,000 with a prefix": (
            "jobs",
            [{"prefix": some}, {"prefix": some, "after": f"{some}499"}, {"prefix": some, "after": f"{some}899"}],
        ),
        "100 queues": ("queues", [{}, {"after": "q000499"}, {"after": f"q{size.queues - 101:06}"}]),
        "100 runs": ("runs", [{}, _behind(days=300), _oldest(bench, LIMIT)]),
        "100 runs of the job": ("runs", [big, big | _behind(days=300), big | _oldest(bench, LIMIT)]),
        "100 waiting runs": ("runs", [ready, ready | _behind(days=30 / 1440), ready | _behind(days=1.02)]),
        "100 failed runs": ("runs", [failed, failed | _behind(days=300), failed | _oldest(bench, 100 * LIMIT)]),
        "100 failed runs of the job": (
            "runs",
            [each | big | failed for each in ({}, _behind(days=300), _oldest(bench, 100 * LIMIT))],
        ),
        "100 runs of the job, of a month": ("runs", [big | _between(days=600), big | _between(days=60)]),
    }


def _behind(days: float) -> dict[str, object]:
    """Runs that are older."""
    return {"before": first_id_at(Moment(SystemClock().now() - round(days * DAY)))}


def _oldest(bench: Bench, number: int) -> dict[str, object]:
    """About so many runs that are the oldest ones of the job: the clock has gone on since they were made."""
    each = HISTORY_DAYS / bench.size.rows
    return _behind(days=HISTORY_DAYS - (number + 1) * each)


def _between(days: float) -> dict[str, object]:
    """Runs of the thirty days before."""
    last = Moment(SystemClock().now() - round(days * DAY))
    return {"since": format_moment(Moment(last - 30 * DAY)), "until": format_moment(last)}


async def _body(client: Client, page: str) -> bytes:
    body = (await client.ask_for(request("GET", page, SECRET)))[1]
    assert body.count(b"},{") == LIMIT - 1, f"{page} is no list of {LIMIT}"
    return body


@asynccontextmanager
async def _client(store: Store) -> AsyncIterator[Client]:
    """One of a door that is open, on a service of its own."""
    service, clock = service_on(await store.for_doors(), SystemClock(), Randomness()), SystemClock()
    health = Health(status="ok", node_id="bench", store_reachable=True, version="0")
    acting = Acting(service)
    page = Page(acting.service, clock, access_for=acting.access)
    app = create_app(service, clock, interface="127.0.0.1", secret=SECRET, health=lambda: health, pages=page.routes())
    door = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
    await door.start()
    client = Client(door.port, bytes)
    gc.collect()  # what filling has left behind is not the door's
    await client.ask_for(request("GET", "/healthz", None))
    try:
        yield client
    finally:
        client.close()
        await door.stop()
