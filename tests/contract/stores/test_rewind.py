"""A cursor that a clock which was ahead has put ahead goes back to now: every moment comes once, on every store."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    NOW,
    Worker,
    a_job,
    a_request,
    add_job,
    fire,
    later,
    random_bytes,
    state_of,
)
from tests.contract.stores.ledger import occurrences
from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.engine.expire import Expirer, begun_at_once, put_expiries_right
from tokimori.engine.fire import Schedules
from tokimori.engine.rewind import SOON, STEADY, Rewinder, hasten, jobs_ahead, put_documents_right, rewind
from tokimori.engine.settle import change_of
from tokimori.errors import Conflict
from tokimori.model.access_token import AccessToken, Role, decode_token, encode_token
from tokimori.model.audit import AuditEntry, changed_in, encode_entry, name_of
from tokimori.model.cause import Mute, decode_mute, encode_mute
from tokimori.model.document import Document
from tokimori.model.ids import NodeId, RunId, uuid7
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import rank_of
from tokimori.model.outcome import Failed, Hold, RetryAt
from tokimori.model.policies import AnchoredOn, Approval, Misfire
from tokimori.model.request import Manner, expiries_of, expiry_at, shared_origin
from tokimori.model.retention import expiry_of
from tokimori.model.run import Details, Run, child_origin
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store

HOURLY = "0 * * * *"
TWO_DAYS = 2 * DAY


async def add(store: Store, **terms: object) -> Job:
    """A job of every hour, added at the new year, all of whose runs may run at a time."""
    job = a_job(next_due=Moment(NOW + HOUR), **{"schedule": HOURLY, "max_running": 0, "keep_runs": 100_000, **terms})  # type: ignore[arg-type]
    await store.add_jobs([job])
    return job


async def check_balance(store: Store, job: Job, through: Moment) -> None:
    """Fail unless each occurrence up to `through` is one run or is skipped once: a skip counts no run that it spans."""
    runs = [run for run in await store.list_runs(RunFilter(limit=100_000)) if run.origin.startswith("s:")]
    fired, named = {run.nominal for run in runs}, occurrences(job, through)
    skips = await store.skips(job.id, limit=100_000)
    skipped = [each for skip in skips for each in named if skip.first <= each <= skip.last and each not in fired]
    assert len(fired) == len(runs)
    assert sum(skip.count for skip in skips) == len(skipped)
    assert sorted([*fired, *skipped]) == named


async def put_back(store: Store, now: Moment, job_id: str = "job", *, force: bool = False) -> Job | str | None:
    """As a node does."""
    return await rewind(store, await store.get_job(a_job(job_id).id), Schedules(), now, force=force)


async def go_on(store: Store, since: Moment, through: Moment, step: int = HOUR // 2) -> None:
    """Fire every half an hour, and at the end."""
    for moment in (*range(since, through, step), through):
        await fire(store, Moment(moment))


async def work(worker: Worker, now: Moment, limit: int = 1000) -> None:
    """Carry out what is ready."""
    for claimed in await worker.claim(limit, now):
        await worker.settle(claimed, now=now)


@pytest.mark.parametrize("misfire", Misfire)
async def test_every_moment_comes_once(store: Store, worker: Worker, misfire: Misfire) -> None:
    """Two days ahead for three hours, then right again, and through the stretch that has been the future once."""
    job = await add(store, misfire=misfire)
    await go_on(store, NOW, later(3 * 3600))
    await work(worker, later(3 * 3600))
    ahead = Moment(later(3 * 3600) + TWO_DAYS)
    await go_on(store, ahead, Moment(ahead + 3 * HOUR))
    await work(worker, Moment(ahead + 3 * HOUR), limit=30)
    now = Moment(later(3 * 3600) + 5 * MINUTE)
    rewound = await put_back(store, now)
    assert isinstance(rewound, Job)
    assert rewound.next_due is not None
    assert now <= rewound.fired_through < rewound.next_due
    assert misfire is Misfire.ALL or rewound.next_due <= now + HOUR
    assert await put_back(store, now) is None
    end = Moment(ahead + 9 * HOUR)
    await go_on(store, now, end)
    await work(worker, end)
    await check_balance(store, job, end)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.prove) for n in range(1, 4))])
async def test_every_moment_comes_once_whatever_the_clock_does(store: Store, worker: Worker, seed: int) -> None:
    """Ahead and back, again and again, before the cursor has passed what the last time has left."""
    chance = Random(seed)
    job = await add(store, misfire=chance.choice(list(Misfire)), max_running=chance.choice([0, 1, 3]))
    job = replace(job, definition=replace(job.definition, fired_ahead=()))
    now = end = Moment(NOW + MINUTE)
    for _ in range(8):
        there = Moment(now + chance.choice([0, HOUR, 7 * HOUR, DAY, TWO_DAYS]) + chance.randrange(HOUR))
        await go_on(store, there, Moment(there + chance.choice([0, HOUR, 5 * HOUR])), step=20 * MINUTE)
        await work(worker, there, limit=chance.randrange(4))
        end = max(end, Moment(there + 5 * HOUR))
        now = Moment(now + chance.randrange(2 * HOUR))
        await put_back(store, now)
        await go_on(store, now, Moment(now + chance.choice([0, 3 * HOUR])))
    await go_on(store, now, Moment(end + DAY))
    for _ in range(40):
        await work(worker, Moment(end + DAY))
    await check_balance(store, job, Moment(end + DAY))


async def test_ready_runs_that_are_due_later_wait_again(store: Store, worker: Worker) -> None:
    """But children and what was asked for at once, which have no moment of their own; what runs goes on."""
    job = await add(store, delay=0, jitter=0)
    requested = await store.add_run(a_request(job, due=Moment(NOW + DAY)), NOW)
    running = await store.add_run(a_request(job, due=Moment(NOW - 1)), NOW)
    await fire(store, Moment(NOW + TWO_DAYS + 5 * MINUTE))
    child = await store.add_run(
        a_request(job, due=Moment(NOW + DAY), origin=child_origin("x"), state=RunState.READY), Moment(NOW + TWO_DAYS)
    )
    then = Moment(NOW + TWO_DAYS)
    run_id = RunId(uuid7(then, random_bytes))
    at_once = a_request(job, id=run_id, due=then, state=RunState.READY, created=then)
    await store.add_run(at_once, Moment(NOW + TWO_DAYS))
    (claimed,) = await worker.claim(1, Moment(NOW + TWO_DAYS + 5 * MINUTE))
    assert (claimed.run.id, await state_of(store, requested)) == (running.id, RunState.READY)
    now = Moment(NOW + MINUTE)
    assert isinstance(await put_back(store, now), Job)
    states = [await state_of(store, each) for each in (requested, running, child, at_once)]
    assert states == [RunState.WAITING, RunState.RUNNING, RunState.READY, RunState.READY]
    (fired,) = [run for run in await store.list_runs(RunFilter()) if run.origin.startswith("s:")]
    assert fired.state is RunState.WAITING
    await store.promote(Moment(NOW + TWO_DAYS), 10)
    assert await state_of(store, fired) is RunState.READY
    assert len(await worker.claim(10, Moment(NOW + TWO_DAYS))) == 4


async def test_a_skip_is_cut_at_now_and_later_ones_are_gone(store: Store) -> None:
    """With its count; and the ledger goes on behind it as if nothing had been."""
    job = await add(store)
    for days in (1, 2):
        await fire(store, Moment(NOW + days * DAY + MINUTE * 5))
    assert len(await store.skips(job.id)) == 2
    now = Moment(NOW + 5 * HOUR + MINUTE)
    assert isinstance(await put_back(store, now), Job)
    (skip,) = await store.skips(job.id)
    assert (skip.first, skip.last, skip.count) == (NOW + HOUR, NOW + 5 * HOUR, 5)
    await go_on(store, now, Moment(NOW + 3 * DAY), step=HOUR)
    await check_balance(store, job, Moment(NOW + 3 * DAY))


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.PARKED, JobState.FINISHED])
async def test_a_job_that_stands_still_is_put_back_too(store: Store, state: JobState) -> None:
    """It stays paused or parked; one that was finished only by the wrong time goes on."""
    await add(store, ends_at="2030-01-02T12:00:00", misfire=Misfire.SKIP)
    await fire(store, Moment(NOW + TWO_DAYS))
    finished = await store.get_job(a_job().id)
    assert finished.state is JobState.FINISHED
    if state is not JobState.FINISHED:
        await store.replace_job(finished, replace(finished, version=2, state=state, reason="why"))
    rewound = await put_back(store, Moment(NOW + MINUTE))
    assert isinstance(rewound, Job)
    assert rewound == await store.get_job(a_job().id)
    assert rewound.state is (JobState.ENABLED if state is JobState.FINISHED else state)
    assert rewound.next_due == (NOW + HOUR if state is JobState.FINISHED else None)


async def test_runs_that_remain_are_those_that_were_not_made(store: Store) -> None:
    """A run that was made ahead counts once; a job that is finished by them stays so."""
    job = replace(a_job(schedule=HOURLY, max_running=0), runs_remaining=3, next_due=Moment(NOW + HOUR))
    await store.add_jobs([job])
    await fire(store, Moment(NOW + DAY + 5 * MINUTE))
    rewound = await put_back(store, Moment(NOW + MINUTE))
    assert isinstance(rewound, Job)
    assert rewound.runs_remaining == 2
    await go_on(store, NOW, Moment(NOW + TWO_DAYS))
    nominal = sorted(run.nominal for run in await store.list_runs(RunFilter()))
    assert nominal == [NOW + HOUR, NOW + 2 * HOUR, NOW + DAY]


@pytest.mark.parametrize("anchored_on", AnchoredOn)
async def test_an_interval_counts_from_no_moment_to_come(store: Store, anchored_on: AnchoredOn) -> None:
    """From the last run: from now; a grid that was laid ahead stays on its lines."""
    anchor = Moment(NOW + DAY + 10 * MINUTE)
    job = replace(
        a_job(schedule="every 1 hour", anchored_on=anchored_on, max_running=0),
        anchor=anchor,
        created=anchor,
        updated=anchor,
        fired_through=anchor,
        next_due=Moment(anchor + HOUR),
    )
    await store.add_jobs([job])
    now = Moment(NOW + MINUTE)
    rewound = await put_back(store, now)
    assert isinstance(rewound, Job)
    assert rewound == await store.get_job(job.id)
    assert rewound.next_due == (now + HOUR if anchored_on is AnchoredOn.LAST_RUN else NOW + 10 * MINUTE)
    assert rewound.created == now


async def test_an_interval_from_the_last_run_goes_on_after_runs_ahead(store: Store) -> None:
    """Between two of its runs nothing was decided: what was fired ahead first says nothing of now."""
    await add(store, schedule="every 1 hour", anchored_on=AnchoredOn.LAST_RUN)
    await fire(store, Moment(NOW + TWO_DAYS))
    await fire(store, Moment(NOW + TWO_DAYS + 2 * HOUR))
    now = Moment(NOW + 2 * HOUR)
    rewound = await put_back(store, now)
    assert isinstance(rewound, Job)
    assert (rewound.fired_through, rewound.next_due) == (now, now + HOUR)
    assert await put_back(store, now) is None
    await fire(store, Moment(now + HOUR))
    assert (await store.get_job(rewound.id)).next_due == now + 2 * HOUR


@pytest.mark.parametrize("anchored_on", AnchoredOn)
async def test_a_job_that_was_made_ahead_and_has_run_goes_on_from_now(store: Store, anchored_on: AnchoredOn) -> None:
    """Before its first run nothing was decided, as there was no such job."""
    made = Moment(NOW + TWO_DAYS)
    job = a_job(schedule="every 1 hour", anchored_on=anchored_on, max_running=0)
    times = {"anchor": made, "created": made, "updated": made, "fired_through": made}
    await store.add_jobs([replace(job, next_due=Moment(made + HOUR), **times)])
    await fire(store, Moment(made + HOUR))
    now = Moment(NOW + MINUTE)
    rewound = await put_back(store, now)
    assert isinstance(rewound, Job)
    assert (rewound.fired_through, (rewound.next_due or 0) <= now + HOUR) == (now, True)
    assert await put_back(store, now) is None


async def test_a_start_that_somebody_wanted_later_stays_though_it_was_fired_ahead(store: Store) -> None:
    """The cursor goes back to right before what was decided first."""
    since = Moment(NOW + 30 * DAY)
    await store.add_jobs([replace(a_job(schedule=HOURLY), fired_through=since, next_due=Moment(since + HOUR))])
    await fire(store, Moment(since + HOUR))
    rewound = await put_back(store, NOW)
    assert isinstance(rewound, Job)
    assert rewound.next_due == since + 2 * HOUR


def a_rewinder(store: Store, born: float) -> Rewinder:
    """That of a node that has joined at this second, and sees the time run steadily since then."""
    return Rewinder(store, born, Schedules(), lambda at: at - born, random_bytes)


async def rewound_at(store: Store, job: Job, lives: float, through: int) -> int | None:
    """The second at which nodes that live for so many seconds, one after another, have put the job back."""
    rewinder = a_rewinder(store, 0)
    for second in range(through):
        if second % lives == 0:
            rewinder = a_rewinder(store, second)
        while rewinder.next_at <= second:
            await rewinder.step(NodeId("node"), later(second), second)
        if (await store.get_job(job.id)).version > job.version:
            return second
    return None


@pytest.mark.parametrize("lives", [20, 50, 300])
async def test_nodes_that_live_for_seconds_put_it_back_together(store: Store, lives: float) -> None:
    """A minute after the clock is right, though none of them has seen that minute alone; and not before."""
    job = await add(store)
    await fire(store, Moment(NOW + TWO_DAYS))
    at = await rewound_at(store, await store.get_job(job.id), lives, 100)
    assert at is not None
    assert STEADY <= at <= STEADY + 2 * SOON


async def test_a_node_that_found_nothing_ahead_looks_again_when_the_time_has_leapt(store: Store) -> None:
    """It does not live for a minute after that, and notes what it sees for the others."""
    job = await add(store)
    since = 0.0
    rewinder = Rewinder(store, 0, Schedules(), lambda at: at - since, random_bytes)
    await fire(store, Moment(NOW + TWO_DAYS))
    version = (await store.get_job(job.id)).version
    for second in range(10):
        await rewinder.step(NodeId("node"), Moment(later(second) + TWO_DAYS), second)
    since = 10.0
    for second in range(10, 50):
        await rewinder.step(NodeId("node"), later(second), second)
    other = a_rewinder(store, 70)
    for second in range(70, 72):
        await other.step(NodeId("other"), later(second), second)
    assert (await store.get_job(job.id)).version == version + 1


async def test_a_node_that_has_just_begun_puts_back_nothing(store: Store) -> None:
    """Its store's clock may be wrong for some seconds, and nobody has seen it run steadily."""
    job = await add(store)
    await fire(store, Moment(NOW + TWO_DAYS))
    assert await rewound_at(store, await store.get_job(job.id), 300, round(STEADY)) is None


async def test_a_leap_in_the_midst_of_a_walk_ends_it(store: Store) -> None:
    """What was still to be put back waits until the time has run steadily again."""
    jobs = [a_job(f"job{n}", schedule=HOURLY, max_running=0, next_due=Moment(NOW + HOUR)) for n in range(3)]
    await store.add_jobs(jobs)
    await fire(store, Moment(NOW + TWO_DAYS))
    since = 0.0
    rewinder = Rewinder(store, 0, Schedules(), lambda at: at - since, random_bytes)
    assert not await rewinder.step(NodeId("node"), later(70), 70)
    since = 71.0
    for second in range(72, 100):
        await rewinder.step(NodeId("node"), Moment(later(second) - DAY), second)
    versions = [(await store.get_job(job.id)).version for job in jobs]
    assert sorted(versions)[0] == sorted(versions)[1] < sorted(versions)[2]


async def test_what_was_pruned_leaves_the_cursor_to_a_person(store: Store, worker: Worker) -> None:
    """Nobody can tell then which moments have run; forced, those that are known are left out."""
    job = await add(store, keep_runs=0, misfire=Misfire.ALL)
    ahead = Moment(NOW + DAY)
    await fire(store, ahead)
    await work(worker, ahead, limit=5)
    expiry = expiry_of(replace(job, definition=replace(job.definition, retention="PT1S")), Moment(ahead + HOUR))
    assert expiry is not None
    await store.prune([expiry], 1000)
    before = await store.get_job(job.id)
    stays = await put_back(store, Moment(NOW + MINUTE))
    assert isinstance(stays, str)
    assert "pruned" in stays
    assert await store.get_job(job.id) == before
    assert isinstance(await put_back(store, Moment(NOW + MINUTE), force=True), Job)


async def test_a_job_all_of_whose_runs_ahead_are_pruned_is_named(store: Store, worker: Worker) -> None:
    """A count of a day to come says that it has run then: nobody wanted its cursor there."""
    job = await add(store, keep_runs=0, misfire=Misfire.ALL)
    ahead = Moment(NOW + 2 * DAY)
    await fire(store, ahead)
    await work(worker, ahead)
    expiry = expiry_of(replace(job, definition=replace(job.definition, retention="PT1S")), Moment(ahead + HOUR))
    assert expiry is not None
    await store.prune([expiry], 1000)
    assert await store.list_runs(RunFilter(job_id=job.id)) == []
    now = Moment(NOW + MINUTE)
    assert await jobs_ahead(store, [await store.get_job(job.id)], now) == [job.id]
    assert "pruned" in str(await put_back(store, now))
    rewound = await put_back(store, now, force=True)
    assert isinstance(rewound, Job)
    assert rewound.next_due == NOW + HOUR
    assert await jobs_ahead(store, [rewound], now) == []


async def test_nobody_puts_back_what_was_changed_meanwhile(store: Store) -> None:
    """One of two nodes is first, and what is fired between reading and writing counts."""
    await add(store)
    await fire(store, Moment(NOW + DAY))
    job = await store.get_job(a_job().id)
    await fire(store, Moment(NOW + DAY + HOUR))
    with pytest.raises(Conflict):
        await rewind(store, job, Schedules(), Moment(NOW + MINUTE))


async def test_a_cursor_that_somebody_wanted_ahead_stays(store: Store) -> None:
    """PerfectSched's `next_time` may be next year; and a period is no error of a clock."""
    since = Moment(NOW + 30 * DAY)
    await store.add_jobs([replace(a_job(schedule=HOURLY), fired_through=since, next_due=Moment(since + HOUR))])
    await store.add_jobs([replace(a_job("weekly", schedule="0 0 * * 1"), fired_through=Moment(NOW + 6 * DAY))])
    assert await put_back(store, NOW) is None
    assert await put_back(store, NOW, "weekly") is None


async def test_a_retry_that_was_put_off_by_a_clock_ahead_is_due(store: Store, worker: Worker) -> None:
    """Not one of the right time; and the job's cursor stays where it is."""
    job = await add(store)
    for due, now in ((NOW - 1, NOW), (NOW, Moment(NOW + TWO_DAYS))):
        await store.add_run(a_request(job, due=Moment(due)), NOW)
        (claimed,) = await worker.claim(1, now)
        await worker.settle(claimed, RetryAt(Moment(now + HOUR)), now)
    now = Moment(NOW + MINUTE)
    before = await store.get_job(job.id)
    await hasten(store, now)
    assert await store.get_job(job.id) == before
    waiting = await store.list_runs(RunFilter(states=frozenset({RunState.WAITING})))
    assert sorted({run.due for run in waiting}) == [now, NOW + HOUR]
    await go_on(store, NOW, Moment(NOW + 3 * HOUR))
    await check_balance(store, job, Moment(NOW + 3 * HOUR))


async def test_a_retry_of_an_attempt_that_had_begun_before_is_due(store: Store, worker: Worker) -> None:
    """When it ended counts, as the clock was ahead only then; not of one that ended by the right time."""
    job = await add(store)
    now = Moment(NOW + MINUTE)
    for due, ended in ((NOW - 1, NOW), (NOW, Moment(NOW + TWO_DAYS))):
        await store.add_run(a_request(job, due=Moment(due)), NOW)
        (claimed,) = await worker.claim(1, NOW)
        change = worker.change(claimed, RetryAt(Moment(ended + HOUR)), ended)
        await store.settle([replace(change, started=NOW)], worker.id, ended)
    await hasten(store, now)
    waiting = await store.list_runs(RunFilter(states=frozenset({RunState.WAITING})))
    assert sorted({run.due for run in waiting}) == [now, NOW + HOUR]


async def test_a_request_that_said_how_long_to_wait_waits_so_long(store: Store, worker: Worker) -> None:
    """From now, though a clock that was ahead has put it off; one for a moment keeps that, and so does one of now."""
    job = a_job(max_running=0)
    await store.add_jobs([job])
    ahead, moment, now = Moment(NOW + TWO_DAYS), Moment(NOW + 3 * DAY), Moment(NOW + MINUTE)

    def asked(at: Moment, due: Moment, *, relative: bool, key: str | None = None) -> Run:
        run_id = RunId(uuid7(at, random_bytes))
        origin = {} if key is None else {"origin": shared_origin(key, run_id)}
        delay = due - at if relative else None
        return a_request(job, id=run_id, created=at, due=due, details=Details(delay=delay), **origin)

    later_today = await store.add_run(asked(NOW, Moment(NOW + HOUR), relative=True), NOW)
    of_a_moment = await store.add_run(asked(ahead, moment, relative=False), ahead)
    put_off = await store.add_run(asked(ahead, Moment(ahead + HOUR), relative=True), ahead)
    manner = Manner(replaces=True)
    debounced = await store.add_run(asked(NOW, Moment(NOW + 30), relative=True, key="k"), NOW, manner)
    again = await store.add_run(asked(ahead, Moment(ahead + 30), relative=True, key="k"), ahead, manner)
    assert (debounced.id, again.due) == (again.id, ahead + 30)
    await hasten(store, now)
    runs = [await store.get_run(run.id) for run in (later_today, of_a_moment, put_off, debounced)]
    assert [run.due for run in runs] == [NOW + HOUR, moment, now + HOUR, now + 30]
    assert [(run.nominal, run.rank) for run in runs] == [(run.due, rank_of(run.due, run.priority)) for run in runs]
    await hasten(store, now)
    assert [await store.get_run(run.id) for run in runs] == runs
    await store.promote(Moment(now + 30), 10)
    assert [each.run.id for each in await worker.claim(10, Moment(now + 30))] == [debounced.id]


async def test_what_a_clock_ahead_made_ready_is_in_line_by_the_right_time(store: Store, worker: Worker) -> None:
    """Ready or blocked, what was asked for at once comes before newer requests, and what has a moment waits for it.

    Children and retries too; what runs, and what is ready by the right time, stays as it is.
    """
    ahead, now, moment = Moment(NOW + TWO_DAYS), Moment(NOW + MINUTE), Moment(NOW + HOUR)
    job, full = a_job(max_running=0), a_job("full", max_running=1)
    await store.add_jobs([job, full])

    async def asked(at: Moment, of: Job = job, *, due: int | None = None, delay: int | None = None, **more: Any) -> Run:
        run_id, due = RunId(uuid7(at, random_bytes)), Moment(at if due is None else due)
        details = Details(delay=delay)
        run = a_request(of, id=run_id, created=at, due=due, details=details, state=RunState.READY, **more)
        return await store.add_run(run, at)

    blocked = [await asked(ahead, full) for _ in range(3)]
    running = (await worker.claim(3, ahead))[0].run
    blocked = [each for each in blocked if each.id != running.id]
    retried = await asked(ahead)
    (claimed,) = await worker.claim(1, ahead)
    await worker.settle(claimed, RetryAt(ahead), ahead)
    moved = [retried, await asked(ahead), await asked(ahead, origin=child_origin("x")), *blocked]
    late = [await asked(NOW, due=moment), await asked(ahead, due=ahead + 1, delay=HOUR)]
    await store.promote(ahead, 10)
    known = await asked(NOW)
    states = [await state_of(store, each) for each in (*moved, *late)]
    assert states == [RunState.READY] * 3 + [RunState.BLOCKED] * 2 + [RunState.READY] * 2
    await hasten(store, now)
    runs = [await store.get_run(each.id) for each in (*moved, *late)]
    assert [each.due for each in runs] == [now] * 5 + [moment, now + HOUR]
    assert {(each.state, each.blocked_on) for each in runs} == {(RunState.WAITING, None)}
    assert all(each.rank == rank_of(each.due, each.priority) for each in runs)
    assert (await state_of(store, running), (await store.get_run(known.id)).due) == (RunState.RUNNING, NOW)
    await store.promote(now, 10)
    newer = await asked(Moment(now + 1))
    order = [each.run.id for each in await worker.claim(10, Moment(now + 1))]
    assert (order[0], order[-1], len(order)) == (known.id, newer.id, 5)


async def test_a_request_with_a_key_and_a_second_child_are_in_line_by_the_right_time(store: Store) -> None:
    """As others: a key changes nothing, nor the microseconds that order the children of a parent."""
    job = await add_job(store, max_running=0)
    ahead, now, moment = Moment(NOW + TWO_DAYS), Moment(NOW + MINUTE), Moment(NOW + HOUR)
    known, second = (RunId(uuid7(at, random_bytes)) for at in (NOW, ahead))
    keyed = a_request(job, id=known, origin=shared_origin("k", known), due=moment, state=RunState.READY)
    child: dict[str, Any] = {
        "origin": child_origin("x"),
        "due": Moment(ahead + 1),
        "created": ahead,
        "state": RunState.READY,
    }
    for run, at in ((keyed, NOW), (a_request(job, id=second, **child), ahead)):
        await store.add_run(run, at)
    await hasten(store, now)
    runs = [await store.get_run(each) for each in (known, second)]
    assert [(each.state, each.due) for each in runs] == [(RunState.WAITING, moment), (RunState.WAITING, now)]


@pytest.mark.parametrize("terms", [{"max_running": 1}, {"max_running": 0}, {"max_running": 0, "semaphores": ("s",)}])
async def test_a_ready_run_that_waits_again_passes_its_turn_on(
    store: Store, worker: Worker, terms: dict[str, Any]
) -> None:
    """The next in line for the place, the key or the units is ready at once: nothing else would wake it."""
    job, moment = await add_job(store, **terms), Moment(NOW + HOUR)
    key = None if terms["max_running"] or "semaphores" in terms else "k"
    runs = [await store.add_run(a_request(job, due=Moment(NOW - 3 + n), concurrency_key=key), NOW) for n in range(3)]
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert [await state_of(store, each) for each in runs[1:]] == [RunState.READY, RunState.BLOCKED]
    await store.hasten_run(await store.get_run(runs[1].id), moment, moment)
    assert [await state_of(store, each) for each in runs[1:]] == [RunState.WAITING, RunState.READY]
    assert [each.run.id for each in await worker.claim()] == [runs[2].id]


async def test_a_blocked_run_that_waits_again_blocks_no_other(store: Store, worker: Worker) -> None:
    """It was first in the line of a semaphore and wanted many units: who wants fewer than are free is ready at once."""
    await store.put_semaphore("s", 2, NOW)
    light, heavy = [await add_job(store, f"of-{n}", max_running=0, semaphores=(f"s:{n}",)) for n in (1, 2)]
    jobs, moment = (light, heavy, light), Moment(NOW + HOUR)
    runs = [await store.add_run(a_request(job, due=Moment(NOW - 3 + n)), NOW) for n, job in enumerate(jobs)]
    assert [each.run.id for each in await worker.claim()] == [runs[0].id]
    assert [await state_of(store, each) for each in runs[1:]] == [RunState.BLOCKED, RunState.BLOCKED]
    await store.hasten_run(await store.get_run(runs[1].id), moment, moment)
    assert [await state_of(store, each) for each in runs[1:]] == [RunState.WAITING, RunState.READY]


async def test_a_run_that_changed_meanwhile_is_not_hastened(store: Store, worker: Worker) -> None:
    """Nor one that has begun, or is gone."""
    job = a_job(max_running=0)
    await store.add_jobs([job])
    run = await store.add_run(a_request(job, due=Moment(NOW + DAY)), NOW)
    await store.hasten_run(replace(run, due=Moment(run.due + 1)), NOW, NOW)
    await store.hasten_run(replace(run, id=RunId(uuid7(NOW, random_bytes))), NOW, NOW)
    assert await store.get_run(run.id) == run
    await store.promote(run.due, 10)
    await worker.claim(1, run.due)
    await store.hasten_run(run, NOW, NOW)
    assert (await store.get_run(run.id)).due == run.due


async def test_a_run_that_failed_ahead_was_made(store: Store, worker: Worker) -> None:
    """Whatever became of it, its moment does not come again."""
    job = await add(store)
    ahead = Moment(NOW + DAY + 5 * MINUTE)
    await fire(store, ahead)
    (claimed,) = await worker.claim(10, ahead)
    await worker.settle(claimed, Failed("no"), ahead)
    assert isinstance(await put_back(store, Moment(NOW + MINUTE)), Job)
    await go_on(store, NOW, ahead)
    await check_balance(store, job, ahead)


def a_token(name: str, created: Moment, lives: int | None) -> Document:
    expires = None if lives is None else Moment(created + lives)
    token = AccessToken(name=name, digest="d", role=Role.READ, created=created, expires=expires)
    return Document(kind="token", name=name, text=encode_token(token), version=7)


async def test_tokens_of_a_clock_ahead_live_as_long_as_was_said(store: Store) -> None:
    """From now; those of the right time stay, and so does what a later version wrote."""
    ahead, now = Moment(NOW + TWO_DAYS), Moment(NOW + MINUTE)
    stays = [a_token("a", NOW, DAY), Document(kind="token", name="d", text="?", version=1)]
    for each in (*stays, a_token("b", ahead, DAY), a_token("c", ahead, None)):
        await store.put_document(each, None)
    for _ in range(2):
        await put_documents_right(store, now, random_bytes)
        assert [await store.get_document("token", each.name) for each in stays] == stays
        told = [decode_token((await store.get_document("token", name)).text) for name in "bc"]
        assert [(token.created, token.expires) for token in told] == [(now, now + DAY), (now, None)]


async def test_a_mute_of_a_clock_ahead_lasts_as_long_as_was_said(store: Store) -> None:
    """Its hour begins now, as nobody would be told of that failure for days; one of the right time stays as it was."""
    ahead, now = Moment(NOW + TWO_DAYS), Moment(NOW + MINUTE)
    for name, since in (("a", NOW), ("b", ahead)):
        mute = Mute(id=name, cause=name, since=since, until=Moment(since + HOUR))
        await store.put_document(Document(kind="mute", name=name, text=encode_mute(mute), version=1), None)
    for _ in range(2):
        await put_documents_right(store, now, random_bytes)
        found = [decode_mute((await store.get_document("mute", name)).text) for name in "ab"]
        assert [(mute.since, mute.until) for mute in found] == [(NOW, NOW + HOUR), (now, now + HOUR)]


async def test_what_a_clock_ahead_gave_a_time_to_begin_has_it_from_now(store: Store, worker: Worker) -> None:
    """A request that expires, and a question for an approval; what was asked by the right time stays."""
    job, asks = a_job(max_running=0), a_job("asks", max_running=0)
    await store.add_jobs([job, asks])
    ahead, now = Moment(NOW + TWO_DAYS), Moment(NOW + 2 * MINUTE)
    expiring, held = list[Run](), list[Run]()
    for at in (NOW, ahead):
        facts = Details(expires=Moment(at + HOUR))
        run = a_request(job, id=RunId(uuid7(at, random_bytes)), created=at, due=Moment(at + 1), details=facts)
        expiring.append(await store.add_run(run, at))
        await store.put_document(expiries_of(run)[0], None)
        held.append(await store.add_run(a_request(asks, due=NOW), NOW))
        claimed = next(each for each in await worker.claim(9, at) if each.run.job_id == asks.id)
        question = Approval(asked=at, until=Moment(at + 3 * HOUR))
        await store.put_document(expiry_at(Moment(at + 3 * HOUR), held[-1].id), None)
        change = change_of(claimed, Hold("asks", question), owner=worker.id, now=at, chance=0.0)
        await store.settle([change], worker.id, at)
    for _ in range(2):
        await put_expiries_right(store, now)
    expirer = Expirer(store, 0)

    async def states(moment: int) -> list[RunState]:
        for _ in range(3):
            await expirer.step(NodeId("n"), Moment(moment), expirer.next_at)
        return [(await store.get_run(run.id)).state for run in (*expiring, *held)]

    waits, skipped, asked = RunState.WAITING, RunState.SKIPPED, RunState.HELD
    assert await states(now + HOUR - 1) == [skipped, waits, asked, asked]
    assert await states(now + HOUR) == [skipped, skipped, asked, asked]
    assert await states(now + 3 * HOUR - 1) == [skipped, skipped, waits, asked]
    assert await states(now + 3 * HOUR) == [skipped, skipped, waits, waits]
    assert "2030-01-01T01:02:00Z" in ((await store.get_run(expiring[1].id)).error or "")
    answers = [(await store.get_run(run.id)).details.approval for run in held]
    until = [each.until for each in answers if each is not None and each.approved is False]
    assert until == [NOW + 3 * HOUR, now + 3 * HOUR]


async def test_a_run_that_was_asked_for_at_once_and_held_is_due_when_it_is_resumed(store: Store) -> None:
    """Though a clock ahead dated it; one for a moment keeps that, and an occurrence its own."""
    job = a_job(max_running=0)
    await store.add_jobs([job])
    ahead, now = Moment(NOW + TWO_DAYS), Moment(NOW + 2 * MINUTE)
    asked: list[Run] = []
    for due, more in ((ahead, {}), (ahead + HOUR, {}), (ahead, {"origin": f"s:{ahead}"})):
        run = a_request(job, id=RunId(uuid7(ahead, random_bytes)), created=ahead, due=Moment(due), **more)
        asked.append(await store.add_run(run, ahead))
        await store.hold_run(run.id, "to be looked at")
    for _ in range(2):
        resumed = [await begun_at_once(store, await store.resume_run(run.id), now) for run in asked]
    assert [run.due for run in resumed] == [now, ahead + HOUR, ahead]
    await store.promote(now, 10)
    assert [(await store.get_run(run.id)).state for run in asked] == [RunState.READY, *[RunState.WAITING] * 2]


async def test_the_audit_log_has_the_newest_first_again(store: Store) -> None:
    """Entries that a clock ahead has made come behind later ones, in their order, and events of them keep their ids."""
    at = [NOW, *(Moment(NOW + TWO_DAYS + number) for number in range(45))]
    entries = [AuditEntry(at=each, who="me", what="pause", of=f"job-{number}") for number, each in enumerate(at)]
    for entry in entries:
        name = name_of(entry.at, random_bytes)
        await store.put_document(Document(kind="audit", name=name, text=encode_entry(entry), version=1), None)
    before = await store.list_documents("audit")
    now = Moment(NOW + MINUTE)
    await put_documents_right(store, now, random_bytes)
    last = Document(kind="audit", name=name_of(now, random_bytes), text=encode_entry(entries[0]), version=1)
    await store.put_document(last, None)
    after = await store.list_documents("audit")
    assert after[0] == last
    assert [each.text for each in after[1:]] == [each.text for each in before]
    ids = [[changed_in(each.name, each.text)[0].id for each in some] for some in (before, after[1:])]
    assert ids[0] == ids[1]


class Life:
    """A node's duty to rewind, and its time: the store's leaps with `go_to`, and runs steadily otherwise."""

    def __init__(self, store: Store, now: Moment) -> None:
        self.now, self._at, self._since = now, 1000.0, 1000.0
        self._duty = Rewinder(store, self._at, Schedules(), lambda at: at - self._since, random_bytes)

    def go_to(self, now: Moment) -> None:
        self.now, self._since = now, self._at

    async def live(self, seconds: float) -> None:
        end = self._at + seconds
        while (at := max(self._at, self._duty.next_at)) <= end:
            self.now, self._at = Moment(self.now + round((at - self._at) * SECOND)), at
            await self._duty.step(NodeId("n"), self.now, at)
        self.now, self._at = Moment(self.now + round((end - self._at) * SECOND)), end


@pytest.mark.parametrize("seconds", [20, 200])
async def test_a_node_that_has_seen_both_leaps_sees_to_requests_and_documents(store: Store, seconds: int) -> None:
    """Within two minutes, however young it was before."""
    job = a_job(max_running=0)
    await store.add_jobs([job])
    life = Life(store, NOW)
    await life.live(seconds)
    life.go_to(Moment(life.now + TWO_DAYS))
    due = Moment(life.now + HOUR)
    asked = a_request(job, id=RunId(uuid7(life.now, random_bytes)), due=due, details=Details(delay=HOUR))
    run = await store.add_run(asked, life.now)
    await store.put_document(a_token("a", life.now, DAY), None)
    await life.live(65)
    assert await store.get_run(run.id) == run
    life.go_to(Moment(life.now - TWO_DAYS))
    await life.live(125)
    assert (await store.get_run(run.id)).due < life.now + HOUR
    assert (decode_token((await store.get_document("token", "a")).text).expires or 0) <= life.now + DAY


async def test_a_clock_that_is_behind_for_minutes_makes_no_request_begin_early(store: Store) -> None:
    """All that was made before looks as if it were made ahead; only after an hour that time is believed."""
    job = a_job(max_running=0)
    await store.add_jobs([job])
    life = Life(store, NOW)
    await life.live(20)
    asked = a_request(job, due=Moment(NOW + DAY), details=Details(delay=DAY))
    run = await store.add_run(asked, NOW)
    life.go_to(Moment(NOW - TWO_DAYS))
    await life.live(1800)
    assert await store.get_run(run.id) == run
    await life.live(2000)
    assert (await store.get_run(run.id)).due < NOW


async def test_nodes_that_live_for_seconds_put_a_job_back(store: Store) -> None:
    """They believe what those before them have noted."""
    await add(store)
    await fire(store, Moment(NOW + TWO_DAYS))
    now = Moment(NOW + MINUTE)
    for _ in range(6):
        life = Life(store, now)
        await life.live(25)
        now = life.now
    assert (await store.get_job(a_job().id)).fired_through < now + HOUR
