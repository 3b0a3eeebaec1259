"""Notices over HTTP: which things have changed, to any number of tabs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
from msgspec import json
from msgspec.structs import replace
from starlette.requests import Request

from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import ON_DEMAND, World
from tokimori.api import events
from tokimori.api.request_service import let_in
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.access_token import Role, Scope
from tokimori.model.document import Document
from tokimori.model.expectation import Alarm, AlarmKind, encode_alarm
from tokimori.model.outcome import Succeeded
from tokimori.service.access import Access, owner
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.events import notice_board
from tokimori.service.service import Service

PATH = "/api/v2/notices"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the store follow each other at once."""
    monkeypatch.setattr(notice_board, "EVERY", 1e-6)
    monkeypatch.setattr(notice_board, "IDLE", 1e-6)
    monkeypatch.setattr(notice_board, "_COST", 0)


def told(found: Mapping[str, object] | Sequence[Mapping[str, object]]) -> dict[object, object]:
    """The ids by noun, of a page."""
    assert isinstance(found, dict)
    return {each["noun"]: each["ids"] for each in found["notices"]}


async def stream_of(service: Service, after: str) -> AsyncIterator[bytes]:
    """The blocks of a stream."""
    request = Request({"type": "http", "headers": []})

    async def again() -> Access:
        return owner(None)

    let_in(request.scope, owner(None), again)
    async for block in events._streamed(request, events._reader_of_notices(service), b"", after):
        yield block


async def test_a_page_names_what_has_changed(world: World, door: Asker) -> None:
    """Runs that were asked for, began and ended are named with their jobs, and what people change by its noun."""
    await world.add(ON_DEMAND, "a")
    after = (await door.get(PATH)).json["after"]
    run = await world.trigger("a")
    page = (await door.get(f"{PATH}?after={after}")).json
    assert told(page) == {"runs": [run.id], "jobs": ["a"]}
    (claimed,) = await world.begin(1)
    began = (await door.get(f"{PATH}?after={page['after']}")).json
    assert told(began)["runs"] == [claimed.run.id]
    assert told((await door.get(f"{PATH}?after={began['after']}")).json) == {}
    await door.post("/api/v2/queues/mail/pause", {})
    await world.service.calendars.add("days", dates=["12-25"])
    await audited(world.service).tokens.create("ci", "read")
    changed = told((await door.get(f"{PATH}?after={began['after']}&wait=5")).json)
    assert (changed["queues"], changed["tokens"], changed["audit"]) == (["mail"], ["ci"], [])


async def test_what_is_not_remembered_is_read_again(world: World, door: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a position of another node, or of long ago, everything is to be read again; nonsense is refused."""
    await world.add(ON_DEMAND, "a")
    first = (await door.get(PATH)).json["after"]
    monkeypatch.setattr(notice_board, "KEPT", 2)
    for _ in range(3):
        await world.trigger("a")
        last = (await door.get(f"{PATH}?after={(await door.get(PATH)).json['after']}")).json
    assert (await door.get(f"{PATH}?after={first}")).json["reload"]
    assert (await door.get(f"{PATH}?after=00000000.1")).json["reload"]
    assert not (await door.get(f"{PATH}?after={last['after']}")).json["reload"]
    assert (await door.get(f"{PATH}?after=x")).error["field"] == "after"


async def test_of_many_things_none_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice of more things than it may name stands for any of its noun."""
    monkeypatch.setattr(notice_board, "MOST_IDS", 3)
    await world.add(ON_DEMAND, "a")
    after = (await world.service.events.notices()).after
    for _ in range(5):
        await world.trigger("a")
    found = await world.service.events.notices(after, wait=5)
    assert {each.noun: each.ids for each in found.notices} == {"runs": (), "jobs": ("a",)}


async def test_200_tabs_cost_one_reader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of streams is told of a change after one look at the store, and the reader ends with the last one."""
    await world.add(ON_DEMAND, "a")
    after = (await world.service.events.notices()).after
    monkeypatch.setattr(notice_board, "EVERY", 0.05)
    tabs = [aiter(stream_of(world.service, after)) for _ in range(200)]
    for tab in tabs:
        assert await anext(tab) == b""
    waiting = [asyncio.ensure_future(anext(tab)) for tab in tabs]
    await asyncio.sleep(0)
    looks = world.count("list_runs")
    run = await world.trigger("a")
    blocks = await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert len(set(blocks)) == 1
    place, event, data = blocks[0].decode().strip().split("\n")
    assert (place[:4], event) == ("id: ", "event: changed")
    assert json.decode(data.removeprefix("data: ")) == {"runs": [run.id], "jobs": ["a"]}
    assert len(looks) <= 6
    board = world.service.events._board
    assert board._task is None or board._task.cancelling()
    for tab in tabs:
        await tab.aclose()  # type: ignore[attr-defined]


async def test_a_scope_bounds_notices(world: World) -> None:
    """A token of some jobs is told of these, of runs in its queues, and of neither the audit log nor other names."""
    for job_id in ("mine.a", "other"):
        await world.add(ON_DEMAND, job_id)
    mine = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(jobs=("mine.",))))
    after = (await mine.events.notices()).after
    await world.trigger("other")
    run = await world.trigger("mine.a")
    service = audited(world.service)
    await service.jobs.pause("other")
    await service.tokens.create("secret-name", "read")
    await service.jobs.pause("mine.a")
    await world.service.jobs.resume("mine.a")
    found = {each.noun: each.ids for each in (await mine.events.notices(after, wait=5)).notices}
    assert found == {"jobs": ("mine.a",), "runs": (run.id,)}


async def test_an_alarm_that_time_raises_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody changed anything: what is overdue now, and what is no more, is named to those who see its job."""
    monkeypatch.setattr(notice_board, "NODES_EVERY", 0)
    await world.add(replace(ON_DEMAND, queue="mine", expect_within=60.0), "a")
    mine = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(queues=("mine",))))
    other = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(queues=("other",))))
    of = ["expectations", "jobs"]
    after = (await world.service.events.notices()).after
    alarm = Alarm(
        kind=AlarmKind.OVERDUE, name="a", since=world.clock.now(), expected_by=Moment(1), within=60, of_job=True
    )
    document = Document(kind="alarm", name="a", text=encode_alarm(alarm), version=1)
    await world.store.put_document(document, None)
    for service in (world.service, mine):
        found = await service.events.notices(after, wait=5, of=of)
        assert {each.noun for each in found.notices} == set(of)
    assert not (await other.events.notices(after, of=of)).notices
    after = (await world.service.events.notices()).after
    await world.store.delete_document("alarm", "a", 1)
    assert (await world.service.events.notices(after, wait=5, of=of)).notices


async def test_who_names_things_is_told_of_them_alone(
    world: World, door: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids are those that are asked for, whatever happens beside; a scope holds as ever, and nonsense is refused."""
    for job_id in ("mine.a", "mine.b", "other"):
        await world.add(ON_DEMAND, job_id)
    after = (await door.get(PATH)).json["after"]
    await world.trigger("other")
    await world.trigger("mine.b")
    await world.service.calendars.add("days", dates=["12-25"])

    async def found(of: str) -> dict[object, object]:
        return told((await door.get(f"{PATH}?after={after}&{of}")).json)

    assert await found("of=jobs/mine.b&of=jobs/mine.a") == {"jobs": ["mine.b"]}
    assert await found("of=jobs&of=runs") == {"jobs": [], "runs": []}
    assert await found("of=jobs&of=jobs/mine.b") == {"jobs": ["mine.b"]}
    assert await found("of=jobs/mine.a&of=tokens") == {}
    mine = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(jobs=("mine.a",))))
    assert (await mine.events.notices(after, of=["jobs", "runs", "jobs/other"])).notices == ()
    assert (await door.get(f"{PATH}?of=weather")).error["field"] == "of"
    for wrong in (None, "jobs", 5, [5], ["jobs"] * (notice_board.MOST_WANTED + 1)):
        with pytest.raises(InvalidInput, match=r"^of: "):
            await mine.events.notices(after, of=wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(notice_board, "PAGE", 1)
    after = (await world.service.events.notices()).after
    await world.trigger("other")
    await world.trigger("mine.b")
    assert await found("of=jobs/mine.a") == {"jobs": ["mine.a"]}, "of too many to be named it may be one"


async def test_a_stream_ends_with_its_node(world: World) -> None:
    """A node that stops ends its streams, and opens none."""
    stops = [False]
    world.service.events._board._stops = lambda: stops[-1]
    door, headers = Asker(an_app(world)), [("host", "localhost"), ("accept", "text/event-stream")]
    asked = asyncio.ensure_future(door.ask("GET", PATH, headers=headers, stays=True))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asked.done()
    stops.append(True)
    assert (await asyncio.wait_for(asked, 10)).status == 200
    assert (await door.ask("GET", PATH, headers=headers, stays=True)).error["code"] == "stopping"


async def test_a_store_that_is_away_loses_no_notice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that fails half way keeps what it has found for the next one."""
    from tokimori.errors import StoreUnavailable

    await world.add(ON_DEMAND, "a")
    after = (await world.service.events.notices()).after
    run = await world.trigger("a")
    await world.work(Succeeded())
    asking = world.store.list_runs

    async def away(*_: object) -> object:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(world.store, "list_runs", away)
    with pytest.raises(StoreUnavailable):
        await world.service.events.notices(after)
    monkeypatch.setattr(world.store, "list_runs", asking)
    found = {each.noun: each.ids for each in (await world.service.events.notices(after)).notices}
    assert found["runs"] == (run.id,)
