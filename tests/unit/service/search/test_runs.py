"""Who looks at no payload reads none, however many runs there are."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import ON_DEMAND, World
from tokimori.api.metrics import store_figures
from tokimori.api.nodes import live_runs
from tokimori.clock import MINUTE, Moment
from tokimori.errors import Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.outcome import Failed
from tokimori.model.run import Run
from tokimori.ports.ends import EndedRun
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access, owner
from tokimori.service.doors.authorization import authorized
from tokimori.service.search import runs as finding_runs
from tokimori.service.search.runs import RunSearch, RunSources, all_whole, find_runs
from tokimori.web.reader import Reader
from tokimori.web.screens import job, jobs, now, runs
from tokimori.web.visit import Visit

PAYLOAD = "x" * 1000


def visit_to(world: World, **parts: str) -> Visit:
    """A visit of the owner to a screen of the page."""
    return Visit(world.service, Reader(owner(None)), world.clock.now(), "/", parts, {})


READERS: dict[str, Callable[[World], Awaitable[object]]] = {
    "why": lambda world: world.service.jobs.why("j"),
    "why ready": lambda world: world.service.jobs.why("ready"),
    "statistics": lambda world: world.service.jobs.stats("j"),
    "ledger": lambda world: world.service.jobs.ledger("j", NEW_YEAR, Moment(NEW_YEAR + 5 * MINUTE)),
    "verify": lambda world: world.service.jobs.verify("j", NEW_YEAR, Moment(NEW_YEAR + 5 * MINUTE)),
    "backfill": lambda world: world.service.jobs.backfill("j", NEW_YEAR, NEW_YEAR, dry_run=True),
    "doctor": lambda world: world.service.db.doctor(),
    "pause now": lambda world: world.service.jobs.pause("j", now=True),
    "pause of all now": lambda world: world.service.queues.pause(now=True),
    "stats": lambda world: live_runs(world.service),
    "metrics": lambda world: store_figures(world.service),
    "page now": lambda world: now.show(visit_to(world)),
    "page of jobs": lambda world: jobs.show(visit_to(world)),
    "page of a job": lambda world: job.show(visit_to(world, job_id="j")),
    "page of runs": lambda world: runs.show(visit_to(world)),
}


def size_of(run: Run) -> int:
    """How long its texts are."""
    texts = (run.payload, run.error, run.result, run.details.payload, run.details.as_stored)
    return sum(len(text) for text in texts if text is not None)


@pytest.mark.parametrize("reader", READERS)
async def test_lists_of_runs_are_read_without_their_texts(
    world: World, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve runs with a payload each, at most that of one is read."""
    for job_id in ("j", "ready"):
        await world.add({"noop": True, "schedule": "0 0 1 1 *", "max_running": 0, "retry": {"attempts": 1}}, job_id)
        for _ in range(6):
            world.pass_seconds(1)
            await world.service.jobs.trigger(job_id, payload=2 * PAYLOAD)
    await world.work(Failed("no" * 1000))
    read: list[Run] = []
    for method in ("list_runs", "last_runs", "runs_of"):
        _note(world, method, read, monkeypatch)
    await READERS[reader](world)
    assert sum(map(size_of, read)) <= 2 * len(PAYLOAD)


def _note(world: World, method: str, read: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    work = getattr(world.store, method)

    async def noted(*args: object, **kwargs: object) -> Sequence[Run]:
        found: Sequence[Run] = await work(*args, **kwargs)
        read.extend(found)
        return found

    monkeypatch.setattr(world.store, method, noted)


async def test_a_search_reads_long_texts_as_far_as_its_answer_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself; what is found is whole, and what is not wanted is not read."""
    monkeypatch.setattr(finding_runs, "LONGEST", 100)
    monkeypatch.setattr(finding_runs, "MOST_TEXT", 2_500)
    for job_id in ("a", "b"):
        await world.add({"noop": True}, job_id)
        for _ in range(4):
            world.pass_seconds(1)
            await world.service.jobs.trigger(job_id, payload=PAYLOAD)
    read: list[Run] = []
    _note(world, "list_runs", read, monkeypatch)
    first = await find_runs(world.store.list_runs, world.service.jobs.get, RunSearch(job_prefix="a"))
    assert [run.payload for run in first.runs] == [PAYLOAD] * 3
    assert sum(map(size_of, read)) < 3_200
    rest = await world.service.runs.list(job_prefix="a", before=first.next)
    assert ([run.payload for run in rest.runs], rest.next) == ([PAYLOAD], None)


async def test_a_search_reads_no_text_that_nobody_wants(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither with the list nor one by one; who may not see all jobs reads none either."""
    monkeypatch.setattr(finding_runs, "LONGEST", 100)
    await world.add({"noop": True}, "a")
    for _ in range(3):
        world.pass_seconds(1)
        await world.service.jobs.trigger("a", payload=PAYLOAD)
    read: list[Run] = []
    _note(world, "list_runs", read, monkeypatch)
    some = Access(author="ci", role=Role.READ, scope=Scope(jobs=("a",)))
    for service in (world.service, authorized(world.service, some)):
        found = await service.runs.list(longest=0)
        assert [run.payload for run in found.runs] == [None] * 3
    assert (len(read), sum(map(size_of, read))) == (6, 0)


async def test_what_is_too_long_for_one_answer_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to ask for less; what was left out is there otherwise."""
    monkeypatch.setattr(finding_runs, "MOST_TEXT", 2_500)
    await world.add({"noop": True}, "j")
    for _ in range(3):
        world.pass_seconds(1)
        await world.service.jobs.trigger("j", payload=PAYLOAD)
    found = await world.service.runs.list(longest=100)
    assert {run.payload for run in found} == {"(long)"}
    assert await all_whole(world.store.list_runs, found[1:]) == (await world.service.runs.list())[1:]
    with pytest.raises(Refused, match="over 2,500 characters"):
        await all_whole(world.store.list_runs, found)


async def test_a_list_of_what_somebody_sees_asks_for_no_job_behind_its_end(world: World) -> None:
    """Whether a job is seen may be a question to the store, and a page has a thousand runs."""
    for job_id in ("a", "b", "c"):
        await world.add({"noop": True}, job_id)
        world.pass_seconds(1)
        await world.trigger(job_id)
    asked: list[str] = []

    async def sees(run: Run | EndedRun) -> bool:
        asked.append(run.job_id)
        return run.job_id != "c"

    (run,) = await find_runs(world.store.list_runs, world.service.jobs.get, RunSearch(limit=1), sees)
    assert (run.job_id, asked) == ("b", ["c", "b"])


async def test_a_step_of_a_search_looks_at_few_rows(world: World) -> None:
    """However many runs there are, an answer looks at 10,000 in pages of 200, and at the outputs of fifty at a time."""
    job = await world.add(ON_DEMAND, "j")
    run, ids = replace(await world.trigger("j"), attempt=1), count(1 << 100)
    pages, outputs = list[int](), list[int]()

    async def list_runs(wanted: RunFilter) -> list[Run]:
        pages.append(wanted.limit)
        return [replace(run, id=RunId(str(UUID(int=next(ids))))) for _ in range(wanted.limit)]

    async def outputs_with(_: bytes, attempts: Mapping[RunId, int]) -> list[RunId]:
        outputs.append(len(attempts))
        return []

    async def job_of(_: str) -> Job:
        return job

    found = await find_runs(list_runs, job_of, RunSearch(text="rare"), None, RunSources(outputs_with=outputs_with))
    assert (found.runs, found.looked, found.next is not None) == ([], 10_000, True)
    assert pages == [200] * 50
    assert outputs == [50] * 200
