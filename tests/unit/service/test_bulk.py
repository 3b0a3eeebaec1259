"""One order for many: shown before, given in pieces, each thing by itself, and taken back where it can be."""

from typing import Any

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.errors import Forbidden, InvalidInput
from tokimori.model.access_token import Role, Scope
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.transitions import RunState
from tokimori.service.access import Access
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized


@pytest.fixture
async def jobs(world: World) -> World:
    """Four jobs of two teams; one is paused already."""
    for job_id, team in (("a", "data"), ("b", "data"), ("c", "data"), ("d", "web")):
        await world.add({"noop": True, "labels": {"team": team}}, job_id)
    await world.service.jobs.pause("c", "before")
    return world


async def states(world: World) -> dict[str, JobState]:
    """The states of all jobs."""
    return {job.id: job.state for job in await world.service.jobs.list()}


async def test_an_order_is_shown_before(jobs: World) -> None:
    """A dry run counts what is meant, names the first ones, and changes nothing."""
    before = await states(jobs)
    shown = await jobs.service.jobs.bulk("pause", label="team=data", dry_run=True)
    assert (shown.count, shown.ids, shown.more, shown.undo) == (3, ("a", "b", "c"), False, "resume")
    assert await states(jobs) == before


async def test_many_jobs_are_paused_and_the_same_ones_resumed(jobs: World) -> None:
    """What was paused before stays so when the order is taken back, and each change is in the audit log."""
    service = audited(jobs.service)
    done = await service.jobs.bulk("pause", label="team=data", reason="repairs")
    assert (done.ids, done.unchanged, done.kept, done.next, done.undo) == (("a", "b"), 1, {}, None, "resume")
    assert [(await service.jobs.get(each)).reason for each in ("a", "c")] == ["repairs", "before"]
    assert sorted(each.entry.of for each in await service.audit.list()) == ["job a", "job b"]
    back = await service.jobs.bulk(str(done.undo), ids=done.ids)
    assert back.ids == done.ids
    assert await states(jobs) == {"a": "enabled", "b": "enabled", "c": "paused", "d": "enabled"}


async def test_an_order_goes_on_in_pieces(jobs: World) -> None:
    """Each call changes a bounded number, and says where the next one begins."""
    found: list[str] = []
    after = None
    for _ in range(9):
        done = await jobs.service.jobs.bulk("trigger", everything=True, limit=1, after=after, key="once")
        found += done.ids
        after = done.next
        if after is None:
            break
    assert found == ["a", "b", "d"]
    again = await jobs.service.jobs.bulk("trigger", everything=True, key="once")
    assert (again.ids, again.unchanged, sorted(again.kept)) == ((), 3, ["c"])
    assert "paused" in again.kept["c"]
    with_payload = await jobs.service.jobs.bulk("trigger", ids=["a", "b"], payload={"day": 7})
    payloads = [(await jobs.service.runs.get(run_id)).run.payload for run_id in with_payload.runs]
    assert payloads == ['{"day":7}', '{"day":7}']
    with pytest.raises(InvalidInput, match="payload: pause takes none"):
        await jobs.service.jobs.bulk("pause", everything=True, payload={})


async def test_jobs_below_others_are_deleted_first(world: World) -> None:
    """What is refused because another job runs after it is tried again once that is gone."""
    await world.add({"noop": True}, "a")
    await world.add({"noop": True, "parents": [{"job": "a"}]}, "b")
    await world.add({"noop": True, "parents": [{"job": "b"}]}, "c")
    done = await world.service.jobs.bulk("delete", everything=True)
    assert sorted(done.ids) == ["a", "b", "c"]
    assert await states(world) == {}


async def test_failed_runs_are_retried_once(jobs: World) -> None:
    """The runs of a cause are retried together; a second order makes no more, and good ones are left alone."""
    failed = [(await jobs.trigger("a")).id]
    await jobs.work(Failed("exit code 3", 3))
    failed.append((await jobs.trigger("b")).id)
    await jobs.work(Failed("exit code 3", 3))
    await jobs.trigger("a")
    await jobs.work(Succeeded())
    done = await jobs.service.runs.bulk("retry", cause="exit 3")
    assert sorted(done.ids) == sorted(failed)
    assert {(await jobs.service.runs.get(each)).run.details.retry_of for each in done.runs} == set(failed)
    again = await jobs.service.runs.bulk("retry", cause="exit 3")
    assert (again.ids, again.unchanged, again.runs) == ((), 2, ())


async def test_runs_are_held_resumed_and_cancelled(jobs: World) -> None:
    """Without a state an order is for the runs that it concerns."""
    runs = [(await jobs.trigger(each)).id for each in ("a", "b", "d")]
    held = await jobs.service.runs.bulk("hold", label="team=data", reason="wait")
    assert sorted(held.ids) == sorted(runs[:2])
    assert (await jobs.service.runs.get(runs[0])).run.state is RunState.HELD
    assert (await jobs.service.runs.bulk("resume", everything=True)).count == 2
    cancelled = await jobs.service.runs.bulk("cancel", ids=[runs[2], runs[2]])
    assert (cancelled.ids, (await jobs.service.runs.get(runs[2])).run.state) == ((runs[2],), RunState.CANCELLED)
    assert (await jobs.service.runs.bulk("cancel", everything=True, dry_run=True)).count == 2


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"verb": "pause"}, "filters"),
        ({"verb": "pause", "label": "x", "everything": True}, "filters"),
        ({"verb": "pause", "ids": ["a"], "owner": "x"}, "filters"),
        ({"verb": "explode", "everything": True}, "verb"),
        ({"verb": "pause", "everything": True, "limit": 1_001}, "limit"),
        ({"verb": "pause", "ids": "a"}, "ids"),
        ({"verb": "pause", "ids": ["no id"]}, "ids"),
        ({"verb": "pause", "onwer": "x"}, "onwer"),
    ],
)
async def test_an_order_for_nobody_is_refused(jobs: World, said: dict[str, Any], field: str) -> None:
    """What is meant has to be said, in one way, and by names that there are."""
    with pytest.raises(InvalidInput) as caught:
        await jobs.service.jobs.bulk(**said)
    assert caught.value.field == field
    assert (await states(jobs))["a"] == "enabled"


async def test_an_order_reaches_what_is_in_scope(jobs: World) -> None:
    """A token of some jobs orders these alone, and a token that reads gives no orders."""
    mine = authorized(jobs.service, Access(author="t", role=Role.OPERATE, scope=Scope(jobs=("a", "d"))))
    assert (await mine.jobs.bulk("pause", everything=True)).ids == ("a", "d")
    reads = authorized(jobs.service, Access(author="t", role=Role.READ))
    assert (await reads.jobs.bulk("resume", everything=True, dry_run=True)).count == 4
    with pytest.raises(Forbidden):
        await reads.jobs.bulk("resume", everything=True)


async def test_orders_come_over_http(jobs: World) -> None:
    """A body says the order, and the answer what became of it."""
    door = Asker(an_app(jobs))
    answer = await door.post("/api/v2/bulk/jobs", {"verb": "pause", "label": ["team=data"], "reason": "repairs"})
    assert (answer.status, answer.json["ids"], answer.json["undo"]) == (200, ["a", "b"], "resume")
    run = await jobs.trigger("d")
    answer = await door.post("/api/v2/bulk/runs", {"verb": "cancel", "job_id": "d"})
    assert answer.json["ids"] == [run.id]
    assert (await door.post("/api/v2/bulk/runs", {"verb": "cancel"})).error["field"] == "filters"
