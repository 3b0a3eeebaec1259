"""Semaphores: units that runs and programs hold, never more than there are, and lines in which nobody is forgotten."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    NOW,
    Held,
    Worker,
    a_claim,
    a_node,
    a_request,
    add_job,
    add_runs,
    later,
    state_of,
)
from tests.contract.stores.test_limits import states
from tokimori.clock import Moment
from tokimori.errors import NotFound, Refused
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import EVERYTHING, Pause
from tokimori.model.outcome import Failed, Hold, Released, RetryAt
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Run
from tokimori.model.semaphores import wanted
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.nodes import Beat
from tokimori.ports.semaphores import Grant, InLine, NodeGone, Permit, permit_of
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed, Verdict


async def used(store: Store, name: str = "db") -> int:
    """How many units are held."""
    return (await store.get_semaphore(name)).used


async def line(store: Store, runs: list[Run]) -> list[str | None]:
    """On what these runs are blocked."""
    return [(await store.get_run(run.id)).blocked_on for run in runs]


async def wanting(store: Store, name: str, *semaphores: str, runs: int = 1, **terms: object) -> list[Run]:
    """A job that wants these semaphores, and so many runs of it; later calls stand behind earlier ones of that name."""
    job = await add_job(store, name, semaphores=semaphores, **terms)
    return await add_runs(store, job, runs)


async def one(store: Store, job_id: str, rank: int, *semaphores: str, queue: str = "default") -> Run:
    """A run of a job of its own, at this place before the new year."""
    job = await add_job(store, job_id, semaphores=semaphores, queue=queue)
    return await store.add_run(a_request(job, due=Moment(NOW - 100 + rank)), NOW)


def ids(claimed: list[Claimed]) -> list[str]:
    """The jobs of these runs."""
    return [each.run.job_id for each in claimed]


def changed(job: Job, **terms: object) -> Job:
    """The job after an edit."""
    return replace(job, definition=replace(job.definition, **terms), version=job.version + 1)


async def test_a_mutex_is_held_by_one_run(store: Store, worker: Worker) -> None:
    """A semaphore that nobody made has one unit; the run holds it, the next one stands in its line."""
    runs = await wanting(store, "job", "db", runs=2)
    (claimed,) = await worker.claim()
    permit = Permit(
        id=permit_of(runs[0].id, "db"),
        semaphore="db",
        node=worker.id,
        run_id=runs[0].id,
        weight=1,
        rank=runs[0].rank,
        token=claimed.run.token,
        since=NOW,
    )
    found = await store.get_semaphore("db")
    assert (found.name, found.limit, found.used, found.waiting, found.holders) == ("db", 1, 1, 1, (permit,))
    assert await states(store, runs) == ["running", "blocked"]
    assert await line(store, runs) == [None, "semaphore:db"]


async def test_two_jobs_share_a_semaphore(store: Store, worker: Worker) -> None:
    """A unit that a run of one job holds is not there for the runs of another one."""
    await wanting(store, "one", "db")
    await wanting(store, "two", "db")
    assert len(await worker.claim()) == 1


async def test_a_run_holds_as_many_units_as_it_wants(store: Store, worker: Worker) -> None:
    """Weights add up to the limit and no further."""
    await store.put_semaphore("db", 5, NOW)
    for n, weight in enumerate((2, 2, 2)):
        await one(store, f"j{n}", n, f"db:{weight}")
    assert ids(await worker.claim()) == ["j0", "j1"]
    assert await used(store) == 4


async def test_all_or_none(store: Store, worker: Worker) -> None:
    """A run that one of its semaphores refuses holds nothing of the others."""
    await one(store, "b-holder", 0, "b")
    both = await one(store, "both", 1, "a", "b")
    await one(store, "a-holder", 2, "a")
    assert ids(await worker.claim()) == ["b-holder", "a-holder"]
    assert await line(store, [both]) == ["semaphore:b"]


async def test_a_claim_is_asked_again(store: Store, worker: Worker) -> None:
    """A repeated claim gives the same runs and takes no unit twice."""
    await store.put_semaphore("db", 2, NOW)
    await wanting(store, "job", "db", runs=1)
    lanes = (await store.survey(NOW)).lanes

    claim = a_claim(worker.id, lanes, 5)
    first = await store.claim(claim, NOW)
    assert await store.claim(claim, NOW) == first
    assert await used(store) == 1


@pytest.mark.parametrize("outcome", [None, Failed("no"), Hold("look"), RetryAt(later(60)), Released("later")])
async def test_whatever_ends_an_attempt_gives_its_units_back(store: Store, worker: Worker, outcome: object) -> None:
    """End, retry, hold and release free the units, and the next in line is ready."""
    runs = await wanting(store, "job", "db", runs=2)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, outcome)  # type: ignore[arg-type]
    assert await used(store) == 0
    assert await state_of(store, runs[1]) is RunState.READY
    assert await line(store, runs) == [None, None]


async def test_a_lost_run_keeps_its_units_until_it_is_settled(store: Store, worker: Worker, other: Worker) -> None:
    """The units of a dead node's run are free when somebody has taken it over, not before."""
    await wanting(store, "job", "db", runs=2)
    (lost,) = await worker.claim()
    await worker.die(by=other)
    assert await other.claim() == []
    await store.settle([worker.change(lost)], other.id, NOW)
    assert len(await other.claim()) == 1


async def test_a_settle_that_is_asked_again_frees_once(store: Store, worker: Worker) -> None:
    """A late or repeated settle takes nothing from whoever holds the unit now."""
    await wanting(store, "job", "db", runs=2)
    (first,) = await worker.claim()
    await worker.settle(first)
    await worker.claim()
    assert await worker.settle(first) is Verdict.ALREADY_APPLIED
    assert await used(store) == 1


async def test_the_line_is_ordered_by_rank(store: Store, worker: Worker) -> None:
    """The one of the smallest rank is woken first, whenever it came."""
    await one(store, "holder", 0, "db")
    late = await one(store, "late", 9, "db")
    (claimed,) = await worker.claim()
    soon = await one(store, "soon", 5, "db")
    assert await worker.claim() == []
    await worker.settle(claimed)
    assert await states(store, [soon, late]) == ["ready", "blocked"]


async def test_every_lane_has_a_line_of_its_own(store: Store, worker: Worker) -> None:
    """A freed unit wakes the head of each lane: a node that serves one of them need not serve the other."""
    await one(store, "holder", 0, "db")
    ours = [await one(store, f"x{n}", 1 + n, "db", queue="x") for n in range(2)]
    theirs = [await one(store, f"y{n}", 5 + n, "db", queue="y") for n in range(2)]
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert await states(store, ours) == ["ready", "blocked"]
    assert await states(store, theirs) == ["ready", "blocked"]
    assert ids(await worker.claim()) == ["x0"]
    assert await states(store, theirs) == ["blocked", "blocked"]


async def test_as_many_are_woken_as_fit_together(store: Store, worker: Worker) -> None:
    """Units that are free at once wake heads of the line up to their sum."""
    await store.put_semaphore("db", 4, NOW)
    await one(store, "holder", 0, "db:4")
    runs = [await one(store, f"j{n}", 1 + n, f"db:{weight}") for n, weight in enumerate((1, 2, 2, 1))]
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert await states(store, runs) == ["ready", "ready", "blocked", "blocked"]


async def test_a_heavy_head_is_not_starved(store: Store, worker: Worker) -> None:
    """While the first in line waits for several units, a lighter newcomer joins behind it though one is free."""
    await store.put_semaphore("db", 3, NOW)
    await one(store, "a", 0, "db")
    await one(store, "b", 1, "db")
    heavy = await one(store, "heavy", 2, "db:3")
    first, second = await worker.claim()
    light = await one(store, "light", 3, "db")
    assert await worker.claim() == []
    assert await line(store, [heavy, light]) == ["semaphore:db", "semaphore:db"]
    await worker.settle(first)
    assert await worker.claim() == []
    await worker.settle(second)
    assert await states(store, [heavy, light]) == ["ready", "blocked"]
    assert ids(await worker.claim()) == ["heavy"]


async def test_a_heavy_run_before_the_head_is_not_starved_either(store: Store, worker: Worker) -> None:
    """One that joins before the head of the line lets nobody between the two pass, in the same claim."""
    await store.put_semaphore("db", 3, NOW)
    await one(store, "a", 0, "db")
    await one(store, "heavy", 9, "db:3")
    await worker.claim()
    before = [await one(store, "urgent", 1, "db:3"), await one(store, "light", 2, "db")]
    assert await worker.claim() == []
    assert await line(store, before) == ["semaphore:db"] * 2


async def test_a_newcomer_before_the_head_takes_what_fits(store: Store, worker: Worker) -> None:
    """A run of a smaller rank than all in line takes a free unit."""
    await store.put_semaphore("db", 3, NOW)
    await one(store, "a", 0, "db")
    await one(store, "heavy", 5, "db:3")
    await worker.claim()
    await one(store, "urgent", 1, "db")
    assert ids(await worker.claim()) == ["urgent"]


async def test_a_heavy_head_that_goes_lets_the_others_pass(store: Store, worker: Worker) -> None:
    """When the first in line is cancelled or held, those behind it get the units that it waited for."""
    await store.put_semaphore("db", 3, NOW)
    await one(store, "a", 0, "db")
    heavies = [await one(store, f"heavy{n}", 1 + n, "db:3") for n in range(2)]
    light = await one(store, "light", 3, "db")
    await worker.claim()
    await store.cancel_run(heavies[0].id, "enough", NOW)
    assert await states(store, [*heavies, light]) == ["cancelled", "blocked", "blocked"]
    await store.hold_run(heavies[1].id, "wait")
    assert await states(store, [*heavies, light]) == ["cancelled", "held", "ready"]


async def test_a_woken_run_that_goes_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """Cancelled or held before its claim, the woken head wakes the next one."""
    await one(store, "holder", 0, "db")
    runs = [await one(store, f"j{n}", 1 + n, "db") for n in range(3)]
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await store.cancel_run(runs[0].id, "enough", NOW)
    assert await states(store, runs) == ["cancelled", "ready", "blocked"]
    await store.hold_run(runs[1].id, "wait")
    assert await states(store, runs) == ["cancelled", "held", "ready"]


async def test_a_woken_run_that_another_semaphore_refuses_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """It moves to the line of the other one, and the unit that it was woken for goes to its successor."""
    await one(store, "a-holder", 0, "a")
    await one(store, "b-holder", 1, "b")
    both = await one(store, "both", 2, "a", "b")
    next_one = await one(store, "next", 3, "a")
    first, _ = await worker.claim()
    assert await line(store, [both, next_one]) == ["semaphore:a", "semaphore:a"]
    await worker.settle(first)
    assert await worker.claim() == []
    assert await line(store, [both, next_one]) == ["semaphore:b", None]
    assert ids(await worker.claim()) == ["next"]


async def test_a_woken_run_that_its_own_job_refuses_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """A unit whose first waiter finds its job full goes to the next waiter of another job."""
    await store.put_semaphore("db", 2, NOW)
    await one(store, "a", 0, "db")
    job = await add_job(store, "single", semaphores=("db",), max_running=1)
    runs = [await store.add_run(a_request(job, due=Moment(NOW - 50 + n)), NOW) for n in range(2)]
    (first, _) = await worker.claim()
    behind = await one(store, "behind", 80, "db")
    assert await worker.claim() == []
    assert await line(store, [*runs, behind]) == [None, None, "semaphore:db"]
    await worker.settle(first)
    assert ids(await worker.claim()) == ["behind"]


async def test_a_place_of_the_job_is_passed_on_too(store: Store, worker: Worker) -> None:
    """A run that a semaphore refuses wakes the next in the line of its job's limit."""
    job = await add_job(store, "job", semaphores=("db",), max_running=1)
    runs = await add_runs(store, job, 3)
    (claimed,) = await worker.claim()
    await one(store, "thief", 0, "db")
    await worker.settle(claimed)
    (thief,) = await worker.claim()
    assert thief.run.job_id == "thief"
    assert await line(store, runs[1:]) == ["semaphore:db", None]
    assert await state_of(store, runs[2]) is RunState.READY


async def test_a_larger_limit_serves_the_line(store: Store, worker: Worker) -> None:
    """Raising the limit wakes at once as many as fit."""
    runs = await wanting(store, "job", "db", runs=4)
    await worker.claim()
    await store.put_semaphore("db", 3, NOW)
    assert await states(store, runs) == ["running", "ready", "ready", "blocked"]


async def test_a_much_larger_limit_serves_some_at_a_time(store: Store, worker: Worker) -> None:
    """No transaction wakes more than a thousand of a lane, however many units are free; those behind them stay next."""
    await store.put_semaphore("db", 1, NOW)
    job = await add_job(store, "job", semaphores=("db",))
    blocked = [
        a_request(job, due=Moment(NOW - 2_000 + n), state=RunState.BLOCKED, blocked_on="semaphore:db")
        for n in range(1_010)
    ]
    for n in range(0, len(blocked), 505):
        await store.import_rows(Kind.RUNS, blocked[n : n + 505])
    await store.put_semaphore("db", 1_000_000, NOW)
    left = RunFilter(states=frozenset({RunState.BLOCKED}), limit=2_000)
    assert {run.id for run in await store.list_runs(left)} == {run.id for run in blocked[1_000:]}
    await worker.tick()
    assert len(await store.list_runs(left)) == 10


async def test_a_smaller_limit_holds_from_the_next_claim(store: Store, worker: Worker) -> None:
    """What is held stays held; nothing is granted until so much was given back."""
    await store.put_semaphore("db", 3, NOW)
    runs = await wanting(store, "job", "db", runs=5)
    running = await worker.claim()
    await store.put_semaphore("db", 1, NOW)
    assert await used(store) == 3
    for claimed in running[:2]:
        await worker.settle(claimed)
        assert await worker.claim() == []
    await worker.settle(running[2])
    assert await states(store, runs[3:]) == ["ready", "blocked"]


async def test_a_limit_below_a_weight_in_line_is_refused(store: Store, worker: Worker) -> None:
    """A run or a program that waits could never have its units."""
    await store.put_semaphore("db", 5, NOW)
    await one(store, "holder", 0, "db:5")
    await one(store, "heavy", 1, "db:4")
    await worker.claim()
    await worker.claim()
    program = await worker.acquire("db", 5)
    with pytest.raises(Refused, match="5 units") as refused:
        await store.put_semaphore("db", 4, NOW)
    assert (refused.value.field, refused.value.value) == ("limit", 4)
    await worker.release(program)
    await store.put_semaphore("db", 4, NOW)
    with pytest.raises(Refused, match="4 units"):
        await store.put_semaphore("db", 3, NOW)
    assert (await store.get_semaphore("db")).limit == 4


async def test_a_run_that_never_fits_waits(store: Store, worker: Worker) -> None:
    """A weight above the limit that came to be all the same takes nothing."""
    (run,) = await wanting(store, "job", "db:2")
    assert await worker.claim() == []
    assert await line(store, [run]) == ["semaphore:db"]
    await store.put_semaphore("db", 2, NOW)
    assert len(await worker.claim()) == 1


async def test_after_an_edit_the_line_is_found_anew(store: Store, worker: Worker) -> None:
    """Blocked runs of a changed job are ready again, and what it no longer waits for goes to others."""
    await store.put_semaphore("db", 3, NOW)
    await one(store, "a", 0, "db")
    heavy = await add_job(store, "heavy", semaphores=("db:3",))
    run = await store.add_run(a_request(heavy, due=Moment(NOW - 90)), NOW)
    light = await one(store, "light", 50, "db")
    await worker.claim()
    assert await states(store, [run, light]) == ["blocked", "blocked"]
    await store.replace_job(heavy, changed(heavy, semaphores=("db",)))
    assert await states(store, [run, light]) == ["ready", "ready"]
    assert ids(await worker.claim()) == ["heavy", "light"]


async def test_after_an_edit_nothing_waits_for_what_it_no_longer_wants(store: Store, worker: Worker) -> None:
    """A blocked run whose job is changed to want another semaphore is claimed though the first one is full."""
    await one(store, "a", 0, "db")
    job = await add_job(store, "moves", semaphores=("db",))
    run = await store.add_run(a_request(job, due=Moment(NOW - 90)), NOW)
    await worker.claim()
    assert await line(store, [run]) == ["semaphore:db"]
    await store.replace_job(job, changed(job, semaphores=("api",)))
    assert ids(await worker.claim()) == ["moves"]
    assert (await used(store), await used(store, "api")) == (1, 1)


async def test_paused_runs_stand_aside(store: Store, worker: Worker) -> None:
    """A paused job's run is no head of a line; after its resume it claims by its rank again."""
    await store.put_semaphore("db", 2, NOW)
    await one(store, "a", 0, "db")
    heavy = await add_job(store, "heavy", semaphores=("db:2",))
    run = await store.add_run(a_request(heavy, due=Moment(NOW - 90)), NOW)
    light = await one(store, "light", 50, "db")
    (first,) = await worker.claim()
    stopped = replace(heavy, state=JobState.PAUSED, version=2)
    await store.replace_job(heavy, stopped)
    assert await state_of(store, light) is RunState.READY
    (second,) = await worker.claim()
    await store.replace_job(stopped, replace(stopped, state=JobState.ENABLED, version=3))
    assert await worker.claim() == []
    assert await line(store, [run]) == ["semaphore:db"]
    await worker.settle(first)
    await worker.settle(second)
    assert ids(await worker.claim()) == ["heavy"]


async def test_a_parked_jobs_runs_stand_aside(store: Store, worker: Worker) -> None:
    """When a job is parked by its run's failure, those of other jobs pass its blocked runs."""
    job = await add_job(store, "parks", semaphores=("db",), on_exhausted=OnExhausted.PARK)
    await add_runs(store, job, 2)
    after = await one(store, "after", 99, "db")
    (claimed,) = await worker.claim(1)
    await worker.claim()
    await worker.settle(claimed, Failed("no"))
    assert await state_of(store, after) is RunState.READY
    assert ids(await worker.claim()) == ["after"]


async def test_units_of_a_failure_that_parks_are_free_once(store: Store, worker: Worker) -> None:
    """As many runs become ready as can have the units that the failed run held."""
    job = await add_job(store, "parks", semaphores=("db",), on_exhausted=OnExhausted.PARK)
    await add_runs(store, job, 2)
    others = [await one(store, "after", 99, "db"), await one(store, "last", 100, "db")]
    (claimed,) = await worker.claim(1)
    await worker.claim()
    await worker.settle(claimed, Failed("no"))
    assert await states(store, others) == ["ready", "blocked"]


async def test_a_parked_head_lets_the_others_pass(store: Store, worker: Worker) -> None:
    """Also where the run whose failure parks the job held nothing of that semaphore."""
    await store.put_semaphore("db", 3, NOW)
    job = await add_job(store, "parks", on_exhausted=OnExhausted.PARK)
    await store.add_run(a_request(job, due=Moment(NOW - 99)), NOW)
    (claimed,) = await worker.claim()
    await one(store, "a", 0, "db")
    await store.replace_job(job, heavy := changed(job, semaphores=("db:3",)))
    run = await store.add_run(a_request(heavy, due=Moment(NOW - 90)), NOW)
    light, lighter = await one(store, "light", 50, "db:2"), await one(store, "lighter", 51, "db:2")
    await worker.claim()
    assert await line(store, [run, light, lighter]) == 3 * ["semaphore:db"]
    await worker.settle(claimed, Failed("no"))
    assert await states(store, [run, light, lighter]) == ["ready", "ready", "blocked"]
    assert ids(await worker.claim()) == ["light"]


async def test_a_deleted_job_leaves_no_waiter(store: Store, worker: Worker) -> None:
    """Its blocked and woken runs are cancelled, and others get the units; what runs keeps its own."""
    holding = await add_job(store, "holding", semaphores=("db",))
    runs = await add_runs(store, holding, 2)
    after = await one(store, "after", 99, "db")
    (claimed,) = await worker.claim()
    await worker.claim()
    await store.delete_job(holding.id, NOW)
    assert await states(store, [*runs, after]) == ["running", "cancelled", "blocked"]
    await worker.settle(claimed)
    assert ids(await worker.claim()) == ["after"]


async def test_a_full_semaphore_delays_only_who_wants_it(store: Store, worker: Worker) -> None:
    """Runs of other jobs behind many blocked ones are claimed."""
    await wanting(store, "full", "db", runs=50)
    free = await add_runs(store, await add_job(store, "free"), 3)
    claimed = list[Claimed]()
    for _ in range(50):  # a claim that takes long sends some to the line, and ends
        claimed += await worker.claim(4 - len(claimed))
        if len(claimed) == 4:
            break
    assert {run.id for run in free} < {each.run.id for each in claimed}
    assert len(claimed) == 4


async def test_a_tick_serves_who_was_imported_into_a_line(store: Store, worker: Worker) -> None:
    """A run that waits though nobody holds the unit, as after a copy, is ready with the next tick."""
    await store.put_semaphore("db", 1, NOW)
    job = await add_job(store, "job", semaphores=("db",))
    runs = [
        a_request(job, due=Moment(NOW - 9 + n), state=RunState.BLOCKED, blocked_on="semaphore:db") for n in range(2)
    ]
    await store.import_rows(Kind.RUNS, runs)
    await worker.tick()
    assert await states(store, runs) == ["ready", "blocked"]
    await worker.tick()
    assert await states(store, runs) == ["ready", "blocked"]


async def test_a_program_holds_units(store: Store, worker: Worker) -> None:
    """A granted program is among the holders, with its token, and runs wait for it."""
    held = await worker.acquire("db")
    assert held.answer == Grant(token=1)
    (run,) = await wanting(store, "job", "db")
    assert await worker.claim() == []
    (holder,) = (await store.get_semaphore("db")).holders
    assert (holder.id, holder.node, holder.run_id, holder.token) == (held.wish.id, worker.id, None, 1)
    assert await worker.release(held)
    assert await state_of(store, run) is RunState.READY


async def test_a_program_waits_for_a_run(store: Store, worker: Worker) -> None:
    """While a run holds the unit a program stands in line; when the run ends it is granted."""
    await wanting(store, "job", "db")
    (claimed,) = await worker.claim()
    waiting = await worker.acquire("db")
    assert waiting.answer == InLine(ahead=0)
    assert (await store.get_semaphore("db")).waiting == 1
    await worker.settle(claimed)
    assert await worker.store.acquire(waiting.wish, later(1)) == Grant(token=1)
    assert await used(store) == 1


async def test_acquire_asked_again_gives_the_same(store: Store, worker: Worker) -> None:
    """The same id never takes units twice, and a place in line stays what it was."""
    await store.put_semaphore("db", 2, NOW)
    held = await worker.acquire("db", 2)
    waiting = await worker.acquire("db")
    for held_or_not in (held, waiting, held, waiting):
        assert await store.acquire(held_or_not.wish, later(1)) == held_or_not.answer
    found = await store.get_semaphore("db")
    assert (found.used, found.waiting) == (2, 1)


async def test_tokens_grow_with_every_grant(store: Store, worker: Worker, other: Worker) -> None:
    """Whoever is granted later has a greater token, as long as the semaphore lives."""
    tokens = []
    for holder in (worker, other, worker):
        held = await holder.acquire("db")
        tokens.append(held.token)
        await holder.release(held)
    assert tokens == [1, 2, 3]


async def test_tokens_grow_on_over_a_deletion(store: Store, worker: Worker) -> None:
    """Who held a semaphore of that name before has no greater token than who holds it now, and so no other one."""
    for name, tokens in (("db", 3), ("api", 1)):
        for _ in range(tokens):
            held = await worker.acquire(name)
            await worker.release(held)
        await store.delete_semaphore(name)
    await store.delete_semaphore("db")
    assert (await worker.acquire("db")).token == 5
    await store.put_semaphore("api", 2, NOW)
    assert [(await worker.acquire("api")).token for _ in range(2)] == [5, 6]


async def test_programs_are_served_in_order(store: Store, worker: Worker, other: Worker) -> None:
    """By rank, then by id; the head that does not fit lets none behind it pass."""
    await store.put_semaphore("db", 2, NOW)
    held = [await worker.acquire("db"), await worker.acquire("db")]
    light = await other.acquire("db", rank=NOW + 2)
    heavy = await worker.acquire("db", 2, rank=NOW + 1)
    assert (light.answer, heavy.answer) == (InLine(ahead=0), InLine(ahead=0))
    assert await store.acquire(light.wish, NOW) == InLine(ahead=1)
    await worker.release(held[0])
    assert await store.acquire(light.wish, NOW) == InLine(ahead=1)
    await worker.release(held[1])
    assert await store.acquire(heavy.wish, NOW) == Grant(token=3)
    await worker.release(heavy)
    assert await store.acquire(light.wish, NOW) == Grant(token=4)


@pytest.mark.parametrize("queue", ["stopped", EVERYTHING])
async def test_programs_pass_the_runs_of_a_paused_queue(
    store: Store, worker: Worker, other: Worker, queue: str
) -> None:
    """Nothing of a paused queue is claimed, so that a program does not wait behind its blocked runs."""
    held = await worker.acquire("db", rank=NOW - 200)
    runs = [await one(store, f"run-{n}", n, "db", queue="stopped") for n in range(3)]
    assert await worker.claim() == []
    await store.add_pause(Pause(queue=queue, since=NOW))
    waiting = await other.acquire("db")
    assert isinstance(waiting.answer, InLine)
    await worker.release(held)
    assert isinstance(await store.acquire(waiting.wish, NOW), Grant)
    assert await states(store, runs) == ["blocked"] * 3
    await store.delete_pause(queue)
    await other.release(waiting)
    assert ids(await worker.claim()) == ["run-0"]


async def test_a_program_waits_behind_runs_of_queues_that_go_on(store: Store, worker: Worker, other: Worker) -> None:
    """The pause of one queue lets no program pass the runs of another one."""
    held = await worker.acquire("db", rank=NOW - 200)
    await one(store, "stopped", 0, "db", queue="stopped")
    runs = [await one(store, f"run-{n}", n, "db") for n in (1, 2)]
    assert await worker.claim() == []
    await store.add_pause(Pause(queue="stopped", since=NOW))
    waiting = await other.acquire("db")
    await worker.release(held)
    assert isinstance(await store.acquire(waiting.wish, NOW), InLine)
    assert await states(store, runs) == ["ready", "blocked"]


async def test_a_newcomer_program_joins_behind_those_that_wait(store: Store, worker: Worker) -> None:
    """A program that would fit stands behind a heavier one before it."""
    await store.put_semaphore("db", 3, NOW)
    await worker.acquire("db", 2)
    await worker.acquire("db", 3, rank=NOW)
    assert (await worker.acquire("db", 1, rank=NOW + 1)).answer == InLine(ahead=1)
    assert isinstance((await worker.acquire("db", 1, rank=NOW - 1)).answer, Grant)


async def test_a_run_joins_behind_a_program_that_waits(store: Store, worker: Worker) -> None:
    """A heavy program at the head is not starved by runs of larger ranks; one of a smaller rank goes first."""
    await store.put_semaphore("db", 3, NOW)
    held = await worker.acquire("db", 2)
    heavy = await worker.acquire("db", 3, rank=NOW - 50)
    behind = await one(store, "behind", 60, "db")
    assert await worker.claim() == []
    assert await line(store, [behind]) == ["semaphore:db"]
    await one(store, "before", 40, "db")
    (before,) = await worker.claim()
    assert before.run.job_id == "before"
    await worker.release(held)
    await worker.settle(before)
    assert isinstance(await store.acquire(heavy.wish, NOW), Grant)
    await worker.release(heavy)
    assert await state_of(store, behind) is RunState.READY


async def test_programs_and_runs_are_served_by_rank(store: Store, worker: Worker) -> None:
    """A freed unit goes to the program if no blocked run is before it, and wakes the run otherwise."""
    held = await worker.acquire("db")
    run = await one(store, "run", 50, "db")
    await worker.claim()
    sooner = await worker.acquire("db", rank=NOW - 80)
    later_one = await worker.acquire("db", rank=NOW - 20)
    await worker.release(held)
    assert isinstance(await store.acquire(sooner.wish, NOW), Grant)
    assert await state_of(store, run) is RunState.BLOCKED
    await worker.release(sooner)
    assert await state_of(store, run) is RunState.READY
    assert len(await worker.claim()) == 1
    assert await store.acquire(later_one.wish, NOW) == InLine(ahead=0)


async def test_a_program_passes_a_woken_run_that_nobody_claims(store: Store, worker: Worker) -> None:
    """When it asks again, the head of the programs gets a unit that a woken run has not taken."""
    held = await worker.acquire("db")
    await one(store, "run", 50, "db", queue="unserved")
    await worker.claim()
    waiting = await worker.acquire("db", rank=NOW)
    assert waiting.answer == InLine(ahead=1)
    await worker.release(held)
    assert isinstance(await store.acquire(waiting.wish, NOW), Grant)


async def test_who_leaves_the_line_makes_way(store: Store, worker: Worker) -> None:
    """A program that gives up its place lets those behind it be served."""
    await store.put_semaphore("db", 2, NOW)
    await worker.acquire("db")
    heavy = await worker.acquire("db", 2, rank=NOW - 2)
    light = await worker.acquire("db", 1, rank=NOW - 1)
    run = await one(store, "run", 100, "db")
    await worker.claim()
    assert isinstance(light.answer, InLine)
    assert await worker.release(heavy)
    assert isinstance(await store.acquire(light.wish, NOW), Grant)
    assert await state_of(store, run) is RunState.BLOCKED


async def test_what_is_released_twice_was_given_back_once(store: Store, worker: Worker, other: Worker) -> None:
    """The second release changes nothing, nor does that of another node or of an unknown permit."""
    held = await worker.acquire("db")
    assert not await other.release(held)
    assert await used(store) == 1
    assert await worker.release(held)
    assert isinstance((await other.acquire("db")).answer, Grant)
    assert not await worker.release(held)
    assert not await store.release(PermitId("00000000-0000-7000-8000-000000000000"), worker.id, NOW)
    assert await used(store) == 1


async def test_the_permit_of_a_run_is_not_released(store: Store, worker: Worker) -> None:
    """Only what ends the attempt gives it back."""
    (run,) = await wanting(store, "job", "db")
    await worker.claim()
    assert not await store.release(permit_of(run.id, "db"), worker.id, NOW)
    assert await used(store) == 1


async def test_a_dead_session_loses_everything(store: Store, worker: Worker, other: Worker) -> None:
    """When a node is declared dead, what its programs hold goes to the next in line, and they wait for nothing."""
    held = await worker.acquire("db")
    gone = await worker.acquire("db", rank=NOW - 9)
    waiting = await other.acquire("db", rank=NOW)
    assert waiting.answer == InLine(ahead=1)
    await worker.die(by=other)
    assert await store.acquire(waiting.wish, NOW) == Grant(token=2)
    assert await store.acquire(held.wish, NOW) == NodeGone()
    assert not await store.release(gone.wish.id, worker.id, NOW)
    found = await store.get_semaphore("db")
    assert (found.used, found.waiting) == (1, 0)


async def test_who_leaves_gives_everything_back(store: Store, worker: Worker, other: Worker) -> None:
    """A node that goes by itself frees the units of its programs and their places in line."""
    await worker.acquire("db")
    await worker.acquire("db")
    (run,) = await wanting(store, "job", "db")
    await other.claim()
    assert await store.leave(worker.id, NOW)
    assert await state_of(store, run) is RunState.READY
    assert (await store.get_semaphore("db")).waiting == 0


async def test_of_a_program_that_leaves_nothing_stays(store: Store, worker: Worker) -> None:
    """Not even its row, for programs come and go every second; it may leave twice, and is granted nothing more."""
    program = replace(a_node(), concurrency=0)
    await store.register(program)
    session = Worker(store, program.id)
    await session.acquire("db")
    waiting = await worker.acquire("db")
    assert await store.leave(program.id, NOW)
    assert [node.id for node in await store.list_nodes()] == [worker.id]
    assert isinstance(await store.acquire(waiting.wish, NOW), Grant)
    assert await store.leave(program.id, NOW)
    assert (await session.acquire("db")).answer == NodeGone()
    assert await store.tick(Beat(node=program.id), NOW) is None
    assert not await store.bury(program.id, 0, worker.id, NOW)


async def test_a_node_that_still_owns_runs_keeps_its_programs(store: Store, worker: Worker) -> None:
    """A refused departure takes nothing away."""
    held = await worker.acquire("db")
    await add_runs(store, await add_job(store), 1)
    await worker.claim()
    assert not await store.leave(worker.id, NOW)
    assert await store.acquire(held.wish, NOW) == held.answer


async def test_a_stranger_is_granted_nothing(store: Store, worker: Worker) -> None:
    """A node that never registered, or has left, holds nothing."""
    await store.leave(worker.id, NOW)
    assert (await worker.acquire("db")).answer == NodeGone()
    stranger = Worker(store, NodeId("00000000-0000-7000-8000-000000000000"))
    assert (await stranger.acquire("db")).answer == NodeGone()


async def test_a_weight_above_the_limit_is_refused(store: Store, worker: Worker) -> None:
    """A program that asks for more units than there are is told so, and stands nowhere."""
    await store.put_semaphore("db", 3, NOW)
    with pytest.raises(Refused) as refused:
        await worker.acquire("db", 4)
    assert (refused.value.field, refused.value.value, refused.value.allowed) == ("weight", 4, "1 to 3")
    with pytest.raises(Refused):
        await worker.acquire("unknown", 2)
    with pytest.raises(NotFound):
        await store.get_semaphore("unknown")
    assert (await store.get_semaphore("db")).waiting == 0


async def test_a_semaphore_is_made_by_who_asks_first(store: Store, worker: Worker) -> None:
    """With the limit that it asks for, or as a mutex; who means another limit is refused."""
    await worker.acquire("api", 2, limit=5)
    assert (await store.get_semaphore("api")).limit == 5
    await worker.acquire("api", limit=5)
    await worker.acquire("api")
    with pytest.raises(Refused) as refused:
        await worker.acquire("api", limit=4)
    assert (refused.value.field, refused.value.value) == ("limit", 4)
    await worker.acquire("table")
    assert (await store.get_semaphore("table")).limit == 1
    assert (await store.get_semaphore("api")).used == 4


async def test_semaphores_are_listed_by_name(store: Store, worker: Worker) -> None:
    """In pages, in the order of their bytes."""
    names = ["B", "a", "a-b", "a.b", "a_b", "b"]
    for name in reversed(names):
        await store.put_semaphore(name, 7, NOW)
    await worker.acquire("b", 2)
    assert [each.name for each in await store.list_semaphores()] == sorted(names)
    page = await store.list_semaphores(after="a", limit=2)
    assert [each.name for each in page] == ["a-b", "a.b"]
    (last,) = await store.list_semaphores(after="a_b")
    assert last == await store.get_semaphore("b")


async def test_an_unused_semaphore_is_deleted(store: Store, worker: Worker) -> None:
    """One that is held or waited for is not; one that is gone is made anew by the next who asks."""
    held = await worker.acquire("db", limit=2)
    with pytest.raises(Refused):
        await store.delete_semaphore("db")
    await worker.release(held)
    await store.delete_semaphore("db")
    await store.delete_semaphore("db")
    with pytest.raises(NotFound):
        await store.get_semaphore("db")
    assert (await worker.acquire("db")).token == 2


async def test_a_semaphore_that_runs_wait_for_is_not_deleted(store: Store, worker: Worker) -> None:
    """A run that stands in its line keeps it."""
    await wanting(store, "job", "db:2")
    await worker.claim()
    with pytest.raises(Refused):
        await store.delete_semaphore("db")


async def test_the_first_hundred_holders_are_shown(store: Store, worker: Worker) -> None:
    """Of many holders those that came first, and how many units all of them hold."""
    await store.put_semaphore("db", 200, NOW)
    await wanting(store, "job", "db", runs=120)
    await worker.claim()
    found = await store.get_semaphore("db")
    assert (found.used, len(found.holders)) == (120, 100)
    assert [each.id for each in found.holders] == sorted(each.id for each in found.holders)


async def test_the_line_is_never_forgotten(store: Store, worker: Worker) -> None:
    """Whatever becomes of the runs before them, all that wait for two semaphores run in the end."""
    await store.put_semaphore("a", 3, NOW)
    await store.put_semaphore("b", 2, NOW)
    for n, semaphores in enumerate((("a", "b"), ("a:2",), ("b:2",), ("a:3", "b"))):
        await wanting(store, f"j{n}", *semaphores, runs=5, max_running=n % 2)
    outcomes = [None, Released("later"), RetryAt(NOW), Hold("look"), Failed("broken")]
    settled = 0
    for _ in range(400):
        batch = await worker.claim(3)
        for claimed in batch:
            await worker.settle(claimed, outcomes[settled % len(outcomes)])
            settled += 1
        await store.promote(NOW, 10)
        if not batch and sum([(await store.get_due(job.id)).active for job in await store.list_jobs()]) == 0:
            break
    assert sum([(await store.get_due(job.id)).active for job in await store.list_jobs()]) == 0
    assert (await used(store, "a"), await used(store, "b")) == (0, 0)


async def test_units_are_exact_whatever_happens_at_the_same_time(store: Store) -> None:
    """Nodes and programs that claim, settle, acquire and release at once hold no more than there is; all get theirs."""
    await store.put_semaphore("db", 3, NOW)
    for n in range(6):
        await wanting(store, f"j{n}", f"db:{1 + n % 3}", runs=2)
    workers = [await Worker.join(store) for _ in range(4)]
    running: list[tuple[Worker, Claimed]] = []
    asked: list[tuple[Worker, Held]] = []
    ended = 0
    for turn in range(300):
        batches = await asyncio.gather(*(worker.claim(2) for worker in workers))
        running += [(worker, each) for worker, batch in zip(workers, batches, strict=True) for each in batch]
        if turn < 5:
            asked += [(w, held) for w, held in zip(workers, await _all_acquire(workers), strict=True)]
        assert (await store.get_semaphore("db")).used <= 3
        asked = [(w, Held(held.wish, await store.acquire(held.wish, NOW))) for w, held in asked]
        granted = [(w, held) for w, held in asked if held.token is not None]
        units = sum(held.wish.weight for _, held in granted) + sum(_units(each) for _, each in running)
        assert units <= 3
        asked = [each for each in asked if each not in granted]
        ended += len(running)
        await asyncio.gather(
            *(worker.settle(each, now=later(1)) for worker, each in running),
            *(worker.release(held) for worker, held in granted),
        )
        running = []
        if ended == 12 and not asked and turn > 5:
            break
    assert (ended, asked) == (12, [])
    found = await store.get_semaphore("db")
    assert (found.used, found.waiting) == (0, 0)


async def _all_acquire(workers: list[Worker]) -> list[Held]:
    return list(await asyncio.gather(*(worker.acquire("db", 1 + n % 2) for n, worker in enumerate(workers))))


def _units(claimed: Claimed) -> int:
    assert claimed.definition is not None
    return sum(weight for _, weight in wanted(claimed.definition.semaphores))
