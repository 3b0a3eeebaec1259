"""Orders to runs, which nodes receive with their next beat: restart, signal."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tokimori.engine.streams import Streams
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.ids import RunId, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.order import KIND, LARGEST_DATA, TOPIC, Order, RestartRun, SignalRun, check_signal, encode_order
from tokimori.model.run import Run
from tokimori.model.stream import Entry
from tokimori.model.target import Function
from tokimori.model.transitions import ENDS, RunState
from tokimori.model.words import check_text
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import RunFilter
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import known_job
from tokimori.service.validation import MOST_LISTED, json_of


class Orders:
    """Orders to nodes, which receive them within a second while they have runs, else within two.

    They are stored before a method returns. A node that can't reach the store receives them later.
    """

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self._store, self._now, self._random = shared.store, shared.now, shared.random
        self._streams = Streams(shared.store, KIND, shared.random)
        self._author = caller.author

    async def give(self, order: Order) -> None:
        """Store an order."""
        now = await self._now()
        body = msgspec.Raw(encode_order(order))
        await self._streams.append(TOPIC, Entry(at=now, by=self._author, key=uuid7(now, self._random), body=body))

    async def restart(self, run_id: str, nodes: Sequence[NodeRecord]) -> Run:
        """End the running attempt of a run, which then begins anew."""
        run = await self._running(run_id, nodes)
        _check_again(await known_job(self._store, run.job_id), f"`tokimori run cancel {run.id}`")
        await self.give(RestartRun(run_id=run.id, token=run.token))
        return run

    async def restart_all(self, job: Job) -> Sequence[Run]:
        """Restart all runs of a job that run on nodes; those runs, at most 1,000."""
        _check_again(job, f"`tokimori job cancel {job.id}`")
        running = RunFilter(job_id=job.id, states=frozenset({RunState.RUNNING}), limit=MOST_LISTED, longest=0)
        restarted = []
        runs, nodes = await self._store.list_runs(running), await self._store.list_nodes()
        for run in (each for each in runs if each.incarnation == job.incarnation):
            with suppress(Refused, NotFound):  # it has ended meanwhile, or is cancelled
                restarted.append(await self.restart(run.id, nodes))
        return restarted

    async def signal(self, run_id: str, name: str, data: Any) -> Run:
        """Give the function of a running run a word."""
        word, text = check_signal(name), None if data is None else _checked_data(json_of("data", data))
        run = await self._running(run_id, await self._store.list_nodes())
        job = await known_job(self._store, run.job_id)
        if not isinstance(job.definition.target, Function):
            message = f"the run {run.id} is no function: nothing in it receives a signal"
            raise Refused(message, field="run", value=run.id, allowed="a run of a job with a `function`")
        await self.give(SignalRun(run_id=run.id, token=run.token, name=word, data=text))
        return run

    async def _running(self, run_id: str, nodes: Sequence[NodeRecord]) -> Run:
        run = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        if run.state is not RunState.RUNNING:
            hint = f": `tokimori run retry {run.id}` asks for it once more" if run.state in ENDS else ""
            message = f"the run {run.id} does not run: it is {run.state}{hint}"
            raise Refused(message, field="run", value=run.id, allowed="a run that runs")
        if run.cancel is not None:
            raise Refused(f"the run {run.id} is being cancelled: {run.cancel}", field="run", value=run.id)
        node = next((each for each in nodes if each.id == run.node_id), None)
        if node is not None and node.is_program:
            message = (
                f"the run {run.id} was claimed by a worker outside of nodes, which receives no orders but to cancel"
            )
            raise Refused(message, field="run", value=run.id, allowed=f"`tokimori run cancel {run.id}`")
        return run


def _checked_data(text: str) -> str:
    check_text("data", text)
    size = len(text.encode())
    if size > LARGEST_DATA:
        allowed = f"at most {LARGEST_DATA} bytes of JSON"
        raise InvalidInput(f"data: it is too large, {size} bytes", field="data", value=size, allowed=allowed)
    return text


def _check_again(job: Job, cancel: str) -> None:
    if job.definition.retry.once_begun:
        message = f"a run of {job.id} is never begun again, as its job says (retry.lost_attempts = 0)"
        raise Refused(message, field="job", value=job.id, allowed=f"{cancel}, then `tokimori job trigger {job.id}`")
