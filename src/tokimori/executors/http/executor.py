"""Runs HTTP targets: sends the request, and makes an outcome of the answer, or of the callback that comes later."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.errors import Bug, InvalidInput, Refused
from tokimori.executors.http.addresses import Network
from tokimori.executors.http.callbacks import Callbacks
from tokimori.executors.http.request import Body, Later, meaning_of, request_of
from tokimori.executors.on_loop import LoopAttempt, LoopExecutor
from tokimori.executors.secrets import hidden_in
from tokimori.model.outcome import Failed, Outcome, TimedOut
from tokimori.model.run import Output
from tokimori.model.target import Http
from tokimori.ports.executor import AttemptTask, Grew

if TYPE_CHECKING:
    from tokimori.executors.http.session import HttpSession

TIMEOUT = 30.0
"""Seconds that a request may take, answer included, if its job says nothing."""
GREW_EVERY = 1.0


class HttpAttempt(LoopAttempt):
    """An attempt in hand, and what came of the answer's body."""

    def __init__(self, task: AttemptTask, target: Http, clock: Clock) -> None:
        super().__init__(task)
        self.target = target
        self.body = Body(clock, task.hidden)
        self.reported_at = 0.0

    def output(self) -> Output | None:
        """Return the output from the body of the answer."""
        return self.body.output(self.task.run_id, self.task.attempt)


class HttpExecutor(LoopExecutor[HttpAttempt]):
    """Executor of HTTP requests, in the node itself: the answer of a service is data, and never executed.

    `networks` may be asked although they are not public.
    """

    what = "request"

    def __init__(self, clock: Clock, networks: Sequence[Network] = (), callbacks: Callbacks | None = None) -> None:
        super().__init__(clock)
        self.networks = networks
        self._callbacks = callbacks or Callbacks()
        self._session: asyncio.Task[HttpSession] | None = None

    def _made(self, task: AttemptTask) -> HttpAttempt:
        if not isinstance(task.target, Http):
            raise Bug(f"a {type(task.target).__name__} was given to the executor of requests")
        return HttpAttempt(task, task.target, self._clock)

    def _let_go(self, attempt: HttpAttempt) -> None:
        """Forget the attempt's callback: none ends it any more."""
        self._callbacks.forget(attempt.task.run_id, attempt.task.token)

    async def close(self) -> None:
        """End all attempts, and close all connections."""
        await super().close()
        if self._session is not None:
            await asyncio.wait([self._session])
            if self._session.exception() is None:
                await self._session.result().close()

    # One attempt

    async def _carry_out(self, attempt: HttpAttempt) -> Outcome:
        """Return the outcome of the attempt. A callback ends it from outside, as an order to stop does."""
        task, target = attempt.task, attempt.target
        attempt.began, attempt.reported_at = self._clock.now(), self._clock.monotonic()
        timeout = TIMEOUT if task.timeout is None else task.timeout
        try:
            async with asyncio.timeout(timeout):
                meaning = await self._send(attempt)
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

    async def _send(self, attempt: HttpAttempt) -> Outcome | Later:
        task, target = attempt.task, attempt.target
        callback = None
        if target.callback_within is not None:
            callback = self._callbacks.expect(task.run_id, task.token, attempt.end)
        request = request_of(task, target, callback, self._clock.now())
        session = await self._opened()
        answer = await session.send(request, attempt.body, lambda: self._grew(attempt))
        if isinstance(answer, Failed):
            return answer
        if task.hidden and answer.location is not None:  # before a part of it is cut off
            answer = replace(answer, location=hidden_in(answer.location, task.hidden))
        result = attempt.body.result()
        return meaning_of(answer, target.expect, may_say_later=callback is not None, result=result)

    async def _opened(self) -> "HttpSession":
        """Return the session of all requests. Its modules are loaded with the first request only.

        If it can't be made, for lack of files or threads, the next request tries again.
        """
        if self._session is None or (self._session.done() and self._session.exception() is not None):
            self._session = asyncio.get_running_loop().create_task(self._make_session())
        return await asyncio.shield(self._session)

    async def _make_session(self) -> "HttpSession":
        module = await asyncio.to_thread(import_module, "tokimori.executors.http.session")
        session: HttpSession = module.HttpSession(self.networks)
        return session

    def _grew(self, attempt: HttpAttempt, *, last: bool = False) -> None:
        """Report the output so far, once a second."""
        now = self._clock.monotonic()
        if attempt.body.size and (last or now - attempt.reported_at >= GREW_EVERY):
            attempt.reported_at, task = now, attempt.task
            output = attempt.body.so_far(task.run_id, task.attempt)
            self._send_report(Grew(run_id=task.run_id, token=task.token, output=output))
