"""Waiting for the end of a run, and saying meanwhile what keeps it from starting."""

import asyncio
from typing import TYPE_CHECKING

from tokimori.cli.output import print_notice

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.reasons import Reason
    from tokimori.service.service import Service

LOOK = 2.0
"""Seconds between two looks at what keeps the run from starting."""
LONGEST_LOOK = 30.0
"""Each look is so much later than the one before, up to this: what holds a run for long is looked at seldom."""
_LATER = 1.2


async def end_of(service: "Service", run_id: str, timeout: float | None) -> "Run":
    """Return the run when it has ended; each thing that keeps it from starting is said once. Raises `Refused`."""
    from tokimori.service.reasons import told
    from tokimori.service.why.run import SOON

    loop = asyncio.get_running_loop()
    ending, began, pause = asyncio.ensure_future(service.runs.wait(run_id, timeout)), loop.time(), LOOK
    said: set[str] = set()
    try:
        while not ending.done():
            for reason in await _hindrances(service, run_id, soon=loop.time() < began + SOON):
                if reason.text not in said:
                    said.add(reason.text)
                    print_notice(f"run {run_id}: {told(reason)}")
            await asyncio.wait({ending}, timeout=pause)
            pause = min(pause * _LATER, LONGEST_LOOK)
    finally:
        ending.cancel()
    return await ending


async def _hindrances(service: "Service", run_id: str, *, soon: bool) -> "list[Reason]":
    """Return the reasons that hold the run. A run about to start has one only if that takes long."""
    from tokimori.model.transitions import STANDING_STILL
    from tokimori.service.reasons import Cause

    why = await service.runs.why(run_id)
    if why.state not in STANDING_STILL:
        return []
    return [reason for reason in why.reasons if not (soon and reason.cause is Cause.NEXT)]
