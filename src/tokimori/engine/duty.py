"""Duty of a node: work that it repeats, a short step at a time."""

from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.ports.nodes import Pulse


class Duty(Protocol):
    """A new duty is a file in `tokimori.engine` and a line in `Node`. The steps that are due are taken together."""

    @property
    def next_at(self) -> float:
        """Return when the next step is due, in seconds of the monotonic clock; `inf`: not before something happens."""
        ...

    def hear(self, pulse: Pulse) -> None:
        """Be told what the store said to the node's beat."""
        ...

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """Take a step, so short that the next beat is not late. `now` and `at` are the same moment.

        Whether there may be something new to do: then the node looks at once. What it raises hinders no other duty, and
        the step is taken again soon.
        """
        ...
