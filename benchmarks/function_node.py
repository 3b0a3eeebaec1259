"""A node with an app, as `tokimori worker` wires it: the engine in this process, functions in worker processes.

What has to be opened before, the worker processes too, is not timed: peers are loaded before their clock starts.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.in_process_node import LOOK_EVERY, opened_store, succeeded, watching
from benchmarks.postgres_peers.program import Drained, Watch
from tokimori.clock import SystemClock
from tokimori.executors.executors import executors_of
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import AppSettings
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.wiring import spare_the_collector
from tokimori.ports.executor import Ended, Report
from tokimori.ports.store import Store
from tokimori.service.service import service_on

APP = "benchmarks.function_app:app"
NOTHING, BURN = "bench.nothing", "bench.burn"
"""What its functions are called by jobs."""
PROCESSES = os.cpu_count() or 1
ROOT = Path(__file__).parents[1]
SESSIONS = 4
"""So many of a node's with its store are there before the clock starts, as that of a peer is."""
PATIENCE = 60.0
"""Seconds in which all worker processes have to come."""
AT_ONCE = 1_000
"""So many are asked for by one call."""


async def ask(url: str, function: str, runs: int, payload: dict[str, float] | None = None) -> float:
    """Ask for so many runs of a function. Seconds."""
    async with opened_store(url) as store:
        service = service_on(store, SystemClock(), os.urandom)
        await service.jobs.add("job", function=function)
        watch = Watch()
        for first in range(0, runs, AT_ONCE):
            count = min(AT_ONCE, runs - first)
            await service.jobs.trigger_many("job", [{"payload": payload} for _ in range(count)])
        return watch.drained().seconds


async def drain(url: str, folder: Path, runs: int, concurrency: int) -> Drained:
    """A new node ends all these runs of functions, which are due. The CPU is that of the engine alone.

    Each process works on so many at a time, as `tokimori worker --concurrency` says.
    """
    ends = Ends()
    async with (
        opened_store(url) as store,
        _node(store, folder, url, concurrency, ends) as node,
        watching(url) as has_live,
    ):
        await asyncio.gather(*(store.now() for _ in range(SESSIONS)))
        spare_the_collector()
        watch = Watch()
        await node.start()
        task = asyncio.create_task(node.run())
        while ends.number < runs and not task.done():  # noqa: ASYNC110  as with peers, no look disturbs the server
            await asyncio.sleep(LOOK_EVERY)
        while await has_live():  # noqa: ASYNC110  the node is watched from outside
            await asyncio.sleep(LOOK_EVERY / 4)
        drained = watch.drained()
        node.stop()
        await task
        ended = await succeeded(store, runs + 1)
        assert len(ended) == runs, f"{len(ended)} of {runs} runs have succeeded"
        assert not {run.pid for run in ended} & {os.getpid(), None}, "some were not run by a worker process"
    return drained


class Ends:
    """How many attempts have ended so far."""

    def __init__(self) -> None:
        self.number = 0

    def counted(self, receive: Callable[[Report], None]) -> Callable[[Report], None]:
        """The same, but that ends are counted."""

        def count(report: Report) -> None:
            self.number += isinstance(report, Ended)
            receive(report)

        return count


@asynccontextmanager
async def _node(store: Store, folder: Path, url: str, concurrency: int, ends: Ends) -> AsyncIterator[Node]:
    clock = SystemClock()
    environ = {**os.environ, "TOKIMORI_STORE": url, "PYTHONPATH": str(ROOT)}
    settings = AppSettings(
        app=APP,
        secret=os.urandom(16).hex(),
        state_dir=folder,
        runs_dir=folder / "runs",
        environ=environ,
        processes=PROCESSES,
        concurrency=concurrency,
    )
    functions, came = FunctionExecutor(clock, settings), asyncio.Semaphore(0)
    functions.call_when(gone=_stay, able=came.release)
    executors = executors_of(clock, folder, functions)
    hello = await functions.load()
    assert hello is not None
    async with asyncio.timeout(PATIENCE):
        for _ in range(PROCESSES):  # the first one tells of the app; others may come a tenth of a second later
            await came.acquire()
    identity = Identity(
        host="bench",
        boot_id="bench",
        pid=os.getpid(),
        version="0",
        handlers=tuple(hello.handlers),
        only_handlers=True,
        concurrency=PROCESSES * concurrency,
    )
    node = Node(store, executors, clock, os.urandom, identity)
    await executors.open(ends.counted(node.receive))
    try:
        yield node
    finally:
        await executors.close()


def _stay() -> None:
    """No program is worked for that could go."""
