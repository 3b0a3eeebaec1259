"""The client over the HTTP door of a real node."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tokimori import perfectsched
from tokimori.client import door


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One on a store of its own."""
    return Program(tmp_path_factory.mktemp("over-http"))


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """Its node."""
    with site_of(program) as site:
        yield site


def test_from_job_to_output(site: Site) -> None:
    """A job that was added over HTTP runs, and its run, attempts and output are the values that a store gives."""
    with tokimori.open(site.entry, author="ann") as client:
        job = client.jobs.add("hello", command="echo hello", schedule="0 3 * * *", time_zone="Europe/Paris")
        assert client.jobs.get("hello") == job
        ended = client.runs.wait(client.jobs.trigger("hello", key="k").id, timeout=30)
        assert (ended.state, ended.exit_code) == (tokimori.RunState.SUCCEEDED, 0)
        output = client.runs.output(ended.id)
        assert output is not None
        assert output.head == b"hello\n"
        assert client.jobs.trigger("hello", key="k").id == ended.id
        assert client.jobs.pause("hello", "why").by == "ann"
        assert [node.host for node in client.nodes.list()] == [client.runs.get(ended.id).attempts[0].host]


def test_jobs_and_runs_are_found_over_http(site: Site) -> None:
    """A search goes and comes back as the same values as on a store, in pages."""
    with tokimori.open(site.entry) as client:
        for job_id in ("find-a", "find-b"):
            client.jobs.add(job_id, noop=True, owner="eve", labels={"eu": "yes"}, queue="far")
            client.jobs.pause(job_id)
        first = client.jobs.list(owner="eve", label=("eu=yes",), limit=1)
        assert (first.jobs, first.next) == ([client.jobs.get("find-a")], "find-a")
        paused = frozenset({tokimori.JobState.PAUSED})
        behind = client.jobs.list(owner="eve", state=paused, after=first.next)
        assert ([job.id for job in behind.jobs], behind.next) == (["find-b"], None)
        run = client.jobs.trigger("find-b", force=True)
        found = client.runs.list(label=("eu",), since=run.created)
        assert [each.id for each in found.runs] == [run.id]


def test_a_worker_in_python_over_http(site: Site) -> None:
    """Runs are claimed, kept and finished through the door, and a wait there ends with the first run."""
    with tokimori.open(site.entry) as client:
        client.jobs.add("work", function="count")
        run = client.jobs.trigger("work", payload={"n": 3})
        (mine,) = client.claims.claim(["count"], wait=10, worker="py")
        assert (mine.run_id, mine.payload) == (run.id, '{"n":3}')
        assert client.claims.heartbeat(mine.run_id, mine.token).cancel is None
        assert client.claims.finish(mine.run_id, mine.token, result=[1]) is tokimori.RunState.SUCCEEDED
        with pytest.raises(tokimori.ClaimLost):
            client.claims.heartbeat(mine.run_id, mine.token)


def test_the_secret_may_come_from_the_state_folder(
    site: Site, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without it is enough beside the node; a wrong one is told as what it is."""
    monkeypatch.setenv("TOKIMORI_STATE_DIR", program.environment["TOKIMORI_STATE_DIR"])
    with tokimori.open(site.url) as client:
        assert client.db.now() > datetime(2020, 1, 1, tzinfo=UTC)
    with (
        tokimori.open(f"{site.url}?secret=wrong") as client,
        pytest.raises(tokimori.Refused, match="without its secret"),
    ):
        client.db.now()


def test_what_a_door_does_not_offer_says_so(site: Site) -> None:
    """Locks, copies and changes of tables need the store, and the error names it."""
    with tokimori.open(site.entry) as client:
        with pytest.raises(tokimori.Refused, match="does not offer"), client.mutex("m"):
            pass
        for call in (
            client.db.migrate,
            client.db.sql,
            client.db.check,
            lambda: client.copy_to("memory:"),
            lambda: client.within(sqlite3.connect(":memory:")).jobs.trigger("x"),
        ):
            with pytest.raises(tokimori.Refused, match="open the store itself"):
                call()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://", "no node's address"),
        ("http://h:x/", "no node's address"),
        ("http://ann:pw@h/", "no node's address"),
        ("http://127.0.0.1:1/", "no secret"),
    ],
)
def test_a_bad_address_is_refused_at_once(url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `open`, with what an address is, and without the password that somebody wrote into it."""
    monkeypatch.setenv("TOKIMORI_STATE_DIR", str(tmp_path))
    with pytest.raises(tokimori.InvalidInput, match=said) as refused:
        tokimori.open(url)
    assert refused.value.field == "url"
    assert "pw" not in str(refused.value)


def test_a_node_that_does_not_answer() -> None:
    """It is an error of the store, which says what to do; a store for semaphores can't be named."""
    unavailable = pytest.raises(tokimori.StoreUnavailable, match="start it there")
    with tokimori.open("http://127.0.0.1:1/?secret=x") as client, unavailable:
        client.db.now()
    with pytest.raises(tokimori.InvalidInput) as refused:
        tokimori.open("http://127.0.0.1:1/?secret=x", semaphore_store="memory:")
    assert refused.value.field == "semaphore_store"


async def test_the_asynchronous_client_too(site: Site) -> None:
    """`open_async` takes the same address, and is opened and closed in the same way."""
    async with tokimori.open_async(site.entry) as client:
        assert (await client.schedules.explain("0 3 * * *")).moments
        assert await client.queues.list() is not None
    with pytest.raises(tokimori.Refused, match="not open"):
        await client.db.now()


async def test_calls_that_wait_hold_up_no_others(site: Site) -> None:
    """A worker with a hundred claims that wait for a run still says within a moment that it lives."""
    async with tokimori.open_async(site.entry) as client:
        await client.jobs.add("beside", function="beside")
        await client.jobs.trigger("beside")
        (mine,) = await client.claims.claim(["beside"])
        claims = [asyncio.create_task(client.claims.claim([f"idle-{n}"], wait=60)) for n in range(100)]
        await asyncio.sleep(1)
        await asyncio.wait_for(client.claims.heartbeat(mine.run_id, mine.token), 20)
        for claim in claims:
            claim.cancel()
        await asyncio.wait(claims)
        await client.claims.finish(mine.run_id, mine.token)


async def test_a_call_may_wait_for_its_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time begins when it is sent: however many wait before it, none is told as unanswered."""
    monkeypatch.setattr(door, "WAITING_AT_ONCE", 1)
    monkeypatch.setattr(door, "LONGEST_CALL", 2.5)
    async with tokimori.open_async(site.entry) as client:
        waiting = (client.claims.claim([f"idle-{n}"], wait=1) for n in range(4))
        assert await asyncio.gather(*waiting) == [[]] * 4


def test_perfectsched_over_http(site: Site) -> None:
    """The collection of PerfectSched works at the door of a node, which makes runs of its slots."""
    with perfectsched.open(site.entry) as schedules:
        hour = time.time() // 3600 * 3600
        assert schedules.add("a", "t", cron="0 * * * *", next_time=hour, data={"k": 1}) == (hour, hour)
        task = schedules.poll(wait=20)
        assert task is not None
        assert (task.key, task.type, task.scheduled_time, task.data) == ("a", "t", hour, {"k": 1})
        assert task.heartbeat() is None
        task.finish()
        with pytest.raises(perfectsched.AlreadyFinishedError):
            task.finish()
        with pytest.raises(perfectsched.PreemptedError):
            task.retry()
        assert schedules["a"].metadata().next_time == hour + 3600


APP = """
import asyncio
import tokimori

app = tokimori.App("shop")

@app.job
async def rest(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds

@app.job
def twice(seconds: float) -> float:
    return 2 * rest.enqueue(seconds).result(timeout=20)

@app.job
def refuse() -> None:
    raise ValueError("no good")
"""


def test_handles_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node holds an answer back until the run has ended; a run within a worker process may wait for another."""
    program = Program(tmp_path)
    (tmp_path / "distant_shop.py").write_text(APP)
    program.environment |= {"TOKIMORI_APP_LOAD": "distant_shop:app", "TOKIMORI_APP_INCLUDE": str(tmp_path)}
    monkeypatch.syspath_prepend(tmp_path)
    shop: Any = import_module("distant_shop")
    with site_of(program) as site:
        shop.app.url = site.entry
        handles = [shop.rest.enqueue(seconds) for seconds in (0.6, 0.1)]
        assert [each.result() for each in tokimori.as_completed(handles, timeout=30)] == [0.1, 0.6]
        assert [each.attempt for each in handles] == [1, 1]
        assert shop.twice.enqueue(0.1).result(timeout=30) == 0.2
        with pytest.raises(tokimori.RunFailed) as failed:
            shop.app.handle(shop.refuse.enqueue().id).result(timeout=30)
        assert (failed.value.type, "in refuse" in failed.value.traceback) == ("ValueError", True)
        long = shop.rest.enqueue(30)
        with pytest.raises(tokimori.RunNotEnded):
            long.result(timeout=0.2)
        long.cancel()
        shop.app.client.close()


def test_a_node_that_is_frozen_is_told_soon(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits long is none of that: its node says meanwhile that it is well."""
    monkeypatch.setattr(door, "SILENT", 0.3)
    monkeypatch.setattr(door, "HEALTH_WITHIN", 2.0)
    with tokimori.open(site.entry) as client:
        began = time.monotonic()
        assert client.claims.claim(["nobody"], wait=1.5, worker="py") == []
        assert time.monotonic() > began + 1
        os.kill(site.node.pid, signal.SIGSTOP)
        try:
            with pytest.raises(
                tokimori.StoreUnavailable, match=r"has said nothing for 2.3 s.*it is stopped or cut off"
            ):
                client.jobs.list()
        finally:
            os.kill(site.node.pid, signal.SIGCONT)
        assert client.nodes.list()
