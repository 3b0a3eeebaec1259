"""One executor for every kind of target."""

from collections.abc import Callable, Sequence

from tokimori.clock import Moment
from tokimori.model.ids import RunId, Token
from tokimori.model.target import Command, Noop
from tokimori.ports.executor import Executor, Report, StopReason, Task


class Executors:
    """Hands each task to the executor of its target. A new kind of target is one more arm in `start`."""

    def __init__(self, *, command: Executor, noop: Executor) -> None:
        self._command = command
        self._noop = noop

    async def open(self, report: Callable[[Report], None]) -> None:
        """Open them all. Raises `Refused`."""
        await self._noop.open(report)
        await self._command.open(report)

    def start(self, tasks: Sequence[Task]) -> None:
        """Begin these attempts."""
        noops: list[Task] = []
        commands: list[Task] = []
        for task in tasks:
            match task.target:
                case Noop():
                    noops.append(task)
                case Command():
                    commands.append(task)
        self._noop.start(noops)
        self._command.start(commands)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt: whoever does not know it ignores the order."""
        self._noop.stop(run_id, token, reason, grace=grace)
        self._command.stop(run_id, token, reason, grace=grace)

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines everywhere."""
        self._noop.renew(sent)
        self._command.renew(sent)

    def forget(self, before: Moment) -> None:
        """Remove old output everywhere."""
        self._noop.forget(before)
        self._command.forget(before)

    async def close(self) -> None:
        """End whatever is left."""
        await self._noop.close()
        await self._command.close()
