"""Rates of semaphores, jobs and queues: never more units in a window, by the store's clock, and nobody waits longer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import redis
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, state_of
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.refusing import Database
from tests.contract.stores.test_semaphores import line, one, wanting
from tests.servers import redis as servers
from tokimori.clock import SECOND, Moment
from tokimori.engine.prune import walk
from tokimori.errors import Refused
from tokimori.model.claim_rate import parse_claim_rate
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Released, RetryAt
from tokimori.model.run import Run
from tokimori.model.semaphores import MOST_UNITS
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import Grant, InLine
from tokimori.ports.store import Store
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.redis.address import address_of
from tokimori.stores.sqlite.store import SqliteStore

PERIOD = SECOND


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Moment:
        """The moment that was set."""
        return self.at

    def monotonic(self) -> float:
        """Always the same."""
        return 0.0


class Timed:
    """A store, and a way to let time pass: its clock is set, or it is waited for."""

    def __init__(self, store: Store, clock: HandClock | None, kind: str, folder: Path) -> None:
        self.store = store
        self.clock = clock
        self.kind = kind
        self.folder = folder

    def shift(self, by: int) -> None:
        """Move what was taken so far ahead, as if the clock had been ahead then."""
        if self.clock is not None:
            self.clock.at = Moment(self.clock.at - by)
        elif self.kind == "redis":
            address = address_of(servers.loans.url_of(self.folder))
            with redis.Redis(unix_socket_path=address.path, db=address.db) as db:
                (key,) = db.scan_iter(f"{address.prefix}taken:*", count=10_000)
                for member, score in db.zrange(key, 0, -1, withscores=True):
                    db.zadd(key, {member: score + by})
        else:
            Database(self.kind, self.folder, self.store).sql(f"UPDATE tokimori_taken SET moment = moment + {by}")

    async def until(self, moment: Moment | int) -> None:
        """Let the store's clock pass this moment."""
        while (left := moment - await self.store.now()) >= 0:
            if self.clock is not None:
                self.clock.at = Moment(moment + 1)
            else:
                await asyncio.sleep(left / SECOND + 0.001)

    async def go_on(self) -> None:
        """Wait for the moment that the survey names, and wake who goes on then."""
        while not (await self.store.survey(NOW)).lanes:
            due = (await self.store.survey(NOW)).next_due
            assert due is not None
            await self.until(due)
            assert await self.store.promote(await self.store.now(), 100)


@pytest.fixture(params=STORES)
async def timed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Timed]:
    """An open, empty store whose clock goes on."""
    clock = HandClock() if request.param in {"memory", "sqlite"} else None
    if clock is None:
        opened = STORES[request.param](tmp_path)
    else:
        opened = MemoryStore(clock) if request.param == "memory" else SqliteStore(str(tmp_path / "a.db"), clock)
    await opened.open()
    await opened.migrate()
    yield Timed(opened, clock, request.param, tmp_path)
    await opened.close()
    forget(request.param, tmp_path)


@pytest.fixture
async def store(timed: Timed) -> Store:
    """Its store."""
    return timed.store


async def rated(store: Store, rate: str = "3/1s", limit: int = 100, name: str = "api") -> None:
    """Make a semaphore with a rate."""
    await store.put_semaphore(name, limit, NOW, parse_claim_rate(rate, field="rate"))


async def in_state(store: Store, runs: list[Run], state: RunState) -> list[int]:
    """The places of those of the runs that are in this state."""
    return [number for number, run in enumerate(runs) if await state_of(store, run) is state]


async def test_a_rate_lets_so_many_go_and_says_when_the_next_ones_do(timed: Timed, worker: Worker) -> None:
    """The others are blocked; the moment of the first that go on is the next due one, and as many go as are free."""
    store = timed.store
    await rated(store)
    runs = await wanting(store, "job", "api", runs=8)
    before = await store.now()
    assert len(await worker.claim()) == 3
    assert await line(store, runs) == [None] * 3 + ["semaphore:api"] * 5
    found = await store.get_semaphore("api")
    assert (found.rate, found.taken, found.waiting) == (parse_claim_rate("3/1s", field="rate"), 3, 5)
    due = (await store.survey(NOW)).next_due
    assert due is not None and found.wakes == due
    assert before + PERIOD <= due <= await store.now() + PERIOD
    assert (await worker.tick()).survey.next_due == due
    await timed.until(due)
    assert await store.promote(await store.now(), 100) == 1
    assert await in_state(store, runs, RunState.READY) == [3, 4, 5]
    await worker.tick()
    await worker.tick()
    assert await in_state(store, runs, RunState.READY) == [3, 4, 5], "more heads woke than there are units"
    assert len(await worker.claim()) == 3
    assert await worker.claim() == []
    await timed.go_on()
    assert len(await worker.claim()) == 2
    assert (await store.get_semaphore("api")).wakes is None


async def test_any_window_counts(timed: Timed, worker: Worker) -> None:
    """Units that were taken apart come back apart, each a period after it was taken."""
    store = timed.store
    await rated(store)
    runs = await wanting(store, "job", "api", runs=4)
    assert len(await worker.claim(2)) == 2
    first = await store.now()
    await timed.until(first + PERIOD // 2)
    assert len(await worker.claim()) == 1
    await timed.go_on()
    assert await in_state(store, runs, RunState.READY) == [3]
    assert len(await worker.claim()) == 1
    await wanting(store, "more", "api", runs=3)
    assert len(await worker.claim()) == 1, "two of three came back, and one of them is taken"


@pytest.mark.parametrize("outcome", [None, Failed("no"), RetryAt(later(0)), Released("away")])
async def test_a_unit_of_a_rate_never_comes_back_by_an_end(timed: Timed, worker: Worker, outcome: object) -> None:
    """An end, a retry and a release give back what is held, and not what was taken of a rate."""
    store = timed.store
    await rated(store, "1/1h")
    await wanting(store, "job", "api", runs=2)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, outcome)  # type: ignore[arg-type]
    await worker.tick()
    await store.promote(later(1), 100)
    assert await worker.claim() == []
    found = await store.get_semaphore("api")
    assert (found.used, found.taken) == (0, 1)


async def test_a_unit_is_taken_only_where_all_fits(timed: Timed, worker: Worker) -> None:
    """A run that another semaphore refuses takes nothing of the rate, whichever is judged first."""
    store = timed.store
    await rated(store, "5/1h")
    for name in ("a", "z"):
        await wanting(store, f"holds-{name}", name)
        await worker.claim()
        await wanting(store, f"waits-{name}", "api", name, runs=2)
        assert await worker.claim() == []
    assert (await store.get_semaphore("api")).taken == 0


async def test_lanes_take_turns(timed: Timed, worker: Worker) -> None:
    """Of three lanes with runs in line each gets its turn, though there is one unit at a time."""
    store = timed.store
    await rated(store, "1/0.2s")
    for rank, name in enumerate(["x", "a1", "a2", "b1", "c1"]):
        await one(store, name, rank, "api", queue=name[0])
    assert len(await worker.claim()) == 1
    order = []
    for _ in range(4):
        await timed.go_on()
        order += [each.run.job_id for each in await worker.claim()]
    assert order == ["a1", "b1", "c1", "a2"]


async def test_a_heavy_head_keeps_its_turn(timed: Timed, worker: Worker) -> None:
    """Light runs of another lane do not take the units one by one for which a heavy one waits."""
    store = timed.store
    await rated(store, "3/1s", limit=10)
    await one(store, "light", 0, "api:2", queue="b")
    heavy = await one(store, "heavy", 1, "api:3", queue="a")
    await wanting(store, "later", "api", queue="b", runs=2)
    first = await store.now()
    assert [each.run.job_id for each in await worker.claim()] == ["light"], "one unit is free, and is kept"
    await wanting(store, "latest", "api", queue="c")
    assert await worker.claim() == [], "it is kept from newcomers of other lanes, too"
    await timed.go_on()
    assert await store.now() >= first + SECOND
    assert await in_state(store, [heavy], RunState.READY) == [0]
    assert [each.run.job_id for each in await worker.claim()] == ["heavy"]
    assert (await store.survey(NOW)).next_due is not None
    await timed.go_on()
    assert sorted(each.run.job_id for each in await worker.claim()) == ["later", "later", "latest"]


LEAVE: dict[str, Callable[[Store, Run], Awaitable[object]]] = {
    "cancel": lambda store, run: store.cancel_run(run.id, "no more", NOW),
    "expire": lambda store, run: store.cancel_run(run.id, "too late", NOW, 0),
    "hold": lambda store, run: store.hold_run(run.id, "wait"),
    "postpone": lambda store, run: store.hasten_run(run, later(60), later(60)),
    "delete": lambda store, run: store.delete_job(run.job_id, NOW),
    "pause": lambda store, run: _edit(store, run, state=JobState.PAUSED),
    "edit": lambda store, run: _edit(store, run, semaphores=()),
    "lower the limit": lambda store, run: store.put_semaphore("api", 4, NOW, parse_claim_rate("3/1h", field="rate")),
}


async def _edit(store: Store, run: Run, state: JobState = JobState.ENABLED, **terms: object) -> None:
    job = await store.get_job(run.job_id)
    changed = replace(job.definition, **terms)
    await store.replace_job(job, replace(job, definition=changed, version=job.version + 1, state=state))


@pytest.mark.parametrize("how", LEAVE)
async def test_units_are_kept_for_nobody_who_has_gone(timed: Timed, worker: Worker, how: str) -> None:
    """A heavy head for which units are kept leaves its line: those behind it take what is free at once."""
    store = timed.store
    await rated(store, "3/1h", limit=10)
    await one(store, "light", 0, "api:2", queue="b")
    heavy = await one(store, "heavy", 1, "api:3", queue="a")
    behind = await wanting(store, "later", "api", queue="b", runs=2)
    assert [each.run.job_id for each in await worker.claim()] == ["light"]
    assert await in_state(store, [heavy, *behind], RunState.BLOCKED) == [0, 1, 2]
    await LEAVE[how](store, await store.get_run(heavy.id))
    assert await in_state(store, behind, RunState.READY) == [0]
    assert [each.run.job_id for each in await worker.claim(1)] == ["later" if how != "edit" else "heavy"]


async def test_a_smooth_rate_keeps_units_apart(timed: Timed, worker: Worker) -> None:
    """One at a time, a tenth of the period behind the one before."""
    store = timed.store
    await rated(store, "10/1s smooth")
    runs = await wanting(store, "job", "api", runs=3)
    before = await store.now()
    for number in range(3):
        assert len(await worker.claim()) == 1
        if number < 2:
            await timed.go_on()
            assert await in_state(store, runs, RunState.READY) == [number + 1]
    assert await store.now() - before >= 190_000


async def test_programs_take_units_of_a_rate_too(timed: Timed, worker: Worker) -> None:
    """A grant counts for the period, though its units were given back."""
    store = timed.store
    await rated(store, "1/0.3s")
    held = await worker.acquire("api")
    assert isinstance(held.answer, Grant)
    assert await worker.release(held)
    waits = await worker.acquire("api")
    assert isinstance(waits.answer, InLine)
    due = (await store.survey(NOW)).next_due
    assert due is not None
    await timed.until(due)
    assert isinstance(await store.acquire(waits.wish, NOW), Grant)


async def test_a_rate_changes(timed: Timed, worker: Worker) -> None:
    """What was taken counts for the new rate; a larger one, or none, serves the line at once."""
    store = timed.store
    await rated(store, "2/1h")
    runs = await wanting(store, "job", "api", runs=6)
    assert len(await worker.claim()) == 2
    await rated(store, "3/1h")
    assert await in_state(store, runs, RunState.READY) == [2]
    assert len(await worker.claim()) == 1
    await rated(store, "1/1h")
    assert await worker.claim() == []
    assert (await store.get_semaphore("api")).taken == 3
    await store.put_semaphore("api", 100, NOW)
    assert await in_state(store, runs, RunState.READY) == [3, 4, 5]
    assert (await store.get_semaphore("api")).rate is None
    assert (await store.survey(NOW)).next_due is None


async def test_a_rate_below_a_weight_in_line_is_refused(timed: Timed, worker: Worker) -> None:
    """Who waits for three units would wait for ever at two in a period."""
    store = timed.store
    await rated(store, "3/1h", limit=10)
    await wanting(store, "job", "api:3", runs=2)
    assert len(await worker.claim()) == 1
    assert await worker.claim() == []
    with pytest.raises(Refused, match="wants 3 units") as refused:
        await rated(store, "2/1h", limit=10)
    assert refused.value.field == "rate"


async def test_who_goes_away_strands_nobody(timed: Timed, worker: Worker) -> None:
    """If the woken run is cancelled, or held, the next one goes on; if all are, the line has no moment."""
    store = timed.store
    await rated(store, "1/0.2s")
    runs = await wanting(store, "job", "api", runs=4)
    assert len(await worker.claim()) == 1
    assert await worker.claim() == []
    await timed.go_on()
    assert await in_state(store, runs, RunState.READY) == [1]
    await store.cancel_run(runs[1].id, "no more", NOW)
    while not (ready := await in_state(store, runs, RunState.READY)):
        await timed.go_on()
    assert ready == [2]
    await store.cancel_run(runs[2].id, "no more", NOW)
    await store.cancel_run(runs[3].id, "no more", NOW)
    while (due := (await store.survey(NOW)).next_due) is not None:
        await timed.until(due)
        await store.promote(await store.now(), 100)


async def test_a_job_has_a_rate(timed: Timed, worker: Worker) -> None:
    """It holds nothing, and an edit forgets nothing of what was taken."""
    store = timed.store
    job = await add_job(store, "job", rate_limit="2/1h")
    runs = await add_runs(store, job, 5)
    claimed = await worker.claim()
    assert len(claimed) == 2
    waits = (await line(store, runs))[4]
    assert waits is not None and waits.startswith(f"semaphore:job:{job.incarnation}@2/")
    for each in claimed:
        await worker.settle(each)
    edited = replace(job, definition=replace(job.definition, rate_limit="3/1h"), version=job.version + 1)
    await store.replace_job(job, edited)
    assert len(await worker.claim()) == 1
    await store.replace_job(
        edited, replace(job, version=edited.version + 1, definition=replace(job.definition, rate_limit=None))
    )
    assert len(await worker.claim()) == 2


async def test_a_queue_has_a_rate(timed: Timed, worker: Worker) -> None:
    """It counts the runs of all its jobs, which hold nothing, and no run of another queue; without it all go on."""
    store = timed.store
    await store.put_semaphore("queue:mail", MOST_UNITS, NOW, parse_claim_rate("2/0.3s", field="rate"))
    runs = [run for name in ("a", "b") for run in await wanting(store, name, queue="mail", runs=2)]
    limited = await wanting(store, "limited", "db", queue="mail", max_running=1)
    await wanting(store, "elsewhere", queue="web", runs=3)
    claimed = await worker.claim()
    assert sorted(each.run.lane.partition("|")[0] for each in claimed if each.run.lane) == ["mail"] * 2 + ["web"] * 3
    assert Counter(await line(store, [*runs, *limited])) == {None: 2, "semaphore:queue:mail": 3}
    assert (await store.get_semaphore("queue:mail")).used == 0
    await timed.go_on()
    assert len(await worker.claim()) == 2
    await store.put_semaphore("queue:mail", MOST_UNITS, NOW)
    assert len(await worker.claim()) == 1


async def test_a_clock_that_was_wrong_delays_no_more_than_a_period(timed: Timed, worker: Worker) -> None:
    """What a clock set back has as still to come counts as taken now."""
    store = timed.store
    await rated(store)
    runs = await wanting(store, "job", "api", runs=6)
    for number in range(3):
        assert len(await worker.claim(1)) == 1
        await timed.until(await store.now())
        assert await in_state(store, runs, RunState.RUNNING) == list(range(number + 1))
    timed.shift(3600 * SECOND)
    assert await worker.claim() == []
    assert (await store.get_semaphore("api")).taken == 3
    due = (await store.survey(NOW)).next_due
    assert due is not None and due <= await store.now() + PERIOD
    await timed.go_on()
    assert len(await worker.claim()) == 3


async def test_a_moment_that_came_late_takes_from_no_other_job(timed: Timed, worker: Worker) -> None:
    """Runs without the rate go past a line that waits for it."""
    store = timed.store
    await rated(store, "1/1h")
    await wanting(store, "job", "api", runs=3)
    assert len(await worker.claim()) == 1
    free = await add_job(store, "free")
    await store.add_run(a_request(free), NOW)
    assert [each.run.job_id for each in await worker.claim()] == ["free"]


async def test_rates_of_no_job_are_pruned(store: Store, worker: Worker) -> None:
    """What deleted jobs and edits have left goes with the next walk; what counts for a job's new rate stays."""
    gone, changed, kept = [await add_job(store, name, rate_limit="2/1h") for name in ("gone", "changed", "kept")]
    for job in (gone, changed, kept):
        await add_runs(store, job, 2)
    for claimed in await worker.claim():
        await worker.settle(claimed)
    edited = replace(changed, version=2, definition=replace(changed.definition, rate_limit="3/1h"))
    await store.replace_job(changed, edited)
    await add_runs(store, edited, 1)
    for claimed in await worker.claim():
        await worker.settle(claimed)
    await store.delete_job(gone.id, NOW)
    assert len(await store.list_semaphores()) == 4
    async for _ in walk(store, NOW, lambda _: None):
        pass
    left = {each.name.partition("@")[0]: (str(each.rate), each.taken) for each in await store.list_semaphores()}
    assert left == {f"job:{changed.incarnation}": ("3/h", 3), f"job:{kept.incarnation}": ("2/h", 2)}
    await add_runs(store, edited, 1)
    assert await worker.claim() == []
