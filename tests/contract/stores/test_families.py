"""Joins and diamonds under real concurrency: a child for each end or root that asks for one, and never a second."""

from asyncio import gather
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stores.conftest import STORES
from tests.contract.stores.families import add_family, edges_in, every_run, families, take_part, wrong_births
from tests.laws import examples
from tokimori.model.transitions import ENDS
from tokimori.ports.store import Store

FAMILIES, ROOTS = 6, examples(50)


@pytest.fixture
async def second(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """The same store through sessions of its own; memory has none."""
    kind = request.node.callspec.params["store"]
    if kind == "memory":
        yield store
        return
    opened = STORES[kind](tmp_path)
    await opened.open()
    yield opened
    await opened.close()


async def test_every_child_is_born_once(store: Store, second: Store) -> None:
    """Whoever settles what of random families at one time: none is missing, none doubled, and no settle refused."""
    family = families(FAMILIES, seed=0)
    await add_family(store, family, ROOTS)
    await gather(*(take_part(each, family, n) for n, each in enumerate((store, store, second, second))))
    runs = await every_run(store)
    assert {run.state for run in runs} <= ENDS
    assert wrong_births(edges_in(family), runs) == []
