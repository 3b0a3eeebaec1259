"""What is said of a keeper that died: to each run that it takes along, and to people. Pure."""

from collections.abc import Sequence

from tokimori.executors.outcomes import signal_name
from tokimori.model.outcome import Lost
from tokimori.model.suspicion import Judgement
from tokimori.ports.executor import Task

MOST_NAMED = 10
"""Runs, or jobs, that one line names."""


def lost_with(pid: int, status: int, task: Task, judged: Judgement) -> Lost:
    """The outcome of an attempt whose keeper died."""
    counts = judged.counts.get(task.run_id, 1)
    words = "" if counts else ", beside other jobs: it does not count against this one yet"
    return Lost(f"its keeper died{words} ({how(pid, status)})", counts)


def said_of(pid: int, status: int, tasks: Sequence[Task], judged: Judgement) -> list[str]:
    """Lines for the log."""
    runs = _some([f"run {task.run_id} of {task.job_id}" for task in tasks])
    lines = [f"a keeper died ({how(pid, status)}); lost with it: {runs}"]
    if judged.culprit is not None:
        lines.append(f"only job {judged.culprit} ran when keeper {pid} died: look at what its command ends")
    elif judged.suspects:
        names = _some(judged.suspects)
        lines.append(f"these jobs ran when several keepers died, and get keepers of their own: {names}")
    return lines


def how(pid: int, status: int) -> str:
    """Which keeper, and how it ended."""
    ending = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return f"pid {pid}, {ending}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    found = ", ".join(names[:MOST_NAMED]) or "nothing"
    return found if more <= 0 else f"{found} and {more} more"
