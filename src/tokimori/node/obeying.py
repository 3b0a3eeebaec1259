"""What a node does that hears an order (`engine/orders.py`)."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tokimori.engine.look import Lookout
from tokimori.model.ids import NodeId
from tokimori.model.order import DrainNode, Order, RestartRun, ResumeNode, SignalRun, StopNode
from tokimori.node.stopping import Phase, Stopping
from tokimori.node.worker import Worker
from tokimori.ports.executor import Signal, Signalling

log = logging.getLogger(__name__)


class Hearer(NamedTuple):
    """The node that hears it. `signalling` tells an attempt what people tell it, `stop` is one request to stop."""

    id: NodeId
    worker: Worker
    lookout: Lookout
    stopping: Stopping
    signalling: Signalling
    stop: Callable[[], str]


def obey(order: Order, node: Hearer) -> None:
    """Do what people order, if it concerns this node."""
    match order:
        case RestartRun(run_id=run_id, token=token):
            node.worker.restart((run_id, token))
        case SignalRun(run_id=run_id, token=token) if node.worker.work.owns((run_id, token)):
            node.signalling(run_id, token, Signal(order.name, order.data))
        case DrainNode(node_id=node_id) if node_id in (None, node.id):
            log.info("the node takes no new runs, as it was ordered")
            node.stopping.drained = True
            node.worker.hand_back_backlog()
        case ResumeNode(node_id=node_id) if node_id in (None, node.id):
            log.info("the node takes runs again, as it was ordered")
            node.stopping.drained, node.lookout.stale = False, True
        case StopNode(node_id=node_id, now=now) if node_id in (None, node.id):
            _stop(node, now=now)
        case _:
            pass


def _stop(node: Hearer, *, now: bool) -> None:
    if node.stopping.working:
        log.info("%s", node.stop())
    if now and node.stopping.phase is Phase.DRAINING:
        log.info("%s", node.stop())
