"""Reports of a keeper's death: to each run that it takes along, and to people. Pure."""

from collections.abc import Sequence

from tokimori.executors.outcomes import signal_name
from tokimori.model.outcome import Lost
from tokimori.model.suspicion import Judgement
from tokimori.ports.executor import AttemptTask

MOST_NAMED = 10
"""Runs, or jobs, that one line names."""


def lost_with(pid: int, status: int, task: AttemptTask, judged: Judgement) -> Lost:
    """Return the outcome of an attempt whose keeper died."""
    counts = judged.counts.get(task.run_id, 1)
    beside = "" if counts else ", beside other jobs"
    return Lost(f"its keeper died{beside} ({how(pid, status)})", counts)


def said_of(kind: str, name: str, how: str, tasks: Sequence[AttemptTask], judged: Judgement) -> list[str]:
    """Return lines for the log: a keeper, or another process of this `kind`, has died."""
    lines = [f"a {kind} died ({how}); lost with it: {runs_of(tasks)}"]
    if judged.culprit is not None:
        lines.append(f"only job {judged.culprit} ran when {name} died: look at what its runs end")
    elif judged.suspects:
        names, kinds = some(judged.suspects), f"{kind}es" if kind.endswith("s") else f"{kind}s"
        lines.append(f"these jobs ran when several {kinds} died, and get {kinds} of their own: {names}")
    return lines


def runs_of(tasks: Sequence[AttemptTask]) -> str:
    """Return these runs in words, at most `MOST_NAMED` of them."""
    return some([f"run {task.run_id} of {task.job_id}" for task in tasks]) or "nothing"


def how(pid: int, status: int) -> str:
    """Return which keeper died, and how."""
    ending = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return f"pid {pid}, {ending}"


def some(names: Sequence[str]) -> str:
    """Return the first names, at most `MOST_NAMED`, and how many more there are."""
    more, found = len(names) - MOST_NAMED, ", ".join(names[:MOST_NAMED])
    return found if more <= 0 else f"{found} and {more} more"
