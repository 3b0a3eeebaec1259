"""Workers outside of nodes, on a memory store, in virtual time."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.virtual_time import LoopClock, let_pass, run_virtually
from tests.unit.locks.world import a_store
from tests.unit.virtual import Link
from tokimori.clock import DAY, Moment
from tokimori.engine.fire import decide_and_apply
from tokimori.errors import ClaimLost, Forbidden, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.locks.membership import Program
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import RunId
from tokimori.model.lease import DEAD_AFTER
from tokimori.model.request import EXPIRY
from tokimori.model.run import Run, Step
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.store import RunFilter
from tokimori.service.access import Access, owner
from tokimori.service.claims.claims import Claims
from tokimori.service.claims.place import MOST_WAITING, ClaimPlace
from tokimori.service.claims.timekeeping import Timekeeper
from tokimori.service.doors.authorization import authorized
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.operation import Inside
from tokimori.service.service import Service, service_on

PROGRAM = Program(host="h", boot_id="b", pid=1, version="0")
UUID = "01a1fe76-c901-7d5c-b9f7-4e869d9c8e52"
NEW = "01b8dac5-b400-7d5c-b9f7-4e869d9c8e52"
"""Made when the clock begins."""
OTHER = "8f6b6d1e-7f1c-4b3e-9a36-0c5b2f0a9d11"


class Place:
    """A store, and a place at which workers claim."""

    def __init__(self) -> None:
        self.store = a_store()
        self.service = service_on(self.store, LoopClock(), os.urandom)
        self.gives = True
        self.places: list[ClaimPlace] = []
        self.links: list[Link] = []
        self.claims: Claims[Inside]
        self.link, self.claims = self.another()

    def another(self, *, keeps_time: bool = False) -> tuple[Link, Claims[Inside]]:
        """Another place on the same store, and its way there."""
        link, clock = Link(self.store), LoopClock()
        keeper = Timekeeper(link.store, clock, os.urandom) if keeps_time else None
        place = ClaimPlace(link.store, clock, os.urandom, PROGRAM, may_give=lambda: self.gives, timekeeper=keeper)
        self.places.append(place)
        self.links.append(link)
        return link, Claims[Inside](place, os.urandom)

    def door(self) -> Service:
        """The service of a door where workers claim."""
        return service_on(self.store, LoopClock(), os.urandom, place=self.places[0])

    async def close(self) -> None:
        """Close all places."""
        for place in self.places:
            await place.close()

    async def ask(self, payload: str | None = None, **fields: Any) -> Run:
        """A run of a new job with the function `resize`."""
        job = await self.service.jobs.add(None, **{"function": "resize", **fields})
        return await self.service.jobs.trigger(job.id, payload=payload)

    async def state(self, run_id: str) -> RunState:
        return (await self.run(run_id)).state

    async def run(self, run_id: str) -> Run:
        return await self.store.get_run(RunId(run_id))


def virtually(test: Callable[[Place], Awaitable[None]]) -> Callable[[], None]:
    """Run the test on a loop of its own, on which nobody waits."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            place = Place()
            await test(place)
            await place.close()

        run_virtually(main())

    del run.__wrapped__  # pytest would take its parameters for fixtures
    return run


@virtually
async def test_from_claim_to_finish(place: Place) -> None:
    """A worker gets the run with its payload, and its word ends it: result, output and who it was are kept."""
    await place.ask("p", timeout=30)
    (run,) = await place.claims.claim(["send", "resize"], worker="ada")
    assert (run.type, run.payload, run.attempt, run.token) == ("resize", "p", 1, 1)
    assert await place.state(run.run_id) is RunState.RUNNING
    assert run.deadline is not None
    assert (await place.claims.heartbeat(run.run_id, run.token)).cancel is None
    state = await place.claims.finish(run.run_id, run.token, result={"w": [3]}, output="hello")
    ended = await place.run(run.run_id)
    assert (state, ended.state, ended.result, ended.details.worker) == (state, "succeeded", '{"w":[3]}', "ada")
    output = await place.service.runs.output(run.run_id)
    assert output is not None
    assert output.head == b"hello"


@virtually
async def test_a_join_of_steps_gets_the_list_of_results(place: Place) -> None:
    """Also if its worker asks again after a lost reply; and a step of its own payload gets that."""
    jobs = place.service.jobs
    for name in ("a", "b", "c"):
        await jobs.add(name, function=name)
    then: list[Step | Mapping[str, Any]] = [
        {"id": NEW, "job": "b", "joins": 2},
        {"id": NEW.replace("8e", "8f"), "job": "c", "payload": "7"},
    ]
    for _ in range(2):
        await jobs.trigger("a", then=then)
    for number in (1, 2):
        (run,) = await place.claims.claim(["a"])
        await place.claims.finish(run.run_id, run.token, result=number)
    (joined,) = await place.claims.claim(["b"], id=OTHER)
    assert joined.payload is not None and sorted(json.loads(joined.payload)) == [1, 2]
    assert await place.claims.claim(["b"], id=OTHER) == [joined]
    assert [run.payload for run in await place.claims.claim(["c"], limit=2)] == ["7"]


@virtually
async def test_a_worker_spawns_runs(place: Place) -> None:
    """Its run waits for them; the end of the last one, at any place, ends it with their results."""
    await place.service.jobs.add("part", function="send", max_running=0)
    await place.ask("p")
    (run,) = await place.claims.claim(["resize"], worker="ada")
    with pytest.raises(InvalidInput, match="spawn"):
        await place.claims.finish(run.run_id, run.token, spawn=[{"job": "part", "key": "k"}])
    parts: list[dict[str, object]] = [{"job": "part", "payload": {"page": 1}}, {"job": "part"}]
    assert await place.claims.finish(run.run_id, run.token, spawn=parts) is RunState.WAITING
    spawned = await place.claims.claim(["send"], limit=5)
    assert [(each.payload, each.parent_id) for each in spawned] == [('{"page":1}', run.run_id), (None, run.run_id)]
    (reason,) = (await place.service.runs.why(run.run_id)).reasons
    assert reason.text == "it waits for 2 of the 2 runs that it has spawned"
    for number, each in enumerate(spawned):
        await place.claims.finish(each.run_id, each.token, result=number)
    ended = await place.run(run.run_id)
    assert (ended.state, ended.result, ended.attempt, ended.details.worker) == ("succeeded", "[0,1]", 1, "ada")


@virtually
async def test_each_gets_what_it_can_do(place: Place) -> None:
    """Only runs of functions of these types, never a command, as many as it asks for, and each once."""
    await place.service.jobs.trigger((await place.service.jobs.add(None, noop=True)).id)
    await place.ask(function="send")
    for _ in range(3):
        await place.ask()
    assert len(await place.claims.claim(["resize"], limit=2)) == 2
    _, other = place.another()
    assert len(await other.claim(["resize"], limit=5)) == 1
    assert await place.claims.claim(["resize", "unheard of"]) == []


@virtually
async def test_labels_are_asked_for(place: Place) -> None:
    """A job that wants a label goes to a worker that has it."""
    await place.ask(labels={"gpu": "yes"})
    assert await place.claims.claim(["resize"]) == []
    assert len(await place.claims.claim(["resize"], labels={"gpu": "yes"})) == 1


@virtually
async def test_a_worker_waits_for_the_first_run(place: Place) -> None:
    """It is answered as soon as there is one, and with nothing when its time is over."""
    loop = asyncio.get_running_loop()
    assert await place.claims.claim(["resize"], wait=7) == []
    assert loop.time() == pytest.approx(7, abs=0.1)
    waiting = asyncio.ensure_future(place.claims.claim(["resize"], wait=60))
    await let_pass(10)
    assert not waiting.done()
    began = loop.time()
    await place.ask()
    assert len(await waiting) == 1
    assert loop.time() - began < 0.1


@virtually
async def test_who_is_silent_loses_its_run(place: Place) -> None:
    """Heartbeats keep a run for as long as they come; without one it is lost, and its worker's word changes nothing."""
    await place.ask(retry={"lost_attempts": 1})
    (run,) = await place.claims.claim(["resize"], alive_time=10)
    for _ in range(5):
        await let_pass(8)
        await place.claims.heartbeat(run.run_id, run.token)
    assert await place.state(run.run_id) is RunState.RUNNING
    await let_pass(13)
    assert (await place.run(run.run_id)).lost == 1
    for said in (
        place.claims.finish(run.run_id, run.token),
        place.claims.heartbeat(run.run_id, run.token),
        place.claims.fail(run.run_id, run.token, error="x"),
    ):
        with pytest.raises(ClaimLost, match="said nothing for 10 s"):
            await said
    (again,) = await place.claims.claim(["resize"])
    assert (again.run_id, again.attempt, again.token) == (run.run_id, 2, 2)
    with pytest.raises(ClaimLost):
        await place.claims.finish(run.run_id, run.token)
    assert await place.claims.finish(again.run_id, again.token) is RunState.SUCCEEDED


@virtually
async def test_no_worker_gets_what_has_expired(place: Place) -> None:
    """A run whose request has expired ends as skipped when it is claimed, and the next one is given out then."""
    job = (await place.ask("keeps")).job_id
    late = await place.service.jobs.trigger(job, expires="2s", priority=9)
    await let_pass(3)
    assert await place.claims.claim(["resize"]) == []
    (run,) = await place.claims.claim(["resize"])
    assert (run.payload, (await place.run(late.id)).state) == ("keeps", RunState.SKIPPED)
    assert "had not begun by" in str((await place.run(late.id)).error)
    assert await place.store.attempts(RunId(late.id)) == []


@virtually
async def test_no_worker_gets_what_is_not_approved(place: Place) -> None:
    """A run asks when it is claimed, has begun no attempt, and is given out once it is approved."""
    asks = await place.ask("pay", approval=True, approve_within=60)
    assert await place.claims.claim(["resize"]) == []
    run = await place.run(asks.id)
    assert (run.state, run.details.unbegun, await place.store.attempts(run.id)) == (RunState.HELD, 1, [])
    assert len(await place.store.list_documents(EXPIRY)) == 1
    await place.service.runs.approve(run.id)
    await place.store.promote(await place.store.now(), 10)
    (given,) = await place.claims.claim(["resize"])
    assert (given.run_id, given.payload) == (run.id, "pay")


@virtually
async def test_the_time_of_a_job_is_over_for_workers_too(place: Place) -> None:
    """Whoever takes longer than the job's time-out loses the run, however often it says that it lives."""
    await place.ask(timeout=20)
    (run,) = await place.claims.claim(["resize"], alive_time=60)
    await let_pass(23)
    ended = await place.run(run.run_id)
    assert (ended.state, ended.error) == (RunState.FAILED, "it took longer than 20 s")
    with pytest.raises(ClaimLost, match="longer than 20 s"):
        await place.claims.heartbeat(run.run_id, run.token)


@virtually
async def test_what_a_worker_can_say(place: Place) -> None:
    """Fail, retry, release and hold do what they do in a function: each is counted, or not, in the same way."""
    claims, found = place.claims, {}
    for said in ("fail", "retry", "release", "hold"):
        await place.ask(retry={"attempts": 2, "delay": 100})
        (run,) = await claims.claim(["resize"])
        match said:
            case "fail":
                await claims.fail(run.run_id, run.token, error="no luck")
            case "retry":
                await claims.retry(run.run_id, run.token, after=50)
            case "hold":
                await claims.hold(run.run_id, run.token, reason="look at it")
            case _:
                await claims.release(run.run_id, run.token)
        ended = await place.run(run.run_id)
        found[said] = (ended.state.value, ended.failures, ended.error)
        if said == "release":
            (run,) = await claims.claim(["resize"])
            await claims.finish(run.run_id, run.token)
    assert found == {
        "fail": ("waiting", 1, "no luck"),
        "retry": ("waiting", 0, None),
        "release": ("ready", 0, "its worker released it"),
        "hold": ("held", 0, "look at it"),
    }


@virtually
async def test_a_claim_counts_as_begun_where_none_may_be_lost(place: Place) -> None:
    """A door that stops, or a silent worker, fails the run; one that its own worker releases goes on."""
    found = {}
    for said in ("release", "silence", "close"):
        await place.ask(retry={"lost_attempts": 0})
        (run,) = await place.claims.claim(["resize"], alive_time=5)
        match said:
            case "release":
                await place.claims.release(run.run_id, run.token)
                found["release"] = (await place.run(run.run_id)).state.value
                (run,) = await place.claims.claim(["resize"], alive_time=60)
                await place.claims.finish(run.run_id, run.token)
            case "silence":
                await let_pass(9)
                found[said] = (await place.run(run.run_id)).state.value
            case _:
                await place.places[0].close()
                found[said] = (await place.run(run.run_id)).state.value
    assert found == {"release": "ready", "silence": "failed", "close": "failed"}


@virtually
async def test_said_twice_changes_nothing(place: Place) -> None:
    """The same word again has the same answer, also where the store's reply was lost; another word is refused."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    place.link.lose_reply["settle"] = 1
    assert await place.claims.finish(run.run_id, run.token, result="a") is RunState.SUCCEEDED
    assert await place.claims.finish(run.run_id, run.token, result="b") is RunState.SUCCEEDED
    with pytest.raises(ClaimLost, match="`finish` was said of it"):
        await place.claims.fail(run.run_id, run.token, error="x")
    assert (await place.run(run.run_id)).result == "a"


@virtually
async def test_two_words_at_once(place: Place) -> None:
    """While one word is on its way to the store, another one is refused, and the same one is answered alike."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    key = run.run_id, run.token
    claims: Claims[Inside] = place.claims
    words: list[Awaitable[object]] = [claims.finish(*key), claims.fail(*key, error="x"), claims.finish(*key)]
    first, other, same = await asyncio.gather(*words, return_exceptions=True)
    assert (first, same) == (RunState.SUCCEEDED, RunState.SUCCEEDED)
    assert isinstance(other, ClaimLost)


@virtually
async def test_a_claim_whose_answer_was_lost_is_asked_again(place: Place) -> None:
    """Under the same id a worker gets the same runs, and no others."""
    for _ in range(2):
        await place.ask()
    first = await place.claims.claim(["resize"], limit=3, id=UUID)
    assert await place.claims.claim(["resize"], limit=3, id=UUID) == first
    assert await place.claims.claim(["resize"], limit=5) == []


@virtually
async def test_a_claim_that_nobody_waits_for_goes_back(place: Place) -> None:
    """What the store gave to somebody who had gone by then is handed back, which counts for nothing."""
    run = await place.ask()
    await place.claims.claim(["none"])  # takes part
    claim = place.store.claim
    place.store.claim = _then_cancelled(claim)  # type: ignore[method-assign]
    asked = asyncio.ensure_future(place.claims.claim(["resize"], wait=30))
    with pytest.raises(asyncio.CancelledError):
        await asked
    place.store.claim = claim  # type: ignore[method-assign]
    assert await place.state(run.id) is RunState.RUNNING
    waiting = await place.claims.claim(["resize"], wait=30)
    assert [each.run_id for each in waiting] == [run.id]
    assert (await place.run(run.id)).lost == 0


def _then_cancelled(claim: Callable[..., Awaitable[Any]]) -> Any:
    async def claimed(*args: object) -> object:
        await claim(*args)
        raise asyncio.CancelledError

    return claimed


@virtually
async def test_an_order_to_cancel_reaches_the_worker(place: Place) -> None:
    """It comes with the next heartbeat; then what the worker says cancels the run, unless it has succeeded."""
    await place.ask(retry={"attempts": 5})
    (run,) = await place.claims.claim(["resize"])
    await place.service.runs.cancel(run.run_id, "no more")
    await let_pass(3)
    assert (await place.claims.heartbeat(run.run_id, run.token)).cancel == "no more"
    assert await place.claims.fail(run.run_id, run.token, error="stopped") is RunState.CANCELLED


@virtually
async def test_a_worker_hears_no_other_order(place: Place) -> None:
    """Who would restart its run is told so, and how to cancel it: he does not wait for what never comes."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    for order in (place.service.runs.restart(run.run_id), place.service.runs.signal(run.run_id, "reload")):
        with pytest.raises(Refused, match="receives no orders but to cancel"):
            await order


@virtually
async def test_another_place_does_not_know_the_worker(place: Place) -> None:
    """Whoever speaks at another place than that of its claim is told so, and its run goes on."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    _, other = place.another()
    with pytest.raises(Refused, match="at another place"):
        await other.finish(run.run_id, run.token)
    with pytest.raises(ClaimLost):
        await other.finish(run.run_id, run.token + 1)
    assert await place.state(run.run_id) is RunState.RUNNING


@virtually
async def test_a_place_that_died_loses_its_runs_and_no_more(place: Place) -> None:
    """Others take them over by the ordinary rule; whoever worked on them there hears that its claim is lost."""
    await place.ask()
    link, dead = place.another()
    (run,) = await dead.claim(["resize"], alive_time=600)
    link.away = True
    await place.claims.claim(["none"])
    watching = asyncio.ensure_future(place.claims.claim(["none"], wait=60))
    await let_pass(DEAD_AFTER + 5)
    nodes = await place.store.list_nodes()
    assert NodeState.DEAD in {node.state for node in nodes}
    with pytest.raises(StoreUnavailable):
        await dead.finish(run.run_id, run.token)
    link.away = False
    with pytest.raises(ClaimLost):
        await dead.finish(run.run_id, run.token)
    assert await place.state(run.run_id) is RunState.RUNNING  # a dead node's still: a node's reaper settles it
    watching.cancel()


@virtually
async def test_a_place_that_stops(place: Place) -> None:
    """Who waits is answered, nobody gets a run any more, and what is in hand goes back, which counts for nothing."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    waiting = asyncio.ensure_future(place.claims.claim(["resize"], wait=60))
    await let_pass(1)
    place.gives = False
    await let_pass(1)
    assert waiting.done()
    assert await waiting == []
    with pytest.raises(Refused, match="stops"):
        await place.claims.claim(["resize"])
    assert (await place.claims.heartbeat(run.run_id, run.token)).cancel is None
    await place.close()
    ended = await place.run(run.run_id)
    assert (ended.state, ended.lost, ended.failures) == (RunState.READY, 0, 0)
    with pytest.raises(ClaimLost, match="stops"):
        await place.claims.finish(run.run_id, run.token)


@virtually
async def test_no_more_wait_than_may(place: Place) -> None:
    """Whoever wants to wait when too many do is refused at once, with how many may and what is answered all the same.

    Who does not wait has a place of their own, and so has whoever works on a run.
    """
    await place.ask(function="b")
    (held,) = await place.claims.claim(["b"])
    waiting = [asyncio.ensure_future(place.claims.claim(["a"], wait=30)) for _ in range(MOST_WAITING)]
    await let_pass(1)
    with pytest.raises(Refused, match="as many as may") as refused:
        await place.claims.claim(["a"], wait=0.1)
    assert str(refused.value.allowed).startswith(f"{MOST_WAITING} at a time; wait = 0, which is always answered")
    assert await place.claims.claim(["a"]) == []
    await place.claims.heartbeat(held.run_id, held.token)
    assert await place.claims.finish(held.run_id, held.token) is RunState.SUCCEEDED
    calls = place.link.calls["survey"]
    await place.ask(function="b")
    await let_pass(1)
    assert place.link.calls["survey"] - calls < 10, "all who wait look once"
    await asyncio.gather(*waiting)


WRONG: tuple[tuple[str, object], ...] = (
    ("types", []),
    ("types", "resize"),
    ("types", ["a|b"]),
    ("types", [7]),
    ("types", ["x"] * 101),
    ("limit", 0),
    ("limit", 101),
    ("limit", "1"),
    ("wait", -1),
    ("wait", 61),
    ("wait", "soon"),
    ("alive_time", 0.5),
    ("alive_time", 86_401),
    ("worker", ""),
    ("worker", "a\nb"),
    ("worker", 7),
    ("labels", ["a"]),
    ("labels", {"a": "b c"}),
    ("id", "x"),
)


@pytest.mark.parametrize(("field", "value"), WRONG)
async def test_a_wrong_wish_is_named(field: str, value: object) -> None:
    """A wish that can't be had is refused with the field, the value and what is allowed."""
    fields: dict[str, Any] = {"types": ["a"], field: value}
    types = fields.pop("types")
    with pytest.raises(InvalidInput) as refused:
        await Place().claims.claim(types, **fields)
    assert refused.value.field == field
    assert refused.value.allowed


@virtually
async def test_a_wrong_word_is_named(place: Place) -> None:
    """A word that can't be kept is refused, and the run stays with its worker."""
    await place.ask()
    (run,) = await place.claims.claim(["resize"])
    claims, key = place.claims, (run.run_id, run.token)
    for field, said in {
        "run": claims.finish("x", 1),
        "token": claims.finish(run.run_id, 0),
        "result": claims.finish(*key, result={"a": {1}}),
        "output": claims.finish(*key, output=b"x"),  # type: ignore[arg-type]
        "error": claims.fail(*key, error="a\0b"),
        "at": claims.retry(*key, after=1, at="2030-01-01T00:00:00Z"),
        "after": claims.retry(*key, after=-1),
        "reason": claims.hold(*key, reason=7),  # type: ignore[arg-type]
        "alive_time": claims.heartbeat(*key, alive_time=0),
    }.items():
        with pytest.raises(InvalidInput) as refused:
            await said
        assert refused.value.field == field
    assert await place.state(run.run_id) is RunState.RUNNING


@virtually
async def test_an_idle_place_leaves(place: Place) -> None:
    """A minute after the last worker has gone it takes part no more, and leaves no row behind."""
    assert await place.claims.claim(["a"]) == []
    assert len(await place.store.list_nodes()) == 1
    await let_pass(70)
    assert await place.store.list_nodes() == []
    assert len(await place.service.runs.list()) == 0


@virtually
async def test_any_function_of_a_queue(place: Place) -> None:
    """Without types a worker gets runs of whatever function, of one queue where it names that, and never a command."""
    await place.service.jobs.trigger((await place.service.jobs.add(None, noop=True, queue="mail")).id)
    await place.ask(queue="mail")
    await place.ask(function="send", queue="mail")
    await place.ask(function="send")
    assert [run.type for run in await place.claims.claim(["send"], queue="mail", limit=5)] == ["send"]
    assert [run.type for run in await place.claims.claim(None, queue="mail", limit=5)] == ["resize"]
    assert [run.type for run in await place.claims.claim(None, limit=5)] == ["send"]


@virtually
async def test_a_worker_gets_the_payload_of_the_job(place: Place) -> None:
    """A run that brings no payload has that of its job, and the same again however the job is edited meanwhile."""
    await place.service.jobs.add("j", function="resize", payload={"k": 1})
    run = await place.service.jobs.trigger("j")
    (first,) = await place.claims.claim(["resize"])
    assert first.payload == '{"k":1}'
    await place.service.jobs.update("j", payload={"k": 2})
    await place.claims.retry(first.run_id, first.token, after=1)
    assert (await place.run(run.id)).details.worker == "a worker"
    await let_pass(2)
    await place.store.promote((await place.store.now()), 10)
    (second,) = await place.claims.claim(["resize"])
    assert second.payload == '{"k":1}'


@virtually
async def test_a_program_needs_no_node(place: Place) -> None:
    """What is due while a program waits becomes a run by its own work, and so do the runs of a program that died."""
    _, dead = place.another(keeps_time=True)
    await place.service.jobs.add("j", function="resize", schedule="* * * * *", retry={"lost_attempts": 1})
    link, claims = place.another(keeps_time=True)
    assert await claims.claim(["resize"]) == []
    (run,) = await dead.claim(["resize"], wait=60)
    assert run.job_id == "j"
    place.links[1].away = True
    (again,) = await claims.claim(["resize"], wait=60)
    assert (again.run_id, again.attempt) == (run.run_id, 2)
    assert link.calls["settle"] == 1


@virtually
async def test_a_program_puts_back_what_is_ahead(place: Place) -> None:
    """Where no node does: by a clock that was ahead the job would be silent for two days."""
    job = await place.service.jobs.add("j", function="resize", schedule="* * * * *", max_running=0)
    _, claims = place.another(keeps_time=True)
    due = replace(await place.store.get_due(job.id), active=0)
    ahead = Moment(await place.store.now() + 2 * DAY)
    await decide_and_apply(place.store, [due], ahead, os.urandom, schedule_for)
    for run in await place.store.list_runs(RunFilter()):
        await place.service.runs.cancel(run.id)
    taken = [run for _ in range(3) for run in await claims.claim(["resize"], wait=60)]
    assert taken != []
    assert taken[0].nominal < ahead - DAY


@pytest.mark.parametrize("phase", [0.1, 0.9, 1.7])
def test_a_silent_program_is_followed_with_a_second_to_spare(phase: float) -> None:
    """However its beats lie to those of the other program, which beats every 2 s too: 10 s are promised."""

    @virtually
    async def follow(place: Place) -> None:
        link, silent = place.another(keeps_time=True)
        _, claims = place.another(keeps_time=True)
        await place.ask(retry={"lost_attempts": 1})
        assert await claims.claim(["none"]) == []
        await let_pass(phase)
        (run,) = await silent.claim(["resize"], alive_time=600)
        beats = link.calls["tick"]
        while link.calls["tick"] == beats:
            await let_pass(0.01)
        link.away = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        (again,) = await claims.claim(["resize"], wait=60)
        assert (again.run_id, again.attempt) == (run.run_id, 2)
        assert loop.time() - began < 2 + DEAD_AFTER + 0.1

    follow()


@virtually
async def test_what_was_claimed_with_an_access_token_is_ended_with_it(place: Place) -> None:
    """Wherever its job has gone meanwhile, and said again, too; neither with another one nor under another token."""

    def claims(name: str) -> Claims[Inside]:
        access = Access(author=name, role=Role.OPERATE, scope=Scope(queues=("mail",)))
        return authorized(place.door(), access).claims

    first, second = await place.ask(queue="mail"), await place.ask(queue="mail")
    runs = await claims("ci").claim(["resize"], queue="mail", limit=2)
    for run in runs:
        await place.service.jobs.update(run.job_id, queue="web")
    assert (await claims("ci").heartbeat(first.id, 1)).run_id == first.id
    for act in (claims("cd").finish(first.id, 1), claims("ci").finish(first.id, 2), claims("ci").finish(UUID, 1)):
        with pytest.raises((Forbidden, NotFound)):
            await act
    for _ in range(2):
        assert await claims("ci").finish(first.id, 1) is RunState.SUCCEEDED
    assert await claims("ci").release(second.id, 1) is RunState.READY
    with pytest.raises(Forbidden):
        await claims("ci").finish(second.id, 2)


@virtually
async def test_a_claim_is_asked_again_with_the_same_access_token(place: Place) -> None:
    """Who knows the id of a claim that somebody else has made gets none of its runs."""
    run = await place.ask(queue="mail")
    ci, cd = (authorized(place.door(), Access(author=name, role=Role.OPERATE)).claims for name in ("ci", "cd"))
    of_owner = authorized(place.door(), owner("ci")).claims
    assert [each.run_id for each in await ci.claim(["resize"], id=UUID)] == [run.id]
    for other in (cd, of_owner):
        with pytest.raises(Refused, match="somebody else"):
            await other.claim(["resize"], id=UUID)
    assert [each.run_id for each in await ci.claim(["resize"], id=UUID)] == [run.id]
