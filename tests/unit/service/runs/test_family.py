"""Families of runs: what came before and after, and orders for all of them."""

import asyncio
from time import thread_time
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import ON_DEMAND, World
from tokimori.clock import Moment
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.outcome import Failed, Succeeded, spawns_of
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.reasons import Cause
from tokimori.service.runs.family import all_cancelled
from tokimori.service.runs.family_reading import COMES, FamilyMember, _in_order, family_of


def step_id(number: int) -> str:
    """An id of now, of this number."""
    return uuid7(Moment(NEW_YEAR + number), lambda n: bytes([number] * n))


def step(number: int, job: str, *then: Any, **fields: Any) -> dict[str, Any]:
    """A step of this number."""
    return {"id": step_id(number), "job": job, "then": then, **fields}


@pytest.fixture
async def world() -> World:
    """Jobs a to e, some of them in another queue."""
    world = World()
    for name in "abc":
        await world.add({"noop": True, "queue": "web", "max_running": 0}, name)
    for name in "de":
        await world.add(ON_DEMAND, name)
    return world


async def joined(world: World, roots: int = 3) -> list[Run]:
    """Roots of the job a, which the step 1 joins, and behind it the step 2; the step 3 if one fails."""
    then = [step(1, "b", step(2, "c"), joins=roots), step(3, "d", on_failure=True)]
    runs = await world.service.jobs.trigger_many("a", [{"payload": str(n), "then": then} for n in range(roots)])
    return list(runs)


def told(family: list[FamilyMember]) -> list[tuple[str, str, int]]:
    """Each job, state, and how many are before it."""
    return [(each.job_id, each.state.value, len(each.after)) for each in family]


async def test_a_family_of_requests_is_read_from_each_of_its_runs(world: World) -> None:
    """Those that run beside it, that are made, that wait for others, and that will not be made; also from a step."""
    roots = await joined(world)
    wanted = [*[("a", "ready", 0)] * 3, ("b", "waiting", 3), ("d", "waiting", 3), ("c", "waiting", 1)]
    for run_id in (roots[1].id, step_id(1), step_id(2), step_id(3)):
        assert sorted(told(await world.service.runs.family(run_id))) == sorted(wanted)
    await world.work(Succeeded(0), Succeeded(0), Succeeded(0), Failed("no"))
    wanted = [*[("a", "succeeded", 0)] * 3, ("b", "failed", 3), ("d", "skipped", 3), ("c", "skipped", 1)]
    for run_id in (roots[0].id, step_id(1)):
        assert sorted(told(await world.service.runs.family(run_id))) == sorted(wanted)
    with pytest.raises(NotFound):
        await world.service.runs.family(step_id(9))


async def test_a_family_of_jobs_is_read_from_each_of_its_runs(world: World) -> None:
    """The runs of one chain alone, and the jobs that would run after them."""
    await world.add({"noop": True, "parents": [{"job": "a"}]}, "after")
    await world.add({"noop": True, "parents": [{"job": "after"}, {"job": "a"}], "join": "all"}, "both")
    await world.add({"noop": True, "parents": [{"job": "after", "on": "failure"}]}, "alarm")
    await world.trigger("a")
    await world.work(Succeeded(0))
    run = await world.trigger("a")
    assert told(await world.service.runs.family(run.id))[0] == ("a", "ready", 0)
    await world.service.runs.cancel((await world.service.runs.list(job_id="after")).runs[0].id)
    await world.work(Succeeded(0), Succeeded(0))
    (child,) = [each for each in await world.service.runs.list(job_id="after") if each.parent_id == run.id]
    wanted = {("a", "succeeded", 0), ("after", "succeeded", 1), ("both", "ready", 2), ("alarm", "skipped", 1)}
    for run_id in (run.id, child.id):
        found = await world.service.runs.family(run_id)
        assert set(told(found)) == wanted and len(found) == 4
        assert [each.name for each in found][:2] == [run.id, child.id]


async def test_why_of_a_step_names_the_runs_for_which_it_waits(world: World) -> None:
    """Those that have not ended; and of one that is not made those that ended otherwise."""
    roots = await joined(world)
    await world.work(Succeeded(0))
    (reason,) = (why := await world.service.runs.why(step_id(1))).reasons
    assert (why.job_id, why.state, reason.cause) == ("b", "waiting", Cause.PARENTS)
    assert reason.text == "it is made when all 3 runs before it have succeeded"
    assert len(reason.holders) == 2 and {each.run_id for each in reason.holders} < {run.id for run in roots}
    (reason,) = (await world.service.runs.why(step_id(2))).reasons
    assert [each.run_id for each in reason.holders] == [step_id(1)]
    assert (await world.service.runs.why(step_id(3))).reasons[0].text.endswith("one of the runs before it has failed")
    await world.work(Failed("no"))
    (reason,) = (await world.service.runs.why(step_id(1))).reasons
    assert reason.text == "it is not made, which only happens when all 3 runs before it have succeeded"
    with pytest.raises(NotFound):
        await world.service.runs.why(step_id(9))


async def test_a_family_is_cancelled_together(world: World) -> None:
    """From any of its runs, those that ended stay, and nothing follows."""
    roots = await joined(world)
    await world.work(Succeeded(0))
    done = await world.service.runs.cancel_family(roots[0].id, "not needed")
    assert len(done) == 2 and {run.error for run in done} == {"not needed"}
    assert {each.state.value for each in await world.service.runs.family(roots[2].id)} == {
        *("cancelled", "succeeded", "skipped")
    }
    assert await world.service.runs.cancel_family(roots[0].id) == []


async def test_parents_are_cancelled_before_what_follows_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time: a run that ended meanwhile would bring new ones."""
    await world.add({"noop": True, "max_running": 0}, "many")
    run, order, cancel = await world.service.jobs.trigger("many"), list[str](), world.store.cancel_run
    await world.work(spawns_of([("a", None)] * 30))
    spawned = {each.id for each in await world.store.list_runs(RunFilter(limit=50))} - {run.id}

    async def noted(run_id: RunId, *rest: Any) -> Run:
        order.append(run_id)
        found = await cancel(run_id, *rest)
        order.append(run_id)
        return found

    monkeypatch.setattr(world.store, "cancel_run", noted)
    assert len(await world.service.runs.cancel_family(run.id)) == 31
    assert order[:2] == [run.id] * 2 and set(order[2:]) == spawned


async def test_a_family_of_requests_is_made_anew(world: World) -> None:
    """All its first runs, with new ids of what follows; the new generation ends by itself, and again."""
    roots = await joined(world)
    with pytest.raises(Refused, match="has not ended"):
        await world.service.runs.retry_family(roots[0].id)
    await world.work(Succeeded(0), Failed("no"), Succeeded(0), Succeeded(0))
    seen = {str(run.id) for run in await world.service.runs.list()}
    for _ in range(2):
        again = [asked.run for asked in await world.service.runs.retry_family(roots[1].id)]
        assert sorted(run.payload or "" for run in again) == ["0", "1", "2"]
        assert {run.details.retry_of for run in again} == {run.id for run in roots}
        await world.work(*[Succeeded(0, "7")] * 5)
        family = await world.service.runs.family(again[0].id)
        made = {each.name for each in family if each.run is not None}
        assert [each.state.value for each in family if each.run] == ["succeeded"] * 5 and not made & seen
        seen, roots = seen | made, again


async def test_a_family_of_jobs_is_made_anew(world: World) -> None:
    """Two jobs of one moment, which another one joins, are joined once more: they have a new root together."""
    for name in ("p", "q"):
        await world.add({"noop": True, "schedule": "@daily"}, name)
    await world.add({"noop": True, "parents": [{"job": "p"}, {"job": "q"}], "join": "all"}, "both")
    world.pass_seconds(86_400)
    await world.fire()
    await world.work(*[Succeeded(0)] * 3)
    for number in (2, 3):
        (first, *_) = await world.service.runs.list(job_id="both")
        assert len(await world.service.runs.retry_family(first.id)) == 2
        await world.work(*[Succeeded(0)] * 3)
        assert len(await world.service.runs.list(job_id="both")) == number


async def test_what_was_refused_leaves_nothing_half(world: World) -> None:
    """If one of its jobs is paused, those that were requested before it are cancelled."""
    then = [step(1, "c", joins=2)]
    run = await world.service.jobs.trigger("a", then=then)
    await world.service.jobs.trigger("b", then=then)
    await world.work(*[Succeeded(0)] * 3)
    await world.service.jobs.pause("b")
    with pytest.raises(Refused):
        await world.service.runs.retry_family(run.id)
    assert all(each.state in ENDS for each in await world.service.runs.list())


@pytest.mark.parametrize(("longest", "cancelled"), [(20.0, [31]), (0.0, [21, 10])])
async def test_a_large_family_is_cancelled_by_one_call(
    world: World, monkeypatch: pytest.MonkeyPatch, longest: float, cancelled: list[int]
) -> None:
    """The family is read once, and once more at the end; several calls do so if it takes long.

    One that is too large is refused as a whole.
    """
    await world.add({"noop": True, "max_running": 0}, "many")
    run = await world.service.jobs.trigger("many")
    await world.work(spawns_of([("a", None)] * 30))
    monkeypatch.setattr("tokimori.service.runs.family.ENOUGH", 8)
    monkeypatch.setattr("tokimori.service.runs.family.LONGEST", longest)
    assert len(await world.service.runs.family(run.id, limit=10)) < 31
    with monkeypatch.context() as bound:
        bound.setattr("tokimori.service.runs.family.MOST_ORDERED", 30)
        with pytest.raises(Refused, match="more than 30 runs"):
            await world.service.runs.cancel_family(run.id)
    reads = list[str]()

    async def read(store: Store, run_id: str, most: int) -> list[FamilyMember]:
        reads.append(run_id)
        return await family_of(store, run_id, most)

    monkeypatch.setattr("tokimori.service.runs.family.family_of", read)
    assert len(await world.service.runs.cancel_family(run.id)) == cancelled[0]
    assert len(reads) == (1 if cancelled[1:] else 2)
    assert len(await all_cancelled(world.service.runs.cancel_family, run.id, "enough")) == sum(cancelled[1:])
    assert all(each.state in ENDS for each in await world.store.list_runs(RunFilter(limit=50)))
    assert len(await world.service.runs.retry_family(run.id)) == 1


async def test_what_a_cancellation_brings_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that clean up after any end are made, however many calls cancel the family, and if it is cancelled again."""
    monkeypatch.setattr("tokimori.service.runs.family.ENOUGH", 5)
    monkeypatch.setattr("tokimori.service.runs.family.LONGEST", 0.0)
    await world.add({"noop": True, "max_running": 0}, "many")
    await world.add({"noop": True, "max_running": 0}, "part")
    await world.add({"noop": True, "max_running": 0, "parents": [{"job": "part", "on": "always"}]}, "clean")
    run = await world.service.jobs.trigger("many")
    await world.work(spawns_of([("part", None)] * 12))
    for _ in range(2):
        await all_cancelled(world.service.runs.cancel_family, run.id, "enough")
        found = await world.store.list_runs(RunFilter(job_id=JobId("clean"), limit=50))
        assert [each.state for each in found] == [RunState.READY] * 12


@pytest.mark.parametrize("newer", [0, 3])
async def test_a_step_is_found_behind_many_newer_runs(
    world: World, newer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if more runs than are looked at were requested since; its short id is known, too."""
    monkeypatch.setattr("tokimori.service.runs.family_reading._LOOKED_AT", 2)
    run = await world.service.jobs.trigger("a", then=[step(1, "b")])
    world.pass_seconds(60)
    for _ in range(newer):
        await world.service.jobs.trigger("a")
    (reason,) = (await world.service.runs.why(step_id(1))).reasons
    assert [each.run_id for each in reason.holders] == [run.id]
    assert await world.service.runs.whole_id(step_id(1)[-8:]) == step_id(1)


async def test_a_scope_sees_steps_of_its_own_jobs(world: World) -> None:
    """Of one still to be made `why` says why, and nothing is told of those of other jobs, or of their arguments."""
    service = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=Scope(queues=("web",))))
    then = [step(1, "b"), step(2, "d", step(3, "a"), payload='"secret"')]
    run = await world.service.jobs.trigger("a", then=then)
    assert (await service.runs.why(step_id(1))).reasons[0].cause is Cause.PARENTS
    assert {each.job_id for each in await service.runs.family(step_id(1))} == {"a", "b"}
    for look in (service.runs.why, service.runs.family):
        with pytest.raises(NotFound):
            await look(step_id(2))
    seen = [(await service.runs.get(run.id)).run, *await service.runs.list(), await service.runs.hold(run.id)]
    assert [[each.job for each in found.details.then] for found in seen] == [["b"]] * 3
    assert len((await world.service.runs.get(run.id)).run.details.then) == 2


@pytest.mark.parametrize("scope", [Scope(queues=("web",)), Scope(jobs=("a", "b", "c"))])
async def test_orders_for_a_family_need_the_right_to_all_of_it(world: World, scope: Scope) -> None:
    """Who sees a part of it is shown that part, and neither cancels nor repeats what he does not see."""
    service = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=scope))
    (own,) = await joined(world, 1)
    assert {each.job_id for each in await service.runs.family(own.id)} == {"a", "b", "c"}
    other = await world.service.jobs.trigger("d", then=[step(4, "a", step(5, "d"))])
    await world.service.runs.cancel(own.id)
    with pytest.raises(Forbidden):
        await service.runs.retry_family(own.id)
    await world.work(Succeeded(0))
    assert len(await service.runs.cancel_family(step_id(4))) == 1
    with pytest.raises(Forbidden):
        await service.runs.retry_family(step_id(4))
    last = await world.service.jobs.trigger("a", then=[step(6, "d")])
    await world.work(Succeeded(0))
    with pytest.raises(Forbidden):
        await service.runs.cancel_family(last.id)
    assert (await world.store.get_run(RunId(step_id(6)))).state not in ENDS and other.id


def member(name: str, *after: str) -> FamilyMember:
    """One to come, of this name."""
    return FamilyMember(name=name, job_id=JobId("a"), state=COMES, after=after)


async def test_parents_come_first_and_the_others_by_name() -> None:
    """Generation after generation; what names itself or an unknown run comes last, and is not lost."""
    given = [member("a", "d", "d"), member("e"), member("b", "a", "c"), member("d"), member("c", "e")]
    assert [each.name for each in await _in_order(given)] == ["d", "e", "a", "c", "b"]
    circle = [member("c", "b"), member("b", "c"), member("a", "none"), member("z")]
    assert [each.name for each in await _in_order(circle)] == ["z", "a", "b", "c"]


async def test_a_run_with_many_children_is_read_in_steps(world: World) -> None:
    """A look at each of them costs the same, however many there are: nobody waits for long meanwhile."""
    run, many = await world.trigger("a"), 8_000
    await world.work(spawns_of([("b", None)]))
    run = await world.store.get_run(run.id)
    (child,), spawned = await world.service.runs.list(job_id="b"), run.details.spawned
    assert spawned is not None
    spawned = replace(spawned, count=many)
    kept = {each: replace(child, id=each) for each in spawned.ids(run.id)}
    kept[run.id] = replace(run, details=replace(run.details, spawned=spawned))

    async def get_run(run_id: RunId) -> Run:
        return kept[run_id]

    world.store.get_run = get_run  # type: ignore[method-assign]
    reading, longest = asyncio.create_task(world.service.runs.family(run.id, 20_000)), 0.0
    while not reading.done():
        began = thread_time()
        await asyncio.sleep(0)
        longest = max(longest, thread_time() - began)
    assert len(reading.result()) == many + 1 and longest < 0.25


async def test_a_long_chain_is_ordered_in_steps() -> None:
    """Each of its runs is looked at once, not once for each that is before it; others have their turns meanwhile."""
    chain = [member(f"{n:05}", *[f"{n + 1:05}"] * (n < 5_000)) for n in range(5_001)]
    turns, ordering = 0, asyncio.create_task(_in_order(chain))
    while not ordering.done():
        turns += 1
        await asyncio.sleep(0)
    assert [each.name for each in ordering.result()] == [each.name for each in reversed(chain)] and turns > 20


async def test_one_job_may_follow_many_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parents are put together once, not once for each of them."""
    await world.add({"noop": True, "max_running": 0}, "many")
    await world.add({"noop": True, "parents": [{"job": "a"}]}, "after")
    run, made = await world.service.jobs.trigger("many"), list[str]()
    await world.work(spawns_of([("a", None)] * 200))

    def noted(member: FamilyMember, **fields: Any) -> FamilyMember:
        made.append(member.name)
        return replace(member, **fields)

    monkeypatch.setattr("tokimori.service.runs.family_reading.replace", noted)
    (last,) = [each for each in await world.service.runs.family(run.id) if each.job_id == "after"]
    assert len(last.after) == len(set(last.after)) == 200 and made == ["after"]


@pytest.mark.parametrize("spelt", ["{}", "{{{}}}", "urn:uuid:{}"])
async def test_an_id_may_be_spelt_otherwise(world: World, spelt: str) -> None:
    """In capitals, in braces and as a name, of runs and of steps, for whoever sees all or a part."""
    run = await world.service.jobs.trigger("a", then=[step(1, "b")])
    scoped = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=Scope(queues=("web",))))
    for runs in (world.service.runs, scoped.runs):
        for each in (run.id, step_id(1)):
            other = spelt.format(each.upper())
            assert await runs.family(other) == await runs.family(each)
            assert await runs.why(other) == await runs.why(each)
        for look in (runs.family, runs.why):
            with pytest.raises(NotFound):
                await look(spelt.format(step_id(9).upper()))
            with pytest.raises(InvalidInput):
                await look("none")
