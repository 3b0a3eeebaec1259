"""How things stand, as `/metrics` tells it."""

import pytest

from tests.unit.service.world import World
from tokimori.api.metrics import standing_of
from tokimori.model.access_token import Role, Scope
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter
from tokimori.service.finding import MOST_PAGES
from tokimori.service.permitted import permitted
from tokimori.service.sight import Access


async def test_only_runs_within_a_scope_are_counted(world: World) -> None:
    """However many of others lie between: who reads figures again and again is not refused."""
    for job in ("mine", "other"):
        await world.service.jobs.add(job, noop=True)
    for job in ("mine", *["other"] * (MOST_PAGES + 1)):
        await world.trigger(job)
    scoped = permitted(world.service, Access(author="ci", role=Role.READ, scope=Scope(jobs=("mine",))))
    standing = await standing_of(scoped)
    assert (standing.runs["ready"], standing.ready, standing.oldest_ready) == (1, {"default": 1}, MOST_PAGES + 1)
    assert (await standing_of(world.service)).runs["ready"] == MOST_PAGES + 2


async def test_large_runs_are_not_all_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand may have payloads of a megabyte each, and somebody asks every few seconds: all count, none is read."""
    monkeypatch.setattr("tokimori.service.finding_runs.MOST_TEXT", 15)
    await world.service.jobs.add("large", noop=True)
    for _ in range(5):
        await world.service.jobs.trigger("large", payload="1234567890")
    list_runs, read = world.store.list_runs, list[str | None]()

    async def noted(wanted: RunFilter) -> list[Run]:
        found = await list_runs(wanted)
        read.extend(run.payload for run in found)
        return found

    monkeypatch.setattr(world.store, "list_runs", noted)
    assert (await standing_of(world.service)).runs["ready"] == 5
    assert read == [None] * 5
