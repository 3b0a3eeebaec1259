"""Runs are asked for again, and jobs are copied and renamed."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.unit.service.interleaved import Call, Choices, carry_out, in_every_order
from tests.unit.service.world import World
from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access
from tokimori.service.definitions.requests import Became
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.sets.app_jobs import Declared, declare


async def ended(world: World, job_id: str = "j", **asked: object) -> Run:
    """A run that was cancelled."""
    run = await world.service.jobs.trigger(job_id, **asked)  # type: ignore[arg-type]
    return await world.service.runs.cancel(run.id)


async def test_a_run_is_asked_for_again(world: World) -> None:
    """With what it had, as a run of its own that names the old one; of one key it is asked for once."""
    await world.service.jobs.add("j", noop=True, payload="1")
    old = await ended(world, payload="2", priority=7, concurrency_key="k")
    asked = await world.service.runs.retry(old.id, "again")
    run = asked.run
    assert (asked.became, run.state, run.payload) == (Became.MADE, RunState.READY, "2")
    assert (run.priority, run.concurrency_key, run.details.retry_of) == (7, "k", old.id)
    assert (await world.service.runs.get(run.id)).run.details.retry_of == old.id
    known = await world.service.runs.retry(old.id, "again")
    assert (known.became, known.run.id) == (Became.KNOWN, run.id)
    assert (await world.service.runs.retry((await world.service.runs.cancel(run.id)).id)).run.details.retry_of == run.id


async def test_what_can_not_be_asked_for_again_is_refused(world: World) -> None:
    """A run that has not ended, one of a job that is stopped or another one by now, and what is no run."""
    await world.service.jobs.add("j", noop=True)
    run = await world.service.jobs.trigger("j")
    with pytest.raises(Refused, match="has not ended"):
        await world.service.runs.retry(run.id)
    await world.service.runs.cancel(run.id)
    await world.service.jobs.pause("j")
    with pytest.raises(Refused):
        await world.service.runs.retry(run.id)
    assert (await world.service.runs.retry(run.id, force=True)).became is Became.MADE
    await world.service.jobs.delete("j")
    with pytest.raises(NotFound):
        await world.service.runs.retry(run.id)
    await world.service.jobs.add("j", noop=True)
    with pytest.raises(Refused, match="another one"):
        await world.service.runs.retry(run.id)
    with pytest.raises(InvalidInput):
        await world.service.runs.retry("x")


async def test_a_copy_has_the_definition_and_no_past(world: World) -> None:
    """What is stopped is copied as paused, so that nothing starts which nobody wanted to; no id is taken twice."""
    await world.service.jobs.add("j", noop=True, schedule="@daily", owner="ada", runs_remaining=3)
    copied = await world.service.jobs.copy("j", "k")
    original = await world.service.jobs.get("j")
    assert (copied.definition, copied.runs_remaining, copied.state) == (original.definition, 3, JobState.ENABLED)
    assert copied.incarnation != original.incarnation
    await world.service.jobs.pause("j", "repairs")
    stopped = await world.service.jobs.copy("j", "l")
    assert (stopped.state, stopped.reason) == (JobState.PAUSED, "repairs")
    for taken in ("k", "j"):
        with pytest.raises(AlreadyExists):
            await world.service.jobs.copy("j", taken)
    with pytest.raises(InvalidInput):
        await world.service.jobs.copy("j", "a b")
    with pytest.raises(NotFound):
        await world.service.jobs.copy("none", "m")


async def test_a_renamed_job_goes_on_where_it_was(world: World) -> None:
    """Nothing of its schedule is left out or decided twice, and jobs that name it name the new id."""
    await world.service.jobs.add("old", noop=True, schedule="every 1 minute", misfire="all")
    await world.service.jobs.add("child", noop=True, parents=[{"job": "old", "on": "failure"}])
    await world.service.jobs.add("guarded", noop=True, on_failure_job="old")
    world.pass_seconds(150)
    fired = (await world.service.jobs.get("old")).fired_through
    renamed = await world.service.jobs.rename("old", "new")
    assert (renamed.id, renamed.state, renamed.fired_through) == ("new", JobState.ENABLED, fired)
    assert renamed.next_due == fired + MINUTE
    child = (await world.service.jobs.get("child")).definition
    assert [(parent.job, parent.on.value) for parent in child.parents] == [("new", "failure")]
    assert (await world.service.jobs.get("guarded")).definition.on_failure_job == "new"
    with pytest.raises(NotFound):
        await world.service.jobs.get("old")


async def test_a_job_that_can_not_be_renamed_stays_as_it_is(world: World) -> None:
    """Where the id is taken, where runs have not ended, where a set or an app declares it: it is enabled as before."""
    await world.service.jobs.add("j", noop=True, schedule="@daily")
    await world.service.jobs.add("k", noop=True)
    with pytest.raises(AlreadyExists):
        await world.service.jobs.rename("j", "k")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(Refused, match=run.id):
        await world.service.jobs.rename("j", "l")
    assert (await world.service.jobs.get("j")).state is JobState.ENABLED
    await world.begin(1)
    with pytest.raises(Refused, match="have not ended"):  # it would run beside those of the new job
        await world.service.jobs.rename("j", "l")
    await declare(world.service.jobs, Declared(app="a", jobs={"of-app": {"noop": True}}))
    with pytest.raises(Refused, match="an app declares"):
        await world.service.jobs.rename("of-app", "n")
    await world.service.jobs.delete("of-app")
    await world.service.sets.apply("set", {"m": {"noop": True}})
    with pytest.raises(Refused, match="set"):
        await world.service.jobs.rename("m", "n")
    assert [job.id for job in await world.service.jobs.list()] == ["j", "k", "m"]


async def test_an_interrupted_renaming_goes_on(world: World) -> None:
    """Paused for it and added already, it is asked for again; a job that was paused before stays paused."""
    await world.service.jobs.add("old", noop=True, schedule="@daily")
    await world.service.jobs.pause("old", "being renamed to new")
    await world.service.jobs.add("new", noop=True, schedule="@daily")
    assert (await world.service.jobs.rename("old", "new")).state is JobState.ENABLED
    await world.service.jobs.pause("new", "repairs")
    renamed = await world.service.jobs.rename("new", "newer")
    assert (renamed.state, renamed.reason) == (JobState.PAUSED, "repairs")
    assert [job.id for job in await world.service.jobs.list()] == ["newer"]


async def test_an_interrupted_renaming_takes_no_job_of_somebody_else(world: World) -> None:
    """What was added under the new id meanwhile is not the renamed job: the old one stays, paused."""
    await world.service.jobs.add("old", noop=True, schedule="@daily")
    await world.service.jobs.pause("old", "being renamed to new")
    await world.service.jobs.add("new", noop=True, schedule="@hourly")
    with pytest.raises(AlreadyExists):
        await world.service.jobs.rename("old", "new")
    assert (await world.service.jobs.get("old")).state is JobState.PAUSED
    assert (await world.service.jobs.get("new")).definition.schedule == "@hourly"


async def test_they_are_within_a_scope_and_recorded(world: World) -> None:
    """Who may know of some jobs only reaches no other by a new id; each change is an entry of the log."""
    await world.service.jobs.add("mail-a", noop=True)
    scoped = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=Scope(jobs=("mail-",))))
    for change in (scoped.jobs.copy, scoped.jobs.rename):
        with pytest.raises(Forbidden):
            await change("mail-a", "web-a")
    assert (await scoped.jobs.copy("mail-a", "mail-b")).id == "mail-b"
    run = await ended(world, "mail-a")
    boss = audited(world.service.acting_as("boss"))
    await boss.jobs.copy("mail-a", "c")
    await boss.jobs.rename("c", "d")
    await boss.runs.retry(run.id)
    log = {(each.entry.what, each.entry.of) for each in await world.service.audit.list() if each.entry.who == "boss"}
    assert log == {("jobs.copy", "job c"), ("jobs.rename", "job c"), ("runs.retry", f"run {run.id}")}
    assert len(await world.service.runs.list(job_id=(await world.service.jobs.get("mail-a")).id)) == 2


async def test_a_renamed_job_leaves_out_what_was_fired_ahead(world: World) -> None:
    """A moment that has a run under the old id gets none under the new one."""
    await world.add({"noop": True, "schedule": "* * * * *", "max_running": 0}, "old")
    now = world.clock.now()
    ahead = Moment(now + 3600 * SECOND)
    world.clock.moment = ahead
    await world.fire()
    for run in await world.store.list_runs(RunFilter()):
        await world.service.runs.cancel(run.id)
    world.clock.moment = now
    before = await world.service.jobs.rewind("old")
    assert before.definition.fired_ahead != ()
    assert (await world.service.jobs.rename("old", "new")).definition.fired_ahead == before.definition.fired_ahead


def in_every_order_with_a_renaming(
    act: Callable[[World], Call],
) -> Iterator[tuple[object, object, Mapping[JobId, Job]]]:
    """The answers to a renaming and to this, and the jobs that there are then, in each order of their steps."""
    worlds: list[World] = []

    def begin() -> Sequence[Call]:
        worlds.append(World())
        carry_out([worlds[-1].service.jobs.add("old", noop=True, schedule="0 9 * * *")], Choices([]))
        return [worlds[-1].service.jobs.rename("old", "new"), act(worlds[-1])]

    for renamed, answer in in_every_order(begin):
        yield renamed, answer, dict(worlds.pop().store.tables.jobs)


def test_no_change_of_a_job_is_lost_that_is_renamed_meanwhile() -> None:
    """In every order: who changes it is refused, as it is being renamed or gone, or the new job has the change."""
    seen = set()
    for renamed, changed, jobs in in_every_order_with_a_renaming(
        lambda world: world.service.jobs.update("old", priority=7)
    ):
        assert isinstance(renamed, Job)
        assert isinstance(changed, Job | NotFound | Refused)
        assert {name: job.definition.priority for name, job in jobs.items()} == {
            "new": 7 if isinstance(changed, Job) else 0
        }
        seen.add(type(changed))
    assert seen == {Job, NotFound, Refused}


def test_a_job_is_paused_or_renamed_or_both() -> None:
    """In every order: no pause is acknowledged of a job that goes on under another id."""
    for renamed, paused, jobs in in_every_order_with_a_renaming(lambda world: world.service.jobs.pause("old", "me")):
        assert isinstance(renamed, Job | Conflict)
        if isinstance(paused, Job):
            assert {job.reason for job in jobs.values()} == {"me"}
        else:
            assert [job.state for job in jobs.values()] == [JobState.ENABLED]
        assert len(jobs) == 1


def test_a_job_that_is_enabled_while_it_is_renamed_is_not_deleted() -> None:
    """In every order there is a job that goes on; where there are two, that is said."""
    seen = set()
    for renamed, _, jobs in in_every_order_with_a_renaming(lambda world: world.service.jobs.resume("old")):
        assert isinstance(renamed, Job) == (len(jobs) == 1)
        assert isinstance(renamed, Job) or "delete one of them" in str(renamed)
        seen.add(len(jobs))
    assert seen == {1, 2}


@pytest.mark.prove
def test_a_job_that_is_renamed_twice_becomes_one() -> None:
    """In every order: it has one of both ids, as the other one is refused, and no second job fires its schedule."""
    for renamed, other, jobs in in_every_order_with_a_renaming(lambda world: world.service.jobs.rename("old", "other")):
        (job,) = jobs.values()
        assert job.state is JobState.ENABLED
        assert [type(renamed), type(other)].count(Job) == 1
