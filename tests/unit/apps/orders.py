"""Orders of a node, for worker processes that no node has started."""

from typing import Any

from tokimori.clock import Moment
from tokimori.executors.functions import wire


def begin(handler: str = "f", number: int = 1, attempt: int = 1, **said: Any) -> wire.Begin:
    """The order to begin."""
    return wire.Begin(
        number=number,
        handler=handler,
        run_id="r",
        job_id="j",
        attempt=attempt,
        token=1,
        scheduled_at=Moment(0),
        due_at=Moment(0),
        **said,
    )
