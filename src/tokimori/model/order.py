"""Orders of people to nodes that are no rows of the store. Each is an entry of one stream."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from tokimori.model.ids import NodeId, RunId, Token
from tokimori.model.words import check_word

KIND: Final = "order"
TOPIC: Final = "nodes"
"""All nodes read all orders: they are few."""
LARGEST_DATA: Final = 2**16
"""Bytes of the data of a signal, as JSON."""
MOST_SIGNALS: Final = 100
"""Signals kept for an attempt that does not receive them yet: the newest ones."""
MOST_SIGNAL_DATA: Final = 2**20
"""Characters of their data together."""

_Signal = TypeVar("_Signal", bound=tuple[str, str | None])


class RestartRun(Struct, frozen=True, kw_only=True, tag="restart"):
    """Order to end this attempt, and begin the run anew. `token` is that of the attempt; no other one is ended."""

    run_id: RunId
    token: Token


class SignalRun(Struct, frozen=True, kw_only=True, tag="signal"):
    """Order to send the function of this attempt a signal, with data as JSON."""

    run_id: RunId
    token: Token
    name: str
    data: str | None = None


class DrainNode(Struct, frozen=True, kw_only=True, tag="drain"):
    """Order to take no new runs until a resume. `node_id` None: all nodes that live now, here and below."""

    node_id: NodeId | None


class ResumeNode(Struct, frozen=True, kw_only=True, tag="resume"):
    """Order to take runs again."""

    node_id: NodeId | None


class StopNode(Struct, frozen=True, kw_only=True, tag="stop"):
    """Order to shut down: runs finish within the grace of the node; `now`: they are ended and released."""

    node_id: NodeId | None
    now: bool = False


Order = RestartRun | SignalRun | DrainNode | ResumeNode | StopNode

_decoder: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)


def encode_order(order: Order) -> bytes:
    """Return the body of its entry."""
    return msgspec.json.encode(order)


def decode_order(body: bytes) -> Order:
    """Return the order in a body of `encode_order`. Raises `ValueError`."""
    return _decoder.decode(body)


def check_signal(name: object) -> str:
    """Return the text as the name of a signal. Raises `InvalidInput`."""
    check_word("name", name)
    return str(name)


def newest_signals(signals: Sequence[_Signal]) -> list[_Signal]:
    """Return the signals, names with JSON, to keep for an attempt that does not receive them yet."""
    kept = list(signals[-MOST_SIGNALS:])
    sizes = accumulate(len(data or "") for _, data in reversed(kept))
    many = sum(size <= MOST_SIGNAL_DATA for size in sizes)
    return kept[len(kept) - many :]
