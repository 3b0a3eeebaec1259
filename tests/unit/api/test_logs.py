import asyncio

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import NODE, World
from tokimori.api import logs
from tokimori.clock import Moment
from tokimori.engine.settle import change_of
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Output, times_since


async def wrote(world: World, run_id: str, attempt: int, head: bytes, *, tail: bytes = b"", size: int = 0) -> None:
    """Its attempt has written this; `size` bytes in all if some are left out."""
    row = Output(run_id=RunId(run_id), attempt=attempt, size=size or len(head + tail), head=head, tail=tail)
    await world.store.save_outputs([row])


@pytest.fixture
async def run_id(world: World) -> str:
    await world.add({"noop": True, "retry": {"attempts": 2}}, "a")
    return (await world.trigger("a")).id


async def test_logs_are_what_was_written(world: World, door: Asker, run_id: str) -> None:
    """They come as text, with how much there is; from a byte on, and of an attempt by its number."""
    await world.work(Failed(error="no luck"), Succeeded())
    await wrote(world, run_id, 1, b"first\n")
    await wrote(world, run_id, 2, b"second\n")
    path = f"/api/v2/runs/{run_id}/logs"
    answer = await door.get(path)
    assert (answer.body, answer.headers["tokimori-log-size"]) == (b"second\n", "7")
    assert answer.headers["content-type"].startswith("text/plain")
    assert (await door.get(f"{path}?attempt=1&after=2")).body == b"rst\n"
    assert (await door.get(f"{path}?attempt=3")).status == 404


async def test_what_is_left_out_is_told(world: World, door: Asker, run_id: str) -> None:
    """A line stands in place of the bytes that nobody has kept."""
    await world.work(Succeeded())
    await wrote(world, run_id, 1, b"head", tail=b"tail", size=20)
    assert (await door.get(f"/api/v2/runs/{run_id}/logs")).body.decode() == "head\n… 12 bytes left out …\ntail"
    assert (await door.get(f"/api/v2/runs/{run_id}/logs?after=18")).body == b"il"


@pytest.mark.parametrize(
    ("asked", "status", "text", "said"),
    [
        ("bytes=0-2", 206, b"012", "bytes 0-2/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
        ("bytes=0-0,5-6", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=5-3", 416, None, "bytes */10"),
    ],
)
async def test_a_part_is_sent(
    *, world: World, door: Asker, run_id: str, asked: str, status: int, text: bytes | None, said: str | None
) -> None:
    """The header `Range` names a part; where it names none or several, all is sent."""
    await world.work(Succeeded())
    await wrote(world, run_id, 1, b"0123456789")
    answer = await door.get(f"/api/v2/runs/{run_id}/logs", range=asked)
    assert (answer.status, answer.headers.get("content-range")) == (status, said)
    assert text is None or answer.body == text


async def test_a_run_is_followed_to_its_end(
    world: World, door: Asker, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows gets what its attempts write, one after the other, each byte once."""
    monkeypatch.setattr(logs, "FIRST_LOOK", 0)
    path = f"/api/v2/runs/{run_id}/logs?follow=true"
    texts = logs.new_text(world.service, run_id, logs.LogQuery())
    (claimed,) = await world.begin(1)
    await wrote(world, run_id, 1, b"one ")
    assert await anext(texts) == b"one "
    await wrote(world, run_id, 1, b"one two ")
    assert await anext(texts) == b"two "
    change = change_of(claimed, Failed(error="no luck"), owner=NODE, now=world.clock.now(), chance=0, pid=7)
    await wrote(world, run_id, 1, b"one two three ")
    await world.store.settle([change], NODE, world.clock.now())
    await world.work(Succeeded())
    await wrote(world, run_id, 2, b"four")
    assert [text async for text in texts] == [b"three ", b"four"]
    answer = await door.ask("GET", path, headers=[("host", "localhost")], stays=True)
    assert (answer.status, answer.body) == (200, b"four")


async def test_few_may_follow(world: World, door: Asker, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many follow as may, one more is told to come later: also of those that come at once."""
    monkeypatch.setattr(logs, "MOST_FOLLOWED", 2)
    path = f"/api/v2/runs/{run_id}/logs?follow=true"
    for _ in range(2):  # who has gone makes room
        asked = [door.ask("GET", path, headers=[("host", "localhost")], stays=True) for _ in range(5)]
        answers = [asyncio.ensure_future(each) for each in asked]
        for _ in range(50):
            await asyncio.sleep(0)
        assert [each.result().error["code"] for each in answers if each.done()] == ["too_many"] * 3
        for each in answers:
            each.cancel()
        await asyncio.wait(answers)


async def test_lines_come_with_their_times(
    world: World, door: Asker, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that nobody timed with the start of their attempt, behind a mark; a follower gets whole lines."""
    monkeypatch.setattr(logs, "FIRST_LOOK", 0)
    (claimed,) = await world.begin(1)
    texts = logs.new_text(world.service, run_id, logs.LogQuery(timestamps=True))

    async def wrote_by(head: bytes, marks: bytes) -> None:
        times = times_since(Moment(NEW_YEAR), marks)
        row = Output(run_id=RunId(run_id), attempt=1, size=len(head), head=head, times=times)
        await world.store.save_outputs([row])

    await wrote_by(b"one\ntw", bytes([0, 1, 4, 9]))
    assert await anext(texts) == b"2030-01-01T00:00:00.001Z one\n"
    await wrote_by(b"one\ntwo\n", bytes([0, 1, 4, 9, 2, 5]))
    assert await anext(texts) == b"2030-01-01T00:00:00.010Z two\n"
    change = change_of(claimed, Succeeded(), owner=NODE, now=world.clock.now(), chance=0, started=world.clock.now())
    await world.store.settle([change], NODE, world.clock.now())
    path = f"/api/v2/runs/{run_id}/logs?timestamps=true"
    assert (await door.get(path)).body == b"2030-01-01T00:00:00.001Z one\n2030-01-01T00:00:00.010Z two\n"
    assert (await door.get(f"{path}&after=4")).body == b"2030-01-01T00:00:00.010Z two\n"
    await wrote(world, run_id, 1, b"nobody timed it")
    assert (await door.get(path)).body == b"~2030-01-01T00:00:01.000Z nobody timed it\n"
