"""The log of a task has Keiji's lines, by time."""

from collections.abc import Sequence

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run
from tokimori.clock import SECOND, Moment
from tokimori.model.job import JobState
from tokimori.model.run import Run
from tokimori.model.task import TaskEvent, TaskRecord, What, log_lines, picked_up, tried_lines
from tokimori.model.transitions import RunState


def at(seconds: float) -> Moment:
    return Moment(NEW_YEAR + round(seconds * SECOND))


def told(*events: tuple[float, What, str | None]) -> TaskRecord:
    """A task to which this has happened."""
    happened = tuple(TaskEvent(at=at(seconds), what=what, detail=detail) for seconds, what, detail in events)
    return TaskRecord(name="t", id="i", events=happened)


def said(record: TaskRecord, *runs: tuple[Run, Sequence[tuple[Moment | None, str]]]) -> list[str]:
    return [line.message for line in log_lines(record, None, runs)]


def test_lines_come_by_time_whoever_wrote_them() -> None:
    """Each line of a run stands at the moment at which it was written, between what happened before and after."""
    ended = a_run(state=RunState.SUCCEEDED, started=at(10), ended=at(14))
    beside = a_run(state=RunState.SUCCEEDED, started=at(9), ended=at(15))
    record = told((0, What.BUILT, "task t interval: 10"), (12, What.DISABLED, None))
    written = [(at(10), "Pinging Google...."), (at(11), ""), (at(13), "status:  200")]
    assert said(record, (ended, written), (beside, [(at(11), "beside")])) == [
        "task t interval: 10",
        "Pinging Google....",
        "beside",
        "task disabled, exiting...",
        "status:  200",
    ]


def test_a_line_stands_within_its_attempt() -> None:
    """A time before the start or after the end is moved to it; a line without one has the start, and says so."""
    ended = a_run(state=RunState.SUCCEEDED, started=at(10), ended=at(14))
    lines = tried_lines(ended, [(at(9), "a"), (at(12), "b"), (at(15), "c"), (None, "d")])
    assert [(line.message, line.at, line.exact) for line in lines] == [
        ("a", at(10), True),
        ("b", at(12), True),
        ("c", at(14), True),
        ("d", at(10), False),
    ]


def test_a_restart_ends_and_begins() -> None:
    """Keiji says both, and in this order."""
    record = told((0, What.RESTARTED, "task t interval: 10"))
    assert said(record) == ["task terminated, exiting...", "task t interval: 10"]


def test_a_failed_run_writes_errors() -> None:
    """All its lines are of that level, and the last one says how it ended."""
    failed = a_run(state=RunState.FAILED, started=at(0), ended=at(1), error="exit code 3")
    lines = tried_lines(failed, [(at(0.5), "no such host")])
    assert [(line.level, line.message) for line in lines] == [
        ("ERROR", "no such host"),
        ("ERROR", "[ task error ]: exit code 3"),
    ]
    assert [line.at for line in lines] == [at(0.5), at(1)]


def test_a_job_that_was_paused_by_itself_is_disabled() -> None:
    """Whoever paused it, the log says so."""
    paused = a_job(a_definition(), state=JobState.PAUSED, updated=at(5))
    assert [line.message for line in log_lines(told(), paused, [])] == ["task disabled, exiting..."]
    record = told((4, What.DISABLED, None))
    assert [line.message for line in log_lines(record, paused, [])] == ["task disabled, exiting..."]


def test_a_task_that_is_picked_up_says_when_it_runs() -> None:
    """In Keiji's words: the interval, or the next moment."""

    def words(schedule: str | None, zone: str = "UTC") -> str:
        return picked_up("t", a_job(a_definition(schedule=schedule, time_zone=zone), next_due=at(0)))

    assert words("every 10 seconds") == "task t interval: 10"
    assert words("on friday at 10:00PM", "Africa/Nairobi") == (
        "Task Next Execution Time: 2030-01-01 03:00:00 +0300 EAT"
    )
    assert words("0 3 * * *") == "task t schedule: 0 3 * * *"
    assert words(None) == "task t schedule: on demand"
