"""What a Redis store leaves behind: every index holds what is live, and nothing else."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
)
from tests.servers.redis import Server
from tokimori.clock import SystemClock
from tokimori.model.job import JobState
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.retention import expiry_of_deleted
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.stores.open import open_store
from tokimori.stores.redis import working

KEPT = {"schema", "runs", "run", "origins", "attempts", "skips", "node", "alive", "gone", "deleted", "family"}
KEPT |= {"semaphores", "semaphore", "broken", "ends"}
"""What stays when all jobs are deleted and all runs have ended: the ledger, whose it is, who took part, and how many
units there are of what."""
RUNS = 1000
MOST_COMMANDS = {"fire": 11, "claim": 6, "settle": 6, "request": 15, "pause": 4, "delete": 5}
"""For each run, in all. One, as it fires and as it ends, keeps the set by which newcomers find whom they replace."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.remove()


async def opened(server: Server) -> Store:
    """An open store with its schema."""
    store = open_store(server.url(), SystemClock())
    await store.open()
    await store.migrate()
    return store


def keys(server: Server) -> set[str]:
    """All keys, without the prefix with which each must begin."""
    found = [line for line in server.command("KEYS", "*").split("\r\n")[1:] if line and line[0] != "$"]
    assert all(key.startswith("{tokimori}:") for key in found)
    return {key.partition(":")[2] for key in found}


async def test_nothing_is_left_in_an_index(server: Server) -> None:
    """When every run has ended, whichever way, and every job is deleted, no index has a member."""
    store = await opened(server)
    worker, heir = await Worker.join(store), await Worker.join(store)
    limited = await add_job(store, "limited", max_running=1)
    free = await add_job(store, "free", schedule=EVERY_SECOND, next_due=later(1), max_running=0, queue="other")
    await add_runs(store, limited, 3)
    await store.add_run(a_request(limited, due=later(60)), NOW)
    heavy = await add_job(store, "heavy", semaphores=("db:2", "api"), concurrency_key="k", queue="heavy")
    await store.put_semaphore("db", 3, NOW)
    await add_runs(store, heavy, 4)
    for weight in (1, 2, 2):
        await worker.acquire("db", weight)
    await fire(store, later(5))
    outcomes: list[Outcome] = [Succeeded(0), Failed("broken"), RetryAt(later(60)), Hold("look"), Released("later")]
    outcomes.append(Succeeded(0))
    for claimed, outcome in zip(await worker.claim(len(outcomes)), outcomes, strict=True):
        await worker.settle(claimed, outcome)
    await worker.claim()
    await worker.die(by=heir)
    changes = [worker.change(each, Lost("dead")) for each in await store.orphans(10)]
    await store.settle(changes, heir.id, NOW)
    for job in (limited, free, heavy):
        await store.delete_job(job.id, NOW)
    assert (await heir.tick()).survey.lanes == ()
    assert [each.used for each in await store.list_semaphores()] == [0, 0]
    assert {key.partition(":")[0] for key in keys(server)} <= KEPT
    assert f"origins:{free.incarnation}" not in keys(server)
    await store.close()


async def test_a_batch_needs_few_commands_a_run(server: Server) -> None:
    """Firing, claiming, settling, pausing and deleting a thousand runs is a few commands for each, not all for each."""
    store = await opened(server)
    worker = await Worker.join(store)
    names = [f"job-{n}" for n in range(RUNS // 2)]
    await store.add_jobs([a_job(name, schedule=EVERY_SECOND, next_due=later(1), max_running=0) for name in names])
    costs = {}
    seen = commands(server)

    def note(step: str) -> None:
        nonlocal seen
        now = commands(server)
        costs[step], seen = (now - seen) / RUNS, now

    await fire(store, later(2))
    note("fire")
    claimed = await worker.claim(RUNS)
    assert len(claimed) == RUNS
    note("claim")
    await store.settle([worker.change(each) for each in claimed], worker.id, NOW)
    note("settle")
    job = await add_job(store, "many")
    await add_runs(store, job, RUNS)
    note("request")
    await store.replace_job(job, replace(job, version=2, state=JobState.PAUSED))
    note("pause")
    await store.delete_job(job.id, NOW)
    note("delete")
    assert {step: cost for step, cost in costs.items() if cost > MOST_COMMANDS[step]} == {}, costs
    await store.close()


async def test_a_claim_sends_few_runs_to_the_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim among many runs of a full job gives up after so many, and the next one goes on."""
    monkeypatch.setattr(working, "MOST_EXAMINED", 5)
    store = await opened(server)
    worker = await Worker.join(store)
    runs = await add_runs(store, job := await add_job(store, max_running=1), 20)
    claimed, blocked = [], []
    for _ in range(3):
        claim = a_claim(worker.id, [lane_of(job.definition)], 2)
        found, has_rest = await working.claim(store.db, claim, NOW)  # type: ignore[attr-defined]
        claimed += [each.run.id for each in found]
        waiting = await store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED})))
        blocked.append((len(waiting), has_rest))
    assert claimed == [runs[0].id]
    assert blocked == [(2 + 5 - 1, True), (2 * (2 + 5) - 1, True), (19, False)]
    await store.close()


async def test_a_list_of_broken_runs_looks_at_few_others(server: Server) -> None:
    """What waits costs a list of failed and cancelled runs nothing; all of these are in it until they are pruned."""
    store = await opened(server)
    worker, job = await Worker.join(store), await add_job(store)
    first, *_ = await add_runs(store, job, RUNS)
    for outcome in (Failed("no"), Succeeded(0)):
        (claimed,) = await worker.claim(1)
        await worker.settle(claimed, outcome)
    before, wanted = commands(server), RunFilter(states=frozenset({RunState.FAILED, RunState.CANCELLED}), limit=10)
    for job_id in (None, job.id):
        assert [run.id for run in await store.list_runs(replace(wanted, job_id=job_id))] == [first.id]
    assert commands(server) - before < 30
    await store.delete_job(job.id, NOW)
    assert len(await store.list_runs(RunFilter(states=frozenset({RunState.CANCELLED}), limit=2 * RUNS))) == RUNS - 2
    assert "broken" in keys(server)
    assert not await store.prune([expiry_of_deleted(job.id, job.incarnation, later(1e8))], 2 * RUNS)
    assert "broken" not in keys(server)
    await store.close()


def commands(server: Server) -> int:
    """How many commands the server has carried out, those of scripts included."""
    lines = server.command("INFO", "commandstats").split("\r\n")
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines if line.startswith("cmdstat_"))
