"""Lanes: the queues of ready runs by handler and labels, the nodes that serve them, and their order."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from tokimori.clock import MINUTE, Moment
from tokimori.model.ids import Lane
from tokimori.model.job import Definition
from tokimori.model.semaphores import wanted
from tokimori.model.target import Handler, handles

EVERYTHING = "*"
"""In place of a queue: all queues. No queue has this name."""


class Pause(Struct, frozen=True, kw_only=True):
    """Stop of claims from a queue, or from all (`EVERYTHING`): since when, by whom and why."""

    queue: str
    since: Moment
    reason: str | None = None
    by: str | None = None


def paused_queue(lane: Lane) -> str:
    """Return the queue to which a lane belongs."""
    return lane.partition("|")[0]


def open_lanes(lanes: Collection[Lane], paused: Collection[str]) -> tuple[Lane, ...]:
    """Return the lanes that are not paused by these queues."""
    if EVERYTHING in paused:
        return ()
    return tuple(lane for lane in lanes if paused_queue(lane) not in paused) if paused else tuple(lanes)


APART_LABEL = "tokimori:semaphores"
"""The label of nodes that can acquire units in another store. In a lane its value says which: `NAME:WEIGHT+…`."""
HANDLERS_LABEL = "tokimori:handlers"
"""The label that shows people the handlers of a node (`handlers_text`). No lane asks for it."""

ONLY_LABEL = "tokimori:only"
"""The label that shows people that a node runs nothing but what its handlers are for. No lane asks for it."""
UNABLE_LABEL = "tokimori:unable"
"""The label that shows people why a node can start no function now. No lane asks for it."""
SHORT_LABEL = "tokimori:short"
"""The label that shows people what the machine of a node lacks to begin any run. No lane asks for it."""
SILENT_LABEL = "tokimori:silent"
"""The label that shows people which worker processes of a node do not answer: `PID RUN,… SINCE; …`, with the runs that
may be why. No lane asks for it."""
DRAINING_LABEL = "tokimori:draining"
"""The label that shows people which worker processes of a node are drained: `PID RUN UNTIL; …`. No lane asks for it."""


def lane_of(definition: Definition) -> Lane:
    """Return the lane in which ready runs of the job wait: `queue|handler|label=value,…`."""
    labels = [f"{key}={value}" for key, value in sorted(definition.labels.items())]
    if definition.apart and definition.semaphores:
        units = "+".join(f"{name}:{weight}" for name, weight in wanted(definition.semaphores))
        labels.append(f"{APART_LABEL}={units}")
    return Lane(f"{definition.queue}|{definition.target.handler}|{','.join(labels)}")


def queue_of(lane: Lane) -> str:
    """Return the queue of the lane."""
    return lane.split("|", 1)[0]


def handler_of(lane: Lane) -> str:
    """Return the handler that a node must have for the runs of the lane; empty: every node can run them."""
    return lane.split("|", 2)[1]


def serves(labels: dict[str, str], lane: Lane, handlers: Sequence[Handler] = ()) -> bool:
    """Return whether a node with these labels and handlers may run the runs of the lane."""
    handler = handler_of(lane)
    served = not handler or handles(handlers, handler)
    return served and not lacking(labels, lane)


def lacking(labels: dict[str, str], lane: Lane) -> list[str]:
    """Return the labels, `key=value`, that the lane asks for and that are not among these."""
    return [f"{key}={value}" for key, value in _labels_of(lane) if not _carries(labels, key, value)]


def _carries(labels: dict[str, str], key: str, value: str) -> bool:
    return key in labels if key == APART_LABEL else labels.get(key) == value


def _labels_of(lane: Lane) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (pair.partition("=") for pair in lane.split("|", 2)[2].split(",")) if key]


def units_apart(lane: Lane) -> tuple[tuple[str, int], ...]:
    """Return the units that runs of the lane hold in another store while they run: (name, weight), by name."""
    units = dict(_labels_of(lane)).get(APART_LABEL) if APART_LABEL in lane else None
    return () if units is None else wanted(units.split("+"))


def rank_of(due: Moment, priority: int) -> int:
    """Return the order in a lane, smaller first. No run that is due over 200 minutes later can overtake."""
    return due - head_start(priority)


def head_start(priority: int) -> int:
    """Return the microseconds by which a run of this priority precedes one of priority 0 due at the same moment."""
    return priority * MINUTE
