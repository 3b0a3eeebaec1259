"""Attempts that the node itself carries out on its loop: what requests and e-mails have in common."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from tokimori.clock import Clock, Moment
from tokimori.executors.keeper.kernel import boottime, is_short
from tokimori.executors.reported import short_of, stopped
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Failed, Outcome, Released
from tokimori.model.run import Output
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason

log = logging.getLogger(__name__)

LEASE_IS_OVER = Released("its node's lease ran out")


class LoopAttempt:
    """A running attempt. `ending` is its decided outcome, if it is to end whatever its work returns."""

    def __init__(self, task: AttemptTask) -> None:
        self.task = task
        self.work: asyncio.Task[Outcome] | None = None
        self.began: Moment | None = None
        self.ending: Outcome | None = None

    def end(self, outcome: Outcome) -> bool:
        """End the attempt now; return whether it ends with this outcome. The first one counts."""
        if self.ending is not None or self.work is None or self.work.done():
            return False
        self.ending = outcome
        self.work.cancel()
        return True

    def output(self) -> Output | None:
        """Return the output that it leaves when it has ended."""
        return None


Made = TypeVar("Made", bound=LoopAttempt)


class LoopExecutor(ABC, Generic[Made]):
    """Executor of attempts as tasks of the loop. `what` names them in the log."""

    what: str

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._report: Callable[[Report], None] | None = None
        self._attempts: dict[tuple[RunId, Token], Made] = {}
        self._lease_over: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    @abstractmethod
    def _made(self, task: AttemptTask) -> Made:
        """Return the attempt of a task. Raises `Bug` for a target of another kind."""

    @abstractmethod
    async def _carry_out(self, attempt: Made) -> Outcome:
        """Return the outcome of the attempt. An order to stop cancels it."""

    def _let_go(self, attempt: Made) -> None:
        """Forget the attempt: it is over, or will be at once."""

    async def open(self, report: Callable[[Report], None]) -> None:
        """Send reports to `report` from now on."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Begin these attempts, or end them if the lease is over, as after a freeze of this node."""
        is_over = self._lease_over is not None and boottime() >= self._lease_over
        for task in tasks:
            attempt = self._made(task)
            self._attempts[task.run_id, task.token] = attempt
            attempt.work = asyncio.get_running_loop().create_task(self._carry_out(attempt))
            attempt.work.add_done_callback(partial(self._ended, attempt))
            if is_over:
                self._end(attempt, LEASE_IS_OVER)
        self._watch_lease()

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt at once. The other side notices it only by the end of the connection."""
        attempt = self._attempts.get((run_id, token))
        if attempt is not None:
            self._end(attempt, stopped(reason))

    def _end(self, attempt: Made, outcome: Outcome) -> None:
        self._let_go(attempt)
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
        """Do nothing: nothing is left on this machine."""

    async def close(self) -> None:
        """End all attempts."""
        if self._alarm is not None:
            self._alarm.cancel()
        works = [each.work for each in self._attempts.values() if each.work is not None]
        for attempt in list(self._attempts.values()):
            self._end(attempt, stopped(StopReason.RELEASE))
        if works:
            await asyncio.wait(works)

    def _ended(self, attempt: Made, work: "asyncio.Task[Outcome]") -> None:
        """Report the end of an attempt, whatever its cause."""
        task = attempt.task
        self._attempts.pop((task.run_id, task.token), None)
        self._let_go(attempt)
        outcome = self._outcome(attempt, work)
        self._send_report(
            Ended(
                run_id=task.run_id,
                token=task.token,
                outcome=outcome,
                at=self._clock.now(),
                started=None if isinstance(outcome, Released) and outcome.short else attempt.began,
                output=attempt.output(),
            )
        )

    def _outcome(self, attempt: Made, work: "asyncio.Task[Outcome]") -> Outcome:
        if work.cancelled():
            return attempt.ending or stopped(StopReason.RELEASE)
        if isinstance(fault := work.exception(), OSError | RuntimeError) and is_short(fault):  # its work catches others
            return attempt.ending or short_of(fault)
        if fault is not None:
            log.error("the %s of run %s failed in this program itself", self.what, attempt.task.run_id, exc_info=fault)
            return Failed(f"the node could not send the {self.what}: {type(fault).__name__}; its log says more")
        return attempt.ending or work.result()

    def _send_report(self, report: Report) -> None:
        if self._report is not None:
            self._report(report)
