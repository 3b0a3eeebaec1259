"""Runs commands: the engine's side, which tells the keeper what to do and makes outcomes of what it hears."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import Bug, Refused
from tokimori.executors.environment import account_for, arguments_of, environment_of, folder_of, own_account
from tokimori.executors.exchange import Exchange, make_exchanges, open_exchange
from tokimori.executors.keeper import wire
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings
from tokimori.executors.old_output import remove_old_output
from tokimori.executors.outcomes import outcome_of
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.outcome import Failed, Outcome, Released
from tokimori.model.run import Output
from tokimori.model.target import Command
from tokimori.ports.executor import Ended, Grew, Report, Started, StopReason, Task

OUTPUT_LIMIT = 10 * 2**20
"""Bytes of an attempt's output that go to its file before only the end is kept."""
_PAUSE = 1.0
"""Seconds before another keeper is tried where one did not start."""


class _Attempt:
    """An attempt that has not ended. `reason` is the first for which it was stopped.

    `began` is kept as seconds since boot: the wall clock may be set while it runs.
    """

    __slots__ = ("began", "exchange", "pid", "reason", "task")

    def __init__(self, task: Task, exchange: Exchange | None = None) -> None:
        self.task = task
        self.exchange = exchange
        self.began: float | None = None
        self.pid: int | None = None
        self.reason: StopReason | None = None


class CommandExecutor:
    """Runs every command as a child of the keeper: a process of its own, which outlives neither orders nor this one.

    `environ` is the node's environment, of which commands get PATH and LANG. `pidfd` false forces the way by which
    exits are noticed on kernels without pidfd.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        runs_dir: Path,
        state_dir: Path,
        output_limit: int = OUTPUT_LIMIT,
        environ: Mapping[str, str] | None = None,
        pidfd: bool = True,
    ) -> None:
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._own = own_account()
        self._settings = KeeperSettings(
            state_dir=state_dir / "keepers", runs_dir=runs_dir, output_limit=output_limit, pidfd=pidfd
        )
        self._exchanges = (state_dir / "exchange").absolute()
        self._report: Callable[[Report], None] | None = None
        self._keeper: KeeperProcess | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._attempts: dict[int, _Attempt] = {}
        self._forsaken: list[_Attempt] = []
        self._numbers: dict[tuple[RunId, Token], int] = {}
        self._unsent: list[wire.Order] = []
        self._lease: wire.Lease | None = None
        self._told: wire.Lease | None = None
        self._last = 0
        self._closing = False
        self._forgetting: asyncio.Task[int] | None = None

    async def open(self, report: Callable[[Report], None]) -> None:
        """Start the keeper, which first ends what dead keepers have left. Raises `Refused` where it does not start."""
        self._report = report
        make_exchanges(self._exchanges)
        self._keeper = await KeeperProcess.start(self._settings, self._heard, self._lost)

    def start(self, tasks: Sequence[Task]) -> None:
        """Begin these attempts; one that can't be begun is reported before this returns."""
        orders: list[wire.Order] = []
        for task in tasks:
            try:
                orders.append(self._order(task))
            except Refused as refusal:
                self._tell(self._end(_Attempt(task), Failed(refusal.message), self._clock.now()))
        if orders:
            self._send([*self._news(), *orders])

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt. The first reason decides its outcome, the shortest grace when it is killed."""
        number = self._numbers.get((run_id, token))
        if number is None:
            return
        attempt = self._attempts[number]
        attempt.reason = attempt.reason or reason
        self._send([wire.Stop(number, attempt.task.timeout_grace if grace is None else grace)])

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines. A keeper that has nothing to watch over is left asleep."""
        self._lease = wire.Lease(sent + LEASE, sent + LEASE_KILL)
        if self._attempts:
            self._send(self._news())

    def forget(self, before: Moment) -> None:
        """Remove old output in a thread of its own, one at a time."""
        if self._forgetting is None or self._forgetting.done():
            work = asyncio.to_thread(remove_old_output, self._settings.runs_dir, before)
            self._forgetting = asyncio.get_running_loop().create_task(work)

    async def close(self) -> None:
        """Kill what is left, and the keeper with it. What it could no longer tell of is released."""
        self._closing = True
        if self._forgetting is not None:
            await asyncio.wait([self._forgetting])
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait([self._recovery])
        if self._keeper is not None:
            await self._keeper.leave()
            self._keeper = None
        self._forsake()
        self._release_forsaken("its node stopped it")

    # To the keeper

    def _order(self, task: Task) -> wire.Start:
        """The order to begin the attempt, which from now on is known. Raises `Refused`."""
        command = task.target
        if not isinstance(command, Command):
            raise Bug(f"a {type(command).__name__} was given to the executor of commands")
        account = account_for(command.user, self._own)
        exchange = open_exchange(task, account, self._own, self._exchanges)
        environment = environment_of(task, command, account, self._environ, exchange.variables())
        self._last += 1
        self._attempts[self._last] = _Attempt(task, exchange)
        self._numbers[task.run_id, task.token] = self._last
        return wire.Start(
            number=self._last,
            argv=arguments_of(command),
            env=environment,
            cwd=folder_of(command, environment),
            log=f"{task.run_id}/{task.attempt}.log",
            account=None if account.uid == self._own.uid else account.credentials(),
            stdin=command.stdin,
            timeout=task.timeout,
            grace=task.timeout_grace,
            lease_bound=task.kill_on_lost_lease,
        )

    def _news(self) -> list[wire.Order]:
        """The lease, where the keeper has not been told of it."""
        if self._lease is None or self._told is self._lease:
            return []
        self._told = self._lease
        return [self._lease]

    def _send(self, orders: Sequence[wire.Order]) -> None:
        if self._keeper is None:
            self._unsent += orders
        elif orders:
            self._keeper.send(orders)

    # From the keeper

    def _heard(self, notice: wire.Notice) -> None:
        match notice:
            case wire.Started():
                self._started(notice)
            case wire.Grew():
                task = self._attempts[notice.number].task
                tail = wire.to_bytes(notice.tail)
                output = Output(run_id=task.run_id, attempt=task.attempt, size=notice.size, tail=tail)
                self._tell(Grew(run_id=task.run_id, token=task.token, output=output))
            case wire.Ended():
                self._ended(notice)
            case wire.Ready():
                pass

    def _started(self, notice: wire.Started) -> None:
        attempt = self._attempts[notice.number]
        attempt.pid, attempt.began = notice.pid, notice.at
        task = attempt.task
        self._tell(Started(run_id=task.run_id, token=task.token, pid=notice.pid, at=self._moment(notice.at)))

    def _ended(self, notice: wire.Ended) -> None:
        attempt = self._attempts.pop(notice.number)
        task = attempt.task
        del self._numbers[task.run_id, task.token]
        reported = None if attempt.exchange is None else attempt.exchange.reported()
        outcome = outcome_of(
            notice, attempt.reason, task.timeout, reported, auto_complete_success=task.auto_complete_success
        )
        self._tell(self._end(attempt, outcome, self._moment(notice.at), _output(task, notice)))

    def _moment(self, at: float) -> Moment:
        """The keeper tells seconds since boot; only here do they meet the wall clock."""
        return Moment(self._clock.now() - int((boottime() - at) * SECOND))

    def _end(self, attempt: _Attempt, outcome: Outcome, at: Moment, output: Output | None = None) -> Ended:
        task = attempt.task
        if attempt.exchange is not None:
            attempt.exchange.remove()
        return Ended(
            run_id=task.run_id,
            token=task.token,
            outcome=outcome,
            at=at,
            started=None if attempt.began is None else self._moment(attempt.began),
            pid=attempt.pid,
            output=output,
        )

    def _tell(self, report: Report) -> None:
        if self._report is None:
            raise Bug("the executor is not open")
        self._report(report)

    # When the keeper dies

    def _lost(self) -> None:
        if self._keeper is None or self._closing:
            return
        keeper, self._keeper = self._keeper, None
        self._forsake()
        self._recovery = asyncio.get_running_loop().create_task(self._recover(keeper))

    async def _recover(self, dead: KeeperProcess) -> None:
        """End what the keeper has left, hand those runs back, and start another one."""
        await dead.bury()
        self._release_forsaken("its keeper died")
        while True:
            try:
                self._keeper = await KeeperProcess.start(self._settings, self._heard, self._lost)
                break
            except Refused:
                await asyncio.sleep(_PAUSE)
        orders, self._unsent = self._unsent, []
        self._send(orders if self._lease is None else [self._lease, *orders])

    def _forsake(self) -> None:
        self._forsaken += self._attempts.values()
        self._attempts = {}
        self._numbers = {}

    def _release_forsaken(self, reason: str) -> None:
        forsaken, self._forsaken = self._forsaken, []
        for attempt in forsaken:
            self._tell(self._end(attempt, Released(reason), self._clock.now()))


def _output(task: Task, notice: wire.Ended) -> Output | None:
    if notice.size == 0:
        return None
    head, tail = wire.to_bytes(notice.head), wire.to_bytes(notice.tail)
    return Output(run_id=task.run_id, attempt=task.attempt, size=notice.size, head=head, tail=tail)
