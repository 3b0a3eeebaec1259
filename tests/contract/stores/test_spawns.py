"""Spawns: runs are made in the settle of the run that waits for them, and its own end comes when they have ended."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, later
from tests.contract.stores.test_dependents import runs_of
from tokimori.engine import families as families_module
from tokimori.engine import settle as settle_module
from tokimori.engine.families import KIND, PIECES, Families
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Lost, Succeeded, spawns_of
from tokimori.model.run import NEVER, Details, Run, Step, parents_of
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.ports.working import Change, Claimed, Verdict

NEXT = RunId("01b8dac5-b400-7000-8000-000000000001")


async def spawned(store: Store, worker: Worker, *payloads: str | None, job: str = "b", **fields: Any) -> Run:
    """A run of `a` that waits for runs of a job with these payloads; it was settled once more."""
    a_job = await store.get_job(JobId("a"))
    await store.add_run(replace(a_request(a_job), **fields), NOW)
    (claimed,) = await worker.claim()
    change = worker.change(claimed, spawns_of([(job, each) for each in payloads]), now=later(1))
    assert await store.settle([change], worker.id, later(1)) == [Verdict.APPLIED]
    assert await store.settle([change], worker.id, later(1)) == [Verdict.ALREADY_APPLIED]
    return await store.get_run(claimed.run.id)


async def jobs(store: Store, **fields: Any) -> None:
    """The jobs `a`, whose runs spawn, `b` and `c`."""
    await add_job(store, "a", max_running=1, **fields)
    for name in "bc":
        await add_job(store, name, max_running=0)


async def end(store: Store, worker: Worker, *ended: Claimed, result: str | None = None, error: str = "") -> None:
    """End these in one transaction, as a node does."""
    outcome = Failed(error) if error else Succeeded(0, result)
    changes = [worker.change(each, outcome, now=later(2)) for each in ended]
    verdicts = await store.settle(changes, worker.id, later(2))
    assert set(verdicts) == {Verdict.APPLIED}
    await Families(store).settled(changes, verdicts, worker.id, later(2))


async def test_they_are_made_once_and_in_order(store: Store, worker: Worker) -> None:
    """Ready, with their payloads, as children of the run; that is `waiting` and keeps no place, and is never due."""
    await jobs(store)
    run = await spawned(store, worker, "1", None, '"x"')
    assert (run.state, run.due, run.attempt) == (RunState.WAITING, NEVER, 1)
    assert run.details.spawned is not None and run.details.spawned.count == 3
    children = [await store.get_run(each) for each in run.details.spawned.ids(run.id)]
    assert [each.payload for each in children] == ["1", None, '"x"']
    assert {(each.job_id, each.state, each.parent_id, each.created) for each in children} == {
        ("b", RunState.READY, run.id, later(1))
    }
    assert {parents_of(each) for each in children} == {(run.id,)} and all(each.details.awaited for each in children)
    assert len(await runs_of(store, "b")) == 3
    await store.promote(later(86_400), 10)
    assert await store.get_run(run.id) == run
    assert (await store.get_due(JobId("a"))).active == 0
    await store.add_run(a_request(await store.get_job(JobId("a"))), NOW)
    assert (await store.get_due(JobId("a"))).active == 1
    assert [each.run.job_id for each in await worker.claim(now=later(2))].count(JobId("a")) == 1


async def test_it_ends_when_they_have(store: Store, worker: Worker) -> None:
    """With the list of their results in order, as the same attempt, and what was to follow it is made then."""
    await jobs(store)
    then = (Step(id=NEXT, job=JobId("c")),)
    run = await spawned(store, worker, "1", "2", "3", details=Details(then=then))
    first, *others = sorted(await worker.claim(now=later(2)), key=lambda each: each.run.payload or "", reverse=True)
    await end(store, worker, first, result="30")
    assert (await store.get_run(run.id)).state is RunState.WAITING and not await runs_of(store, "c")
    await end(store, worker, *others, result="7")
    ended = await store.get_run(run.id)
    assert (ended.state, ended.result, ended.attempt, ended.error) == (RunState.SUCCEEDED, "[7,7,30]", 1, None)
    assert (ended.ended, ended.due, ended.started) == (later(2), NOW, run.started)
    (after,) = await runs_of(store, "c")
    assert (after.id, after.payload) == (NEXT, "[7,7,30]")
    assert await store.list_documents(KIND) == [] and not await store.attempts(run.id)


async def test_it_ends_no_earlier_than_they_have(store: Store, worker: Worker) -> None:
    """By another node's clock, which is behind, or by a look that has begun a moment before the last of them ended."""
    await jobs(store)
    run = await spawned(store, worker, "1")
    (child,) = await worker.claim(now=later(2))
    await store.settle([worker.change(child, Succeeded(0), now=later(9))], worker.id, later(9))
    assert await Families(store).look(run.id, worker.id, later(8)) is None
    assert (await store.get_run(run.id)).ended == later(9)


async def test_it_fails_if_one_has_failed(store: Store, worker: Worker) -> None:
    """When all have ended, with the one that failed and its error; it is not tried again."""
    await jobs(store)
    run = await spawned(store, worker, "1", "2")
    good, bad = await worker.claim(now=later(2))
    await end(store, worker, bad, error="no paper")
    await end(store, worker, good)
    ended = await store.get_run(run.id)
    assert ended.state is RunState.FAILED and ended.error is not None
    assert bad.run.id in ended.error and "no paper" in ended.error and good.run.id not in ended.error
    (attempt,) = await store.attempts(run.id)
    assert (attempt.number, attempt.outcome, attempt.started) == (1, "failed", run.started)


async def test_what_ends_unseen_is_found(store: Store, worker: Worker) -> None:
    """A run that is cancelled before it begins, by nobody who looks at its family: the next look of the duty does."""
    await jobs(store)
    families = Families(store)
    job = await store.get_job(JobId("a"))
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    change = worker.change(claimed, spawns_of([("b", None)]), now=later(1))
    await families.settling([change])
    assert await store.settle([change], worker.id, later(1)) == [Verdict.APPLIED]
    (child,) = await runs_of(store, "b")
    await store.cancel_run(child.id, "not wanted", later(3))
    await families.step(worker.id, later(5), 5.0)
    assert (await store.get_run(claimed.run.id)).state is RunState.WAITING
    await families.step(worker.id, later(12), 12.0)
    ended = await store.get_run(claimed.run.id)
    assert ended.state is RunState.FAILED and "not wanted" in (ended.error or "")
    await families.step(worker.id, later(60), 60.0)
    assert await store.list_documents(KIND) == []


async def test_a_stopped_job_has_none(store: Store, worker: Worker) -> None:
    """The run fails and says why, and does not wait for what will never be."""
    await jobs(store)
    job = await store.get_job(JobId("b"))
    await store.replace_job(job, replace(job, state=JobState.PAUSED))
    run = await spawned(store, worker, "1")
    assert await Families(store).look(run.id, worker.id, later(2)) is None
    ended = await store.get_run(run.id)
    assert ended.state is RunState.FAILED and "were not made" in (ended.error or "")


async def test_its_time_holds(store: Store, worker: Worker) -> None:
    """The time-out counts from the start of the attempt; what it has spawned goes on."""
    await jobs(store, timeout=30.0)
    run = await spawned(store, worker, "1")
    assert run.details.spawned is not None and run.details.spawned.until is not None
    families = Families(store)
    assert await families.look(run.id, worker.id, later(20)) == run.details.spawned.until
    assert await families.look(run.id, worker.id, run.details.spawned.until) is None
    assert (await store.get_run(run.id)).state is RunState.FAILED
    assert [each.state for each in await runs_of(store, "b")] == [RunState.READY]


async def test_it_counts_for_no_limit(store: Store, worker: Worker) -> None:
    """A job that may have one run and none that waits has room for the next one, also while it is held and resumed."""
    await jobs(store, max_waiting=0)
    run = await spawned(store, worker, "1")
    for change in (None, store.hold_run(run.id, "look"), store.resume_run(run.id)):
        if change is not None:
            await change
        assert (await store.get_due(JobId("a"))).active == 0
    assert (await store.get_run(run.id)).due == NEVER
    other = await store.add_run(a_request(await store.get_job(JobId("a"))), NOW)
    (claimed,) = [each for each in await worker.claim(now=later(2)) if each.run.id == other.id]
    assert (await store.get_due(JobId("a"))).active == 1
    await end(store, worker, claimed)
    assert (await store.get_due(JobId("a"))).active == 0
    await store.cancel_run(run.id, "enough", later(3))
    assert (await store.get_due(JobId("a"))).active == 0


async def test_only_one_ends_it(store: Store, worker: Worker) -> None:
    """Of several that look at the same time; and a cancelled one stays cancelled."""
    await jobs(store)
    for cancels in (False, True):
        run = await spawned(store, worker, "1")
        (child,) = await worker.claim(now=later(2))
        change = worker.change(child, Succeeded(0, "1"), now=later(2))
        await store.settle([change], worker.id, later(2))
        if cancels:
            await store.cancel_run(run.id, "enough", later(3))
        looked = [await Families(store).look(run.id, worker.id, later(3)) for _ in range(2)]
        assert looked == [None, None]
        state = (await store.get_run(run.id)).state
        assert state is (RunState.CANCELLED if cancels else RunState.SUCCEEDED)


MANY, PIECE = 13, 5


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few runs make a spawn that is written in pieces."""
    for module in (families_module, settle_module):
        monkeypatch.setattr(module, "SPAWNED_TOGETHER", PIECE)


async def many(store: Store, worker: Worker) -> tuple[Change, list[Change]]:
    """The change by which a run of `a` spawns many, and what the store gets of it; all pieces are kept."""
    await store.add_run(a_request(await store.get_job(JobId("a"))), NOW)
    (claimed,) = await worker.claim()
    change = worker.change(claimed, spawns_of([("b", str(each)) for each in range(MANY)]), now=later(1))
    return change, await Families(store).settling([change])


@pytest.mark.usefixtures("small_pieces")
async def test_many_are_made_in_pieces(store: Store, worker: Worker) -> None:
    """None before all are kept; each once, with its payload, whoever makes them at the same time; then it ends."""
    await jobs(store)
    change, sent = await many(store, worker)
    assert await Families(store).settling([change]) == sent
    assert len(await store.list_documents(PIECES)) == 2 and not await runs_of(store, "b")
    for verdict in (Verdict.APPLIED, Verdict.ALREADY_APPLIED):
        assert await store.settle(sent, worker.id, later(1)) == [verdict]
    families, other = Families(store), await Worker.join(store)
    found, stale = list[Claimed](), await store.get_run(change.run_id)
    for left, fresh in ((8, 5), (3, 5), (0, 3)):
        run = await store.get_run(change.run_id)
        assert run.details.spawned is not None and (run.state, run.details.spawned.left) == (RunState.WAITING, left)
        found += (new := await worker.claim(now=later(2)))
        assert len(new) == fresh
        await end(store, worker, new[0], result="1")
        if left == 3:
            assert stale.details.spawned is not None and stale.details.spawned.left == 8
            assert await families._make_next(stale, stale.details.spawned, other.id, later(2))
            assert await families.look(run.id, worker.id, later(2)) == later(2)
        stale = run
    assert sorted(int(each.run.payload or "") for each in found) == list(range(MANY))
    assert len({each.run.id for each in found}) == MANY
    assert {each.run.parent_id for each in found} == {change.run_id}
    rest = [each for each in found if (await store.get_run(each.run.id)).state is RunState.RUNNING]
    for first in range(0, len(rest), 4):
        await end(store, worker, *rest[first : first + 4], result="1")
    ended = await store.get_run(change.run_id)
    assert (ended.state, ended.result) == (RunState.SUCCEEDED, f"[{','.join(['1'] * MANY)}]")
    assert await store.list_documents(PIECES) == [] and await store.list_documents(KIND) == []


@pytest.mark.usefixtures("small_pieces")
async def test_what_an_attempt_has_kept_alone_is_forgotten(store: Store, worker: Worker) -> None:
    """A node that dies before its run waits has made nothing; the next attempt does, and all is deleted in the end."""
    await jobs(store)
    change, _ = await many(store, worker)
    other = await Worker.join(store)
    await worker.die(other)
    (orphan,) = await store.orphans(10)
    lost = worker.change(orphan, Lost("it died"), now=later(2))
    assert await store.settle([lost], other.id, later(2)) == [Verdict.APPLIED]
    families = Families(store)
    await families.step(other.id, later(20), 20.0)
    assert len(await store.list_documents(PIECES)) == 2 and not await runs_of(store, "b")
    (again,) = await other.claim(now=later(20))
    assert await other.settle(again, now=later(20)) is Verdict.APPLIED
    await families.step(other.id, later(60), 60.0)
    assert (await store.get_run(change.run_id)).state is RunState.SUCCEEDED
    assert await store.list_documents(PIECES) == [] and await store.list_documents(KIND) == []
