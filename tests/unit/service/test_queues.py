"""Queues, and pausing one of them or everything."""

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import ON_DEMAND, World
from tokimori.errors import InvalidInput, Refused
from tokimori.model.lanes import EVERYTHING, Pause
from tokimori.model.outcome import Succeeded
from tokimori.model.transitions import RunState
from tokimori.service import queues
from tokimori.service.queues import Queue, sentence
from tokimori.service.why.stops import queue_paused

MAIL = Pause(queue="mail", since=NEW_YEAR, reason="repairs", by="ada")


async def add(world: World, job_id: str, queue: str) -> None:
    await world.add({"noop": True, "queue": queue}, job_id)


async def test_a_pause_tells_by_whom_since_when_and_why(world: World) -> None:
    """The first one stays, whatever a second one says; it says so in English, too."""
    assert await world.service.queues.pause("mail", "repairs") == MAIL
    world.pass_seconds(9)
    assert await world.service.queues.pause("mail", "another") == MAIL
    everything = await world.service.queues.pause()
    assert everything == Pause(queue=EVERYTHING, since=seconds(9), by="ada")
    assert await world.service.queues.pauses() == [everything, MAIL]
    assert sentence(MAIL) == "queue mail is paused since 2030-01-01T00:00:00Z by ada: repairs"
    assert sentence(Pause(queue=EVERYTHING, since=NEW_YEAR)) == "everything is paused since 2030-01-01T00:00:00Z"


async def test_queues_are_those_of_jobs_and_of_pauses(world: World) -> None:
    """By name, with how many jobs are in each and what binds it."""
    for job_id, queue in (("a", "mail"), ("b", "mail"), ("c", "default")):
        await add(world, job_id, queue)
    pause = await world.service.queues.pause("misspelt")
    assert await world.service.queues.list() == [
        Queue(name="default", jobs=1),
        Queue(name="mail", jobs=2),
        Queue(name="misspelt", jobs=0, pauses=(pause,)),
    ]
    everything = await world.service.queues.pause()
    assert [queue.pauses for queue in await world.service.queues.list()] == [
        (everything,),
        (everything,),
        (everything, pause),
    ]


async def test_queues_are_listed_a_page_at_a_time(world: World) -> None:
    """Each page begins behind a name; a queue that is paused and has no job stands among the others."""
    for job_id, queue in (("a", "mail"), ("b", "mail-2"), ("c", "web"), ("d", "mail")):
        await add(world, job_id, queue)
    await world.service.queues.pause("nobody")
    listed = world.service.queues
    assert [each.name for each in await listed.list(limit=2)] == ["mail", "mail-2"]
    assert [each.name for each in await listed.list("mail", 2)] == ["mail-2", "nobody"]
    assert [(each.name, each.jobs) for each in await listed.list("mail-2")] == [("nobody", 0), ("web", 1)]
    assert [(await listed.get(name)).jobs for name in ("mail", "mai", "nobody")] == [2, 0, 0]
    for after, limit, field in (("a b", 9, "after"), (None, 0, "limit"), (None, 1001, "limit")):
        with pytest.raises(InvalidInput) as fault:
            await listed.list(after, limit)
        assert fault.value.field == field


async def test_pauses_have_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many queues are paused as one answer shows, no other one is; a known pause stays, all may be paused."""
    monkeypatch.setattr(queues, "MOST_LISTED", 2)
    for name in ("a", "b", "a"):
        await world.service.queues.pause(name)
    with pytest.raises(Refused, match="queue pause --all") as fault:
        await world.service.queues.pause("c")
    assert (fault.value.field, fault.value.value) == ("queue", "c")
    assert (await world.service.queues.pause()).queue == EVERYTHING
    await world.service.queues.resume("b")
    await world.service.queues.resume()
    assert (await world.service.queues.pause("c")).queue == "c"


async def test_a_resume_tells_what_it_ended(world: World) -> None:
    """The pause that there was, and nothing where there was none; that of everything leaves that of a queue."""
    assert await world.service.queues.resume("mail") is None
    await world.service.queues.pause("mail", "repairs")
    everything = await world.service.queues.pause()
    assert await world.service.queues.resume() == everything
    assert await world.service.queues.pauses() == [MAIL]
    assert await world.service.queues.resume("mail") == MAIL
    assert await world.service.queues.resume("mail") is None


async def test_jobs_and_runs_tell_of_the_pause(world: World) -> None:
    """What waits says for what, and so does its job; a run that has started does not wait."""
    await add(world, "job", "mail")
    first = await world.service.jobs.trigger("job")
    await world.begin(1)
    pause = await world.service.queues.pause("mail", "repairs")
    await world.service.queues.pause("other")
    second = await world.service.jobs.trigger("job")
    assert queue_paused(pause) in (await world.service.runs.why(second.id)).reasons
    assert (await world.service.runs.why(first.id)).reasons == ()
    assert await world.service.jobs.pauses("job") == (pause,)
    assert (await world.service.jobs.why("job")).reasons[0] == queue_paused(pause)


async def test_a_run_without_lane_waits_for_everything(world: World) -> None:
    """That of a job that is paused itself: its lane is gone, but everything is everything."""
    await add(world, "job", "mail")
    run = await world.service.jobs.trigger("job")
    await world.service.jobs.pause("job")
    everything = await world.service.queues.pause()
    assert queue_paused(everything) in (await world.service.runs.why(run.id)).reasons


async def test_what_waits_runs_after_the_resume(world: World) -> None:
    """A request to a paused queue is accepted, and carried out later."""
    await add(world, "job", "mail")
    await world.service.queues.pause("mail")
    run = await world.service.jobs.trigger("job")
    assert await world.begin(1) == []
    await world.service.queues.resume("mail")
    await world.work(Succeeded(0))
    assert (await world.service.runs.get(run.id)).run.state is RunState.SUCCEEDED


@pytest.mark.parametrize("queue", ["mail", None])
async def test_what_runs_is_cancelled_now(world: World, queue: str | None) -> None:
    """With `now`, of that queue or everywhere, also of a job that is paused itself; else it goes on to its end."""
    for job_id, name in (("a", "mail"), ("b", "mail"), ("c", "other")):
        await add(world, job_id, name)
    runs = [await world.service.jobs.trigger(job_id) for job_id in "abc"]
    await world.begin(3)
    await world.service.jobs.pause("b")
    await world.service.queues.pause(queue, "fire")
    assert [(await world.store.get_run(run.id)).cancel for run in runs] == [None, None, None]
    await world.service.queues.pause(queue, now=True)
    what = "everything" if queue is None else "its queue mail"
    reason = f"{what} was paused: fire"
    wanted = [reason, reason, reason if queue is None else None]
    assert [(await world.store.get_run(run.id)).cancel for run in runs] == wanted


async def test_a_run_whose_job_is_gone_is_no_queues(world: World) -> None:
    """Once a paused job was deleted, nobody knows in which queue its run was."""
    await world.add(ON_DEMAND, "job")
    run = await world.service.jobs.trigger("job")
    await world.begin(1)
    await world.service.jobs.pause("job")
    await world.service.jobs.delete("job")
    await world.service.queues.pause("default", now=True)
    assert (await world.store.get_run(run.id)).cancel is None


@pytest.mark.parametrize("name", ["", "*", "a b", "ä", "x" * 129, ".", ".."])
async def test_what_is_no_name_is_refused(world: World, name: str) -> None:
    """Before anything is paused or resumed."""
    for act in (world.service.queues.pause, world.service.queues.resume):
        with pytest.raises(InvalidInput) as caught:
            await act(name)
        assert (caught.value.field, caught.value.value) == ("queue", name)
    assert await world.service.queues.pauses() == []
