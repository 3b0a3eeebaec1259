"""Rehearsals: an app at work in a test, on a store in memory and with a clock that goes on only by order.

from tokimori.testing import Rehearsal

def test_there_is_a_report_each_day() -> None:
    with Rehearsal(app, at="2026-01-01T00:00:00Z") as rehearsal:
        rehearsal.pass_time(days=365)
        assert len(rehearsal.runs("nightly")) == 365
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar, cast

from tokimori.apps.app import App
from tokimori.apps.attempt import RunningAttempt
from tokimori.apps.clients import Places, Ways
from tokimori.apps.streams import RunStream
from tokimori.apps.task import task_in_hand
from tokimori.client.asynchronous import AsyncClient, client_on
from tokimori.client.client import Client
from tokimori.client.opening import Stores, this_program
from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput, Refused, TokimoriError
from tokimori.executors.functions import wire
from tokimori.executors.functions.attempts import begin_of, outcome_of, output_of
from tokimori.executors.secrets import gets_list, with_parents
from tokimori.model.attempt_notes import Notes
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Run
from tokimori.model.target import Function
from tokimori.model.transitions import ENDS
from tokimori.ports.executor import AttemptTask, Noted
from tokimori.service.search.runs import parent_runs
from tokimori.service.service import service_on
from tokimori.service.sets.app_jobs import Declared, declare
from tokimori.service.validation import When, moment_of, seconds_of
from tokimori.testing.manual import ManualNode, WrittenEnd

MOST_OF_A_DRAIN = timedelta(days=366)
"""A drain that has not ended after so much time on the rehearsal's clock never will."""
_ONE_BY_ONE = "to wait in the test, or `return tokimori.spawn([…])`: a rehearsal runs one function after the other"
_NEW_YEAR = "2026-01-01T00:00:00Z"
_T = TypeVar("_T")


class Rehearsal:
    """The app, its declared jobs, and a real node that is ticked by hand: `with Rehearsal(app) as rehearsal:`.

    Functions run one after the other, each in a thread of its own, and take no time on the clock, which begins `at` a
    moment. What they print is their output. `enqueue` and `app.client` reach the rehearsal's store. Commands and
    requests of other jobs are not carried out: they succeed. `seed`: the same one makes the same ids.
    """

    def __init__(self, app: App, *, at: When = _NEW_YEAR, time_zone: str = "UTC", seed: int = 0) -> None:
        self.app = app
        self._time_zone = time_zone
        self._start = moment_of("at", at, time_zone)
        self._seed = seed
        self._stack = ExitStack()
        self._number = 0
        self._turn = RLock()
        self._lasts = False

    def __enter__(self) -> Self:
        if self.app._client is not None:
            raise Refused(
                f"the app {self.app.name!r} uses a store already: its client was opened, or it is in a rehearsal",
                field="app",
                value=self.app.name,
                allowed="an app of which no function was enqueued before",
            )
        with ExitStack() as stack:
            self._lasts = True
            stack.callback(setattr, self, "_lasts", False)
            self._runs_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tokimori-rehearsal-")))
            self._threads = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="rehearsal"))
            self._runner, self._loop = asyncio.Runner(), asyncio.Runner()
            stack.callback(self._outside_loop, self._runner.close)
            stack.callback(lambda: self._threads.submit(self._loop.close).result())
            handlers = tuple(route.handler for route in self.app.routes)
            self.node = ManualNode(
                self._carry_out, start=self._start, seed=self._seed, concurrency=1, handlers=handlers
            )
            self.client = Client(self._new_client)
            stack.callback(self.client.close)
            self._run(self._join)
            self.app._client = self.client
            stack.callback(setattr, self.app, "_client", None)
            stack.callback(setattr, self.app, "ways", self.app.ways)
            self.app.ways = Ways(self._open_client)  # which handles have, also afterwards
            self.app.ways.places, self.app.ways.pass_time = Places(1, _ONE_BY_ONE), self._await
            self._threads.submit(lambda: self._loop.run(self.app.hooks.start())).result()
            stack.callback(lambda: self._threads.submit(lambda: self._loop.run(self.app.hooks.stop())).result())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    async def _join(self) -> None:
        hello, store = self.app._hello(0, os.getpid()), self.node.store
        await self.node.join()
        service = service_on(store, self.node.clock, os.urandom, time_zone=self._time_zone)
        declared = Declared(app=self.app.name, jobs={job.id: job.fields for job in hello.jobs})
        await declare(service.acting_as(f"app {self.app.name}").jobs, declared)

    def _new_client(self) -> AsyncClient:
        program = this_program({})
        return client_on(
            Stores(self.node.store),
            self.node.clock,
            os.urandom,
            program=program,
            time_zone=self._time_zone,
            author=f"app {self.app.name}",
        )

    def _open_client(self) -> Client:
        self._check_lasts()
        return self.client

    def _check_lasts(self) -> None:
        if not self._lasts:
            message = f"the rehearsal of the app {self.app.name!r} has not begun, or is over, and its store with it"
            allowed = "what is asked for within `with Rehearsal(app) as rehearsal:`"
            raise Refused(message, field="app", value=self.app.name, allowed=allowed)

    # Time

    def pass_time(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let so much time pass, and run what becomes due, each at its moment."""
        wanted = days * 86_400 + hours * 3_600 + minutes * 60 + seconds
        if wanted < 0:
            raise InvalidInput("time goes on only", field="seconds", value=wanted, allowed="0 or more")
        span = seconds_of("seconds", wanted)
        self._run(lambda: self.node.pass_time(span))

    def run_due(self) -> None:
        """Run what is due now."""
        self.pass_time()

    def drain(self) -> None:
        """Let time pass until every run that there is now has ended: retries and what was asked for later included.

        Raises `Refused` if one has not after a year, as one that is held, or waits for a job that is paused.
        """
        waited_for = {run.id for run in self.runs() if run.state not in ENDS}
        left = self._pass_until_ended(waited_for, MOST_OF_A_DRAIN.total_seconds())
        if left is not None:
            raise Refused(
                f"the run {left.id} of {left.job_id} is still {left.state} after a year",
                field="run",
                value=left.id,
                allowed="a run that nothing holds up",
            )

    def _await(self, run_id: str, seconds: float | None) -> None:
        """Let time pass until a run has ended for whose result somebody waits, at most so long or a year."""
        with self._turn:  # of several threads that wait
            self._pass_until_ended({RunId(run_id)}, MOST_OF_A_DRAIN.total_seconds() if seconds is None else seconds)

    def _run(self, act: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return what the node does: one thread after the other. Raises `Refused` in a function that it runs."""
        self._check_lasts()
        if task_in_hand() is not None:
            message = "a function that the rehearsal runs can't let time pass, nor look at its runs"
            raise Refused(message, field="app", value=self.app.name, allowed="the test itself")
        with self._turn:
            return self._outside_loop(lambda: self._runner.run(act()))

    def _outside_loop(self, act: Callable[[], _T]) -> _T:
        """Return what the act does, in a thread of its own if an event loop runs in this one: in a test that awaits."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return act()
        with ThreadPoolExecutor(1) as aside:
            return aside.submit(act).result()

    def _pass_until_ended(self, waited_for: Set[RunId], seconds: float) -> Run | None:
        """Let time pass until these have ended, at most so long; return one that has not."""
        end, step = self.node.clock.now() + int(seconds * SECOND), SECOND
        self.run_due()
        while left := [run for run in self.runs() if run.id in waited_for and run.state not in ENDS]:
            now, upcoming = self.node.clock.now(), min(run.due for run in left)
            if now >= end:
                return left[0]
            step = SECOND if upcoming > now else 2 * step  # of what is held up nobody says until when
            self.pass_time(seconds=min(max(upcoming - now, step), end - now) / SECOND)
        return None

    # What became of it

    def runs(self, job: str | None = None) -> Sequence[Run]:
        """Return all runs, or those of a job, by the moments for which they were scheduled or asked for."""
        every = self._run(lambda: self.node.runs())  # noqa: PLW0108  there is no node before it has begun
        found = [run for run in every if job is None or run.job_id == job]
        return sorted(found, key=lambda run: (run.nominal, run.id))

    def _carry_out(self, task: AttemptTask) -> Outcome | WrittenEnd:
        if not isinstance(task.target, Function):
            return Succeeded(0)
        try:
            act = self.app.hooks.around(self.app.routes.find(task.target.name))
        except TokimoriError as fault:
            return Failed(fault.message)
        if gets_list(task):
            reading = parent_runs(self.node.store, task.parents)
            task = with_parents(task, tuple(self._threads.submit(self._loop.run, reading).result()))
        self._number += 1
        begin = begin_of(task, self._number, self.node.clock)
        attempt = RunningAttempt(begin, act, self._runs_dir, _nobody, app=self.app)

        def work() -> wire.FunctionEnded:
            return (None if iscoroutinefunction(act) else attempt.run()) or self._loop.run(attempt.run_async())

        with redirect_stdout(cast("TextIO", RunStream(sys.stdout))):
            ended = self._threads.submit(work).result()
        if (noted := attempt.take_notes()) is not None:
            notes = Notes(attempt=task.attempt, progress=noted.progress, text=noted.text, checkpoint=noted.checkpoint)
            self.node.node.receive(Noted(run_id=task.run_id, token=task.token, notes=notes))
        boot = Moment(self.node.clock.now() - int(ended.at * SECOND))
        return WrittenEnd(outcome_of(ended, None, None), output_of(task, ended, boot))


def fixture(app: App, *, at: When = _NEW_YEAR, time_zone: str = "UTC", seed: int = 0) -> Callable[..., object]:
    """Return a fixture for pytest that is a new `Rehearsal` of the app for each test: `rehearsal = fixture(app)`."""
    import pytest  # noqa: PLC0415  only who tests has it

    def rehearsal() -> Iterator[Rehearsal]:
        with Rehearsal(app, at=at, time_zone=time_zone, seed=seed) as begun:
            yield begun

    return pytest.fixture(rehearsal)


def _nobody(_: RunningAttempt) -> None:
    """Do nothing: no report is wanted while a function runs."""
