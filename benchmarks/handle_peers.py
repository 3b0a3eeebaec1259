"""Contenders whose results are waited for: `work NAME URL` is a worker, `ask NAME URL RUNS` a program beside it.

The worker says `up` and goes on until it is told to stop. Its function takes a number and returns the moment at which
it ends. The program asks for one run at a time, with pauses in which the worker is idle, and prints three lengths in
milliseconds for each: of the request, from the end of the function to its result, and of both together.

Settings. Huey: four threads, blocking pops and notices of results (`notify_result`) on Redis; on SQLite and PostgreSQL
a look every 10 ms for work and for results, as by default it would mostly sleep. Celery: as for its drain, with results
in Redis, for which it subscribes. taskiq: the list with its results in Redis, and a look every 10 ms instead of 200.
DBOS: a queue and a client, which look every 10 ms instead of each second, and its notices, the default.
"""

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from benchmarks.function_app import app
from benchmarks.function_app import moment as tokimori_moment

THREADS = 4
LOOK = 0.01
"""Seconds between two looks of those that look."""
WARM_UP = 10
"""So many requests before those that are measured."""
APART = 0.02, 0.12
"""Seconds between two requests."""


class Peer(Protocol):
    """A queue with results."""

    def working(self) -> Any:
        """Return a context in which it works in this process."""

    async def ask(self, number: int) -> Any:
        """Request a run."""

    async def result(self, asked: Any) -> float:
        """Wait for its result."""


def moment(number: int) -> float:
    """Return the moment at which it ends."""
    return time.time()


class Tokimori:
    """The program's side; `tokimori worker` is its worker."""

    def __init__(self, url: str) -> None:
        os.environ["TOKIMORI_STORE"] = url

    def working(self) -> Any:
        """None: see above."""
        raise NotImplementedError

    async def ask(self, number: int) -> Any:
        """Without holding up the loop."""
        return await tokimori_moment.aenqueue(number)

    async def result(self, asked: Any) -> float:
        """The same."""
        return float(await asked.aresult(timeout=60))


class Huey:
    """Its calls block, and nobody else is on the loop."""

    def __init__(self, url: str) -> None:
        from huey import RedisHuey, SqliteHuey
        from huey.api import PostgresHuey

        self._looks = {"initial_delay": LOOK, "max_delay": LOOK}
        match urlsplit(url).scheme:
            case "sqlite":
                self._huey = SqliteHuey("peer", filename=f"{urlsplit(url).path}.huey", fsync=True)
            case "postgresql":
                self._huey = PostgresHuey("peer", dsn=url)
            case _:
                address = url.replace("redis+unix:", "unix:")
                self._huey = RedisHuey("peer", url=address, notify_result=True)
        self._moment = self._huey.task(name="moment")(moment)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """As `huey_consumer -w 4` does."""
        consumer = self._huey.create_consumer(workers=THREADS, worker_type="thread", periodic=False, **self._looks)
        consumer.start()
        yield
        consumer.stop(graceful=True)

    async def ask(self, number: int) -> Any:
        """One task."""
        return self._moment(number)

    async def result(self, asked: Any) -> float:
        """By a notice on Redis, else by looks."""
        return float(asked.get(blocking=True, timeout=60, backoff=1, max_delay=LOOK))


class CeleryPeer:
    """Its calls block, too."""

    def __init__(self, url: str) -> None:
        from celery import Celery

        path = urlsplit(url).path
        self._app = Celery("peer", broker=f"redis+socket://{path}", backend=f"redis+socket://{path}")
        self._app.conf.update(task_acks_late=True, worker_hijack_root_logger=False)
        self._moment: Any = self._app.task(name="moment")(moment)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in this process, its functions in threads."""
        import threading

        from celery.worker import WorkController

        self._app.set_default()  # for its threads
        self._app.finalize()
        alone = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
        ready = threading.Event()
        how = {"pool_cls": "threads", "concurrency": THREADS, "ready_callback": lambda _: ready.set()}
        worker = WorkController(app=self._app, **how, **alone)
        threading.Thread(target=worker.start, daemon=True).start()
        await asyncio.to_thread(ready.wait)
        yield
        worker.stop()

    async def ask(self, number: int) -> Any:
        """One task."""
        return self._moment.delay(number)

    async def result(self, asked: Any) -> float:
        """By the channel to which it has subscribed."""
        return float(asked.get(timeout=60))


class Taskiq:
    """All of it is asynchronous."""

    def __init__(self, url: str) -> None:
        from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

        address = url.replace("redis+unix:", "unix:")
        self._broker = ListQueueBroker(address).with_result_backend(RedisAsyncResultBackend(address))
        self._moment: Any = self._broker.task("moment")(moment)
        self._begun = False

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """As `taskiq worker --workers 1` does."""
        from taskiq.api import run_receiver_task

        task = asyncio.create_task(run_receiver_task(self._broker, run_startup=True))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def ask(self, number: int) -> Any:
        """One task."""
        if not self._begun:
            await self._broker.startup()
            self._begun = True
        return await self._moment.kiq(number)

    async def result(self, asked: Any) -> float:
        """By looks."""
        return float((await asked.wait_result(check_interval=LOOK, timeout=60)).return_value)


class Dbos:
    """A workflow in a queue, asked for by a client."""

    def __init__(self, url: str) -> None:
        scheme = urlsplit(url).scheme
        self._url = url.replace("postgresql:", "postgresql+psycopg:") if scheme != "sqlite" else f"{url}.dbos"
        self._url = self._url.replace("sqlite://", "sqlite:///")
        self._client: Any = None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """An application in this process."""
        from dbos import DBOS

        DBOS(config={"name": "peer", "system_database_url": self._url, "run_admin_server": False})
        DBOS.workflow(name="moment")(moment)
        DBOS.launch()
        await DBOS.register_queue_async("peer", polling_interval_sec=LOOK)
        yield
        DBOS.destroy()

    async def ask(self, number: int) -> Any:
        """One workflow."""
        from dbos import DBOSClient

        if self._client is None:
            self._client = await asyncio.to_thread(lambda: DBOSClient(system_database_url=self._url))
        return await self._client.enqueue_async({"queue_name": "peer", "workflow_name": "moment"}, number)

    async def result(self, asked: Any) -> float:
        """By looks."""
        return float(await asked.get_result(polling_interval_sec=LOOK))


PEERS: dict[str, Any] = {"tokimori": Tokimori, "huey": Huey, "celery": CeleryPeer, "taskiq": Taskiq, "dbos": Dbos}


async def _work(peer: Peer) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with peer.working():
        print("up", flush=True)
        await told.wait()


async def _ask(peer: Peer, runs: int) -> None:
    chance = random.Random(1)
    for number in range(runs + WARM_UP):
        await asyncio.sleep(chance.uniform(*APART))
        begun = time.time()
        asked = await peer.ask(number)
        got = time.time()
        ended = await peer.result(asked)
        now = time.time()
        if number >= WARM_UP:
            print(*((length) * 1000 for length in (got - begun, now - ended, now - begun)), flush=True)


def main() -> None:
    """Do what the command line says."""
    logging.disable(logging.CRITICAL)
    verb, name, url, *runs = sys.argv[1:]
    peer: Peer = PEERS[name](url)
    asyncio.run(_work(peer) if verb == "work" else _ask(peer, int(runs[0])))
    app.client.close() if name == "tokimori" else None
    os._exit(0)  # some leave threads behind


if __name__ == "__main__":
    main()
