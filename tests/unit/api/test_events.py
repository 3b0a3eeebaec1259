"""Events over HTTP: as a page, and as a stream that goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import json
from starlette.requests import Request

from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import ON_DEMAND, World
from tokimori.api import events
from tokimori.api.request_service import let_in
from tokimori.model.outcome import Failed, Succeeded
from tokimori.service.access import Access, owner
from tokimori.service.events import feed

PATH = "/api/v2/events"
STREAM = {"accept": "text/event-stream"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the store follow each other at once."""
    monkeypatch.setattr(feed, "EVERY", 1e-6)


async def ended(world: World, job_id: str, outcome: Succeeded | Failed | None = None) -> str:
    """The id of a run that has ended."""
    run = await world.trigger(job_id)
    await world.work(outcome or Succeeded())
    return run.id


@pytest.fixture
async def start(world: World) -> str:
    """The position before all that a test writes."""
    await world.add(ON_DEMAND, "a")
    await world.add(ON_DEMAND, "b")
    return (await world.service.events.read()).after


async def test_a_page_says_what_has_happened(world: World, door: Asker, start: str) -> None:
    """It has each event behind a position, in order, and the position behind them."""
    first, second = await ended(world, "a"), await ended(world, "b", Failed(error="broke", exit_code=3))
    page = (await door.get(f"{PATH}?after={start}")).json
    told = [(each["event"], each["run_id"], each["job_id"], each["exit_code"]) for each in page["events"]]
    assert told == [("run.succeeded", first, "a", None), ("run.failed", second, "b", 3)]
    assert len({each["id"] for each in page["events"]}) == 2
    again = (await door.get(f"{PATH}?after={page['events'][0]['position']}")).json
    assert [each["run_id"] for each in again["events"]] == [second]
    assert (await door.get(f"{PATH}?after={page['after']}")).json["events"] == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("job_id=a", ["a"]),
        ("job_prefix=b", ["b"]),
        ("state=failed", ["b"]),
        ("state=failed&state=succeeded", ["a", "b"]),
        ("queue=mail", []),
        ("owner=ann", []),
        ("label=team", []),
    ],
)
async def test_a_page_has_what_is_wanted(world: World, door: Asker, start: str, query: str, found: list[str]) -> None:
    """Filters are those of the list of runs."""
    await ended(world, "a")
    await ended(world, "b", Failed(error="broke"))
    page = (await door.get(f"{PATH}?after={start}&{query}")).json
    assert [each["job_id"] for each in page["events"]] == found


@pytest.mark.parametrize(
    ("query", "field"), [("after=x", "after"), ("state=running", "state"), ("wait=61", "wait"), ("job=a", "job")]
)
async def test_what_is_wrong_is_named(door: Asker, query: str, field: str) -> None:
    """The answer says which parameter is wrong, and what is allowed."""
    answer = await door.get(f"{PATH}?{query}")
    assert (answer.status, answer.error["field"]) == (422, field)
    assert answer.error["allowed"]


async def test_a_page_waits_for_its_first_event(world: World, door: Asker, start: str) -> None:
    """Whoever has patience gets what comes meanwhile."""
    asked = asyncio.create_task(door.get(f"{PATH}?after={start}&wait=30"))
    await asyncio.sleep(0)
    run = await ended(world, "a")
    assert [each["run_id"] for each in (await asyncio.wait_for(asked, 10)).json["events"]] == [run]


def streamed(world: World, after: str, access: Access, still: list[bool]) -> AsyncIterator[bytes]:
    """A stream behind this position, whose sender is let in as long as the last of `still` is true."""

    async def again() -> Access | None:
        return access if still[-1] else None

    request = Request({"type": "http", "headers": []})
    let_in(request.scope, access, again)
    return events._streamed(request, events._reader_of_events(world.service, events.EventQuery()), b"", after)


async def test_a_stream_goes_on(world: World, start: str) -> None:
    """Each event is a block with its position, its name and its value."""
    stream = streamed(world, start, owner(None), [True])
    assert await anext(stream) == b""
    for outcome in (Succeeded(), Failed(error="two\nlines")):
        run = await ended(world, "a", outcome)
        place, name, data = (await anext(stream)).decode().strip().split("\n")
        value = json.decode(data.removeprefix("data: "))
        assert value["run_id"] == run
        assert (place, name) == (f"id: {value['position']}", f"event: run.{value['state']}")
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_stream_says_that_it_is_there(world: World, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing comes a block without an event says where to go on."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.0)
    stream = streamed(world, start, owner(None), [True])
    await anext(stream)
    assert (await anext(stream)).startswith(b": nothing new\nid: ")
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_stream_ends_with_its_token(world: World, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its sender is not let in any more, or not as before, it ends."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.0)
    still = [True]
    stream = streamed(world, start, owner(None), still)
    await anext(stream)
    await anext(stream)
    still.append(False)
    assert await anext(stream, None) is None


async def test_a_store_that_is_away_does_not_end_a_stream(
    world: World, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and goes on when the store answers."""
    monkeypatch.setattr(events, "RETRY", 0.0)
    stream = streamed(world, start, owner(None), [True])
    await anext(stream)
    reading = world.service.events._feed.begin

    async def away() -> None:
        from tokimori.errors import StoreUnavailable

        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(world.service.events._feed, "begin", away)
    assert await anext(stream) == b": the store does not answer\n\n"
    monkeypatch.setattr(world.service.events._feed, "begin", reading)
    run = await ended(world, "a")
    assert run.encode() in await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_so_many_streams_are_open_at_a_time(world: World) -> None:
    """One more is told to come later: also of those that come at once, and who has gone makes room."""
    door = Asker(an_app(world, streams=2))
    headers = [("host", "localhost"), *STREAM.items()]
    for _ in range(2):
        asked = [asyncio.ensure_future(door.ask("GET", PATH, headers=headers, stays=True)) for _ in range(5)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert [each.result().error["code"] for each in asked if each.done()] == ["too_many"] * 3
        for each in asked:
            each.cancel()
        await asyncio.wait(asked)


async def test_a_node_that_stops_ends_its_streams(world: World, start: str) -> None:
    """What is open ends, and nothing is opened any more."""
    stops = [False]
    world.service.events._feed._stops = lambda: stops[-1]
    door = Asker(an_app(world))
    headers = [("host", "localhost"), *STREAM.items()]
    asked = asyncio.ensure_future(door.ask("GET", PATH, headers=headers, stays=True))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asked.done()
    stops.append(True)
    assert (await asyncio.wait_for(asked, 10)).status == 200
    assert (await door.ask("GET", PATH, headers=headers, stays=True)).error["code"] == "stopping"


async def test_a_kind_says_of_what_to_tell(door: Asker, start: str) -> None:
    """Changes are shown with what was changed; another word is refused, with those that are allowed."""
    await door.post("/api/v2/jobs/a/pause", {"reason": "repairs"})
    (event,) = (await door.get(f"{PATH}?kind=definitions&after={start}")).json["events"]
    told = {name: event[name] for name in ("kind", "event", "what", "name", "job_id", "reason")}
    assert told == {
        "kind": "change",
        "event": "job.paused",
        "what": "job",
        "name": "a",
        "job_id": "a",
        "reason": "repairs",
    }
    assert (await door.get(f"{PATH}?after={start}")).json["events"] == []
    refused = await door.get(f"{PATH}?kind=jobs")
    assert refused.status == 422
    assert [refused.json["error"][name] for name in ("field", "value", "allowed")] == [
        "kind",
        "jobs",
        "runs, definitions, audit, all",
    ]
