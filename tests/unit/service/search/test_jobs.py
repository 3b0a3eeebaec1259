"""Jobs and runs are found by what is said of them, in pages that look at a bounded number of rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Succeeded
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.search import jobs as finding
from tokimori.service.search import runs as finding_runs
from tokimori.service.search.jobs import JobSearch, find_jobs
from tokimori.service.search.runs import RunSearch, find_runs
from tokimori.service.service import Service

MAIL = Access(author="ci", role=Role.READ, scope=Scope(jobs=("mail",)))
WEB = Access(author="ci", role=Role.READ, scope=Scope(queues=("web",)))


@pytest.fixture
async def jobs(world: World) -> World:
    """Five jobs, each with a run: one a second."""
    for job_id, said in (
        ("mail", {"owner": "ada", "labels": {"tier": "gold", "eu": "yes"}}),
        ("mail-in", {"owner": "bob", "queue": "web", "labels": {"tier": "gold"}}),
        ("mail-out", {"owner": "ada", "queue": "web", "labels": {"tier": "tin"}}),
        ("mailing", {"owner": "ada"}),
        ("other", {"owner": "ada", "queue": "web"}),
    ):
        world.pass_seconds(1)
        await world.add({"noop": True, **said}, job_id)
        await world.trigger(job_id)
    await world.service.jobs.pause("mailing")
    return world


async def jobs_in_pages(service: Service, **wanted: Any) -> list[str]:
    """All that are found; it ends."""
    ids: list[str] = []
    for _ in range(20):
        found = await service.jobs.list(**wanted)
        ids += [job.id for job in found.jobs]
        if found.next is None:
            return ids
        wanted["after"] = found.next
    raise AssertionError(f"the pages have no end: {ids}")


async def runs_in_pages(service: Service, **wanted: Any) -> list[str]:
    """The jobs of all runs that are found; it ends."""
    ids: list[str] = []
    for _ in range(20):
        found = await service.runs.list(**wanted)
        ids += [run.job_id for run in found.runs]
        if found.next is None:
            return ids
        wanted["before"] = found.next
    raise AssertionError(f"the pages have no end: {ids}")


TRAITS: Sequence[tuple[dict[str, Any], list[str]]] = (
    ({}, ["mail", "mail-in", "mail-out", "mailing", "other"]),
    ({"owner": "ada"}, ["mail", "mail-out", "mailing", "other"]),
    ({"queue": "web", "owner": "ada"}, ["mail-out", "other"]),
    ({"label": ("tier",)}, ["mail", "mail-in", "mail-out"]),
    ({"label": ("tier=gold", "eu=yes")}, ["mail"]),
    ({"label": ("tier=gold=",)}, []),
    ({"owner": "nobody"}, []),
)


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(("traits", "ids"), TRAITS)
async def test_by_what_is_said_of_jobs(jobs: World, traits: dict[str, Any], ids: list[str], limit: int) -> None:
    """Jobs by id and runs newest first have all that is said, whatever the size of a page."""
    assert await jobs_in_pages(jobs.service, limit=limit, **traits) == ids
    assert await runs_in_pages(jobs.service, limit=limit, **traits) == ids[::-1]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_by_the_beginning_of_an_id(jobs: World, limit: int) -> None:
    """The job whose id is the prefix itself is found, too, and each job once."""
    for prefix, ids in (("mail-", ["mail-in", "mail-out"]), ("mail", ["mail", "mail-in", "mail-out", "mailing"])):
        assert await jobs_in_pages(jobs.service, prefix=prefix, limit=limit) == ids
        assert await runs_in_pages(jobs.service, job_prefix=prefix, limit=limit) == ids[::-1]
    assert await jobs_in_pages(jobs.service, prefix="mail", after="mail-in", limit=limit) == ["mail-out", "mailing"]


async def test_by_state(jobs: World) -> None:
    """Of jobs and of runs."""
    for paused in ("paused", JobState.PAUSED, ["paused"], {JobState.PAUSED}):
        assert await jobs_in_pages(jobs.service, state=paused, prefix="mail") == ["mailing"]
    await jobs.work(Succeeded())
    assert len(await runs_in_pages(jobs.service, state=RunState.SUCCEEDED, label="tier")) == 1


async def test_by_time(jobs: World) -> None:
    """A run made at `since` is found, one made at `until` is not, to the microsecond."""
    runs = (await jobs.service.runs.list()).runs
    newest, oldest = runs[1].created, runs[3].created
    for since, until, ids in (
        (oldest, newest, ["mail-out", "mail-in"]),
        (Moment(oldest + 1), Moment(newest + 1), ["mailing", "mail-out"]),
        (None, oldest, ["mail"]),
        (newest, None, ["other", "mailing"]),
    ):
        assert await runs_in_pages(jobs.service, since=since, until=until, limit=1) == ids


async def test_a_page_of_a_search_reads_no_more_than_it_shows(jobs: World) -> None:
    """Mostly all that is read is wanted, of one prefix or state too; where it is not, more is read at once."""
    read: list[int] = []

    async def noted_jobs(*, after: JobId | None, limit: int, **hints: Any) -> Sequence[Job]:
        read.append(limit)
        return await jobs.store.list_jobs(after=after, limit=limit, **hints)

    async def noted_runs(wanted: RunFilter) -> Sequence[Run]:
        read.append(wanted.limit)
        return await jobs.store.list_runs(wanted)

    await find_jobs(noted_jobs, jobs.service.jobs.get, JobSearch(prefix="mail-", limit=2))
    await find_runs(noted_runs, jobs.service.jobs.get, RunSearch(job_prefix="other", limit=1))
    await find_runs(noted_runs, jobs.service.jobs.get, RunSearch(owner="bob", limit=2))
    assert read == [2, 1, 2, finding.PAGE]


async def test_a_search_looks_at_a_bounded_number(jobs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers with what it has found so far, and where to go on; in pages all is found."""
    for module in (finding, finding_runs):
        monkeypatch.setattr(module, "PAGE", 1)
        monkeypatch.setattr(module, "MOST_LOOKED_AT", 2)
    of_web = lambda job: job.definition.queue == "web"  # noqa: E731
    found = await find_jobs(jobs.store.list_jobs, jobs.service.jobs.get, JobSearch(), of_web)
    assert ([job.id for job in found.jobs], found.next) == (["mail-in"], "mail-in")
    runs = await jobs.service.runs.list(owner="bob")
    assert (runs.runs, runs.next is None) == ([], False)
    assert await runs_in_pages(jobs.service, owner="bob") == ["mail-in"]
    assert await jobs_in_pages(jobs.service, queue="web") == ["mail-in", "mail-out", "other"]


async def test_a_search_of_runs_asks_for_a_bounded_number_of_jobs(jobs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of many jobs would cost a question for each."""
    monkeypatch.setattr(finding_runs, "MOST_JOBS", 2)
    monkeypatch.setattr(finding_runs, "PAGE", 2)
    runs = await jobs.service.runs.list(owner="ada")
    assert ([run.job_id for run in runs.runs], runs.next) == (["other", "mailing"], runs.runs[-1].id)


async def test_a_search_of_runs_asks_for_their_jobs_together(jobs: World) -> None:
    """A page of runs is one question for their jobs, and a list of runs as it is shown is another."""
    one, many = jobs.count("get_job"), jobs.count("get_jobs")
    found = await jobs.service.runs.list(owner="ada")
    assert len(found.runs) == 4
    assert not any(each.is_job_deleted for each in await jobs.service.runs.summaries(found.runs))
    assert (len(one), len(many)) == (0, 2)


async def test_runs_of_a_job_that_is_gone_have_nothing_said_of_them(jobs: World) -> None:
    """A new job of the same id says nothing of them either; by their ids they are found."""
    await jobs.service.jobs.delete("other")
    await jobs.add({"noop": True, "owner": "eve"}, "other")
    for owner in ("ada", "eve"):
        assert "other" not in await runs_in_pages(jobs.service, owner=owner)
    assert "other" in await runs_in_pages(jobs.service, job_prefix="oth")


async def test_a_token_finds_what_is_within_its_scope(jobs: World) -> None:
    """Of jobs and runs, with filters and without; runs of another's job are not found."""
    mail, web = (authorized(jobs.service, access) for access in (MAIL, WEB))
    assert await jobs_in_pages(mail, owner="ada") == ["mail", "mail-out", "mailing"]
    assert await runs_in_pages(mail, owner="ada") == ["mailing", "mail-out", "mail"]
    assert await jobs_in_pages(web, limit=1) == ["mail-in", "mail-out", "other"]
    assert await runs_in_pages(web, job_prefix="mail") == ["mail-out", "mail-in"]
    with pytest.raises(NotFound, match="there is no job 'other'"):
        await mail.runs.list(job_id="other")


async def test_a_token_is_not_led_through_the_jobs_of_others(jobs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its list begins and ends where ids within its scope may be."""
    monkeypatch.setattr(finding, "PAGE", 1)
    monkeypatch.setattr(finding, "MOST_LOOKED_AT", 5)
    await jobs.add({"noop": True}, "before")
    assert (await authorized(jobs.service, MAIL).jobs.list(owner="bob")).next is None


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"label": ("=x",)}, "label"),
        ({"label": ("tier=\udc80",)}, "label"),
        ({"prefix": "no id"}, "prefix"),
        ({"limit": 0}, "limit"),
        ({"owner": 7}, "owner"),
        ({"state": "waiting"}, "state"),
        ({"state": 7}, "state"),
        ({"statee": "paused"}, "statee"),
    ],
)
async def test_a_wrong_search_is_refused(world: World, wanted: Any, field: str) -> None:
    """By the name of what is wrong."""
    with pytest.raises(InvalidInput) as fault:
        await world.service.jobs.list(**wanted)
    assert fault.value.field == field


async def test_an_answer_has_so_much_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the run whose payload makes it large, and says where to go on: all are found, and each once."""
    monkeypatch.setattr(finding_runs, "MOST_TEXT", 50)
    await world.add({"noop": True}, "mail")
    ids = []
    for size in (5, 60, 20, 40, 5):
        ids.append((await world.service.jobs.trigger("mail", payload="x" * size)).id)
        world.pass_seconds(1)
    pages: list[list[str]] = []
    before: str | None = None
    while not pages or before is not None:
        found = await world.service.runs.list(before=before)
        pages.append([run.id for run in found])
        before = found.next
    assert pages == [[ids[4], ids[3], ids[2]], [ids[1]], [ids[0]]]
