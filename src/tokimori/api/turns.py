"""Requests take turns with the engine, which works in the same loop: however many come at once, runs are not late."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from tokimori.clock import Clock
from tokimori.turns import Step

LONGEST_STEP = 0.02
"""Seconds of one step of the loop in which requests begin. The others begin in the next ones, in their order."""


class Turns:
    """Lets requests begin, as far as there is time for them in this step of the loop.

    Before the secret, too: some headers and addresses take 5 ms until they are refused, and 500 clients may send one
    each at the same time.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._step = Step(LONGEST_STEP, clock.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, when it is its turn."""
        while self._step.is_over():  # noqa: ASYNC110  each step of the loop is one to look
            await asyncio.sleep(0)
        await self._app(scope, receive, send)
