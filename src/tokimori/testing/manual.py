"""A node ticked by hand, for tests of jobs and schedules: a year passes in the time that its runs take."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokimori.clock import SECOND, Clock, Moment, parse_moment
from tokimori.errors import Bug
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Outcome, Succeeded
from tokimori.model.run import Output, Run
from tokimori.model.target import Handler
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.ports.store import RunFilter
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore

NEW_YEAR = parse_moment("2030-01-01T00:00:00Z")


class VirtualClock:
    """A clock that goes on only by order."""

    def __init__(self, moment: Moment = NEW_YEAR) -> None:
        self.moment = moment
        self.seconds = 1000.0

    def now(self) -> Moment:
        """Return the wall clock."""
        return self.moment

    def monotonic(self) -> float:
        """Return the monotonic clock."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.moment = Moment(self.moment + round(seconds * SECOND))

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self.moment = Moment(self.moment + round(seconds * SECOND))


MOST_CYCLES = 10_000
"""Of a node in one moment; one that finds no rest in so many never will."""


@dataclass(frozen=True, slots=True)
class WrittenEnd:
    """End of an attempt that has written something."""

    outcome: Outcome
    output: Output


CarryOut = Callable[[AttemptTask], Outcome | WrittenEnd]
"""How an attempt ends."""


def succeed(_task: AttemptTask) -> Outcome:
    """Return a success."""
    return Succeeded(0)


class _AtOnce:
    """An executor whose attempts have ended before `start` returns."""

    def __init__(self, clock: Clock, carry_out: CarryOut) -> None:
        self._clock = clock
        self._carry_out = carry_out
        self._report: Callable[[Report], None] | None = None

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        if self._report is None:
            raise Bug("the executor is not open")
        for task in tasks:
            started = self._clock.now()
            end = self._carry_out(task)
            outcome, output = (end.outcome, end.output) if isinstance(end, WrittenEnd) else (end, None)
            at = self._clock.now()
            self._report(
                Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=at, started=started, output=output)
            )

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """Do nothing: nothing ever runs."""

    def renew(self, sent: float) -> None:
        """Do nothing: nothing ever outlives a lease."""

    def forget(self, before: Moment) -> None:
        """Do nothing: nothing is ever left."""

    async def close(self) -> None:
        """Do nothing: nothing is left."""


class ManualNode:
    """A real node on a store in memory. Time passes in `pass_time` alone; jobs are added through `service`.

    `carry_out` stands for the targets of all jobs; `concurrency` is how many runs the node has in hand at a time,
    `handlers` for which functions. The same seed makes the same ids.
    """

    def __init__(
        self,
        carry_out: CarryOut = succeed,
        *,
        start: Moment = NEW_YEAR,
        seed: int = 0,
        concurrency: int = 32,
        handlers: tuple[Handler, ...] = (),
    ) -> None:
        bytes_of_chance = random.Random(seed).randbytes  # noqa: S311  a test wants the same ids each time
        self.clock = VirtualClock(start)
        self.store = MemoryStore(self.clock)
        self.service = service_on(self.store, self.clock, bytes_of_chance)
        self._executor = _AtOnce(self.clock, carry_out)
        identity = Identity(
            host="test", boot_id="test", pid=1, version="test", concurrency=concurrency, handlers=handlers
        )
        self.node = Node(self.store, self._executor, self.clock, bytes_of_chance, identity)

    async def join(self) -> None:
        """Begin to take part."""
        await self.store.open()
        await self.store.migrate()
        await self._executor.open(self.node.receive)
        await self.node.start()

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass, from one moment at which anything is due to the next."""
        end = Moment(self.clock.now() + round(seconds * SECOND))
        await self._rest()
        while (now := self.clock.now()) < end:
            due = (await self.store.survey(now)).next_due
            upcoming = end if due is None else min(end, max(due, Moment(now + SECOND // 100)))
            self.clock.advance((upcoming - now) / SECOND)
            await self._rest()

    async def _rest(self) -> None:
        for _ in range(MOST_CYCLES):
            if await self.node.cycle() > 0:
                return
        raise Bug(f"the node finds no rest at {self.clock.now()}")

    async def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        return (await self.store.list_runs(RunFilter(limit=10**6)))[::-1]
