"""Two nodes under a rate, one killed and one frozen: never more claims in any window, and nothing is missing."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.cluster.accounts import all_runs
from tests.cluster.fleet import Fleet
from tests.cluster.limits import _service
from tests.cluster.test_limits import empty_store
from tokimori.clock import SECOND
from tokimori.model.ids import JobId
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.stores.redis.address import address_of

QUEUES, AT_ONCE = ("mail", "web"), 500
CASES = {"100/s": (SECOND, 100, 10_000), "1000/1m": (60 * SECOND, 1_000, 3_000)}
"""By rate: its period, its units, and how many runs are asked for."""
LOOK = 0.2
"""Seconds between two looks at what is taken: a row stays for a period, and no look is so late."""

Ledger = dict[int, tuple[int, int]]
"""By the moment of a claim: the units that it took, and the sum of all."""


def windows(ledger: Ledger, period: int) -> int:
    """The most units in any window of that length."""
    moments, most, first, units = sorted(ledger), 0, 0, 0
    for moment in moments:
        units += ledger[moment][0]
        while moments[first] <= moment - period:
            units -= ledger[moments[first]][0]
            first += 1
        most = max(most, units)
    return most


def test_windows_are_counted() -> None:
    """A window ends with a claim, and what was taken a period before it is not in it."""
    ledger = {0: (2, 2), 5: (1, 3), 10: (3, 6)}
    assert (windows(ledger, 5), windows(ledger, 6), windows(ledger, 11)) == (3, 4, 6)


async def taken(store: Any, url: str, ledger: Ledger) -> None:
    """Add what stands in the ledger of the store now."""
    if url.startswith("redis"):
        address = address_of(url)
        where = {"unix_socket_path": address.path} if address.path else {"host": address.host, "port": address.port}
        async with Redis(db=address.db, password=address.password, **where) as db:
            found: Any = await db.zrange(f"{address.prefix}taken:api", 0, -1, withscores=True)
            for member, moment in found:
                total, units = map(int, member.split())
                known = ledger.get(int(moment), (0, 0))
                ledger[int(moment)] = known if total in known else (known[0] + units, total)
    else:
        rows = await store._select("SELECT moment, units, total FROM tokimori_taken WHERE semaphore = 'api'")
        ledger |= {int(moment): (int(units), int(total)) for moment, units, total in rows}


async def watched(store: Any, url: str, ledger: Ledger, over: asyncio.Event) -> None:
    """Look at the ledger again and again until it is over, and once more: the last claims may be newer than a look."""
    is_last = False
    while not is_last:
        is_last = over.is_set()
        await taken(store, url, ledger)
        await asyncio.sleep(LOOK)


async def work(fleet: Fleet, rate: str) -> None:
    """Ask for all runs, trouble the nodes, and look at the ledger until all have ended."""
    ledger: Ledger = {}
    period, most, number = CASES[rate]
    async with _service(fleet) as (store, service):
        await store.migrate()
        await service.semaphores.set("api", rate=rate)
        for queue in QUEUES:
            await service.jobs.import_all([(queue, Definition(target=Noop(), semaphores=("api",), queue=queue))])
            for _ in range(number // len(QUEUES) // AT_ONCE):
                await service.jobs.trigger_many(queue, [{} for _ in range(AT_ONCE)])
        nodes = [fleet.start_node() for _ in range(2)]
        fleet.wait_until_up()
        over = asyncio.Event()
        watch = asyncio.create_task(watched(store, fleet.url, ledger, over))
        began, trouble = time.monotonic(), [2.0, 4.0, 12.0]
        while (await service.semaphores.get("api")).waiting or trouble or time.monotonic() < began + 15:
            assert time.monotonic() < began + 400, "some wait in vain"
            if trouble and time.monotonic() > began + trouble[0]:
                match trouble.pop(0):
                    case 2.0:
                        await asyncio.to_thread(fleet.kill, nodes[0])
                        await asyncio.to_thread(fleet.start_node)
                    case 4.0:
                        await asyncio.to_thread(fleet.freeze, nodes[1])
                    case _:
                        await asyncio.to_thread(fleet.thaw, nodes[1])
            await asyncio.sleep(LOOK)
        for _ in range(300):
            runs = [run for queue in QUEUES for run in await all_runs(store, JobId(queue))]
            if all(run.state is RunState.SUCCEEDED for run in runs):
                break
            await asyncio.sleep(LOOK)
        over.set()
        await watch
    assert len(runs) == number
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    if not fleet.url.startswith("redis"):  # there a ledger at rest is forgotten, with its sum
        assert max(total for _, total in ledger.values()) == sum(run.attempt for run in runs), "each claim took a unit"
    assert sum(units for units, _ in ledger.values()) == sum(run.attempt for run in runs), "a look came too late"
    assert windows(ledger, period) <= most
    last = max(ledger) - min(ledger)
    print(f"{len(runs)} runs, {sum(run.attempt for run in runs)} claims in {last / SECOND:.1f} s under {rate}")


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rate", CASES)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
def test_no_window_has_more_claims_than_its_rate(kind: str, rate: str, tmp_path: Path) -> None:
    """The ledger of the store counts every claim, and has no more in any window, whatever happens to the nodes."""
    with empty_store(kind, tmp_path / "tokimori.db") as url:
        fleet = Fleet(tmp_path, url)
        try:
            asyncio.run(work(fleet, rate))
        finally:
            fleet.stop(5)
        assert fleet.left_over() == []
