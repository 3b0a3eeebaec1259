"""What each role and scope lets one do, method by method."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.service.tasks.test_tasks import build
from tests.unit.service.world import NODE, World
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import EVERYTHING, Role, Scope
from tokimori.model.calendar import Calendar
from tokimori.model.ids import NodeId, PermitId, uuid7
from tokimori.model.outcome import Succeeded
from tokimori.ports.semaphores import UnitRequest
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.operation import Member
from tokimori.service.reasons import Cause, reason_text
from tokimori.service.service import PARTS, Service, table

MAIL, WEB = Scope(jobs=("mail-",)), Scope(queues=("web",))
SCOPES = pytest.mark.parametrize("scope", [MAIL, WEB], ids=["jobs", "queues"])


def acting(world: World, role: Role, scope: Scope = EVERYTHING) -> Service:
    return authorized(world.service, Access(author="ci", role=role, scope=scope))


@pytest.fixture
async def two(world: World) -> World:
    """A job within both scopes and one in neither, each with a run."""
    for job_id, queue in (("mail-in", "web"), ("other", "default")):
        await world.add({"noop": True, "queue": queue, "schedule": "@daily"}, job_id)
        await world.trigger(job_id)
    return world


def test_every_method_is_declared() -> None:
    """A public method of a part is an operation, or is made of operations: nothing else can be called."""
    for kind in PARTS:
        public = {name: each for each_kind in kind.__mro__[:-2] for name, each in vars(each_kind).items()}
        bare = {name for name, each in public.items() if callable(each) and not isinstance(each, Member)}
        assert {name for name in bare if not name.startswith("_")} == set(), kind


async def test_who_may_read_changes_nothing(two: World) -> None:
    """Each method that needs more is refused before it is called, and says which role it needs."""
    service = acting(two, Role.READ)
    for name, operation in table().items():
        part, _, word = name.rpartition(".")
        role = operation.role
        if role is Role.READ:
            continue
        with pytest.raises(
            Forbidden, match=rf"^Your token may only read\. [A-Z].+ needs the role {role}\.(\n|$)"
        ) as fault:
            await getattr(getattr(service, part), word)("mail-in")
        assert (fault.value.field, fault.value.code) == ("role", "forbidden")
        assert f"--role {role}" in str(fault.value.allowed)
    assert [job.id for job in await service.jobs.list()] == ["mail-in", "other"]


async def test_who_operates_gives_no_rights(two: World) -> None:
    """Tokens are the admins'."""
    service = acting(two, Role.OPERATE)
    assert (await service.jobs.pause("other")).by == "ci"
    for act in (service.tokens.list(), service.tokens.create("x", "admin"), service.tokens.revoke("x")):
        with pytest.raises(Forbidden):
            await act
    assert await acting(two, Role.ADMIN).tokens.list() == []


@SCOPES
async def test_lists_leave_out_what_is_not_within_the_scope(two: World, scope: Scope) -> None:
    """Jobs, runs, what comes next, edges, queues, and who uses a calendar."""
    await two.service.calendars.add("cal", dates=["12-25"])
    for job_id in ("mail-in", "other"):
        await two.update(job_id, {"calendars": ["cal"]})
    await two.add({"noop": True, "queue": "web", "parents": [{"job": "other"}]}, "mail-child")
    service = acting(two, Role.READ, scope)
    assert [job.id for job in await service.jobs.list()] == ["mail-child", "mail-in"]
    assert [job.id for job in await service.jobs.list(after="mail-child", limit=1)] == ["mail-in"]
    runs = (await service.runs.list()).runs
    assert (
        [run.job_id for run in runs] == ["mail-in"] == [each.run.job_id for each in await service.runs.summaries(runs)]
    )
    assert {job.id for job, _ in await service.schedules.upcoming()} == {"mail-in"}
    assert await service.jobs.graph() == [] != await two.service.jobs.graph()
    assert await service.calendars.jobs("cal") == ["mail-in"]
    assert [queue.name for queue in await service.queues.list()] == (["web"] if scope is WEB else [])
    assert await service.queues.list("web") == []
    assert isinstance(await service.calendars.get("cal"), Calendar)


@SCOPES
async def test_what_is_not_within_the_scope_is_not_there(two: World, scope: Scope) -> None:
    """Whatever one asks of it, the answer is as for a job that nobody added."""
    service = acting(two, Role.READ, scope)
    run = (await two.service.runs.list(job_id=(await two.service.jobs.get("other")).id))[0]
    reads: list[Callable[[str], Awaitable[object]]] = [
        service.jobs.get,
        service.jobs.counts,
        service.jobs.explain,
        service.jobs.why,
        service.jobs.next,
        service.jobs.pauses,
        service.jobs.shown,
        service.jobs.skips,
        service.jobs.too_heavy,
        service.jobs.graph,
        lambda job_id: service.runs.last([job_id]),
        lambda job_id: service.runs.list(job_id=job_id),
    ]
    for read in reads:
        await read("mail-in")
        with pytest.raises(NotFound, match="there is no job 'other'"):
            await read("other")
    for of_run in (service.runs.get, service.runs.why, service.runs.output, service.runs.wait):
        with pytest.raises(NotFound, match=f"there is no run '{run.id}'"):
            await of_run(run.id)
    with pytest.raises(NotFound):
        await service.runs.summaries([run])
    with pytest.raises(NotFound, match="there is no queue 'default'"):
        await service.queues.get("default")


@SCOPES
async def test_what_is_not_within_the_scope_is_not_changed(two: World, scope: Scope) -> None:
    """Nor is what is everybody's, nor a job made into one that is not within it."""
    service = acting(two, Role.OPERATE, scope)
    run = (await two.service.runs.list())[0]
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: service.jobs.update("other", name="x"),
        lambda: service.jobs.delete("other"),
        lambda: service.jobs.pause("other"),
        lambda: service.jobs.trigger("other"),
        lambda: service.jobs.trigger("mail-in", parent=run.id),
        lambda: service.jobs.trigger_many("mail-in", [{"parent": run.id}]),
        lambda: service.jobs.trigger_many("other", [{}]),
        lambda: service.jobs.backfill("other", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        lambda: service.runs.cancel(run.id),
        lambda: service.runs.hold(run.id),
        lambda: service.jobs.add("other-2", noop=True, queue="default"),
        lambda: service.jobs.add(noop=True),
        lambda: service.jobs.import_all([("other-3", two.define({"noop": True}))]),
        lambda: service.jobs.add("mail-2", noop=True, queue="web", parents=[{"job": "other"}]),
        lambda: service.jobs.add("mail-2", noop=True, queue="web", on_failure_job="other"),
        lambda: service.jobs.add("mail-2", noop=True, queue="web", notify={"failure": ["other"]}),
        lambda: service.jobs.update("mail-in", parents=[{"job": "other"}], schedule=None),
        service.queues.pause,
        lambda: service.queues.pause("default"),
        lambda: service.calendars.add("cal"),
        lambda: service.semaphores.set("s", 3),
    ]
    if scope is WEB:
        changes.append(lambda: service.jobs.update("mail-in", queue="default"))
    before = await two.service.jobs.list()
    for change in changes:
        with pytest.raises(Forbidden) as fault:
            await change()
        assert fault.value.field == "scope"
    assert await two.service.jobs.list() == before
    assert (await service.jobs.update("mail-in", name="x")).definition.name == "x"
    assert (await service.jobs.trigger("mail-in")).job_id == "mail-in"
    assert (await service.jobs.add("mail-2", noop=True, queue="web", parents=[{"job": "mail-in"}])).id == "mail-2"


async def test_a_job_is_not_deleted_with_one_out_of_scope(two: World) -> None:
    """Whatever runs after it goes with it."""
    await two.add({"noop": True, "parents": [{"job": "mail-in"}]}, "mail-child")
    await two.add({"noop": True, "parents": [{"job": "mail-child"}]}, "x")
    service = acting(two, Role.OPERATE, MAIL)
    with pytest.raises(Forbidden, match="cascade"):
        await service.jobs.delete("mail-in", cascade=True)
    await two.service.jobs.delete("x")
    await service.jobs.delete("mail-in", cascade=True)
    assert [job.id for job in await two.service.jobs.list()] == ["other"]


@SCOPES
async def test_who_may_not_see_a_child_is_not_told_of_it_with_its_parent(two: World, scope: Scope) -> None:
    """As in the graph; an edge that a job itself declares stands in its definition."""
    await two.service.jobs.add("theirs", parents=[{"job": "mail-in"}], noop=True)
    await two.service.jobs.add("failing", on_failure_job="mail-in", noop=True)
    await two.service.jobs.add("mail-child", parents=[{"job": "mail-in"}, {"job": "other"}], noop=True, queue="web")
    service = acting(two, Role.READ, scope)
    shown = {job_id: (await service.jobs.shown(job_id)).facts.edges for job_id in ("mail-in", "mail-child")}
    edges = {job_id: {(edge.parent, edge.child) for edge in found} for job_id, found in shown.items()}
    assert edges["mail-in"] == {("mail-in", "mail-child")}
    assert edges["mail-child"] == {("mail-in", "mail-child"), ("other", "mail-child")}
    for job_id in ("theirs", "failing"):
        await two.service.jobs.delete(job_id)
    assert await service.jobs.shown("mail-in") is await service.jobs.shown("mail-in")


async def test_who_may_not_see_a_child_is_not_told_why_its_parent_stays(two: World) -> None:
    """A child of its own is named; ten are, of however many."""
    service = acting(two, Role.OPERATE, MAIL)
    await two.service.jobs.add("theirs", parents=[{"job": "mail-in"}], noop=True)
    with pytest.raises(Refused, match="jobs of others run after it: ask an admin which") as refused:
        await service.jobs.delete("mail-in")
    assert "theirs" not in str(refused.value)
    await two.service.jobs.delete("theirs")
    for n in range(12):
        await service.jobs.add(f"mail-{n:02}", parents=[{"job": "mail-in"}], noop=True)
    with pytest.raises(Refused, match=r"mail-09 and others run after it: delete them first"):
        await service.jobs.delete("mail-in")


async def test_who_may_not_see_a_child_is_not_told_of_it_by_a_task_or_another_id(two: World) -> None:
    """Neither its id nor its queue: a task is deleted, and a job renamed, as far as nobody else needs it."""
    service = acting(two, Role.OPERATE, MAIL)
    await build(two.service, name="mail-task")
    for parent in ("mail-in", "mail-task"):
        await two.service.jobs.add(f"theirs-{parent}", parents=[{"job": parent}], noop=True, queue="hidden")
    await two.work(Succeeded(0), Succeeded(0))
    asked: list[Awaitable[object]] = [
        service.tasks.delete("mail-task"),
        service.jobs.rename("mail-in", "mail-out"),
        service.jobs.delete("mail-in"),
    ]
    for each in asked:
        with pytest.raises((Refused, Forbidden), match="of others") as fault:
            await each
        assert not any(word in f"{fault.value} {fault.value.value}" for word in ("theirs", "hidden"))
    await two.service.jobs.delete("theirs-mail-in")
    with pytest.raises(Forbidden, match="'out'"):
        await service.jobs.rename("mail-in", "out")
    assert (await service.jobs.rename("mail-in", "mail-out")).id == "mail-out"


async def test_a_refusal_for_another_reason_is_told_as_it_is(two: World) -> None:
    """That jobs of others run further behind it is no reason to say so, where something else is."""
    await two.service.jobs.add("mail-child", parents=[{"job": "mail-in"}], noop=True)
    await two.service.jobs.add("theirs", parents=[{"job": "mail-child"}], noop=True, queue="hidden")
    with pytest.raises(Refused) as refused:
        await acting(two, Role.OPERATE, MAIL).jobs.rename("mail-in", "mail-out")
    assert "have not ended" in str(refused.value)
    assert not any(word in str(refused.value) for word in ("deleted", "of others", "theirs"))


async def test_who_operates_queues_pauses_them(two: World) -> None:
    """Only his, and by prefix none: jobs of others are in it."""
    assert (await acting(two, Role.OPERATE, WEB).queues.pause("web")).by == "ci"
    with pytest.raises(Forbidden):
        await acting(two, Role.OPERATE, MAIL).queues.resume("web")
    await two.service.queues.pause("default")
    reader = acting(two, Role.READ, WEB)
    assert (
        [pause.queue for pause in await reader.queues.pauses()]
        == list((await reader.sets.resources()).queues)
        == ["web"]
    )


async def test_holders_of_semaphores_are_not_told(two: World) -> None:
    """They may be runs of others."""
    await two.service.semaphores.set("s", 3)
    (found,) = await acting(two, Role.READ, WEB).semaphores.list()
    assert (found.name, found.holders) == ("s", ())
    assert await acting(two, Role.READ, WEB).semaphores.get("s") == found


async def test_who_holds_units_is_told_within_the_scope(two: World) -> None:
    """Runs and programs that are not within it are only counted, whatever the answer is for."""
    await two.register()
    await two.service.semaphores.set("s", 3)
    for job_id in ("mail-in", "other"):
        await two.update(job_id, {"semaphores": ["s"], "max_running": 0})
    await two.add({"noop": True, "queue": "web", "semaphores": ["s"]}, "mail-out")
    await two.store.acquire(UnitRequest(id=PermitId("p"), node=NodeId(NODE), semaphore="s", rank=NEW_YEAR), NEW_YEAR)
    waiting = await two.trigger("mail-out")
    assert len(await two.begin(3)) == 2
    for scope in (MAIL, WEB):
        service = acting(two, Role.READ, scope)
        for why in (await service.runs.why(waiting.id), await service.jobs.why("mail-out")):
            (reason,) = [each for each in why.reasons if each.cause is Cause.SEMAPHORE]
            assert [holder.job_id for holder in reason.holders] == ["mail-in"]
            assert reason.others == 2
            assert "other" not in reason_text(reason).replace("2 others", "")
    (whole,) = [each for each in (await two.service.runs.why(waiting.id)).reasons if each.cause is Cause.SEMAPHORE]
    assert [holder.job_id for holder in whole.holders] == [None, "mail-in", "other"]


async def test_a_list_of_runs_does_not_walk_without_end(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If too few are within the scope the answer is short, and says where to go on; `last` is refused."""
    for limit in ("PAGE", "MOST_LOOKED_AT"):
        monkeypatch.setattr(f"tokimori.service.search.runs.{limit}", 1)
    others = [await two.trigger("other") for _ in range(3)]
    service = acting(two, Role.READ, MAIL)
    found = await service.runs.list(limit=1)
    assert (found.runs, found.next) == ([], others[-1].id)
    await two.work(Succeeded())
    await two.service.jobs.update("mail-in", queue="new")
    await two.trigger("mail-in")
    with pytest.raises(Forbidden, match="most runs of this job"):
        await acting(two, Role.READ, Scope(queues=("new",))).runs.last(["mail-in"], 2)


WRONG: Mapping[str, tuple[Callable[[Any], Awaitable[object]], str]] = {
    "after": (lambda service: service.jobs.list(after={"a": 1}), "after"),
    "after of alarms": (lambda service: service.expectations.alarms(after=7), "after"),
    "after of tasks": (lambda service: service.tasks.list(after=["mail-in"]), "after"),
    "after of queues": (lambda service: service.queues.list(after=7), "after"),
    "n": (lambda service: service.schedules.upcoming(1.5), "n"),
    "job_ids": (lambda service: service.runs.last(1.5), "job_ids"),
    "a job of job_ids": (lambda service: service.runs.last([["mail-in"]]), "job_ids"),
    "runs": (lambda service: service.runs.summaries(True), "runs"),
    "requests": (lambda service: service.jobs.trigger_many("mail-in", 7), "requests"),
    "parent": (lambda service: service.jobs.trigger("mail-in", parent=["mail-in"]), "parent"),
    "parent of many": (lambda service: service.jobs.trigger_many("mail-in", [], parent={}), "parent"),
    "digest": (lambda service: service.tasks.rollback("mail-task", {"a": 1}), "digest"),
}
"""What is no value of an argument, and the field that the answer names."""


@SCOPES
@pytest.mark.parametrize("wrong", WRONG)
async def test_what_is_wrong_is_told_to_a_token_of_some_jobs_too(two: World, scope: Scope, wrong: str) -> None:
    """Its rules look at arguments before the methods do, and it is no fault of ours that one has another type."""
    await build(two.service, name="mail-task")
    await two.service.jobs.update("mail-task", queue="web")
    call, field = WRONG[wrong]
    with pytest.raises(InvalidInput) as fault:
        await call(acting(two, Role.OPERATE, scope))
    assert fault.value.field == field


async def test_a_token_acts_in_its_own_name(two: World) -> None:
    """Who has the secret may say who orders; who has a token may not, nor get rid of his scope."""
    service = acting(two, Role.OPERATE, MAIL).acting_as("eve")
    assert (await service.jobs.pause("mail-in")).by == "ci"
    with pytest.raises(Forbidden):
        await service.jobs.pause("other")
    mine = authorized(two.service, Access(author="http", role=Role.ADMIN, is_owner=True)).acting_as("eve")
    assert (await mine.jobs.pause("other")).by == "eve"


@SCOPES
async def test_events_of_others_are_not_told(two: World, scope: Scope) -> None:
    """Who may read hears of the ends of runs within the scope, and of no others."""
    everything = acting(two, Role.READ)
    start = (await everything.events.read()).after
    await two.work(Succeeded(), Succeeded())
    two.pass_seconds(3)
    assert {each.run.job_id for each in (await everything.events.read(start)).events} == {"mail-in", "other"}
    found = await acting(two, Role.READ, scope).events.read(start, state=["succeeded"])
    assert [each.run.job_id for each in found.events] == ["mail-in"]


async def test_results_of_parents_are_told_within_the_scope(two: World) -> None:
    """Nothing is told of a parent that is not within it, not even that there is one."""
    await two.add({"noop": True, "parents": [{"job": "other"}]}, "mail-child")
    await two.work(*[Succeeded(None, '"secret"')] * 2)
    (child,) = (await two.service.runs.list(job_id="mail-child")).runs
    (told_all,) = await two.service.runs.parents(child.id)
    assert (told_all.result, told_all.left_out) == ('"secret"', None)
    assert list(await acting(two, Role.READ, MAIL).runs.parents(child.id)) == []


@SCOPES
async def test_a_step_names_a_job_within_the_scope(two: World, scope: Scope) -> None:
    """A request can't make a run of another job when its own ends, however deep it is named."""
    service, step = acting(two, Role.OPERATE, scope), {"id": uuid7(NEW_YEAR, bytes), "job": "other"}
    deep = {"id": uuid7(NEW_YEAR, bytes), "job": "mail-in", "then": [step]}
    for then in ([step], [deep]):
        with pytest.raises(Forbidden, match="then: 'other'"):
            await service.jobs.trigger("mail-in", then=then)
        with pytest.raises(Forbidden, match="then: 'other'"):
            await service.jobs.trigger_many("mail-in", [{}, {"then": then}])
    made = await service.jobs.trigger("mail-in", then=[{"id": uuid7(NEW_YEAR, bytes), "job": "mail-in"}])
    assert [each.job for each in made.details.then] == ["mail-in"]


@pytest.mark.parametrize(
    "then",
    [
        7,
        [{"job": "mail-in"}],
        [{"id": "x", "job": "mail-in"}],
        [{"id": uuid7(NEW_YEAR, bytes), "job": "a b"}],
        [{"id": uuid7(NEW_YEAR, bytes), "job": "mail-in", "payload": "{"}],
        [{"id": uuid7(NEW_YEAR, bytes), "job": "mail-in", "joins": -1}],
        [{"id": uuid7(NEW_YEAR, bytes), "job": "mail-in", "payload": '"' + "x" * 70_000 + '"'}],
    ],
)
async def test_steps_that_cannot_be_are_refused(two: World, then: Any) -> None:
    """With the field, before anything is made."""
    with pytest.raises(InvalidInput, match=r"^(then|payload)"):
        await two.service.jobs.trigger("mail-in", then=then)
    with pytest.raises(NotFound):
        await two.service.jobs.trigger("mail-in", then=[{"id": uuid7(NEW_YEAR, bytes), "job": "missing"}])
