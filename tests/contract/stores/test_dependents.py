"""Dependents: a parent has ended if and only if its children's runs exist, one for each end that they ask for."""

import asyncio

import msgspec
import pytest

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, add_job, add_runs, later, state_of
from tokimori.clock import Moment
from tokimori.errors import Conflict, FamilyChanged, NotFound, Refused
from tokimori.model.dependents import Edge, Join, On, Parent
from tokimori.model.ids import JobId, RunId, child_base, child_id
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Cancelled, Failed, Lost, Outcome, Succeeded
from tokimori.model.policies import OnExhausted, Retry
from tokimori.model.run import Details, Run, Skip, SkipReason, decode_details, encode_details, short_id
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict


def after(*jobs: str, on: On = On.SUCCESS) -> tuple[Parent, ...]:
    """These jobs as parents."""
    return tuple(Parent(job=job, on=on) for job in jobs)


async def add_child(store: Store, job_id: str, parents: tuple[Parent, ...], **terms: object) -> Job:
    """Add a job that runs after others."""
    job = a_job(job_id, parents=parents, **terms)  # type: ignore[arg-type]
    await store.add_jobs([job], (await store.family()).version)
    return job


async def runs_of(store: Store, job_id: str) -> list[Run]:
    """The runs of the job, oldest first."""
    return list(reversed(await store.list_runs(RunFilter(job_id=JobId(job_id)))))


async def work(store: Store, worker: Worker, job: Job, outcome: Outcome | None = None) -> Run:
    """Have one requested run of the job end."""
    run = await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    assert claimed.run.id == run.id
    assert await worker.settle(claimed, outcome) is Verdict.APPLIED
    return await store.get_run(run.id)


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        (Succeeded(0), {"on-success", "always"}),
        (Failed("no"), {"on-failure", "always"}),
        (Cancelled("enough"), {"always"}),
    ],
)
async def test_an_end_has_the_children_that_ask_for_it(
    store: Store, worker: Worker, outcome: Outcome, wanted: set[str]
) -> None:
    """Of the children, those get a run that wait for just this kind of end; it is ready at once.

    Its id is the same on every store, and its last digits, by which people name it, are no other child's.
    """
    parent = await add_job(store, "parent")
    await add_child(store, "on-success", after("parent"))
    await add_child(store, "on-failure", after("parent", on=On.FAILURE))
    await add_child(store, "always", after("parent", on=On.ALWAYS))
    ended = await work(store, worker, parent, outcome)
    children = [run for run in await store.list_runs(RunFilter()) if run.parent_id == ended.id]
    assert {run.job_id for run in children} == wanted
    assert {run.state for run in children} == {RunState.READY}
    dues = (Moment((ended.ended or 0) + place) for place in range(len(children)))
    ids = [child_id(due, child_base(ended.id), place) for place, due in enumerate(dues)]
    assert sorted(run.id for run in children) == ids
    assert len({*map(short_id, ids)}) == len(ids)


async def test_what_follows_two_that_end_together_has_a_run_for_each(store: Store, worker: Worker) -> None:
    """The second child of the first and the first child of the second are two runs, and so are their children, though
    all are born at one moment.
    """
    top = await add_job(store, "top")
    below = {"a": after("top"), "b": after("top"), "c": after("a"), "d": after("a", "b"), "e": after("d")}
    for job_id, after_these in below.items():
        await add_child(store, job_id, after_these)
    await work(store, worker, top)
    for _ in range(2):
        claimed = await worker.claim(10, later(1))
        changes = [worker.change(each) for each in claimed]
        assert {*await store.settle(changes, worker.id, NOW)} == {Verdict.APPLIED}
    parents = {run.id for run in await runs_of(store, "d")}
    children = await runs_of(store, "e")
    assert {run.parent_id for run in children} == parents
    assert len({run.id for run in children}) == len(children) == len(parents) == 2


async def test_a_child_inherits(store: Store, worker: Worker) -> None:
    """A child's run has the nominal time of its parent, its result as payload, and its root."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"), priority=3)
    asked = await store.add_run(a_request(parent, due=later(-60), payload="asked"), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Succeeded(0, result="made"), later(5))
    (child,) = await runs_of(store, "child")
    assert (child.nominal, child.payload, child.parent_id, child.root) == (later(-60), "made", asked.id, asked.id)
    assert (child.origin, child.priority, child.created) == (f"c:{asked.id}", 3, later(5))
    (taken,) = await worker.claim(now=later(6))
    assert taken.run.id == child.id
    assert (await store.get_run(asked.id)).result == "made"


async def test_without_a_result_the_payload_goes_on(store: Store, worker: Worker) -> None:
    """A parent that returned nothing hands its own payload on."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"))
    await store.add_run(a_request(parent, payload="asked"), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    (child,) = await runs_of(store, "child")
    assert child.payload == "asked"


async def test_children_come_in_the_order_in_which_they_were_added(store: Store, worker: Worker) -> None:
    """Of several children the one that was added first is first in line, whatever its id."""
    parent = await add_job(store, "parent")
    for n, name in enumerate("cab"):
        child = msgspec.structs.replace(a_job(name, parents=after("parent")), created=later(n))
        await store.add_jobs([child], (await store.family()).version)
    await work(store, worker, parent)
    assert [claimed.run.job_id for claimed in await worker.claim(now=later(1))] == ["c", "a", "b"]


async def test_a_retry_is_no_end(store: Store, worker: Worker) -> None:
    """A parent that is tried again has no children yet, and those of its one end after that."""
    parent = await add_job(store, "parent", retry=Retry(attempts=2))
    await add_child(store, "child", after("parent", on=On.ALWAYS))
    await store.add_run(a_request(parent), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("again"))
    assert await runs_of(store, "child") == []
    await store.promote(NOW, 10)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("no"))
    assert len(await runs_of(store, "child")) == 1


async def test_a_settle_that_is_repeated_has_no_second_child(store: Store, worker: Worker) -> None:
    """After a lost reply the same settle again changes nothing."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"))
    await store.add_run(a_request(parent), NOW)
    (claimed,) = await worker.claim()
    changes = [worker.change(claimed)]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.APPLIED]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.ALREADY_APPLIED]
    assert len(await runs_of(store, "child")) == 1


async def test_a_stale_settle_has_no_children(store: Store, worker: Worker, other: Worker) -> None:
    """A node that lost the run brings no child into the world."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"))
    await store.add_run(a_request(parent), NOW)
    (claimed,) = await worker.claim()
    await worker.die(by=other)
    assert await store.settle([worker.change(claimed, Lost("died"))], other.id, NOW) == [Verdict.APPLIED]
    assert await worker.settle(claimed) is Verdict.LOST
    assert await runs_of(store, "child") == []


async def test_a_batch_of_parents_has_a_child_each(store: Store, worker: Worker) -> None:
    """Each run of a batch of ends has its own child."""
    runs = await add_runs(store, await add_job(store, "parent"), 20)
    await add_child(store, "child", after("parent"))
    changes = [worker.change(claimed) for claimed in await worker.claim()]
    await store.settle(changes, worker.id, NOW)
    assert {run.parent_id for run in await runs_of(store, "child")} == {run.id for run in runs}


@pytest.mark.parametrize(
    ("state", "reason"), [(JobState.PAUSED, SkipReason.PAUSED), (JobState.PARKED, SkipReason.PARKED)]
)
async def test_a_stopped_child_is_skipped(store: Store, worker: Worker, state: JobState, reason: SkipReason) -> None:
    """A paused or parked child gets no run but a skip, counted where several have one nominal time."""
    parent = await add_job(store, "parent")
    child = await add_child(store, "child", after("parent"))
    await store.replace_job(child, msgspec.structs.replace(child, state=state))
    for _ in range(2):
        await work(store, worker, parent)
    assert await runs_of(store, "child") == []
    (skip,) = await store.skips(JobId("child"))
    assert (skip.first, skip.last, skip.count, skip.reason) == (NOW, NOW, 2, reason)


async def test_a_child_with_a_schedule_loses_no_skip(store: Store, worker: Worker) -> None:
    """What a paused job missed by its schedule, and as a job after a failure at that moment, are counted apart."""
    repair = await add_job(store, "repair", schedule="* * * * * *", next_due=later(1))
    parent = a_job("parent", on_failure_job="repair")
    await store.add_jobs([parent], (await store.family()).version)
    paused = msgspec.structs.replace(repair, state=JobState.PAUSED, next_due=None)
    await store.replace_job(repair, paused)
    await store.add_run(a_request(parent, due=later(1)), NOW)
    await store.promote(later(1), 10)
    (claimed,) = await worker.claim(now=later(1))
    await worker.settle(claimed, Failed("no"), later(1.5))
    through = msgspec.structs.replace(paused, state=JobState.ENABLED, fired_through=later(3), next_due=later(4))
    await store.replace_job(paused, through, [Skip(first=later(1), last=later(3), count=3, reason=SkipReason.PAUSED)])
    assert sum(skip.count for skip in await store.skips(repair.id)) == 4


async def test_a_deleted_child_is_forgotten(store: Store, worker: Worker) -> None:
    """A parent ends as ever when its child is gone, and so does the edge."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"))
    await store.delete_job(JobId("child"), NOW)
    assert (await work(store, worker, parent)).state is RunState.SUCCEEDED
    assert (await store.family()).edges == ()


async def test_a_parent_is_not_deleted(store: Store) -> None:
    """A job after which others say that they run stays; its own `on_failure_job` keeps no job from being deleted."""
    parent = a_job("parent", on_failure_job="child")
    await store.add_jobs([a_job("child")])
    await store.add_jobs([parent], (await store.family()).version)
    await add_child(store, "other", after("parent"))
    with pytest.raises(Refused):
        await store.delete_job(parent.id, NOW)
    await store.delete_job(JobId("other"), NOW)
    await store.delete_job(parent.id, NOW)
    assert (await store.family()).edges == ()


async def test_what_is_not_there_is_not_deleted(store: Store) -> None:
    """Deleting a job that is not there says so, also where others say that they run after it."""
    await add_child(store, "child", after("parent"))
    with pytest.raises(NotFound):
        await store.delete_job(JobId("parent"), NOW)
    assert len((await store.family()).edges) == 1


async def test_what_is_deleted_gets_no_child(store: Store) -> None:
    """Who looked at the family while a job was there adds no child to it once it is gone."""
    await add_job(store, "parent")
    known = (await store.family()).version
    await store.delete_job(JobId("parent"), NOW)
    with pytest.raises(FamilyChanged):
        await store.add_jobs([a_job("child", parents=after("parent"))], known)


async def test_a_child_waits_for_all_of_its_parents(store: Store, worker: Worker) -> None:
    """With `join = all` the run of one nominal time is made by whichever parent ends last, once."""
    parents = [await add_job(store, name) for name in ("one", "two")]
    await add_child(store, "child", after("one", "two"), join=Join.ALL)
    for minute in (0, 60):
        for parent in parents:
            await store.add_run(a_request(parent, due=later(minute - 3600), root=f"s:{minute}"), NOW)
    claimed = {(str(run.run.job_id), run.run.root): run for run in await worker.claim()}
    await worker.settle(claimed["one", "s:0"])
    await worker.settle(claimed["two", "s:60"])
    assert await runs_of(store, "child") == []
    await worker.settle(claimed["two", "s:0"])
    (child,) = await runs_of(store, "child")
    assert (child.origin, child.nominal, child.root) == ("c:s:0", later(-3600), "s:0")
    await worker.settle(claimed["one", "s:60"])
    assert len(await runs_of(store, "child")) == 2


async def test_a_parent_that_fails_completes_nothing(store: Store, worker: Worker) -> None:
    """A child of all waits on where one of its parents did not end as asked."""
    parents = [await add_job(store, name) for name in ("one", "two")]
    await add_child(store, "child", after("one", "two"), join=Join.ALL)
    outcomes: list[Outcome] = [Succeeded(0), Failed("no")]
    for parent, outcome in zip(parents, outcomes, strict=True):
        await store.add_run(a_request(parent, root="s:0"), NOW)
        (claimed,) = await worker.claim()
        await worker.settle(claimed, outcome)
    assert await runs_of(store, "child") == []


async def test_parents_that_end_together_have_one_child(store: Store, worker: Worker, other: Worker) -> None:
    """However many nodes settle the parents of a child of all at one time, there is one run for each root."""
    names = ("one", "two", "three")
    parents = [await add_job(store, name) for name in names]
    await add_child(store, "child", after(*names), join=Join.ALL)
    for root in range(10):
        for parent in parents:
            await store.add_run(a_request(parent, root=f"s:{root}"), NOW)
    mine, others = await worker.claim(15), await other.claim(15)
    settles = [worker.settle(claimed) for claimed in mine] + [other.settle(claimed) for claimed in others]
    assert set(await asyncio.gather(*settles)) == {Verdict.APPLIED}
    assert sorted(run.origin for run in await runs_of(store, "child")) == [f"c:s:{root}" for root in range(10)]


async def test_a_failure_has_its_job(store: Store, worker: Worker) -> None:
    """`on_failure_job` runs after a failure, and only then."""
    await add_job(store, "repair")
    parent = a_job("parent", on_failure_job="repair")
    await store.add_jobs([parent], 0)
    await work(store, worker, parent)
    assert await runs_of(store, "repair") == []
    failed = await work(store, worker, parent, Failed("no"))
    (repair,) = await runs_of(store, "repair")
    assert repair.parent_id == failed.id


async def test_a_child_that_two_declare_runs_once(store: Store, worker: Worker) -> None:
    """A job that is both a child by its own word and its parent's `on_failure_job` gets one run; each may take back."""
    repair = await add_job(store, "repair")
    parent = a_job("parent", on_failure_job="repair")
    await store.add_jobs([parent], (await store.family()).version)
    both = msgspec.structs.replace(
        repair, definition=msgspec.structs.replace(repair.definition, parents=after("parent", on=On.FAILURE)), version=2
    )
    await store.replace_job(repair, both, (), (await store.family()).version)
    await work(store, worker, parent, Failed("no"))
    (run,) = await worker.claim(now=later(1))
    await worker.settle(run)
    assert run.run.job_id == "repair"
    await store.replace_job(both, msgspec.structs.replace(repair, version=3), (), (await store.family()).version)
    assert [edge.declared_by for edge in (await store.family()).edges] == ["parent"]


async def test_the_family_tells_of_every_edge(store: Store) -> None:
    """Every edge is known with the version of the whole, which grows with every change of it, and only then."""
    await add_job(store, "one")
    assert (await store.family()).edges == ()
    child = await add_child(store, "two", after("one"))
    await add_child(store, "three", (*after("one"), *after("two", on=On.ALWAYS)), join=Join.ALL, on_failure_job="one")
    family = await store.family()
    assert set(family.edges) == {
        Edge(JobId("one"), JobId("two"), On.SUCCESS, 0, JobId("two")),
        Edge(JobId("one"), JobId("three"), On.SUCCESS, 2, JobId("three")),
        Edge(JobId("two"), JobId("three"), On.ALWAYS, 2, JobId("three")),
        Edge(JobId("three"), JobId("one"), On.FAILURE, 0, JobId("three")),
    }
    await add_job(store, "four")
    assert (await store.family()).version == family.version
    definition = msgspec.structs.replace(child.definition, parents=())
    await store.replace_job(child, msgspec.structs.replace(child, definition=definition), (), family.version)
    assert (await store.family()).version > family.version
    assert all(edge.child != "two" for edge in (await store.family()).edges)


async def test_edges_are_checked_against_one_family(store: Store) -> None:
    """Of two writers that looked at one family, the second is refused: together they might close a circle."""
    one, two = await add_job(store, "one"), await add_job(store, "two")
    known = (await store.family()).version
    await store.replace_job(one, with_parents(one, "two"), (), known)
    with pytest.raises(Conflict):
        await store.replace_job(two, with_parents(two, "one"), (), known)
    with pytest.raises(Conflict):
        await store.add_jobs([a_job("three", parents=after("one"))], known)
    assert len((await store.family()).edges) == 1


def with_parents(job: Job, *parents: str) -> Job:
    """The job after an edit that gives it parents."""
    definition = msgspec.structs.replace(job.definition, parents=after(*parents))
    return msgspec.structs.replace(job, definition=definition, version=job.version + 1)


async def test_an_edit_that_leaves_the_family_alone_needs_no_look_at_it(store: Store) -> None:
    """Adding and editing jobs without edges goes on whatever others do to the family."""
    job = await add_job(store, "job")
    await add_child(store, "child", after("job"))
    await store.replace_job(job, msgspec.structs.replace(job, version=2, state=JobState.PAUSED))
    assert (await store.get_job(job.id)).state is JobState.PAUSED


async def test_children_obey_the_limit_of_their_job(store: Store, worker: Worker) -> None:
    """More children than their job may run stand in its line."""
    await add_runs(store, await add_job(store, "parent"), 3)
    await add_child(store, "child", after("parent"), max_running=1)
    await store.settle([worker.change(claimed) for claimed in await worker.claim()], worker.id, NOW)
    assert len(await worker.claim(now=later(1))) == 1
    states = sorted([str(await state_of(store, run)) for run in await runs_of(store, "child")])
    assert states == ["blocked", "blocked", "running"]


async def test_ids_of_children_are_as_good_as_others(store: Store, worker: Worker) -> None:
    """A child's run has an id like every run: a UUID of version 7 of the moment of its parent's end."""
    parent = await add_job(store, "parent")
    await add_child(store, "child", after("parent"))
    await store.add_run(a_request(parent), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, now=later(5))
    (child,) = await runs_of(store, "child")
    milliseconds = int(RunId(child.id).replace("-", "")[:12], 16)
    assert (milliseconds, child.id[14]) == (later(5) // 1000, "7")


async def test_a_child_born_as_its_job_is_parked_waits_in_no_lane(store: Store, worker: Worker) -> None:
    """One settle parks the child's job and then ends the parent: the child is born, in no lane, and waits."""
    parent = await add_job(store, "parent")
    child = await add_child(store, "child", after("parent"), on_exhausted=OnExhausted.PARK)
    await store.add_run(a_request(child), NOW)
    await store.add_run(a_request(parent), NOW)
    of_child, of_parent = sorted(await worker.claim(), key=lambda each: each.run.job_id)
    ends = [worker.change(of_child, Failed("no")), worker.change(of_parent)]
    assert await store.settle(ends, worker.id, NOW) == [Verdict.APPLIED, Verdict.APPLIED]
    assert (await store.get_job(child.id)).state is JobState.PARKED
    assert [run.lane for run in await runs_of(store, "child") if run.state is RunState.READY] == [None]
    assert (await store.survey(NOW)).lanes == ()


async def test_a_child_may_follow_one_end_in_two_ways(store: Store, worker: Worker) -> None:
    """As the `on_failure_job` of a parent whose end also completes its join it gets two runs, under two ids."""
    root = await add_job(store, "root")
    repaired = a_job("p", parents=after("root"), on_failure_job="x")
    await store.add_jobs([repaired], (await store.family()).version)
    await add_child(store, "q", after("root"))
    await add_child(store, "x", after("p", "q", on=On.ALWAYS), join=Join.ALL)
    began = await work(store, worker, root)
    both = {claimed.run.job_id: claimed for claimed in await worker.claim(now=later(1))}
    assert await worker.settle(both[JobId("q")]) is Verdict.APPLIED
    assert await worker.settle(both[JobId("p")], Failed("no")) is Verdict.APPLIED
    found = await runs_of(store, "x")
    assert {run.origin for run in found} == {f"c:{both[JobId('p')].run.id}", f"c:{began.id}"}
    assert len({run.id for run in found}) == 2
    assert {claimed.run.job_id for claimed in await worker.claim(now=later(2))} == {"x"}


async def test_a_settle_brings_details(store: Store, worker: Worker) -> None:
    """Facts that an attempt adds to a run are kept, on a run that goes on as on one that ends; none leaves them."""
    job = await add_job(store, "job", retry=Retry(attempts=4))
    run = await store.add_run(a_request(job, details=Details(tzdata="2028a")), NOW)
    for outcome, brought, kept in (
        (Failed("again"), None, "2028a"),
        (Failed("again"), Details(tzdata="2029b"), "2029b"),
        (Failed("again"), Details(), "2029b"),
        (Succeeded(0), Details(tzdata="2030c"), "2030c"),
    ):
        await store.promote(later(3600), 10)
        (claimed,) = await worker.claim(now=later(3600))
        change = msgspec.structs.replace(worker.change(claimed, outcome), details=brought)
        assert await store.settle([change], worker.id, later(3600)) == [Verdict.APPLIED]
        assert (await store.get_run(run.id)).details == Details(tzdata=kept)


@pytest.mark.parametrize("text", ['{"tzdata":"2029z","unheard_of":[1]}', '{"tzdata":5}', '"what"'])
async def test_details_of_another_version_are_kept_as_they_are(store: Store, worker: Worker, text: str) -> None:
    """What this program can't read of them it hands on: through retries, to the history, where a run is cancelled."""
    job = await add_job(store, "job", retry=Retry(attempts=3), max_running=0)
    foreign = decode_details(text)
    assert encode_details(foreign) == text
    run, cancelled = [await store.add_run(a_request(job, details=foreign), NOW) for _ in range(2)]
    await store.cancel_run(cancelled.id, "enough", NOW)
    for outcome in (Failed("again"), Succeeded(0)):
        await store.promote(later(3600), 10)
        (claimed,) = await worker.claim(now=later(3600))
        assert claimed.run.details == foreign
        assert await store.settle([worker.change(claimed, outcome)], worker.id, later(3600)) == [Verdict.APPLIED]
    assert [(await store.get_run(each.id)).details for each in (run, cancelled)] == [foreign, foreign]
