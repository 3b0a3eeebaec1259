"""Runs HTTP targets: sends the request, and makes an outcome of the answer, or of the callback that comes later."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from tokimori.clock import Clock, Moment
from tokimori.errors import Bug, InvalidInput, Refused
from tokimori.executors.hiding import hidden_in
from tokimori.executors.http.addresses import Network
from tokimori.executors.http.body import Body
from tokimori.executors.http.callbacks import Callbacks
from tokimori.executors.http.request import request_of
from tokimori.executors.http.response import Later, meaning_of
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.outcomes import stopped
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Failed, Outcome, Released, TimedOut
from tokimori.model.target import Http
from tokimori.ports.executor import Ended, Grew, Report, StopReason, Task

if TYPE_CHECKING:
    from tokimori.executors.http.session import Session

log = logging.getLogger(__name__)

TIMEOUT = 30.0
"""Seconds that a request may take, answer and all, where its job says nothing."""
GREW_EVERY = 1.0
LEASE_IS_OVER = Released("its node's lease ran out")


class Attempt:
    """An attempt in hand. `ending` is what it ends with, whatever its request comes to."""

    def __init__(self, task: Task, target: Http) -> None:
        self.task = task
        self.target = target
        self.body = Body(task.hidden)
        self.work: asyncio.Task[Outcome] | None = None
        self.began: Moment | None = None
        self.ending: Outcome | None = None
        self.told = 0.0

    def end(self, outcome: Outcome) -> bool:
        """End it now, which closes its connection; whether it ends with this outcome. The first one counts."""
        if self.ending is not None or self.work is None or self.work.done():
            return False
        self.ending = outcome
        self.work.cancel()
        return True


class HttpExecutor:
    """Sends requests from the node itself: what a service says is data, and nothing of it is carried out.

    `networks` are those that may be asked though they are not public.
    """

    def __init__(self, clock: Clock, networks: Sequence[Network] = (), callbacks: Callbacks | None = None) -> None:
        self._clock = clock
        self._networks = networks
        self._callbacks = callbacks or Callbacks()
        self._report: Callable[[Report], None] | None = None
        self._attempts: dict[tuple[RunId, Token], Attempt] = {}
        self._session: asyncio.Task[Session] | None = None
        self._lease_over: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def open(self, report: Callable[[Report], None]) -> None:
        """From now on tell `report`."""
        self._report = report

    def start(self, tasks: Sequence[Task]) -> None:
        """Send these requests."""
        for task in tasks:
            if not isinstance(task.target, Http):
                raise Bug(f"a {type(task.target).__name__} was given to the executor of requests")
            attempt = Attempt(task, task.target)
            self._attempts[task.run_id, task.token] = attempt
            attempt.work = asyncio.get_running_loop().create_task(self._carry_out(attempt))
            attempt.work.add_done_callback(partial(self._ended, attempt))
        self._watch_lease()

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt at once: a service has no way to hear of it but the end of the connection."""
        attempt = self._attempts.get((run_id, token))
        if attempt is not None:
            self._end(attempt, stopped(reason))

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        """End an attempt, which no callback does any more."""
        self._callbacks.forget(attempt.task.run_id, attempt.task.token)
        attempt.end(outcome)

    def renew(self, sent: float) -> None:
        """Move the lease's deadline."""
        self._lease_over = sent + LEASE
        self._watch_lease()

    def _watch_lease(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._lease_over is not None and any(each.task.kill_on_lost_lease for each in self._attempts.values()):
            delay = max(0.0, self._lease_over - boottime())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._lease_ran_out)

    def _lease_ran_out(self) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.task.kill_on_lost_lease:
                self._end(attempt, LEASE_IS_OVER)

    def forget(self, before: Moment) -> None:
        """Nothing is left on this machine."""

    async def close(self) -> None:
        """End what is left, and close all connections."""
        if self._alarm is not None:
            self._alarm.cancel()
        works = [each.work for each in self._attempts.values() if each.work is not None]
        for attempt in list(self._attempts.values()):
            self._end(attempt, stopped(StopReason.RELEASE))
        if works:
            await asyncio.wait(works)
        if self._session is not None:
            session = await self._session
            await session.close()

    # One attempt

    async def _carry_out(self, attempt: Attempt) -> Outcome:
        """The outcome of the attempt. A callback ends it from outside, as an order to stop does."""
        task, target = attempt.task, attempt.target
        attempt.began, attempt.told = self._clock.now(), self._clock.monotonic()
        timeout = TIMEOUT if task.timeout is None else task.timeout
        try:
            async with asyncio.timeout(timeout):
                meaning = await self._asked(attempt)
        except TimeoutError:
            return TimedOut(f"it took longer than {timeout:g} s")
        except (InvalidInput, Refused) as fault:
            return Failed(fault.message, final=True)
        if not isinstance(meaning, Later):
            return meaning
        self._grew(attempt, last=True)
        within = target.callback_within or 0
        await asyncio.sleep(within)
        return TimedOut(f"the service did not say within {within:g} s how it ended")

    async def _asked(self, attempt: Attempt) -> Outcome | Later:
        task, target = attempt.task, attempt.target
        callback = None
        if target.callback_within is not None:
            callback = self._callbacks.expect(task.run_id, task.token, attempt.end)
        request = request_of(task, target, callback)
        session = await self._opened()
        answer = await session.send(request, attempt.body, lambda: self._grew(attempt))
        if isinstance(answer, Failed):
            return answer
        if task.hidden and answer.location is not None:  # before a part of it is cut off
            answer = replace(answer, location=hidden_in(answer.location, task.hidden))
        result = attempt.body.result()
        return meaning_of(answer, target.expect, may_say_later=callback is not None, result=result)

    async def _opened(self) -> "Session":
        """The session of all requests. A node that sends none does not load what it needs."""
        if self._session is None:
            self._session = asyncio.get_running_loop().create_task(self._make_session())
        return await asyncio.shield(self._session)

    async def _make_session(self) -> "Session":
        module = await asyncio.to_thread(import_module, "tokimori.executors.http.session")
        session: Session = module.Session(self._networks)
        return session

    def _grew(self, attempt: Attempt, *, last: bool = False) -> None:
        """Tell what came so far, once a second."""
        now = self._clock.monotonic()
        if attempt.body.size and (last or now - attempt.told >= GREW_EVERY):
            attempt.told, task = now, attempt.task
            output = attempt.body.so_far(task.run_id, task.attempt)
            self._tell(Grew(run_id=task.run_id, token=task.token, output=output))

    def _ended(self, attempt: Attempt, work: "asyncio.Task[Outcome]") -> None:
        """Tell how it ended, whatever ended it."""
        task = attempt.task
        self._attempts.pop((task.run_id, task.token), None)
        self._callbacks.forget(task.run_id, task.token)
        self._tell(
            Ended(
                run_id=task.run_id,
                token=task.token,
                outcome=_outcome(attempt, work),
                at=self._clock.now(),
                started=attempt.began,
                output=attempt.body.output(task.run_id, task.attempt),
            )
        )

    def _tell(self, report: Report) -> None:
        if self._report is not None:
            self._report(report)


def _outcome(attempt: Attempt, work: "asyncio.Task[Outcome]") -> Outcome:
    if work.cancelled():
        return attempt.ending or stopped(StopReason.RELEASE)
    if (fault := work.exception()) is not None:
        log.error("the request of run %s failed in this program itself", attempt.task.run_id, exc_info=fault)
        return Failed(f"the node could not send the request: {type(fault).__name__}; its log says more")
    return attempt.ending or work.result()
