"""What a place does with what its workers have in hand, on a store that is slow or away, in virtual time."""

import asyncio
from typing import Any

from msgspec.structs import replace

from tests.simulation.virtual_time import let_pass
from tests.unit.examples import a_definition
from tests.unit.service.claims.test_claims import Place, virtually
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import RunId
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Claimed
from tokimori.service.claims.place import FAREWELL

SLOW = 0.5
"""Seconds that a store needs for each end of a run."""
MANY = 100


async def many_in_hand(place: Place, number: int, alive_time: float) -> list[str]:
    """So many runs, in the hands of a worker."""
    job = await place.service.jobs.add(None, function="resize", retry={"lost_attempts": 1})
    for _ in range(number):
        await place.service.jobs.trigger(job.id)
    return [run.run_id for run in await place.claims.claim(["resize"], limit=number, alive_time=alive_time)]


def slow(place: Place, seconds: float) -> None:
    """From now on each settle takes so long."""
    settle = place.store.settle

    async def slowly(*args: Any) -> Any:
        await let_pass(seconds)
        return await settle(*args)

    place.store.settle = slowly  # type: ignore[assignment, method-assign]


@virtually
async def test_a_worker_that_goes_with_much_in_hand_costs_no_other_its_runs(place: Place) -> None:
    """However slow the store writes that they are lost, the place goes on to beat: else it would be taken for dead."""
    lost = await many_in_hand(place, MANY, 10)
    await place.ask(function="other")
    (kept,) = await place.claims.claim(["other"], alive_time=600)
    _, watches = place.another()
    watching = asyncio.ensure_future(watches.claim(["none"], wait=60))
    slow(place, SLOW)
    await let_pass(40)
    assert {node.state for node in await place.store.list_nodes()} == {NodeState.ALIVE}
    assert await place.state(kept.run_id) is RunState.RUNNING
    assert {(await place.run(RunId(run))).lost for run in lost} == {1}
    watching.cancel()


@virtually
async def test_a_place_does_not_wait_for_a_store_that_is_away(place: Place) -> None:
    """Whoever ends it goes soon, however much it has in hand: others take over what could not be handed back."""
    await many_in_hand(place, MANY, 600)
    settle, loop = place.store.settle, asyncio.get_running_loop()

    async def away(*_: Any) -> Any:
        await let_pass(3)
        raise StoreUnavailable("nobody answers")

    place.store.settle = away  # type: ignore[assignment, method-assign]
    began = loop.time()
    await place.close()
    assert loop.time() - began < FAREWELL + 3.1
    place.store.settle = settle  # type: ignore[method-assign]


@virtually
async def test_a_run_that_a_place_can_not_read_was_not_begun(place: Place) -> None:
    """It goes back, and has not asked for that: where its job lets none ask it failed."""
    asked = await place.ask(retry={"asked_retries": 0})
    claim = place.store.claim

    async def of_no_function(*args: Any) -> list[Claimed]:
        return [replace(each, definition=a_definition(target=Noop())) for each in await claim(*args)]

    place.store.claim = of_no_function  # type: ignore[assignment, method-assign]
    assert await place.claims.claim(["resize"]) == []
    found = await place.run(asked.id)
    assert (found.state, found.attempt, found.details.unbegun) == (RunState.WAITING, 1, 1)
