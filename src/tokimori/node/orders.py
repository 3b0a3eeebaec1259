"""Orders that a node carries out; `engine/orders.py` reads them from the store."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tokimori.engine.lookout import Lookout
from tokimori.engine.orders import OrderFeed
from tokimori.model.ids import NodeId
from tokimori.model.order import DrainNode, Order, RestartRun, ResumeNode, SignalRun, StopNode
from tokimori.node.membership import BeatAnswer
from tokimori.node.stopping import Phase, Stopping
from tokimori.node.worker import Worker
from tokimori.ports.executor import Signal, Signalling

log = logging.getLogger(__name__)


class OrderedNode(NamedTuple):
    """Node that receives orders. `signalling` passes signals to an attempt, `stop` is one request to stop."""

    id: NodeId
    worker: Worker
    lookout: Lookout
    stopping: Stopping
    signalling: Signalling
    stop: Callable[[], str]


async def carry_out_orders(orders: OrderFeed, received: BeatAnswer, node: OrderedNode) -> bool:
    """Obey the orders since the last beat; return if a sender of orders is waiting for one more beat.

    A beat that came late, or failed, may have missed the sender: a reading follows.
    """
    found = await orders.received(received.pulse, received.sent, busy=node.worker.work.busy or not received.unbroken)
    for order in found:
        obey(order, node)
    return any(isinstance(order, DrainNode | ResumeNode | StopNode) for order in found)


async def obey_missed(orders: OrderFeed, node: OrderedNode) -> None:
    """Obey orders for the id that the node had before it was declared dead: it is the same process."""
    async for order in orders.missed():
        match order:
            case DrainNode(node_id=node.id) | ResumeNode(node_id=node.id) | StopNode(node_id=node.id):
                obey(order, node)
            case _:
                pass


def obey(order: Order, node: OrderedNode) -> None:
    """Obey the order, if it is for this node."""
    match order:
        case RestartRun(run_id=run_id, token=token):
            node.worker.restart((run_id, token))
        case SignalRun(run_id=run_id, token=token) if node.worker.work.owns((run_id, token)):
            node.signalling(run_id, token, Signal(order.name, order.data))
        case DrainNode(node_id=node_id) if node_id in (None, node.id):
            log.info("drained by order: the node takes no new runs")
            node.stopping.drained = True
            node.worker.hand_back_backlog()
        case ResumeNode(node_id=node_id) if node_id in (None, node.id):
            log.info("resumed by order: the node takes runs again")
            node.stopping.drained, node.lookout.stale = False, True
        case StopNode(node_id=node_id, now=now) if node_id in (None, node.id):
            _stop(node, now=now)
        case _:
            pass


def _stop(node: OrderedNode, *, now: bool) -> None:
    if node.stopping.working:
        log.info("%s", node.stop())
    if now and node.stopping.phase is Phase.DRAINING:
        log.info("%s", node.stop())
