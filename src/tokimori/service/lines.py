"""Why a run waits or is lost, in words."""

from collections.abc import Iterable

from tokimori.model.handlers import how_to_allow, is_told
from tokimori.model.job import Definition, Job, JobState, limit_of
from tokimori.model.lanes import HANDLERS_LABEL, handler_of, units_apart
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, semaphore_of
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord


def waits_for(run: Run) -> str | None:
    """The reason why a blocked run waits, or what a ready run needs from another store, in words; else None."""
    if run.state is RunState.READY and run.lane is not None and (apart := units_apart(run.lane)):
        return f"units of the semaphores in another store: {', '.join(name for name, _ in apart)}"
    if run.state is not RunState.BLOCKED:
        return None
    semaphore = semaphore_of(run.blocked_on)
    if semaphore is not None:
        return f"units of the semaphore {semaphore}"
    if run.blocked_on == KEY_LINE:
        return f"a run of the key {run.concurrency_key!r} to end: as many run as max_running_per_key allows"
    return "a run of its job to end: as many run as max_running allows"


def function_of(run: Run) -> str:
    """The function that a ready run waits to be given to; empty where it is for every node."""
    return handler_of(run.lane) if run.state is RunState.READY and run.lane is not None else ""


def nobody_has(function: str, nodes: Iterable[NodeRecord]) -> str | None:
    """That none of these nodes has a handler of the function, in words; None if one has."""
    if any(node.runs_jobs and is_told(function, node.labels.get(HANDLERS_LABEL, "")) for node in nodes):
        return None
    hint = how_to_allow(function)
    said = f"a node with a handler of the function {function!r}: none that runs now has one"
    return said if hint is None else f"{said}; {hint}"


def stopped(job: Job) -> str | None:
    """Why nothing of a paused or parked job starts, and the command that mends it; None for others."""
    match job.state:
        case JobState.PARKED:
            mends = f"`tokimori job resolve {job.id}` enables it"
        case JobState.PAUSED:
            mends = f"`tokimori job resume {job.id}` enables it"
        case _:
            return None
    why = f" ({job.reason})" if job.reason else ""
    return f"job {job.id} is {job.state}{why}: {mends}"


def what_is_lost(definition: Definition) -> str | None:
    """Which occurrences become no run though the job asks for all that it misses; None where none is lost so."""
    skips = definition.on_overlap is Overlap.SKIP and limit_of(definition) != 0
    if definition.schedule is None or definition.misfire is not Misfire.ALL or not skips:
        return None
    return (
        "misfire all asks for a run of each missed occurrence, but on_overlap skip drops what is due while as many run "
        "as max_running allows: on_overlap queue keeps it"
    )
