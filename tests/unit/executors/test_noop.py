"""Nothing, at once."""

from tests.unit.examples import a_task, seconds
from tokimori.clock import Moment
from tokimori.executors.executors import NoopExecutor
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Succeeded
from tokimori.model.target import Noop
from tokimori.ports.executor import Ended, Report, StopReason


class NewYearClock:
    """It is always the new year of 2030."""

    def now(self) -> Moment:
        """See `Clock`."""
        return seconds(0)

    def monotonic(self) -> float:
        """See `Clock`."""
        return 0.0


async def test_every_noop_has_succeeded_before_start_returns() -> None:
    """Each task is reported ended once, successful, with its own token, and nothing is left to stop."""
    reports: list[Report] = []
    executor = NoopExecutor(NewYearClock())
    await executor.open(reports.append)
    tasks = [a_task(Noop(), run_id=RunId(f"run-{number}"), token=Token(number)) for number in (1, 2)]
    executor.start(tasks)
    expected = [
        Ended(run_id=task.run_id, token=task.token, outcome=Succeeded(), at=seconds(0), started=seconds(0))
        for task in tasks
    ]
    assert reports == expected
    executor.stop(tasks[0].run_id, tasks[0].token, StopReason.CANCEL)
    executor.renew(1.0)
    await executor.close()
    assert reports == expected
