"""One executor for every kind of target."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from tokimori.clock import Clock, Moment
from tokimori.errors import Bug
from tokimori.executors.builds import BuildExecutor
from tokimori.executors.command import CommandExecutor
from tokimori.executors.email import EmailExecutor
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.http.executor import HttpExecutor
from tokimori.model.email import Email
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Succeeded
from tokimori.model.target import Build, Command, Function, Http, Noop, Target
from tokimori.ports.executor import AttemptTask, Builds, Ended, Executor, Report, StopReason


class NoopExecutor:
    """Executor of no-ops: every task has succeeded before `start` returns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._report: Callable[[Report], None] = _nobody

    async def open(self, report: Callable[[Report], None]) -> None:
        """Send reports to `report` from now on."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Report each of them ended."""
        now, outcome, report = self._clock.now(), Succeeded(), self._report
        for task in tasks:
            report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """Do nothing: nothing ever runs."""

    def renew(self, sent: float) -> None:
        """Do nothing: nothing ever outlives a lease."""

    def forget(self, before: Moment) -> None:
        """Do nothing: nothing is ever left."""

    async def close(self) -> None:
        """Do nothing: nothing is left."""


def _nobody(_report: Report) -> None:
    """Ignore the report: before `open` there is no receiver."""


class Executors:
    """Executor that passes each task to the one of its kind of target. Raises `Bug` if a kind has none.

    The executors are opened and closed in the order of `by_kind`.
    """

    def __init__(self, by_kind: Mapping[type[Target], Executor]) -> None:
        if missing := [kind.__name__ for kind in get_args(Target) if kind not in by_kind]:
            raise Bug(f"nothing runs targets of the kinds {', '.join(missing)}")
        self._by_kind = dict(by_kind)

    async def open(self, report: Callable[[Report], None]) -> None:
        """Open all executors. Raises `Refused`."""
        for executor in self._by_kind.values():
            await executor.open(report)

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Begin these attempts."""
        kinds = {type(task.target): None for task in tasks}
        for kind in kinds:
            some = [task for task in tasks if type(task.target) is kind] if len(kinds) > 1 else tasks
            self._by_kind[kind].start(some)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt. Executors that do not know it ignore the order."""
        for executor in self._by_kind.values():
            executor.stop(run_id, token, reason, grace=grace)

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines everywhere."""
        for executor in self._by_kind.values():
            executor.renew(sent)

    def forget(self, before: Moment) -> None:
        """Remove old output everywhere."""
        for executor in self._by_kind.values():
            executor.forget(before)

    async def close(self) -> None:
        """Close all executors, which end their attempts."""
        for executor in self._by_kind.values():
            await executor.close()


def executors_of(
    clock: Clock,
    state_dir: Path,
    functions: FunctionExecutor | None = None,
    requests: HttpExecutor | None = None,
    *,
    builds: Builds | None = None,
    tasks_dir: Path | None = None,
) -> Executors:
    """Return the executors of a node with this folder. A new kind of target is a line here.

    E-mails may go to the same networks as `requests`.
    """
    commands = CommandExecutor(clock, runs_dir=state_dir / "runs", state_dir=state_dir)
    return Executors(
        {
            Noop: NoopExecutor(clock),
            Build: BuildExecutor(commands, builds, clock, state_dir=state_dir, tasks_dir=tasks_dir),
            Command: commands,
            Email: EmailExecutor(clock, () if requests is None else requests.networks),
            Function: functions or FunctionExecutor(clock),
            Http: requests or HttpExecutor(clock),
        }
    )
