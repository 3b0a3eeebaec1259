"""Handles of requested runs: results, errors and waits, on every store and through the door of a node."""

import asyncio
import os
import signal
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import tokimori
from tests.servers import mariadb, postgres, redis
from tokimori.apps.app import App
from tokimori.apps.handle import Handle

SERVERS: dict[str, Any] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}


class Order(BaseModel):
    """A model of pydantic."""

    number: int
    placed: datetime


@dataclass
class Parcel:
    """A dataclass with others in it."""

    orders: list[Order]
    weights: dict[int, float]


class Trial:
    """An app, and its functions."""

    def __init__(self, url: str) -> None:
        self.app = app = App("trial", url=url)

        @app.job
        async def pack(number: int) -> Parcel:
            placed = datetime(2030, 1, 1, tzinfo=UTC)
            return Parcel(orders=[Order(number=number, placed=placed)], weights={number: 1.5})

        @app.job
        def refuse(number: int) -> int:
            tokimori.current_task().log(f"looking at {number}")
            raise ValueError(f"order {number} is none")

        @app.job
        async def rest(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return seconds

        @app.job
        def none() -> None: ...

        self.pack, self.refuse, self.rest, self.none = pack, refuse, rest, none


@pytest.fixture(params=["sqlite", *SERVERS], scope="module")
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One at work within this program."""
    folder, loans = tmp_path_factory.mktemp("trial"), SERVERS.get(request.param)
    trial = Trial(f"sqlite://{folder}/t.db" if loans is None else loans.url_of(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKIMORI_STATE_DIR", str(folder / "state"))
        patch.setenv("TOKIMORI_NODE_STOP_GRACE", "1")  # of a run that its test has left
        with trial.app.running():
            yield trial
    trial.app.client.close()
    if loans is not None:
        loans.give_back(folder)


def test_a_handle_says_what_became_of_its_run(trial: Trial) -> None:
    """Its result has the types of the annotation, its moments are aware, and its error has a traceback."""
    handle = trial.pack.enqueue(7)
    placed = datetime(2030, 1, 1, tzinfo=UTC)
    assert handle.result(timeout=20) == Parcel(orders=[Order(number=7, placed=placed)], weights={7: 1.5})
    assert (handle.state, handle.attempt, handle.error) == ("succeeded", 1, None)
    assert handle.due <= handle.started <= handle.ended <= datetime.now(UTC)  # type: ignore[operator]
    assert trial.app.handle(handle.id).result() == handle.result()
    assert trial.app.handle(handle.id).state == "succeeded"
    assert trial.none.enqueue().result(timeout=20) is None

    failing = trial.refuse.enqueue(3)
    with pytest.raises(tokimori.RunFailed, match="ended as failed: ValueError: order 3 is none") as raised:
        failing.result(timeout=20)
    assert (raised.value.error, raised.value.type) == ("ValueError: order 3 is none", "ValueError")
    assert failing.error == "ValueError: order 3 is none"
    assert failing.error.traceback.startswith("Traceback (most") and "in refuse" in failing.error.traceback
    assert failing.logs().startswith("looking at 3\nTraceback (most recent call last):")
    assert trial.app.handle(failing.id).refresh().error == failing.error


async def test_each_blocking_call_has_one_that_is_awaited(trial: Trial) -> None:
    """They give the same, and hold up no loop."""
    handle = await trial.rest.aenqueue(0.01)
    assert await handle.aresult(timeout=20) == 0.01
    assert await (await trial.rest.after("0.1s").aenqueue(0.0)) == 0.0
    handles = await trial.pack.aenqueue_many(trial.pack.request(n) for n in (1, 2))
    assert [list(each.weights) for each in await tokimori.agather(handles, timeout=20)] == [[1], [2]]
    slow, fast = await trial.rest.aenqueue(0.8), await trial.rest.aenqueue(0.1)
    assert [each async for each in tokimori.as_completed([slow, fast], timeout=20)] == [fast, slow]
    with pytest.raises(tokimori.RunFailed):
        await tokimori.agather([await trial.refuse.aenqueue(1)])
    both = [await trial.rest.aenqueue(0), await trial.refuse.aenqueue(1)]
    found = [type(each) for each in await tokimori.agather(both, return_exceptions=True)]
    assert found == [float, tokimori.RunFailed]
    handle = await trial.rest.aenqueue(60)
    with pytest.raises(TimeoutError, match=f"the run {handle.id} is still"):
        await handle.aresult(timeout=0.2)
    await handle.acancel("not needed")
    with pytest.raises(tokimori.RunFailed, match="ended as cancelled"):
        await trial.app.handle(handle.id).aresult(timeout=20)
    assert (await handle.arefresh()).state == "cancelled"
    assert await handle.alogs() == ""


def test_handles_are_waited_for_together(trial: Trial) -> None:
    """In the order of their ends, and in that of the requests; threads share the client."""
    slow, fast = trial.rest.enqueue(0.8), trial.rest.enqueue(0.1)
    assert list(tokimori.as_completed([slow, fast], timeout=20)) == [fast, slow]
    assert tokimori.gather([slow, fast]) == tokimori.gather([slow, fast], return_exceptions=True) == [0.8, 0.1]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: trial.rest.enqueue(n / 100).result(20), range(16)))
    assert results == [n / 100 for n in range(16)]
    with pytest.raises(tokimori.RunNotEnded):
        tokimori.gather([trial.rest.enqueue(60)], timeout=0.1)


def test_a_child_that_was_forked_asks_and_waits_by_itself(trial: Trial) -> None:
    """It has a pool of its own; that of the parent goes on."""
    handle = trial.rest.enqueue(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ok = trial.rest.enqueue(0.25).result(20) == 0.25 and handle.result(20) == 0.0
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert handle.result(timeout=20) == 0.0


@contextmanager
def frozen(server: postgres.Server) -> Iterator[None]:
    """All processes of a server are stopped meanwhile."""
    pid = server.process.pid
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            os.kill(each, signal.SIGCONT)


@pytest.mark.prove
async def test_a_frozen_store_holds_up_no_loop() -> None:
    """A request waits four seconds while the server is stopped; the loop goes on, also if nothing was opened before.

    It gets its run then, or an error that says to ask again, and the next one gets its run.
    """
    server = postgres.Server()
    opened, new = (Trial(server.make(name)) for name in ("one", "two"))
    for each in (opened, new):
        with tokimori.open(each.app.url) as client:
            await asyncio.to_thread(client.db.migrate)
    await opened.none.aenqueue()
    longest, goes_on = 0.0, True

    async def beat() -> None:
        nonlocal longest
        while goes_on:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    beating = asyncio.create_task(beat())
    with frozen(server):
        requests = [asyncio.create_task(each.none.aenqueue()) for each in (opened, new)]
        await asyncio.sleep(4)
    found = await asyncio.gather(*requests, return_exceptions=True)
    assert all(isinstance(each, Handle | tokimori.StoreUnavailable) for each in found), found
    handles = await asyncio.gather(*(each.none.aenqueue() for each in (opened, new)))
    goes_on = False
    await beating
    assert longest < 0.5, longest
    assert [each.state for each in handles] == ["ready", "ready"]
    for trial in (opened, new):
        await asyncio.to_thread(trial.app.client.close)
    server.stop()


async def test_a_blocking_call_on_a_loop_is_told_once_what_to_write() -> None:
    """With the line of the program that calls; the call is carried out."""
    app = App("blocks", url="memory:")

    @app.job
    async def fn(number: int) -> int:
        return number

    for ask, instead in ((lambda: fn.enqueue(1), "await fn.aenqueue"), (app.client.jobs.list, "open_async")):
        with pytest.warns(RuntimeWarning, match=instead) as told:
            ask()
            ask()
        assert [Path(each.filename).name for each in told] == [Path(__file__).name]
    handle: Handle[int] = await fn.aenqueue(1)
    assert handle.state == "ready"
    app.client.close()
