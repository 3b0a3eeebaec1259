"""Waiting for the end of a run, and saying meanwhile what keeps it from starting."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tokimori.cli.output import print_notice

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.service import Service

LOOK = 2.0
"""Seconds between two looks at what keeps the run from starting."""


async def end_of(service: "Service", run_id: str, timeout: float | None) -> "Run":
    """The run when it has ended; each thing that keeps it from starting is said once. Raises `Refused`."""
    ending = asyncio.ensure_future(service.wait(run_id, timeout))
    told: set[str] = set()
    try:
        while not ending.done():
            async for why in _hindrances(service, run_id):
                if why not in told:
                    told.add(why)
                    print_notice(f"run {run_id} {why}")
            await asyncio.wait({ending}, timeout=LOOK)
    finally:
        ending.cancel()
    return await ending


async def _hindrances(service: "Service", run_id: str) -> AsyncIterator[str]:
    from tokimori.model.transitions import BEFORE_START
    from tokimori.service.queues import sentence

    details = await service.get_run(run_id)
    if details.run.state in BEFORE_START:
        if not any(node.runs_jobs for node in await service.nodes()):
            yield "waits for a node: start one with `tokimori serve`"
        for pause in details.pauses:
            yield f"waits: {sentence(pause)}"
        if details.waits_for is not None:
            yield f"waits for {details.waits_for}"
