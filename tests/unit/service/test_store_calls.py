"""Many changes of one request: together, but not all at once, and none of them in silence."""

import asyncio

import pytest

from tests.unit.examples import a_run
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.model.ids import RunId
from tokimori.service.store_calls import AT_ONCE, cancel_all

RUNS = [a_run(id=RunId(f"{number:04}")) for number in range(AT_ONCE + 50)]


async def test_runs_are_cancelled_some_at_a_time() -> None:
    """Each waits for no other one of its two hundred: on a busy store one by one takes a second for each."""
    under_way, most, done = 0, 0, list[str]()

    async def cancel(run_id: str, _: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(run_id)

    assert await cancel_all(cancel, RUNS, "wrong data") == len(RUNS)
    assert done == [run.id for run in RUNS]
    assert most == AT_ONCE


async def test_runs_that_are_gone_are_not_counted() -> None:
    """Who has pruned them meanwhile hinders no other's end."""

    async def cancel(run_id: str, _: str) -> None:
        if run_id == RUNS[0].id:
            raise NotFound("no such run", field="run", value=run_id)

    assert await cancel_all(cancel, RUNS[:3], "wrong data") == 2


async def test_a_store_that_is_away_is_told() -> None:
    """The error comes out when all that were asked with it have ended."""
    ended: list[str] = []

    async def cancel(run_id: str, _: str) -> None:
        if run_id == RUNS[0].id:
            raise StoreUnavailable("it is away")
        await asyncio.sleep(0)
        ended.append(run_id)

    with pytest.raises(StoreUnavailable):
        await cancel_all(cancel, RUNS[:3], "wrong data")
    assert ended == [run.id for run in RUNS[1:3]]
