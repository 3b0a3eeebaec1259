"""Limits on the HTTP work of one loop step: however many requests come at once, runs are not late."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tokimori.clock import Clock
from tokimori.turns import TurnStep

LONGEST_STEP = 0.02
"""Seconds of one step of the loop in which requests begin. The others begin in the next ones, one in each."""

MOST_LARGE = 2
"""Number of answers made at a time, if they may be large. To make 200 lists of 400 jobs at once held the loop for 4 s.

Not one: a list for which the store needs seconds would hold up all others.
"""


VIEWS_AT_ONCE = 100
"""Number of rows of a list made into an answer in one step of the loop: a millisecond. 1,000 of them took ten."""

_Value = TypeVar("_Value")
_View = TypeVar("_View")


async def in_steps(view: Callable[[_Value], _View], values: Sequence[_Value]) -> Sequence[_View]:
    """Return the views of these values, and yield to the loop in between."""
    made: list[_View] = []
    for first in range(0, len(values), VIEWS_AT_ONCE):
        if first:
            await asyncio.sleep(0)
        made += map(view, values[first : first + VIEWS_AT_ONCE])
    return made


def line_of(request: Request) -> asyncio.Semaphore:
    """Return the line in which requests for lists and pages wait, at no cost.

    Without it the store would read for many in a row, and the loop would make all their answers in one step.
    """
    line: asyncio.Semaphore = request.app.state.line
    return line


class Turns:
    """Limit on the requests that begin in one step of the loop; others wait in a line.

    It comes before the check of the secret, as some headers and addresses take 5 ms to be refused, and 500 clients may
    send one at the same time. Waiting costs nothing: 500 that poll in each step would cost more than those that begin.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._step = TurnStep(LONGEST_STEP, clock.monotonic)
        self._line: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, when it is its turn."""
        if self._line or self._step.is_over():
            await self._turn()
        await self._app(scope, receive, send)

    def _turn(self) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        if not self._line:
            loop.call_soon(self._next)
        turn = loop.create_future()
        self._line.append(turn)
        return turn

    def _next(self) -> None:
        """Let the first one begin that has not gone, in the next step."""
        is_given = False
        while self._line and not is_given:
            turn = self._line.popleft()
            if is_given := not turn.done():
                turn.set_result(None)
        if self._line:
            asyncio.get_running_loop().call_soon(self._next)
