"""Why a run waits or is lost, in words."""

from collections.abc import Iterable

from tokimori.model.handlers import how_to_allow, is_told
from tokimori.model.ids import Lane
from tokimori.model.job import Definition, Job, JobState, limit_of
from tokimori.model.lanes import HANDLERS_LABEL, ONLY_LABEL, handler_of, lacking, units_apart
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


def nobody_takes(lane: Lane, nodes: Iterable[NodeRecord]) -> str | None:
    """What those of these nodes that run jobs lack for the runs of the lane, in words; None if one takes them.

    None, too, where no node runs and any would do.
    """
    there, function = [node for node in nodes if node.runs_jobs], handler_of(lane)
    able = [node for node in there if _can_run(function, node)]
    if function and not able:
        hint = how_to_allow(function)
        said = f"a node with a handler of the function {function!r}: none that runs now has one"
        return said if hint is None else f"{said}; {hint}"
    if there and not able:
        return "a node that runs more than the functions of its app: start one with `tokimori serve`"
    lacks = min((lacking(node.labels, lane) for node in able), key=len, default=[])
    if not lacks:
        return None
    said = (
        f"a node with the label{'s' if len(lacks) > 1 else ''} {', '.join(lacks)}: none that runs now has what it asks"
    )
    return f"{said}; `node.labels` in the settings of a node gives it some"


def _can_run(function: str, node: NodeRecord) -> bool:
    return is_told(function, node.labels.get(HANDLERS_LABEL, "")) if function else ONLY_LABEL not in node.labels


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
