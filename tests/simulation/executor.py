"""What a node's keeper and its processes do, in virtual time; and a log of what really happened."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokimori.clock import Clock, Moment
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded
from tokimori.ports.executor import AttemptTask, Ended, Report, Started, StopReason

LAST_MOMENT = 1.5
"""Seconds from the end of a lease to the KILL of whatever is still there (DESIGN §3)."""


@dataclass(slots=True)
class Execution:
    """A process that ran: seconds of virtual time, and whether it did all that it wanted."""

    task: AttemptTask
    member: str
    began: float
    at: Moment
    """What the store's clock said when it began."""
    ended: float | None = None
    outcome: Outcome | None = None


@dataclass(slots=True)
class Log:
    """What really happened, seen from outside."""

    executions: list[Execution] = field(default_factory=list)

    def running(self) -> list[Execution]:
        """Whatever has not ended."""
        return [execution for execution in self.executions if execution.ended is None]


class SimulatedExecutor:
    """Runs every task for a while that depends on the run and the attempt alone. The keeper in it never freezes."""

    def __init__(self, member: str, clock: Clock, store_clock: Clock, log: Log, seed: int) -> None:
        self._member = member
        self._clock = clock
        self._store_clock = store_clock
        self._log = log
        self._seed = seed
        self._report: Callable[[Report], None] = print
        self._live: dict[tuple[RunId, Token], tuple[Execution, asyncio.TimerHandle]] = {}
        self._stopped: set[tuple[RunId, Token]] = set()
        self._lease_until = clock.monotonic() + LEASE

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        loop = asyncio.get_running_loop()
        for task in tasks:
            execution = Execution(task, self._member, loop.time(), self._store_clock.now())
            self._log.executions.append(execution)
            chance = self._chance(task)
            seconds, outcome = _fate(task, chance)
            self._live[task.run_id, task.token] = execution, loop.call_later(seconds, self._end, execution, outcome)
            if chance.random() < 0.8:
                self._report(Started(run_id=task.run_id, token=task.token, pid=42, at=self._clock.now()))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`. Processes take their time, but never longer than the grace."""
        if (run_id, token) in self._live and (run_id, token) not in self._stopped:
            self._stopped.add((run_id, token))
            execution, _ = self._live[run_id, token]
            longest = execution.task.timeout_grace if grace is None else grace
            outcome = Cancelled("cancelled") if reason is StopReason.CANCEL else Released("stopped")
            self._end_in(execution, self._chance(execution.task).uniform(0, min(longest, 2)), outcome)

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self._lease_until = sent + LEASE
        asyncio.get_running_loop().call_later(self._lease_until - self._clock.monotonic(), self._check_lease)

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""

    async def close(self) -> None:
        """See `Executor.close`."""
        self.die()

    def die(self) -> None:
        """The node is dead: its keeper ends everything, and nobody is left to be told."""
        self._report = lambda _report: None
        for execution, _ in list(self._live.values()):
            self._end(execution, Released("its node died"))

    def _check_lease(self) -> None:
        if self._clock.monotonic() >= self._lease_until - 1e-6:
            for execution, _ in list(self._live.values()):
                if execution.task.kill_on_lost_lease:
                    seconds = self._chance(execution.task).uniform(0, LAST_MOMENT)
                    self._end_in(execution, seconds, Released("its node's lease ran out"))

    def _end_in(self, execution: Execution, seconds: float, outcome: Outcome) -> None:
        """End it within so many seconds, unless it ends before."""
        key = execution.task.run_id, execution.task.token
        _, timer = self._live[key]
        loop = asyncio.get_running_loop()
        if loop.time() + seconds < timer.when():
            timer.cancel()
            self._live[key] = execution, loop.call_later(seconds, self._end, execution, outcome)

    def _end(self, execution: Execution, outcome: Outcome) -> None:
        task = execution.task
        _, timer = self._live.pop((task.run_id, task.token))
        timer.cancel()
        execution.ended, execution.outcome = asyncio.get_running_loop().time(), outcome
        now = self._clock.now()
        self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now, pid=42))

    def _chance(self, task: AttemptTask) -> random.Random:
        """The same for the same attempt, whatever happened before."""
        return random.Random(f"{self._seed} {task.job_id} {task.nominal} {task.token}")


def _fate(task: AttemptTask, chance: random.Random) -> tuple[float, Outcome]:
    """How long the process takes by itself, and how it ends."""
    kind = chance.random()
    seconds = chance.uniform(10, 25) if kind < 0.05 else chance.uniform(0, 4)
    failed = task.job_id.startswith("fails") and chance.random() < 0.5
    return seconds, Failed("exit code 1", 1) if failed else Succeeded(0)
