"""What users ask for about runs, on the memory store."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import NODE, ON_DEMAND, World, every_minute
from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.job import Definition
from tokimori.model.lanes import serves
from tokimori.model.outcome import Failed, Released, Succeeded
from tokimori.model.policies import Misfire, Retry
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat
from tokimori.service.doors.reboot import trigger_reboot
from tokimori.service.views.runs import RunDetails


async def test_a_trigger_makes_a_run_now(world: World) -> None:
    """Ready, due now, with its payload."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j", payload="p")
    assert (run.state, run.due, run.payload, run.origin) == (RunState.READY, NEW_YEAR, "p", f"m:{run.id}")


async def test_the_same_key_gives_the_same_run(world: World) -> None:
    """And another key another one."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j", "k")
    world.pass_seconds(5)
    assert await world.service.jobs.trigger("j", "k") == run
    assert (await world.service.jobs.trigger("j", "k2")).id != run.id


async def test_a_lost_reply_to_a_trigger_makes_no_second_run(world: World) -> None:
    """The id is made before it is sent."""
    await world.add(ON_DEMAND, "j")
    world.store.lose_replies = 1
    run = await world.service.jobs.trigger("j")
    assert (await world.service.runs.list()).runs == [run]


async def test_the_last_run_is_none_of_a_clock_that_was_ahead(world: World) -> None:
    """As long as there is one that was made by now; those that were made ahead come behind it."""
    await world.add(ON_DEMAND, "j")
    await world.add(ON_DEMAND, "other")
    world.pass_seconds(2 * 86_400)
    ahead = [await world.service.jobs.trigger(name) for name in ("j", "other")]
    world.pass_seconds(-2 * 86_400)
    now = [await world.service.jobs.trigger("j")]
    world.pass_seconds(1)
    now.append(await world.service.jobs.trigger("j"))
    last = await world.service.runs.last(["j", "other"], 3)
    assert last == {"j": [*reversed(now), ahead[0]], "other": [ahead[1]]}
    assert await world.service.runs.last(["j"]) == {"j": [now[1]]}


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 256])
async def test_a_bad_key_is_refused(world: World, key: str) -> None:
    """Nothing runs."""
    await world.add(ON_DEMAND, "j")
    with pytest.raises(InvalidInput):
        await world.service.jobs.trigger("j", key)
    assert (await world.service.runs.list()).runs == []


async def test_a_paused_job_is_not_triggered(world: World) -> None:
    """It is refused, exit code 2."""
    await world.add(ON_DEMAND, "j")
    await world.service.jobs.pause("j")
    with pytest.raises(Refused) as caught:
        await world.service.jobs.trigger("j")
    assert caught.value.exit_code == 2


async def test_reboot_jobs_run_once_for_each_host_and_boot(world: World) -> None:
    """On nodes that carry their labels, unless they are paused; other jobs do not."""
    await world.add(every_minute(), "minutes")
    await world.add(ON_DEMAND, "demand")
    await world.add(Definition(target=Noop(), schedule="@reboot"), "anywhere")
    await world.add(Definition(target=Noop(), schedule="@reboot", labels={"host": "h2"}), "pinned")
    await world.add(Definition(target=Noop(), schedule="@reboot"), "paused")
    await world.service.jobs.pause("paused")

    async def started(host: str, boot: str) -> list[str]:
        before = len(await world.service.runs.list())
        runs = await trigger_reboot(world.store, world.service, host, boot, lambda lane: serves({"host": host}, lane))
        assert len(await world.service.runs.list()) - before <= len(runs)
        new = len(await world.service.runs.list()) - before
        return [run.job_id for run in runs] if new else []

    assert await started("h1", "b1") == ["anywhere"]
    assert await started("h1", "b1") == []
    assert await started("h1", "b2") == ["anywhere"]
    assert await started("h2", "b1") == ["anywhere", "pinned"]


async def test_a_reboot_job_that_skips_what_it_missed_waits_for_the_next_boot(world: World) -> None:
    """One that was imported from cron does not run for a boot before it was added; others do."""
    await world.add(Definition(target=Noop(), schedule="@reboot"), "always")
    await world.add(Definition(target=Noop(), schedule="@reboot", misfire=Misfire.SKIP), "of-cron")

    async def started(boot: str, up: float) -> list[str]:
        runs = await trigger_reboot(world.store, world.service, "h", boot, lambda _lane: True, up=up)
        return [run.job_id for run in runs]

    assert await started("b1", 3600) == ["always"]
    world.clock.moment = Moment(world.clock.moment + 60 * SECOND)
    assert await started("b1", 3660) == ["always"]
    assert await started("b2", 30) == ["always", "of-cron"]


async def test_a_run_shows_every_attempt_with_its_host(world: World) -> None:
    """Failed ones have rows, the first success is in the run itself; a release that never began is none."""
    await world.add(Definition(target=Noop(), retry=Retry(attempts=2), time_zone="Asia/Tokyo"), "j")
    first = await world.service.jobs.trigger("j")
    await world.work(Failed("no", exit_code=3), Succeeded(exit_code=0))
    details = await world.service.runs.get(first.id)
    shown = [
        (each.attempt.number, each.attempt.outcome, each.attempt.exit_code, each.host) for each in details.attempts
    ]
    assert shown == [(1, "failed", 3, "h"), (2, "succeeded", 0, "h")]
    assert details.time_zone == "Asia/Tokyo"

    second = await world.service.jobs.trigger("j")
    await world.work(Released("stop"), started=False)
    assert (await world.service.runs.get(second.id)).attempts == ()
    await world.work(Succeeded(exit_code=0))
    (only,) = (await world.service.runs.get(second.id)).attempts
    assert (only.attempt.outcome, only.attempt.pid) == ("succeeded", 7)


async def test_attempts_are_shown_a_hundred_at_a_time(world: World) -> None:
    """The newest first of all; who wants earlier ones names the number before which they are."""
    await world.add(Definition(target=Noop(), retry=Retry(attempts=200)), "j")
    run = await world.service.jobs.trigger("j")
    await world.work(*[Failed("no")] * 130)

    async def shown(before: int | None = None) -> tuple[list[int], int]:
        details = await world.service.runs.get(run.id, before)
        return [each.attempt.number for each in details.attempts], details.attempts_left_out

    assert await shown() == (list(range(31, 131)), 30)
    assert await shown(31) == (list(range(1, 31)), 0)
    assert await shown(1) == ([], 0)
    view = RunDetails.made(await world.service.runs.get(run.id))
    assert (view.attempts_left_out, view.attempt) == (30, 130)
    with pytest.raises(InvalidInput, match="before"):
        await shown(0)


async def test_a_first_success_is_shown_as_an_attempt(world: World) -> None:
    """Though it has no row of its own; the run outlives its job, and is then shown in the service's zone."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    assert (await world.service.runs.get(run.id)).attempts == ()
    await world.work(Succeeded(exit_code=0))
    await world.service.jobs.delete("j")
    details = await world.service.runs.get(run.id)
    (only,) = details.attempts
    assert (only.attempt.number, only.attempt.outcome, only.attempt.started, only.host) == (
        1,
        "succeeded",
        NEW_YEAR,
        "h",
    )
    assert details.time_zone == "Europe/Paris"


async def test_a_running_attempt_is_shown_as_running(world: World) -> None:
    """With its host, before it ends."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    await world.begin(1)
    assert await world.store.tick(Beat(node=NODE), NEW_YEAR) is not None
    (only,) = (await world.service.runs.get(run.id)).attempts
    assert (only.attempt.outcome, only.attempt.ended, only.host) == ("running", None, "h")


async def test_a_cancelled_run_stays_cancelled(world: World) -> None:
    """Once ended, no second order changes it."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    cancelled = await world.service.runs.cancel(run.id, "why")
    assert (cancelled.state, cancelled.error) == (RunState.CANCELLED, "why")
    assert await world.service.runs.cancel(run.id, "again") == cancelled
    assert (await world.service.runs.wait(run.id)).state is RunState.CANCELLED


async def test_waiting_for_a_run_ends_at_its_time_out(world: World) -> None:
    """It is refused, not waited for longer."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(Refused):
        await world.service.runs.wait(run.id, 0)


async def test_a_run_that_never_began_has_no_output(world: World) -> None:
    """That is no error."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    assert await world.service.runs.output(run.id) is None


async def test_an_attempt_that_was_not_made_is_not_found(world: World) -> None:
    """Silence would look like a command that wrote nothing; the same for a run that is not there."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(NotFound, match="attempt 1"):
        await world.service.runs.output(run.id, 1)
    with pytest.raises(NotFound, match="no run"):
        await world.service.runs.output(str(UUID(int=0)), 0)


@pytest.mark.parametrize("text", ["\0", "\udcff"])
async def test_a_text_that_no_store_can_hold_is_refused(world: World, text: str) -> None:
    """A payload and a reason are named before any store sees them."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(InvalidInput, match="payload"):
        await world.service.jobs.trigger("j", payload=text)
    with pytest.raises(InvalidInput, match="reason"):
        await world.service.runs.cancel(run.id, text)
    with pytest.raises(InvalidInput, match="reason"):
        await world.service.jobs.pause("j", text)


@pytest.mark.parametrize("attempt", [-1, 2**31, 10**30])
async def test_an_attempt_that_can_not_be_is_refused(world: World, attempt: int) -> None:
    """No database is asked for a number that it may not have."""
    await world.add(ON_DEMAND, "j")
    run = await world.service.jobs.trigger("j")
    with pytest.raises(InvalidInput, match="attempt"):
        await world.service.runs.output(run.id, attempt)


@pytest.mark.parametrize("run_id", ["", "x", "../etc"])
async def test_a_run_id_is_a_uuid(world: World, run_id: str) -> None:
    """Anything else is bad input."""
    with pytest.raises(InvalidInput):
        await world.service.runs.get(run_id)


async def test_a_run_has_the_key_that_it_was_asked_for_with(world: World) -> None:
    """Its own if it brings one, else the job's; a key that is none is refused."""
    await world.add({"noop": True, "concurrency_key": "tenant"}, "j")
    assert (await world.service.jobs.trigger("j")).concurrency_key == "tenant"
    assert (await world.service.jobs.trigger("j", concurrency_key="other")).concurrency_key == "other"
    for key in ("", "k" * 256, "a\0"):
        with pytest.raises(InvalidInput) as refused:
            await world.service.jobs.trigger("j", concurrency_key=key)
        assert refused.value.field == "concurrency_key"


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"misfire": "all"}, True),
        ({"misfire": "all", "on_overlap": "queue"}, False),
        ({"misfire": "all", "max_running": 0}, False),
        ({}, False),
    ],
)
async def test_a_job_that_loses_what_it_asks_for_says_so(world: World, terms: dict[str, Any], told: bool) -> None:
    """All missed occurrences are asked for, and those that overlap are dropped: that is told with the way out."""
    await world.service.jobs.add("a", noop=True, schedule="* * * * *", **terms)
    warnings = " ".join((await world.service.jobs.explain("a")).warnings)
    assert ("on_overlap queue keeps it" in warnings) is told
