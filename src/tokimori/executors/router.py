"""One executor for every kind of target."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tokimori.clock import Clock
from tokimori.executors.command import OUTPUT_LIMIT, CommandExecutor
from tokimori.executors.noop import NoopExecutor
from tokimori.model.ids import RunId, Token
from tokimori.model.job import Command, Noop
from tokimori.ports.executor import Report, StopReason, Task


class Executors:
    """Hands each task to the executor of its target. A new kind of target is one more arm here."""

    def __init__(
        self,
        clock: Clock,
        *,
        runs_dir: Path,
        state_dir: Path,
        output_limit: int = OUTPUT_LIMIT,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._noop = NoopExecutor(clock)
        self._command = CommandExecutor(
            clock, runs_dir=runs_dir, state_dir=state_dir, output_limit=output_limit, environ=environ
        )

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
        """End an attempt; those that do not know it ignore the order."""
        self._command.stop(run_id, token, reason, grace=grace)

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines, for whatever outlives a call."""
        self._command.renew(sent)

    async def close(self) -> None:
        """End whatever is left."""
        await self._command.close()
