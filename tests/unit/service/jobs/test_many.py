"""Many requests at once: what they say, how they are kept, and what a refusal on the way tells."""

from typing import Any

import pytest

from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import InvalidInput, Refused, StoreUnavailable
from tokimori.model.ids import JobId
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.service.definitions.requests import Request
from tokimori.service.jobs import requesting

PARENT = "00000000-0000-7000-8000-000000000001"


async def test_each_request_gets_what_it_says(world: World) -> None:
    """Payload, priority, moment and parent are its own; the answers are in the order of the requests."""
    await world.add(ON_DEMAND, "j")
    known = await world.service.jobs.trigger("j", key="known")
    runs = await world.service.jobs.trigger_many(
        "j",
        [
            {"payload": {"n": 1}, "priority": 5},
            {"key": "known", "payload": "other"},
            {"at": "2030-02-01T00:00:00Z", "parent": PARENT},
            {"key": "twice"},
            {"key": "twice"},
        ],
        parent=known.id,
    )
    assert [run.payload for run in runs] == ['{"n":1}', None, None, None, None]
    assert (runs[0].priority, runs[0].parent_id, runs[1].id) == (5, known.id, known.id)
    assert (runs[2].state, runs[2].parent_id) == (RunState.WAITING, PARENT)
    assert runs[3] == runs[4]
    assert len(await world.service.runs.list()) == 4
    assert await world.service.jobs.trigger_many("j", []) == []


async def test_two_of_one_key_need_one_place(world: World) -> None:
    """They are one run, and the bound of the job counts one."""
    await world.add(Definition(target=Noop(), max_running=1, max_waiting=0), "j")
    one, other = await world.service.jobs.trigger_many("j", [{"key": "k"}, {"key": "k"}])
    assert one == other


async def test_they_start_in_their_order(world: World) -> None:
    """Of one moment the first request is claimed first."""
    await world.add(ON_DEMAND, "j")
    runs = await world.service.jobs.trigger_many("j", [{"payload": str(n)} for n in range(50)])
    assert [claimed.run.payload for claimed in await world.begin(50)] == [run.payload for run in runs]


@pytest.mark.parametrize(
    "wrong",
    [5, {"force": True}, {"debounce": 5}, {"key": ""}, {"priority": 101}, {"payload": 5}, {"at": "x"}, {"parent": "x"}],
)
async def test_one_wrong_request_makes_no_run(world: World, wrong: Any) -> None:
    """The error names its number, and none of those before it is kept."""
    await world.add(ON_DEMAND, "j")
    with pytest.raises(InvalidInput, match="number 1") as caught:
        await world.service.jobs.trigger_many("j", [{}, wrong])
    assert (caught.value.field, bool(caught.value.allowed)) == ("requests", True)
    assert (await world.service.runs.list()).runs == []


async def test_a_lost_reply_makes_no_run_twice(world: World) -> None:
    """The same runs are asked for again."""
    await world.add(ON_DEMAND, "j")
    world.store.lose_replies = 1
    runs = await world.service.jobs.trigger_many("j", [{}, {}])
    assert {run.id for run in runs} == {run.id for run in await world.service.runs.list()}


async def test_a_refusal_on_the_way_says_what_was_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept before stays, and its number is told; asked for again by key, it is found."""
    monkeypatch.setattr(requesting, "MOST_TOGETHER", 2)
    await world.add(Definition(target=Noop(), max_running=1, max_waiting=2), "j")
    asked: list[Any] = [{"key": str(n)} for n in range(4)]
    with pytest.raises(Refused, match="the first 2 of 4 requests have their runs") as caught:
        await world.service.jobs.trigger_many("j", asked)
    assert caught.value.field == "max_waiting"
    assert len(await world.service.jobs.trigger_many("j", asked[:3])) == 3
    world.store.lose_replies = 1000
    with pytest.raises(StoreUnavailable, match=r"the reply is lost$"):
        await world.service.jobs.trigger_many("j", asked[:1])


def test_a_batch_has_so_many_requests_and_so_long_payloads() -> None:
    """Whichever is reached first; one that is too long alone is alone."""
    long = Request(payload="x" * (requesting.MOST_CHARACTERS - 1))
    sizes = [len(batch) for batch in requesting.batches([Request()] * 501 + [long, Request(payload="x"), long, long])]
    assert sizes == [500, 3, 1, 1]
    assert list(requesting.batches([])) == []


async def test_the_job_must_be_there(world: World) -> None:
    """An id that is none is named as ever."""
    with pytest.raises(InvalidInput) as caught:
        await world.service.jobs.trigger_many(JobId("a b"), [{}])
    assert caught.value.field == "id"
