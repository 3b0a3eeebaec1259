"""Nodes, semaphores and pauses as the page shows them."""

from collections.abc import Sequence
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.lanes import EVERYTHING, Pause
from tokimori.ports.nodes import NodeRecord
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.web.times import Time, time_of
from tokimori.web.view import api_path

HOLDERS_SHOWN = 5


class NodeRow(NamedTuple):
    """A node that takes part."""

    id: str
    host: str
    pid: int
    version: str
    labels: Sequence[str]
    concurrency: int
    started: Time


class SemaphoreRow(NamedTuple):
    """A semaphore, and its first holders."""

    name: str
    limit: int
    used: int
    waiting: int
    holders: Sequence[str]


class PauseRow(NamedTuple):
    """A pause of a queue or of everything; `path` is the path of the API that resumes it, where there is one."""

    what: str
    since: Time
    by: str | None
    reason: str | None
    path: str | None


def node_row(node: NodeRecord, zone: str, now: Moment) -> NodeRow:
    """Return the row of a node, with times in this zone."""
    return NodeRow(
        id=node.id,
        host=node.host,
        pid=node.pid,
        version=node.version,
        labels=[
            *(["drained"] if node.drained else []),
            *(f"{key}={each}" for key, each in sorted(node.labels.items())),
        ],
        concurrency=node.concurrency,
        started=time_of(node.started, zone, now),
    )


def semaphore_row(found: SemaphoreDetails) -> SemaphoreRow:
    """Return the row of a semaphore."""
    holders = [
        f"pid {each.pid} on {each.host}" if each.run_id is None else f"run {each.run_id}"
        for each in found.holders[:HOLDERS_SHOWN]
    ]
    return SemaphoreRow(found.name, found.limit, found.used, found.waiting, holders)


def pause_row(pause: Pause, zone: str, now: Moment) -> PauseRow:
    """Return the row of a pause, with times in this zone."""
    if pause.queue == EVERYTHING:
        what, path = "Everything", api_path("resume")
    else:
        what, path = f"Queue {pause.queue}", api_path("queues", pause.queue, "resume")
    return PauseRow(what, time_of(pause.since, zone, now), pause.by, pause.reason, path)
