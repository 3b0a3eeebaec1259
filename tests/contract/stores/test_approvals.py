"""Runs that begin only if a person lets them: they wait without holding anything, and get one answer."""

import asyncio
from typing import Any

from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, state_of
from tokimori.engine.settle import change_of
from tokimori.model.approval import answered, in_place_of_begin, is_refused
from tokimori.model.ids import RunId
from tokimori.model.job import Job, JobState
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Details, Run, Step, never_begun
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict

STEPS = [RunId(f"00000000-0000-7000-8000-00000000000{n}") for n in (1, 2)]


async def put_off(worker: Worker, claimed: Claimed) -> Run:
    """Do with a claimed run what its node does in place of its begin."""
    assert claimed.definition is not None
    outcome = in_place_of_begin(claimed.run, claimed.definition, NOW)
    assert outcome is not None
    change = change_of(claimed, outcome, owner=worker.id, now=NOW, chance=0)
    assert await worker.store.settle([change], worker.id, NOW) == [Verdict.APPLIED]
    return await worker.store.get_run(claimed.run.id)


async def asking(store: Store, worker: Worker, **terms: Any) -> tuple[Job, Run]:
    """Return a job, and a run of it that waits for an approval."""
    job = await add_job(store, approval=True, **terms)
    await store.add_run(a_request(job, details=Details(then=_steps())), NOW)
    (claimed,) = await worker.claim()
    return job, await put_off(worker, claimed)


def _steps() -> tuple[Step, ...]:
    jobs = ("job", "job")
    return tuple(Step(id=STEPS[n], job=jobs[n], on_failure=bool(n)) for n in (0, 1))  # type: ignore[arg-type]


def said(run: Run, by: str, *, approved: bool) -> tuple[Details, Details]:
    """Return the facts before and after an answer."""
    return run.details, answered(run.details, approved=approved, by=by, at=later(1), reason="because")


async def test_a_run_that_waits_for_an_approval_holds_nothing(store: Store, worker: Worker) -> None:
    """Others of its job and semaphore begin meanwhile; its attempt counts as none that has begun."""
    await store.put_semaphore("s", 1, NOW)
    job, run = await asking(store, worker, approve_within=60, max_running=1, semaphores=("s",))
    assert (run.state, run.error, run.details.unbegun) == (RunState.HELD, "it waits for an approval", 1)
    assert run.details.approval is not None
    assert (run.details.approval.asked, run.details.approval.until) == (NOW, later(60))
    assert never_begun(run)
    assert await store.attempts(run.id) == []
    assert await worker.claim() == []
    await add_runs(store, job, 1)
    assert len(await worker.claim()) == 1


async def test_an_approved_run_begins(store: Store, worker: Worker) -> None:
    """Its answer stays with it, through its end; it asks no more, and what follows it is made."""
    _, run = await asking(store, worker)
    approved = await store.resume_run(run.id, said(run, "anna", approved=True))
    assert (approved.state, approved.error) == (RunState.WAITING, None)
    await store.promote(NOW, 10)
    (claimed,) = await worker.claim()
    assert claimed.definition is not None
    assert in_place_of_begin(claimed.run, claimed.definition, NOW) is None
    await worker.settle(claimed)
    ended = await store.get_run(run.id)
    assert ended.state is RunState.SUCCEEDED
    assert ended.details.approval is not None
    assert (ended.details.approval.by, ended.details.approval.at) == ("anna", later(1))
    assert (await store.get_run(STEPS[0])).state is RunState.READY


async def test_a_refused_run_fails_and_parks_nothing(store: Store, worker: Worker) -> None:
    """It ends as failed with the reason, is not tried again, and what follows a failure is made."""
    job, run = await asking(store, worker, on_exhausted=OnExhausted.PARK)
    assert is_refused(await store.resume_run(run.id, said(run, "bert", approved=False)))
    await store.promote(NOW, 10)
    (claimed,) = await worker.claim()
    ended = await put_off(worker, claimed)
    assert (ended.state, ended.error) == (RunState.FAILED, "refused by bert: because")
    assert (await store.get_job(job.id)).state is JobState.ENABLED
    assert [each.run.id for each in await worker.claim()] == [STEPS[1]]


async def test_of_two_answers_one_counts(store: Store, worker: Worker) -> None:
    """An answer to other facts changes nothing, also of two at the same time."""
    _, run = await asking(store, worker)
    answers = [said(run, name, approved=name == "anna") for name in ("anna", "bert")]
    both = await asyncio.gather(*(store.resume_run(run.id, each) for each in answers))
    kept = await store.get_run(run.id)
    assert kept.details in (answers[0][1], answers[1][1])
    assert kept.state is RunState.WAITING
    assert [each.details for each in both] == [kept.details] * 2
    await store.hold_run(run.id, "by hand")
    assert (await store.resume_run(run.id, answers[0])).state is RunState.HELD
    other = replace(kept.details, unbegun=7)
    assert (await store.resume_run(run.id, (kept.details, other))).details == other
    assert await state_of(store, run) is RunState.WAITING
