"""Jobs with more runs than follow a change at once: nothing of the old definition starts, and others get their turn."""

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, state_of
from tests.contract.stores.conftest import STORES
from tests.contract.stores.refusing import DATABASES, opened
from tokimori.clock import MINUTE
from tokimori.errors import StoreError
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.outcome import Failed
from tokimori.model.policies import OnExhausted
from tokimori.model.request import Manner
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.copying import Kind
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import LARGE, Claimed
from tokimori.service.copying import copy_store
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.reading import TableReader

MANY = 1_100
"""More than twice what one transaction moves."""


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes a job does one step: what it leaves is seen by claims, and done by ticks."""
    for module in ("sqlite.store", "postgres.jobs", "redis.jobs", "mysql.store", "rules.edits"):
        monkeypatch.setattr(f"tokimori.stores.{module}.MOST_STEPS", 0)


async def with_many(store: Store, **terms: object) -> tuple[Job, list[Run]]:
    """A job of which many runs are ready, two days late."""
    job = await add_job(store, **terms)  # type: ignore[arg-type]
    asked = [a_request(job, due=later(n - 2 * 86_400)) for n in range(MANY)]
    if not terms:  # nobody waits for another: as a copy brings them, which costs the least
        for n in range(0, MANY, 500):
            await store.import_rows(Kind.RUNS, asked[n : n + 500])
        return job, asked
    return job, [run for n in range(0, MANY, 500) for run in await store.add_runs(asked[n : n + 500], NOW)]


async def changed(store: Store, job: Job, **terms: object) -> Job:
    """The job after this change."""
    after = replace(job, version=job.version + 1, **terms)
    await store.replace_job(job, after)
    return after


async def ticked(worker: Worker) -> None:
    """Enough beats for everything that is left."""
    for _ in range(5):
        await worker.tick()


async def live(store: Store, job: Job) -> list[Run]:
    """The job's runs that have not ended."""
    return await store.list_runs(RunFilter(job_id=JobId(job.id), states=frozenset(RunState) - ENDS, limit=2 * MANY))


async def test_nothing_of_a_paused_job_is_claimed(store: Store, worker: Worker) -> None:
    """Not a moment after the pause, and another job's run that is behind them all gets its turn."""
    job, _ = await with_many(store)
    other = await add_job(store, "other")
    (behind,) = await add_runs(store, other, 1)
    await changed(store, job, state=JobState.PAUSED)
    claimed = list[Claimed]()
    while not claimed:  # on a busy machine a claim ends before it has passed them all, and the next one goes on
        claimed += await worker.claim(10)
    claimed += await worker.claim(10)
    assert [each.run.id for each in claimed] == [behind.id]
    await ticked(worker)
    assert (await store.survey(NOW)).lanes == ()
    assert {run.lane for run in await live(store, job)} == {None}


async def test_a_resumed_job_goes_on_with_all_of_its_runs(store: Store, worker: Worker) -> None:
    """Each of them once, in order; a pause that has not been carried out to its end is over."""
    job, runs = await with_many(store)
    paused = await changed(store, job, state=JobState.PAUSED)
    await changed(store, paused, state=JobState.ENABLED)
    await ticked(worker)
    claimed = [each.run.id for _ in range(2) for each in await worker.claim(MANY)]
    assert claimed == [run.id for run in runs]


async def test_many_runs_of_a_parked_job_stop(store: Store, worker: Worker) -> None:
    """The settle that parks it takes some of their lanes, claims and ticks the others'."""
    job, _ = await with_many(store, on_exhausted=OnExhausted.PARK)
    (first, *_) = await worker.claim(1)
    await worker.settle(first, Failed("no"))
    assert (await store.get_job(job.id)).state is JobState.PARKED
    assert await worker.claim() == []
    await ticked(worker)
    assert {run.lane for run in await live(store, job)} == {None}


async def test_many_runs_of_a_deleted_job_end(store: Store, worker: Worker) -> None:
    """Those that have not started, one after the other; none of them starts meanwhile."""
    job, runs = await with_many(store)
    (first, *_) = await worker.claim(1)
    await store.delete_job(job.id, NOW)
    assert await worker.claim() == []
    await ticked(worker)
    assert await state_of(store, first) is RunState.RUNNING
    assert {await state_of(store, run) for run in runs[1:]} == {RunState.CANCELLED}


async def test_many_runs_follow_their_job_to_another_queue(store: Store, worker: Worker) -> None:
    """A claim of the old queue gets none, whoever finds them first; the new queue has them all."""
    job, runs = await with_many(store)
    lanes = (await store.survey(NOW)).lanes
    definition = replace(job.definition, queue="other")
    await changed(store, job, definition=definition)
    assert {each.run.lane for each in await worker.claim(10)} <= {lane_of(definition)}
    await ticked(worker)
    assert (await store.survey(NOW)).lanes == (lane_of(definition),) != lanes
    assert len(await live(store, job)) == len(runs)


async def test_a_forced_run_alone_is_claimed_while_a_job_stops(store: Store, worker: Worker) -> None:
    """What has a lane yet because its turn has not come is not taken for forced; nor is it after an edit."""
    job, _ = await with_many(store)
    paused = await changed(store, job, state=JobState.PAUSED)
    forced = await store.add_run(a_request(job), NOW, Manner(forced=True))
    assert [each.run.id for each in await worker.claim()] == [forced.id]
    await changed(store, paused, definition=replace(job.definition, queue="other"))
    assert await worker.claim() == []


async def test_an_edit_of_a_job_that_still_stops_moves_forced_runs_alone(store: Store, worker: Worker) -> None:
    """The pause is carried out before: then only forced runs have a lane."""
    job, _ = await with_many(store)
    paused = await changed(store, job, state=JobState.PAUSED)
    await changed(store, paused, definition=replace(job.definition, queue="other"))
    await ticked(worker)
    assert await worker.claim() == []
    assert {run.lane for run in await live(store, job)} == {None}


@pytest.mark.parametrize(
    ("limit", "woken"),
    [(700, 700), *(pytest.param(*each, marks=pytest.mark.prove) for each in ((0, MANY), (1, 1)))],
)
async def test_many_blocked_runs_are_woken(store: Store, worker: Worker, limit: int, woken: int) -> None:
    """As many as the new limit has room for, however many stand in line."""
    job, _ = await with_many(store, max_running=1)
    (first, *_) = await worker.claim()
    await worker.settle(first)
    assert len(await worker.claim(1)) == 1
    while await store.list_runs(RunFilter(states=frozenset({RunState.READY}), limit=1)):
        assert await worker.claim(1) == []  # a claim that is cut short leaves some for the next
    await changed(store, job, definition=replace(job.definition, max_running=limit))
    await ticked(worker)
    states = [run.state for run in await live(store, job)]
    assert states.count(RunState.READY) + states.count(RunState.RUNNING) == min(woken, MANY - 1)


async def test_a_larger_limit_is_filled_while_its_line_is_woken(store: Store, worker: Worker) -> None:
    """Runs that are claimed as soon as they are woken take no second place from those that are still to be woken."""
    job, _ = await with_many(store, max_running=1)
    (first, *_) = await worker.claim()
    await changed(store, job, definition=replace(job.definition, max_running=MANY))
    claimed = [first]
    for _ in range(5):
        claimed += await worker.claim(MANY)
        await worker.tick()
    assert len(claimed) == MANY


async def test_a_forced_run_goes_on_while_an_edit_of_its_stopped_job_is_carried_out(
    store: Store, worker: Worker
) -> None:
    """It has followed, however many of the others have not been looked at."""
    job, _ = await with_many(store)
    paused = await changed(store, job, state=JobState.PAUSED)
    await ticked(worker)
    forced = await store.add_run(a_request(job, key="0"), NOW, Manner(forced=True))
    await changed(store, paused, definition=replace(job.definition, queue="other"))
    assert [each.run.id for _ in range(2) for each in await worker.claim()] == [forced.id]


async def test_what_a_changed_job_wanted_serves_its_line(store: Store, worker: Worker) -> None:
    """Its last run that follows lets others go on who stood behind it."""
    job, _ = await with_many(store, semaphores=("one",))
    (held,) = await worker.claim(1)
    other = await add_job(store, "other", semaphores=("one",))
    await add_runs(store, other, 1)
    assert await worker.claim() == []
    await store.delete_job(job.id, NOW)
    await worker.settle(held)
    await ticked(worker)
    assert [each.run.job_id for each in await worker.claim()] == [other.id]


async def test_few_large_runs_of_a_deleted_job_end_at_once(store: Store, worker: Worker) -> None:
    """Where payloads are written anew they bound a transaction, too; beats end the others."""
    job, left = await add_job(store), RunFilter(states=frozenset(RunState) - ENDS, longest=0)
    for _ in range(30):
        await store.add_run(a_request(job, payload="x" * (LARGE // 4)), NOW)
    await store.delete_job(job.id, NOW)
    assert not isinstance(store, TableReader) or 10 <= len(await store.list_runs(left)) < 30
    for _ in range(10):
        await worker.tick()
    assert await store.list_runs(left) == []


async def test_a_move_that_takes_too_long_hinders_no_beat(tmp_path: Path) -> None:
    """On PostgreSQL, where it is a part of the beat's own statement, it is undone alone when its time is over."""
    async with opened("postgres", tmp_path) as database:
        store, worker = database.store, await Worker.join(database.store)
        job, _ = await with_many(store)
        await changed(store, job, state=JobState.PAUSED)
        database.sql(
            """CREATE FUNCTION refuse0() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_sleep(4); RETURN NEW; END $$;
            CREATE TRIGGER refuse0 BEFORE UPDATE OF lane ON tokimori_runs FOR EACH ROW EXECUTE FUNCTION refuse0()"""
        )
        await worker.tick()
        database.accept()
        await ticked(worker)
        assert {run.lane for run in await live(store, job)} == {None}


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_move_of_a_job_that_is_gone_hinders_no_other(kind: str, tmp_path: Path) -> None:
    """A row that was left without its job, as by hands, goes with a beat; another job's runs follow."""
    async with opened(kind, tmp_path) as database:
        store, worker = database.store, await Worker.join(database.store)
        job, _ = await with_many(store)
        names = "'{}'" if kind == "postgres" else "'[]'"
        row = f"INSERT INTO tokimori_moves (incarnation, origin, woken, names, since) VALUES (0, '', 0, {names}, 0)"
        database.sql(f"{row};")
        await changed(store, job, state=JobState.PAUSED)
        for _ in range(40):
            await worker.tick()
        assert {run.lane for run in await live(store, job)} == {None}
        assert list(database.sql("SELECT incarnation FROM tokimori_moves")) in ([], [["incarnation"]])


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_move_that_fails_hinders_no_other(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats that come upon it fail, or pass it over; others carry on what another job's runs have to follow."""
    monkeypatch.setattr("tests.contract.stores.actors._numbers", count(2**62))  # as far from 0 as from the last
    async with opened(kind, tmp_path) as database:
        store, worker = database.store, await Worker.join(database.store)
        job, _ = await with_many(store)
        names = "'{}'" if kind == "postgres" else "'[]'"
        row = f"INSERT INTO tokimori_moves (incarnation, origin, woken, names, since) VALUES (0, '', 0, {names}, 0)"
        database.sql(f"{row};")
        database.refuse("DELETE", "moves", "OLD.incarnation = 0")
        await changed(store, job, state=JobState.PAUSED)
        for _ in range(60):
            with suppress(StoreError):
                await worker.tick()
        assert {run.lane for run in await live(store, job)} == {None}


async def test_a_copy_takes_runs_along_as_their_job_is_now(store: Store, worker: Worker, tmp_path: Path) -> None:
    """Of a job that was paused a moment ago nothing starts in the copy, and what of a deleted one waited has ended."""
    paused, _ = await with_many(store)
    await changed(store, paused, state=JobState.PAUSED)
    deleted = await add_job(store, "deleted")
    (waiting,) = await add_runs(store, deleted, 1)
    await store.delete_job(deleted.id, NOW)
    assert await worker.store.leave(worker.id, NOW)
    target = STORES["sqlite"](tmp_path / "there")
    (tmp_path / "there").mkdir()
    await target.open()
    await copy_store(store, target, lambda _step: None)
    heir = await Worker.join(target)
    assert await heir.claim() == []
    assert {run.lane for run in await live(target, paused)} == {None}
    assert await state_of(target, waiting) is RunState.CANCELLED
    await target.close()


def priorities(runs: list[Run]) -> dict[str, tuple[int, int]]:
    """The priority of each, and its rank as seen from its moment."""
    return {run.id: (run.priority, run.due - run.rank) for run in runs}


async def test_runs_that_wait_take_the_new_priority_of_their_job(store: Store, worker: Worker) -> None:
    """Wherever they wait; one that was asked for with a priority of its own keeps it, and so does one that runs."""
    job = await add_job(store, max_running=1)
    running, *line = [await store.add_run(a_request(job, f"n{n}", due=later(n - 10)), NOW) for n in range(3)]
    assert [each.run.id for each in await worker.claim(5)] == [running.id]
    own = await store.add_run(a_request(job, "own", due=later(-1), priority=3, rank=rank_of(later(-1), 3)), NOW)
    ahead = await store.add_run(a_request(job, "ahead", due=later(60)), NOW)
    held = await store.hold_run((await store.add_run(a_request(job, "held", due=later(-1)), NOW)).id, "why")
    for was, new in ((0, 5), (5, -100), (-100, 0), (0, 3), (3, 7)):
        assert job.definition.priority == was
        job = await changed(store, job, definition=replace(job.definition, priority=new))
        found = priorities(await live(store, job))
        assert {found[run.id] for run in (*line, ahead, held)} == {(new, new * MINUTE)}
        assert found[running.id] == (0, 0)
        assert found[own.id] == ((7, 7 * MINUTE) if new == 7 else (3, 3 * MINUTE))


async def test_the_order_of_a_lane_follows_the_priority(store: Store, worker: Worker) -> None:
    """A run that waited behind those of another job is claimed before them once its job comes first; a key's, too."""
    plain, keyed = await add_job(store, "plain"), await add_job(store, "keyed", concurrency_key="k")
    last = [await store.add_run(a_request(keyed, f"n{n}", due=later(n - 10)), NOW) for n in range(2)]
    first = await add_runs(store, plain, 2)
    keyed = await changed(store, keyed, definition=replace(keyed.definition, priority=-100))
    assert [each.run.id for each in await worker.claim(2)] == [run.id for run in first]
    await store.add_run(a_request(plain, "more", due=later(-11)), NOW)
    await changed(store, keyed, definition=replace(keyed.definition, priority=100))
    (claimed,) = await worker.claim(1)
    assert claimed.run.id == last[0].id


async def test_many_runs_take_a_new_priority_in_steps(store: Store, worker: Worker) -> None:
    """A bounded number with the edit and with each beat; another edit meanwhile loses none."""
    job, runs = await with_many(store)
    job = await changed(store, job, definition=replace(job.definition, priority=1))
    at_once = [run for run in await live(store, job) if run.priority == 1]
    assert 0 < len(at_once) < MANY or isinstance(store, MemoryStore)
    await changed(store, job, definition=replace(job.definition, priority=1, timeout=5.0))
    await ticked(worker)
    assert set(priorities(await live(store, job)).values()) == {(1, MINUTE)}
    job = await store.get_job(job.id)
    job = await changed(store, job, definition=replace(job.definition, priority=2))
    await changed(store, job, definition=replace(job.definition, priority=3))
    await ticked(worker)
    assert set(priorities(await live(store, job)).values()) == {(3, 3 * MINUTE)}
    assert [each.run.id for each in await worker.claim(MANY)][:10] == [run.id for run in runs][:10]
