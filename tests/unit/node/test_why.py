"""A run that does not start always has a reason, and what is said to stop it does."""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.node.world import Member, World
from tokimori.clock import SECOND, Moment
from tokimori.errors import TokimoriError
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Hold, Outcome, Succeeded
from tokimori.model.run import Run
from tokimori.model.transitions import BEFORE_START, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.reasons import Cause, Why
from tokimori.service.service import service_on
from tokimori.service.why.run import SOON

JOBS: dict[str, dict[str, Any]] = {
    "free": {},
    "one": {"max_running": 1},
    "queued": {"schedule": "every 4 seconds", "on_overlap": "queue", "queue": "mail"},
    "parks": {"on_exhausted": "park", "max_running": 2},
    "retries": {"retry": {"attempts": 3, "delay": 5, "epsilon": 30}},
    "keyed": {"concurrency_key": "k", "max_running_per_key": 1},
    "light": {"semaphores": ["db"]},
    "heavy": {"semaphores": ["db:2", "other"], "max_running": 2},
    "gpu": {"labels": {"gpu": "yes"}},
    "function": {"function": "reports.nightly"},
    "mail": {"queue": "mail", "priority": 5},
}
STOPS = {Cause.PAUSED, Cause.PARKED, Cause.QUEUE_PAUSED, Cause.HELD, Cause.NO_NODE, Cause.NO_SUCH_NODE, Cause.TOO_HEAVY}
"""While nobody mends them nothing starts."""

names = st.sampled_from(sorted(JOBS))
queues = st.sampled_from(["mail", "default", None])
ends = st.sampled_from([Succeeded(0), Failed(error="no luck"), Hold("look at it")])
steps = st.one_of(
    st.tuples(st.just("trigger"), names, st.integers(1, 4)),
    st.tuples(st.just("force"), names),
    st.tuples(st.just("later"), names, st.integers(1, 30)),
    st.tuples(st.sampled_from(["pause", "resume"]), names),
    st.tuples(st.sampled_from(["pause queue", "resume queue"]), queues),
    st.tuples(st.sampled_from(["hold", "cancel", "let go"]), st.integers(0, 30)),
    st.tuples(st.just("units"), st.integers(1, 3)),
    st.tuples(st.just("update"), st.sampled_from(["one", "parks", "heavy"]), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 10), ends),
    st.tuples(st.just("pass"), st.integers(1, 12)),
)


class Played:
    """A node of a few places beside a service, on one store in memory: time goes on by hand."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.service = service_on(self.world.store, self.world.clock, os.urandom)

    async def begin(self, places: int) -> Member:
        """Add all jobs, and let the node join."""
        member = await self.world.join(concurrency=places)
        await self.service.semaphores.set("db", 2)
        for name, terms in JOBS.items():
            await self.service.jobs.add(name, **(terms if "function" in terms else {"noop": True, **terms}))
        return member

    async def do(self, member: Member, step: tuple[Any, ...]) -> None:
        """One step; what is refused changes nothing."""
        word, what, *rest = step
        service, world = self.service, self.world
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "trigger": lambda: service.jobs.trigger_many(what, [{}] * rest[0]),
            "force": lambda: service.jobs.trigger(what, force=True),
            "later": lambda: service.jobs.trigger(what, at=Moment(world.clock.now() + rest[0] * SECOND)),
            "pause": lambda: service.jobs.pause(what),
            "resume": lambda: service.jobs.resume(what),
            "pause queue": lambda: service.queues.pause(what),
            "resume queue": lambda: service.queues.resume(what),
            "units": lambda: service.semaphores.set("db", what),
            "update": lambda: service.jobs.update(what, max_running=rest[0]),
            "hold": lambda: self._to_run(service.runs.hold, what),
            "cancel": lambda: self._to_run(service.runs.cancel, what),
            "let go": lambda: self._to_run(service.runs.resume, what),
            "end": lambda: self._end(member, what, rest[0]),
            "pass": lambda: world.pass_time(what),
        }
        with suppress(TokimoriError):
            await acts[word]()

    async def _end(self, member: Member, number: int, outcome: Outcome) -> None:
        if member.executor.running:
            member.executor.end(member.executor.running[number % len(member.executor.running)], outcome)

    async def _to_run(self, act: Callable[[str], Awaitable[object]], number: int) -> None:
        if runs := await self.waiting(BEFORE_START | {RunState.HELD}):
            await act(runs[number % len(runs)].id)

    async def waiting(self, states: frozenset[RunState] = BEFORE_START) -> Sequence[Run]:
        """The runs in these states."""
        return await self.world.store.list_runs(RunFilter(states=states, limit=10**6))

    async def why(self, run_id: RunId) -> Why:
        """What holds it."""
        return await self.service.runs.why(run_id)


@settings(max_examples=examples(80))
@given(st.lists(steps, min_size=4, max_size=40), st.integers(1, 4), st.integers(0, 99))
async def test_what_does_not_start_always_has_a_reason(steps: list[tuple[Any, ...]], places: int, seed: int) -> None:
    """Whatever people do: what is not started 10 s later has another reason than that it is about to.

    What was said to stop a run has stopped it for these 10 s, and a run that is named as a holder runs, or is ready.
    """
    played = Played(seed)
    member = await played.begin(places)
    for step in steps:
        await played.do(member, step)
    await played.world.pass_time(1)
    before = {run.id: (run.attempt, await played.why(run.id)) for run in await played.waiting()}
    await played.world.pass_time(SOON)
    for run_id, (attempt, why) in before.items():
        run = await played.world.store.get_run(run_id)
        causes = {reason.cause for reason in why.reasons}
        if run.attempt != attempt:
            assert not causes & STOPS, (run, why)
        elif run.state in BEFORE_START:
            assert {reason.cause for reason in (await played.why(run_id)).reasons} - {Cause.NEXT}, (run, why)
    for run in await played.waiting():
        for holder in [holder for reason in (await played.why(run.id)).reasons for holder in reason.holders]:
            assert holder.run_id is not None
            assert (await played.world.store.get_run(holder.run_id)).state == holder.state
