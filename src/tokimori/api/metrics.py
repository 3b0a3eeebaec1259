"""The path `/metrics`: what Prometheus reads of a node."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.nodes import MOST_COUNTED
from tokimori.api.operation import Operation
from tokimori.api.request_service import ServiceFor
from tokimori.clock import SECOND, Moment
from tokimori.errors import NotFound
from tokimori.metrics import MEDIA, MOST_QUEUES, StoreFigures
from tokimori.model.lanes import queue_of
from tokimori.model.run import Run
from tokimori.model.semaphores import RATE_OF_JOB, is_rate_alone, semaphore_of
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.semaphores import SemaphoreTable
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED

Figures = Callable[[StoreFigures], bytes]
"""A function that gives the text of all figures of a node, those of the store among them."""


class MetricsPath:
    """The part of the API for figures over time."""

    def __init__(self, service: ServiceFor, figures: Figures) -> None:
        self._service = service
        self._figures = figures

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        return [Operation("metrics", "GET", "/metrics", self.metrics, str, media="text/plain", large=True)]

    async def metrics(self, request: Request) -> Response:
        """Return the node's counters and the store's figures as Prometheus reads them, to any token that may read."""
        figures = await store_figures(self._service(request))
        return Response(self._figures(figures), headers={"content-type": MEDIA})


async def store_figures(service: Service) -> StoreFigures:
    """Return the figures of the store, as far as the caller may know."""
    nodes, pauses, now = await service.nodes.list(), await service.queues.pauses(), await service.db.now()
    runs: dict[str, int] = {}
    ready: Counter[str] = Counter()
    oldest, blocked = now, list[Run]()
    for state in (each for each in RunState if each not in ENDS):
        limit = MOST_LISTED if state is RunState.READY else MOST_COUNTED
        found = await service.runs.list(state=state, limit=limit, longest=0)
        runs[state.value] = len(found)
        blocked += found if state is RunState.BLOCKED else []
        if state is RunState.READY:
            ready.update("stopped" if run.lane is None else queue_of(run.lane) for run in found)
            oldest = min([now, *(run.due for run in found)])
    return StoreFigures(
        nodes=sum(node.state is NodeState.ALIVE and not node.is_program for node in nodes),
        runs=runs,
        ready=ready,
        oldest_ready=(now - oldest) / SECOND,
        pauses=len(pauses),
        alarms=len(await service.expectations.alarms()),
        rates=await _rates(service, blocked, now),
    )


async def _rates(service: Service, blocked: Sequence[Run], now: Moment) -> dict[str, tuple[int, float]]:
    """Return the rates for which these runs wait, by the name that people know, with what is taken."""
    shared, found = service._shared, dict[str, tuple[int, float]]()
    lines = {name: run.job_id for run in blocked if (name := semaphore_of(run.blocked_on)) is not None}
    for name, job_id in list(lines.items())[:MOST_QUEUES]:
        store: SemaphoreTable = shared.store if is_rate_alone(name) else await shared.store_of_semaphores()
        with suppress(NotFound):
            semaphore = await store.get_semaphore(name)
            if semaphore.rate is not None:
                known = f"{RATE_OF_JOB}{job_id}" if name.startswith(RATE_OF_JOB) else name
                found[known] = semaphore.taken, max(0, (semaphore.wakes or now) - now) / SECOND
    return found
