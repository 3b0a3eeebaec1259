"""Runs nothing, at once."""

from collections.abc import Callable, Sequence

from tokimori.clock import Clock, Moment
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Succeeded
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason


class NoopExecutor:
    """Every task has succeeded before `start` returns: what a node costs without anything to run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._report: Callable[[Report], None] = _nobody

    async def open(self, report: Callable[[Report], None]) -> None:
        """From now on tell `report`."""
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
    """Before `open`, nobody is told."""
