"""Executor of e-mail targets."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tokimori.clock import Clock
from tokimori.errors import Bug, InvalidInput
from tokimori.executors.http.addresses import Network
from tokimori.executors.on_loop import LoopAttempt, LoopExecutor
from tokimori.model.email import Email
from tokimori.model.outcome import Failed, Outcome, TimedOut
from tokimori.ports.executor import AttemptTask

if TYPE_CHECKING:
    from tokimori.executors.smtp import Delivery

TIMEOUT = 60.0
"""Seconds that an e-mail may take where its job says nothing: servers make strangers wait."""
_AT_ONCE = 64
"""Number of e-mails sent at a time; others wait."""
_TO_ONE = 8
"""Number of e-mails sent to one server at a time: one without an answer delays its own alone."""


class EmailAttempt(LoopAttempt):
    """An attempt in hand, and its e-mail on the way."""

    def __init__(self, task: AttemptTask, target: Email) -> None:
        super().__init__(task)
        self.target = target
        self.delivery: Delivery | None = None


class EmailExecutor(LoopExecutor[EmailAttempt]):
    """Sends e-mails from the node itself. `networks` are those that may be asked though they are not public."""

    what = "e-mail"

    def __init__(self, clock: Clock, networks: Sequence[Network] = ()) -> None:
        super().__init__(clock)
        self._networks = networks
        self._threads: ThreadPoolExecutor | None = None
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Of each server that an attempt asks."""

    def _made(self, task: AttemptTask) -> EmailAttempt:
        if not isinstance(task.target, Email):
            raise Bug(f"a {type(task.target).__name__} was given to the executor of e-mails")
        return EmailAttempt(task, task.target)

    def _let_go(self, attempt: EmailAttempt) -> None:
        """Forget the attempt. Its thread ends soon, and sends nothing that it has not sent."""
        if attempt.delivery is not None:
            attempt.delivery.abandon()

    async def close(self) -> None:
        """End all deliveries. A thread in a look-up of a name ends with its answer."""
        await super().close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _carry_out(self, attempt: EmailAttempt) -> Outcome:
        task = attempt.task
        attempt.began = self._clock.now()
        timeout = TIMEOUT if task.timeout is None else task.timeout
        try:
            async with asyncio.timeout(timeout):
                attempt.delivery = await self._on_its_way(attempt, timeout)
                async with self._turns.setdefault(attempt.target.smtp, asyncio.Semaphore(_TO_ONE)):
                    return await asyncio.get_running_loop().run_in_executor(self._opened(), attempt.delivery.deliver)
        except TimeoutError:
            return TimedOut(f"it took longer than {timeout:g} s")
        except InvalidInput as fault:
            return Failed(fault.message, final=True)

    async def _on_its_way(self, attempt: EmailAttempt, timeout: float) -> "Delivery":
        """Return a new delivery. Its module is loaded with the first e-mail only."""
        letters = await asyncio.to_thread(import_module, "tokimori.executors.smtp")
        letter = await asyncio.to_thread(letters.letter_of, attempt.task, attempt.target, self._clock.now())
        delivery: Delivery = letters.Delivery(letter, self._networks, timeout)
        return delivery

    def _opened(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "tokimori-email")
        return self._threads
