"""How things stand, as `/metrics` tells it."""

import pytest

from tests.unit.service.world import World
from tokimori.api.metrics import store_figures
from tokimori.metrics import Metrics
from tokimori.model.access_token import Role, Scope
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.search.jobs import MOST_PAGES


async def test_only_runs_within_a_scope_are_counted(world: World) -> None:
    """However many of others lie between: who reads figures again and again is not refused."""
    for job in ("mine", "other"):
        await world.service.jobs.add(job, noop=True)
    for job in ("mine", *["other"] * (MOST_PAGES + 1)):
        await world.trigger(job)
    scoped = authorized(world.service, Access(author="ci", role=Role.READ, scope=Scope(jobs=("mine",))))
    standing = await store_figures(scoped)
    assert (standing.runs["ready"], standing.ready, standing.oldest_ready) == (1, {"default": 1}, MOST_PAGES + 1)
    assert (await store_figures(world.service)).runs["ready"] == MOST_PAGES + 2


async def test_large_runs_are_not_all_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand may have payloads of a megabyte each, and somebody asks every few seconds: all count, none is read."""
    monkeypatch.setattr("tokimori.service.search.runs.MOST_TEXT", 15)
    await world.service.jobs.add("large", noop=True)
    for _ in range(5):
        await world.service.jobs.trigger("large", payload="1234567890")
    list_runs, read = world.store.list_runs, list[str | None]()

    async def noted(wanted: RunFilter) -> list[Run]:
        found = await list_runs(wanted)
        read.extend(run.payload for run in found)
        return found

    monkeypatch.setattr(world.store, "list_runs", noted)
    assert (await store_figures(world.service)).runs["ready"] == 5
    assert read == [None] * 5


async def test_a_rate_for_which_runs_wait_is_named(world: World) -> None:
    """By the job whose it is, with what is taken and the time until its line goes on; others are not told."""
    await world.service.jobs.add("slow", noop=True, rate_limit="2/1m")
    await world.service.semaphores.set("api", rate="9/1m")
    for _ in range(4):
        await world.trigger("slow")
    assert (await store_figures(world.service)).rates == {}
    assert len(await world.begin(4)) == 2
    assert (await store_figures(world.service)).rates == {"job:slow": (2, 60)}
    text = Metrics().text(await store_figures(world.service), 1).decode()
    assert 'tokimori_rate_taken{rate="job:slow"} 2.0' in text
    assert 'tokimori_rate_goes_on_seconds{rate="job:slow"} 60.0' in text
