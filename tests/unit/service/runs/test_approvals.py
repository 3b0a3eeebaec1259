"""Runs that begin only if somebody lets them: who may answer, once, and what is said of it."""

from typing import Any

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import NODE, World
from tokimori.engine.expire import Expirer
from tokimori.engine.families import Families
from tokimori.engine.work import Work
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.access_token import EVERYTHING, Role, Scope
from tokimori.model.ids import JobId, RunId
from tokimori.model.outcome import Succeeded
from tokimori.model.request import EXPIRY
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.reasons import Cause, reason_text
from tokimori.service.service import Service

GATE = {"approval": True}


async def go_on(world: World) -> list[RunId]:
    """Do what a node does with the runs that it claims; return those that begin."""
    claimed, now = await world.begin(10), world.clock.now()
    work = Work(10)
    work.accept(claimed, NODE, now)
    begun = [task.run_id for task in work.next_tasks()]
    if changes := work.unsettled.batch(0):
        await Families(world.store).settling(changes)
        await world.store.settle(changes, NODE, now)
    return begun


async def asking(world: World, job_id: str = "gate", **fields: Any) -> Run:
    """Add a job, and return a run of it that waits for an approval."""
    await world.add({**GATE, **fields}, job_id)
    run = await world.service.jobs.trigger(job_id, payload={"order": 7})
    assert await go_on(world) == []
    return await world.store.get_run(run.id)


def acting(world: World, role: Role, scope: Scope = EVERYTHING, name: str = "ci") -> Service:
    return authorized(world.service, Access(author=name, role=role, scope=scope))


async def test_a_run_waits_until_it_is_approved(world: World) -> None:
    """Without a target the job is an approval alone, whose result is what it was given; who answered is known."""
    run = await asking(world)
    (reason,) = (await world.service.runs.why(run.id)).reasons
    assert (run.state, reason.cause) == (RunState.HELD, Cause.APPROVAL)
    assert reason_text(reason) == (
        f"it waits for an approval: the role operate may answer: `tokimori run approve {run.id}` lets it begin, "
        f"`tokimori run refuse {run.id}` ends it"
    )
    approved = await world.service.runs.approve(run.id, "checked")
    assert approved.details.approval is not None
    assert (approved.details.approval.by, approved.details.approval.reason) == ("ada", "checked")
    await world.work(Succeeded())
    ended = await world.store.get_run(run.id)
    assert (ended.state, ended.result) == (RunState.SUCCEEDED, '{"order":7}')


async def test_a_refused_run_fails_for_good(world: World) -> None:
    """It ends at its next claim, whatever its retries are, and `why` says who refused it."""
    run = await asking(world, retry={"attempts": 5})
    await world.service.runs.refuse(run.id, "not today")
    assert await go_on(world) == []
    ended = await world.store.get_run(run.id)
    assert (ended.state, ended.error) == (RunState.FAILED, "refused by ada: not today")
    assert "refused by ada" in (await world.service.runs.why(run.id)).reasons[0].text


async def test_a_refused_run_of_a_paused_job_says_so(world: World) -> None:
    """It ends when it could begin; until then `why` names the answer beside the pause, and what ends it now."""
    run = await asking(world)
    await world.service.jobs.pause("gate")
    await world.service.runs.refuse(run.id, "not today")
    assert await go_on(world) == []
    refused, paused = (await world.service.runs.why(run.id)).reasons
    assert (refused.cause, paused.cause) == (Cause.APPROVAL, Cause.PAUSED)
    assert "refused by ada" in refused.text and refused.text.endswith("ends as failed when it could begin")
    assert refused.mend == f"`tokimori run cancel {run.id}` ends it now"
    assert (await world.service.runs.cancel(run.id)).state is RunState.CANCELLED


async def test_an_answer_counts_once(world: World) -> None:
    """The same answer again changes nothing, and another one is refused in words, as is one that nobody asked for."""
    run = await asking(world)
    with pytest.raises(Refused, match="waits for an approval"):
        await world.service.runs.resume(run.id)
    first = await world.service.runs.approve(run.id)
    world.pass_seconds(1)
    assert await world.service.runs.approve(run.id, "again") == first
    with pytest.raises(Refused, match="was approved before by ada, at 2030-01-01T00:00:00Z"):
        await world.service.runs.refuse(run.id)
    await world.add({"noop": True}, "plain")
    plain = await world.service.jobs.trigger("plain")
    with pytest.raises(Refused, match="asks for no approval: it is ready"):
        await world.service.runs.approve(plain.id)
    with pytest.raises(NotFound):
        await world.service.runs.approve(RunId("00000000-0000-7000-8000-000000000000"))


async def test_a_cancelled_run_is_not_approved(world: World) -> None:
    """Whoever answers too late hears what became of it."""
    run = await asking(world)
    await world.service.runs.cancel(run.id)
    with pytest.raises(Refused, match="was cancelled before anybody approved it"):
        await world.service.runs.approve(run.id)


async def test_a_lost_reply_is_no_second_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer whose reply got lost is sent again, and counts once."""
    run, resume, lost = await asking(world), world.store.resume_run, list[Run]()

    async def fickle(*given: Any) -> Run:
        found = await resume(*given)
        if not lost:
            lost.append(found)
            raise StoreUnavailable("the reply is lost")
        return found

    monkeypatch.setattr(world.store, "resume_run", fickle)
    assert await world.service.runs.approve(run.id) == lost[0]


async def test_who_may_answer(world: World) -> None:
    """The role of its job does, within its scope, in its own name."""
    run = await asking(world, approver="admin")
    with pytest.raises(Forbidden, match="approved and refused by the role admin, and yours is operate"):
        await acting(world, Role.OPERATE).runs.approve(run.id)
    with pytest.raises(Forbidden):
        await acting(world, Role.READ).runs.refuse(run.id)
    with pytest.raises((Forbidden, NotFound)):
        await acting(world, Role.ADMIN, Scope(jobs=("other",))).runs.approve(run.id)
    run = await acting(world, Role.ADMIN, name="boss").runs.approve(run.id)
    assert run.details.approval is not None
    assert run.details.approval.by == "boss"
    assert "runs.approve" in [each.entry.what for each in await world.service.audit.list()]


async def test_four_eyes_look_at_a_run(world: World) -> None:
    """Whoever asked for it, or for the run before it, may refuse and not approve it; another one may."""
    await world.add({"noop": True}, "build")
    await world.add({**GATE, "four_eyes": True, "parents": [{"job": "build"}]}, "gate")
    asker, other = acting(world, Role.OPERATE, name="ann"), acting(world, Role.OPERATE, name="bob")
    await asker.jobs.trigger("build")
    await world.work(Succeeded())
    asked = [await asker.jobs.trigger("gate"), await asker.jobs.trigger("gate")]
    assert await go_on(world) == []
    (child,) = {run.id for run in await world.store.list_runs(RunFilter(job_id=JobId("gate"), limit=4))} - {
        run.id for run in asked
    }
    for run_id in (asked[0].id, child):
        with pytest.raises(Forbidden, match="ann asked for it, and its job wants the approval of another"):
            await asker.runs.approve(run_id)
        approved = (await other.runs.approve(run_id)).details.approval
        assert approved is not None
        assert (approved.by, approved.four_eyes) == ("bob", True)
        assert (await asker.runs.approve(run_id)).details.approval == approved
    assert "may not approve it" in reason_text((await asker.runs.why(asked[1].id)).reasons[0])
    await asker.runs.refuse(asked[1].id)


async def test_who_may_not_approve_changes_no_approval(world: World) -> None:
    """Else he could edit it away; a job that he may approve, and any other, he changes."""
    await world.add({**GATE, "approver": "admin"}, "gate")
    await world.add(GATE, "own")
    service = acting(world, Role.OPERATE)
    with pytest.raises(Forbidden, match="its runs are approved by the role admin"):
        await service.jobs.update("gate", approval=None, approver=None)
    await service.jobs.update("own", approval=None, noop=True)
    assert (await acting(world, Role.ADMIN).jobs.update("gate", approver=None)).version == 2


async def test_a_run_that_nobody_approves_is_refused(world: World) -> None:
    """At its moment, by the time of the store; one that was answered before keeps its answer."""
    run = await asking(world, approve_within="10s")
    other = await asking(world, "other", approve_within=10)
    assert run.details.approval is not None
    assert run.details.approval.until == seconds(10)
    await world.service.runs.approve(other.id)
    expirer = Expirer(world.store, 0)
    await expirer.step(NODE, NEW_YEAR, 0)
    assert (await world.store.get_run(run.id)).state is RunState.HELD
    world.pass_seconds(10)
    await expirer.step(NODE, seconds(10), 10)
    assert await world.store.list_documents(EXPIRY) == []
    assert await go_on(world) == [other.id]
    ended = await world.store.get_run(run.id)
    assert (ended.state, ended.error) == (RunState.FAILED, "refused: nobody has approved it in time")
    with pytest.raises(Refused, match="was refused before, at"):
        await world.service.runs.approve(run.id)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"noop": True, "approver": "admin"}, "approver"),
        ({"noop": True, "approve_within": "2h"}, "approve_within"),
        ({"noop": True, "four_eyes": True}, "four_eyes"),
        ({"approval": True, "approver": "read"}, "approver"),
        ({"approval": True, "approve_within": 0}, "approve_within"),
        ({"approval": False}, "command"),
    ],
)
async def test_bad_terms_are_refused(world: World, fields: dict[str, Any], field: str) -> None:
    """Terms of an approval need one, in their bounds; only an approval may have no target."""
    with pytest.raises(InvalidInput) as fault:
        await world.add(fields, "gate")
    assert fault.value.field == field
