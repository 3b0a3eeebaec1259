"""Reasons that keep all runs of a job from starting: orders of people, and missing nodes. Pure."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tokimori.model.ids import Lane
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import (
    APART_LABEL,
    EVERYTHING,
    HANDLERS_LABEL,
    ONLY_LABEL,
    SHORT_LABEL,
    SILENT_LABEL,
    UNABLE_LABEL,
    Pause,
    handler_of,
    lacking,
)
from tokimori.model.target import Unreadable, how_to_allow, is_handled
from tokimori.ports.nodes import NodeRecord
from tokimori.service.queues import binding, sentence
from tokimori.service.reasons import Cause, Reason
from tokimori.spelling import amount


def stopped(job: Job) -> Reason | None:
    """Return the reason of a paused or parked job; None for other jobs."""
    because = f" ({job.reason})" if job.reason else ""
    match job.state:
        case JobState.PARKED:
            mend = f"`tokimori job resolve {job.id}` enables it"
            return Reason(cause=Cause.PARKED, text=f"job {job.id} is parked{because}", mend=mend)
        case JobState.PAUSED:
            by, mend = f" by {job.by}" if job.by else "", f"`tokimori job resume {job.id}` enables it"
            return Reason(cause=Cause.PAUSED, text=f"job {job.id} is paused{by}{because}", mend=mend)
        case _:
            return None


def queue_paused(pause: Pause) -> Reason:
    """Return a pause of the queue, or of everything."""
    name = "--all" if pause.queue == EVERYTHING else pause.queue
    return Reason(cause=Cause.QUEUE_PAUSED, text=sentence(pause), mend=f"`tokimori queue resume {name}` ends that")


def too_heavy(name: str, weight: int, limit: int) -> Reason:
    """Return the reason of a run that needs more units of a semaphore than it has."""
    text = f"{amount(weight, 'unit')} of the semaphore {name} never fit its limit of {limit}"
    return Reason(cause=Cause.TOO_HEAVY, text=text, mend=f"`tokimori lock set {name} --limit {weight}` raises it")


def stops_of_people(job: Job, pauses: Iterable[Pause]) -> list[Reason]:
    """Return the orders of people that keep all runs of the job from starting."""
    stop = stopped(job)
    return [*([stop] if stop else []), *map(queue_paused, binding(job.definition.queue, tuple(pauses)))]


def unreadable(job: Job) -> list[Reason]:
    """Return the reason of a job whose target this version can't read."""
    if isinstance(job.definition.target, Unreadable):
        text = f"the definition of job {job.id} can't be read by this version of Tokimori: {job.definition.target.why}"
        return [Reason(cause=Cause.UNREADABLE, text=text, mend="install the version that wrote it, on all nodes")]
    return []


def nobody_takes(lane: Lane, nodes: Iterable[NodeRecord]) -> Reason | None:
    """Return the reason that no living node takes runs of the lane; None if one does."""
    there = list(nodes)
    missing, drained = _missing(lane, there), [replace(node, drained=False) for node in there if node.drained]
    if missing is None or not (able := takers(lane, drained)):
        return missing
    which = f"the node {able[0].id}, which was" if len(able) == 1 else f"one of {len(able)} nodes, which were"
    mend = (
        f"`tokimori node resume {able[0].id}` lets it" if len(able) == 1 else "`tokimori node resume --all` lets them"
    )
    return _no_such_node(f"it waits for {which} told to take no new runs", mend)


def _missing(lane: Lane, nodes: Iterable[NodeRecord]) -> Reason | None:
    there, function = [node for node in nodes if node.takes_runs], handler_of(lane)
    if not there:
        text, mend = "it waits for a node, and none runs", "`tokimori serve` starts one"
        return Reason(cause=Cause.NO_NODE, text=text, mend=mend)
    able = [node for node in there if _can_run(function, node)]
    if not able:
        return (
            _no_such_function(lane, there)
            if function
            else _no_such_node(
                "it waits for a node that runs more than the functions of its app, and none runs",
                "`tokimori serve` starts one",
            )
        )
    lacks = min((lacking(node.labels, lane) for node in able), key=len)
    if not lacks:
        fit = takers(lane, there)
        return _short(fit[0]) if all(SHORT_LABEL in node.labels for node in fit) else None
    if any(label.startswith(f"{APART_LABEL}=") for label in lacks):
        text = "it waits for a node that knows the store of its semaphores, and none that runs now does"
        return _no_such_node(text, "`datasource.semaphore.url` in the settings of a node names that")
    labels = f"the label{'s' if len(lacks) > 1 else ''} {', '.join(lacks)}"
    text = f"it waits for a node with {labels}, and none that runs now has {'them' if len(lacks) > 1 else 'it'}"
    return _no_such_node(text, "`node.labels` in the settings of a node names its labels")


def silent_in(node: NodeRecord) -> Iterator[tuple[str, str, str]]:
    """Yield the pid of each worker process of the node that does not answer, why in words, and how that is mended."""
    for entry in filter(None, node.labels.get(SILENT_LABEL, "").split("; ")):
        pid, who, since = entry.split(" ")
        runs = who.split(",")
        cancel = f"`tokimori run cancel {runs[0]}` ends it, with its process; the log of the node shows the stack"
        if who == "stopped":
            why, mend = "the process is stopped", f"`kill -CONT {pid}` on {node.host} lets it go on"
        elif who == "-":
            why, mend = "something that is no run blocks it", "the log of the node shows the stack"
        else:
            why = f"run {who} blocks it" if len(runs) == 1 else f"one of these runs blocks it: {', '.join(runs)}"
            mend = cancel
        yield pid, f"has not answered since {since}: {why}", mend


def _short(node: NodeRecord) -> Reason:
    text = f"it waits for the node {node.id} on {node.host}, which claims nothing: {node.labels[SHORT_LABEL]}"
    mend = "the node tries again by itself; `ulimit -u` and `ulimit -n` show what it may have, `free` what there is"
    return _no_such_node(text, mend)


def _no_such_function(lane: Lane, nodes: Iterable[NodeRecord]) -> Reason:
    function = handler_of(lane)
    having = [node for node in nodes if _has_handler(function, node)]
    unable = min(having, key=lambda node: len(lacking(node.labels, lane)), default=None)
    if unable is not None:
        which = f"the node {unable.id} on {unable.host}, which has a handler of the function {function!r}"
        text = f"it waits for {which} and can start none now ({unable.labels.get(UNABLE_LABEL)})"
        mend = f"mend its app; the node tries again by itself, and at once after `kill -HUP {unable.pid}` there"
        return _no_such_node(text, mend)
    text = f"it waits for a node with a handler of the function {function!r}, and none that runs now has one"
    return _no_such_node(text, how_to_allow(function) or "`tokimori serve --app MODULE:NAME` runs the app that has it")


def _no_such_node(text: str, mend: str) -> Reason:
    return Reason(cause=Cause.NO_SUCH_NODE, text=text, mend=mend)


def takers(lane: Lane, nodes: Iterable[NodeRecord]) -> list[NodeRecord]:
    """Return the nodes that may run what waits in the lane."""
    function = handler_of(lane)
    return [node for node in nodes if node.takes_runs and _can_run(function, node) and not lacking(node.labels, lane)]


def _can_run(function: str, node: NodeRecord) -> bool:
    if not function:
        return ONLY_LABEL not in node.labels
    return UNABLE_LABEL not in node.labels and _has_handler(function, node)


def _has_handler(function: str, node: NodeRecord) -> bool:
    return is_handled(function, node.labels.get(HANDLERS_LABEL, ""))
