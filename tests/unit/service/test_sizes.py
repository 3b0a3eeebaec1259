"""Texts that are too large are refused at every door."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition, Job
from tokimori.model.run import Run
from tokimori.model.sizes import MOST_AUTHOR, MOST_REASON
from tokimori.model.target import Command
from tokimori.service.service import Service

LONG = "x" * 600_000
Act = Callable[[Service, Job, Run], Awaitable[object]]


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (lambda service, _job, _run: service.jobs.add("new", noop=True, description=LONG), "description"),
        (lambda service, job, _run: service.jobs.update(job.id, name=LONG), "name"),
        (lambda service, job, _run: service.jobs.import_all([("new", _with(job, command=LONG))]), "jobs[0].command"),
        (
            lambda service, job, _run: service.jobs.import_all([("new", job.definition)], {"new": LONG}),
            "paused_because",
        ),
        (lambda service, job, _run: service.jobs.pause(job.id, LONG), "reason"),
        (lambda service, _job, _run: service.queues.pause("q", LONG), "reason"),
        (lambda service, _job, run: service.runs.cancel(run.id, LONG), "reason"),
        (lambda service, _job, run: service.runs.hold(run.id, LONG), "reason"),
    ],
)
async def test_what_is_too_large_is_refused(world: World, act: Act, field: str) -> None:
    """With the field, its size and what is allowed, and nothing is changed."""
    job = await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(InvalidInput) as refused:
        await act(world.service, job, run)
    assert (refused.value.field, refused.value.value) == (field, len(LONG))
    assert str(refused.value.allowed).startswith("at most ")
    assert (await world.service.jobs.get("j"), await world.store.get_run(run.id)) == (job, run)
    assert len(await world.service.jobs.list()) == 1


def _with(job: Job, command: str) -> Definition:
    return replace(job.definition, target=Command(argv=(command,)))


async def test_who_orders_has_a_bound(world: World) -> None:
    """Each order is recorded with its author, in the row of what is ordered."""
    with pytest.raises(InvalidInput) as refused:
        world.service.acting_as("x" * (MOST_AUTHOR + 1))
    assert refused.value.field == "author"
    world.service.acting_as("x" * MOST_AUTHOR)


async def test_the_longest_reason_of_a_pause_cancels_what_runs(world: World) -> None:
    """What is cancelled with a pause quotes its reason, which makes it no fault."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    await world.begin(1)
    await world.service.jobs.pause("j", "x" * MOST_REASON, now=True)
    assert str((await world.store.get_run(run.id)).cancel).endswith("x" * MOST_REASON)
