"""What runs when a machine starts does not hold up its node."""

import asyncio
import logging

import pytest

from tests.simulation.virtual_time import let_pass, run_virtually
from tests.unit.node.test_store_wait import AWAY, Away
from tokimori.errors import StoreRefused
from tokimori.node.wiring import asked_beside


def test_a_node_works_while_it_is_asked_for() -> None:
    """It is asked again while the store is away, and not waited for: neither at the beginning nor at the end."""
    store = Away(3, AWAY)

    async def scenario() -> None:
        async with asked_beside(asyncio.Event().wait):
            pass
        async with asked_beside(store.ask):
            assert store.asked == []
            await let_pass(10)

    run_virtually(scenario())
    assert len(store.asked) == 4


@pytest.mark.parametrize("fault", [StoreRefused("no"), RuntimeError("no threads")])
def test_what_is_refused_ends_no_node(caplog: pytest.LogCaptureFixture, fault: Exception) -> None:
    """The log says so."""

    async def refuse() -> None:
        raise fault

    async def scenario() -> None:
        async with asked_beside(refuse):
            await let_pass(1)

    with caplog.at_level(logging.ERROR):
        run_virtually(scenario())
    assert ["could be asked for" in record.message for record in caplog.records] == [True]
