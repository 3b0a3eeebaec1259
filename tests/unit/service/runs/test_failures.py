"""Failures are counted by cause, runs are found by what they hold, and named by a part of their id."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.service.world import NODE, World
from tokimori.clock import DAY, Moment
from tokimori.engine.settle import change_of
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.cause import cause_id
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Output
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.service.access import Access
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.runs import failures, mutes
from tokimori.service.runs import ids as run_ids
from tokimori.service.search import runs as finding_runs

REFUSED = "exit 3: refused by db-#"


async def end(world: World, job_id: str, output: str = "", code: int = 3, **asked: Any) -> str:
    """The id of a run that wrote this, and exited so."""
    run = await world.service.jobs.trigger(job_id, **asked)
    (claimed,) = await world.begin(1)
    now = world.clock.now()
    world.pass_seconds(2)
    kept = Output(run_id=run.id, attempt=1, size=len(output), head=output.encode())
    outcome = Failed(f"exit code {code}", code) if code else Succeeded(0)
    change = change_of(claimed, outcome, owner=NODE, now=world.clock.now(), chance=0, started=now, pid=7, output=kept)
    await world.store.settle([change], NODE, world.clock.now())
    return run.id


@pytest.fixture
async def runs(world: World) -> list[str]:
    """Runs of three jobs of two queues: three failures with one cause, one with another, and a good end."""
    for job_id, queue in (("a", "web"), ("b", "web"), ("c", "mail")):
        await world.add({"noop": True, "queue": queue}, job_id)
    return [
        await end(world, "a", "connecting\nrefused by db-1:5432\n", payload='{"order": "Zoë 17"}'),
        await end(world, "b", "refused by db-2:5432\n"),
        await end(world, "c", "refused by db-3:5432\n"),
        await end(world, "a", "no space left\n", code=4),
        await end(world, "a", "it is done\n", code=0),
    ]


async def test_failures_are_counted_by_cause(world: World, runs: list[str]) -> None:
    """Each cause has its count, jobs, first and last moment, histogram, and the newest run as a sample."""
    found = await world.service.runs.failures(buckets=4)
    one, other = found.causes
    assert (one.cause, one.count, set(one.jobs), one.more_jobs) == (REFUSED, 3, {"a", "b", "c"}, 0)
    assert (one.id, one.sample, other.cause, other.count) == (cause_id(REFUSED), runs[2], "exit 4: no space left", 1)
    assert (one.histogram, found.count, found.looked, found.next) == ((0, 0, 0, 3), 4, 4, None)
    assert one.last - one.first == 4_000_000
    later = await world.service.runs.failures(since=Moment(one.last), job_id="a")
    assert [each.cause for each in later.causes] == ["exit 4: no space left"]
    before = await world.service.runs.failures(until=one.last, queue="web")
    assert [(each.cause, each.count) for each in before.causes] == [(REFUSED, 2)]


async def test_failures_are_those_in_scope(world: World, runs: list[str]) -> None:
    """A token of a queue counts its failures alone, and is told of no other job."""
    mine = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(queues=("mail",))))
    (cause,) = (await mine.runs.failures()).causes
    assert (cause.count, cause.jobs, cause.sample) == (1, ("c",), runs[2])
    with pytest.raises(NotFound):
        await mine.runs.failures(job_id="a")


async def test_a_cause_is_muted_for_a_while_for_everybody(world: World, runs: list[str]) -> None:
    """An id or a text names it; the answers say until when, by whom and why, and the audit log keeps it."""
    muting = audited(world.service.acting_as("ann")).runs
    muted = await muting.mute(cause_id(REFUSED), "2d", "on Monday")
    assert (muted.cause, muted.by, muted.until - muted.since) == (REFUSED, "ann", 2 * DAY)
    one, other = (await world.service.runs.failures()).causes
    assert (one.muted, other.muted) == (muted, None) and list(await world.service.runs.mutes()) == [muted]
    (entry,) = [each.entry for each in await world.service.audit.list()]
    assert (entry.who, entry.what, entry.of) == ("ann", "runs.mute", f"mute {cause_id(REFUSED)}")
    assert "on Monday" in str(entry.after)
    again = await muting.mute(REFUSED, 60)
    assert [each.until for each in await world.service.runs.mutes()] == [again.until]
    world.pass_seconds(61)
    assert (await world.service.runs.failures()).causes[0].muted is None
    assert list(await world.service.runs.mutes()) == [] and await muting.unmute(REFUSED) is None
    await muting.mute(REFUSED)
    assert (await muting.unmute(cause_id(REFUSED))) is not None and list(await world.service.runs.mutes()) == []


async def test_so_many_causes_are_muted_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are over make room; lengths and causes have bounds, and an unknown id is no cause."""
    monkeypatch.setattr(mutes, "MOST_MUTED", 2)
    muting = world.service.runs
    for cause in ("exit 1: one", "exit 1: two"):
        await muting.mute(cause, "1h")
    with pytest.raises(Refused, match="2 causes are muted"):
        await muting.mute("exit 1: three")
    world.pass_seconds(3601)
    await muting.mute("exit 1: three")
    documents = await world.store.list_documents("mute", after="", limit=10)
    assert [each.name for each in documents] == [cause_id("exit 1: three")]
    for cause, lasts in (("", "1h"), ("x" * 201, "1h"), ("a\0", "1h"), ("exit 1: one", "91d"), ("exit 1: one", 0)):
        with pytest.raises(InvalidInput):
            await muting.mute(cause, lasts)
    with pytest.raises(NotFound, match="no failure of 30 days"):
        await muting.mute("0123456789ab")


async def test_a_mute_tells_a_reader_of_some_queues_no_cause_of_others(world: World, runs: list[str]) -> None:
    """What everybody sees is muted by those who may see everything; a cause of another queue is an id alone."""
    await world.service.runs.mute("exit 4: no space left", reason="secret plan")
    await world.service.runs.mute(REFUSED, reason="known")
    mine = authorized(world.service, Access(author="t", role=Role.ADMIN, scope=Scope(queues=("mail",)))).runs
    assert "space" not in str(await mine.mutes()) and "plan" not in str(await mine.mutes())
    (cause,) = (await mine.failures()).causes
    assert cause.muted is not None and cause.muted.reason == "known"
    for act in (mine.mute, mine.unmute):
        with pytest.raises(Forbidden):
            await act(REFUSED)


async def test_so_many_failures_are_looked_at(world: World, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer is bounded, and the next one goes on where it stopped."""
    monkeypatch.setattr(failures, "MOST_FAILURES", 2)
    monkeypatch.setattr(failures, "_PAGE", 1)
    first = await world.service.runs.failures()
    second = await world.service.runs.failures(before=first.next)
    third = await world.service.runs.failures(before=second.next)
    assert [each.count for each in (first, second, third)] == [2, 2, 0]
    assert (first.next, third.next) == (runs[2], None)


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"since": "2030-01-02T00:00:00Z", "until": "2030-01-01T00:00:00Z"}, "since"),
        ({"buckets": 0}, "buckets"),
        ({"before": "x"}, "before"),
        ({"casue": "x"}, "casue"),
        ({"job_id": ""}, "id"),
    ],
)
async def test_bad_filters_of_failures_are_named(world: World, filters: dict[str, Any], field: str) -> None:
    """A filter that can't be read is refused by its name."""
    with pytest.raises(InvalidInput) as caught:
        await world.service.runs.failures(**filters)
    assert caught.value.field in (field, "job_id")


async def found(world: World, **filters: Any) -> list[str]:
    """The ids of the runs that are listed."""
    return [run.id for run in await world.service.runs.list(**filters)]


async def test_runs_are_found_by_cause(world: World, runs: list[str]) -> None:
    """The runs of a cause are those that have failed with it, by its text or its id, with or without long texts."""
    wanted = [runs[2], runs[1], runs[0]]
    assert await found(world, cause=REFUSED) == wanted
    assert await found(world, cause=cause_id(REFUSED), longest=0) == wanted
    assert await found(world, cause=REFUSED, job_id="b") == [runs[1]]
    assert await found(world, cause="exit 9") == []
    (listed,) = await world.service.runs.list(cause=REFUSED, job_id="a", longest=0)
    assert (listed.payload, listed.error) == (None, None)


async def test_runs_are_found_by_text(world: World, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is sought in the payload, the error and the kept output; so many runs are looked at, and it says so."""
    assert await found(world, text="Zoë") == [runs[0]]
    assert await found(world, text="db-2:") == [runs[1]]
    assert await found(world, text="exit code 4") == [runs[3]]
    assert await found(world, text="no such") == []
    assert await found(world, text="refused", queue="web") == [runs[1], runs[0]]
    monkeypatch.setattr(finding_runs, "PAGE", 2)
    monkeypatch.setattr(finding_runs, "MOST_SEARCHED", 2)
    first = await world.service.runs.list(text="Zoë")
    assert (list(first), first.looked, first.next) == ([], 2, runs[3])
    second = await world.service.runs.list(text="Zoë", before=first.next)
    third = await world.service.runs.list(text="Zoë", before=second.next)
    assert (list(second), [run.id for run in third], third.next) == ([], [runs[0]], None)
    for bad in ("", "x" * 1_001, "a\0"):
        with pytest.raises(InvalidInput) as caught:
            await world.service.runs.list(text=bad)
        assert caught.value.field == "text"


async def test_long_payloads_are_searched_too(world: World, runs: list[str]) -> None:
    """A payload that lists leave out is read for a search."""
    payload = json.dumps("x" * 30_000 + "needle")
    run = await world.service.jobs.trigger("a", payload=payload)
    assert await found(world, text="needle") == [run.id]


async def test_runs_are_found_by_node_and_length(world: World, runs: list[str]) -> None:
    """A node is named by its id or host; a run that still runs has lasted until now."""
    assert await found(world, node="h", job_id="a") == [runs[4], runs[3], runs[0]]
    assert await found(world, node=NODE, job_id="b") == [runs[1]]
    assert await found(world, node="other") == []
    assert len(await found(world, duration_over="1s")) == 5
    assert await found(world, duration_over=2) == []
    await world.trigger("b")
    (claimed,) = await world.begin(1)
    began = StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=7, at=world.clock.now())
    await world.store.tick(Beat(node=NODE, started=(began,)), world.clock.now())
    world.pass_seconds(3_600)
    assert await found(world, duration_over="50m") == [claimed.run.id]


async def test_a_run_is_named_by_a_part_of_its_id(world: World, runs: list[str]) -> None:
    """Eight digits of the beginning or the end name a run, if they are those of no other."""
    service = world.service
    run = await service.jobs.trigger("a")
    digits = run.id.replace("-", "")
    assert await service.runs.whole_id(run.id) == await service.runs.whole_id(digits.upper()) == run.id
    assert await service.runs.whole_id(run.id[-8:]) == await service.runs.whole_id(run.id[-12:]) == run.id
    assert await service.runs.whole_id(digits[:24]) == run.id
    twin = replace(await service.runs.get(run.id), run=run).run
    other = RunId(f"00000000-0000-7000-8000-0000{run.id[-8:]}")
    await world.store.add_run(replace(twin, id=other, origin="m:twin"), world.clock.now())
    with pytest.raises(InvalidInput, match="several runs") as caught:
        await service.runs.whole_id(run.id[-8:])
    assert run.id in caught.value.message
    assert other in caught.value.message
    with pytest.raises(NotFound, match="begins or ends"):
        await service.runs.whole_id("99999999")
    for bad in ("1234567", "x" * 8, "", 5):
        with pytest.raises(InvalidInput) as caught:
            await service.runs.whole_id(bad)  # type: ignore[arg-type]
        assert caught.value.field == "run"


async def test_runs_of_others_are_not_named(world: World, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is told of no run outside its scope, and older ends are looked for where no newer run has one."""
    monkeypatch.setattr(run_ids, "_PAGE", 1)
    monkeypatch.setattr(run_ids, "_FIRST", 1)
    assert await world.service.runs.whole_id(runs[0][-8:]) == runs[0]
    mine = authorized(world.service, Access(author="t", role=Role.READ, scope=Scope(queues=("mail",))))
    assert await mine.runs.whole_id(runs[2][-8:]) == runs[2]
    with pytest.raises(NotFound):
        await mine.runs.whole_id(runs[0][-8:])
