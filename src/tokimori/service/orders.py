"""Orders to runs, jobs and nodes, which nodes hear with their next beat: restart, signal, drain, resume, stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from tokimori.clock import format_moment
from tokimori.engine.streams import Streams
from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role
from tokimori.model.ids import NodeId, RandomBytes, RunId, check_job_id, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.order import (
    KIND,
    LARGEST_DATA,
    TOPIC,
    DrainNode,
    Order,
    RestartRun,
    ResumeNode,
    SignalRun,
    StopNode,
    check_signal,
    encode_order,
)
from tokimori.model.run import Run
from tokimori.model.sizes import check_reason
from tokimori.model.stream import Entry
from tokimori.model.target import Function
from tokimori.model.transitions import ENDS, RunState
from tokimori.model.words import check_text
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.asking import MOST_LISTED, cancel_all
from tokimori.service.audit import record
from tokimori.service.documents import Documents
from tokimori.service.drained import DRAINED
from tokimori.service.given import flag_of, json_of
from tokimori.service.operation import ITSELF, OUTCOME, M, Part, composed, operation
from tokimori.service.sight import JOB, RUN, WHOLE
from tokimori.service.store_time import Now

if TYPE_CHECKING:
    from tokimori.service.service import Service

LOOK = 0.25
"""Seconds between two looks at the beats of nodes that were told something."""
BEATS = 2
"""So many beats of a node behind an order: the first may have asked for its peers before it, and be counted later."""
LONGEST = 5.0
"""Seconds for which it is waited for them. A node whose beats are further apart reads what was ordered meanwhile."""
MOST_CANCELLED = 100
"""So many runs of a job are cancelled by one request: each is a transaction of its own."""
_BECAME = MappingProxyType({"drain": "drained", "resume": "resumed", "stop": "stopped"})
_LIVE = frozenset(RunState) - ENDS


class CancelledRuns(Struct, frozen=True, kw_only=True):
    """Number of `cancelled` runs. Ask again with `next` as `before` to go on; None: that was all."""

    cancelled: int
    next: RunId | None = None


class Orders(Part[M]):
    """Orders that nodes hear within a second while they run something, else within two.

    They are kept before a method returns, and a node that could not reach the store hears them when it can again. Every
    method may raise `StoreError`, and `NotFound` for a run, a job or a node that there is not.
    """

    noun, word = "orders", "node"

    def __init__(self, service: "Service", store: Store, now: Now, random: RandomBytes, author: str | None) -> None:
        self._service = service
        self._store = store
        self._streams = Streams(store, KIND, random)
        self._drained = Documents(store, DRAINED, random)
        self._now = now
        self._random = random
        self._author = author
        self._rest: Callable[[float], Awaitable[object]] = asyncio.sleep
        """Waits so many seconds."""

    # Runs

    @operation(Role.OPERATE, RUN, audit=OUTCOME, of="run", doing="Restarting a run")
    async def restart(self, run_id: str) -> Run:
        """End the running attempt of a run, which then begins anew; it counts for nothing. The run as it is now.

        Raises `Refused` for a run that does not run on a node, or that its job never lets begin again.
        """
        return await self._restart(run_id, await self._store.list_nodes())

    async def _restart(self, run_id: str, nodes: Sequence[NodeRecord]) -> Run:
        run = await self._running(run_id, nodes)
        _check_again(await self._service.get(run.job_id), f"`tokimori run cancel {run.id}`")
        await self._give(RestartRun(run_id=run.id, token=run.token))
        return run

    @operation(Role.OPERATE, RUN, audit=OUTCOME, of="run", doing="Signalling a run")
    async def signal(self, run_id: str, name: str, data: Any = None) -> Run:
        """Tell the function of a running run a word, with data that JSON can hold; the run as it is now.

        It hears it by `task.on_signal`; an attempt that ends before that hears nothing. Raises `Refused` for a run that
        does not run on a node, or is no function.
        """
        word, text = check_signal(name), None if data is None else _checked_data(json_of("data", data))
        run = await self._running(run_id, await self._store.list_nodes())
        job = await self._service.get(run.job_id)
        if not isinstance(job.definition.target, Function):
            message = f"the run {run.id} is no function: nothing in it hears a signal"
            raise Refused(message, field="run", value=run.id, allowed="a run of a job with a `function`")
        await self._give(SignalRun(run_id=run.id, token=run.token, name=word, data=text))
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
            message = f"the run {run.id} was claimed by a worker outside of nodes, which hears no orders but to cancel"
            raise Refused(message, field="run", value=run.id, allowed=f"`tokimori run cancel {run.id}`")
        return run

    # Jobs

    @operation(Role.OPERATE, JOB, audit=OUTCOME, of="job", doing="Restarting the runs of a job")
    async def restart_job(self, job_id: str) -> Sequence[Run]:
        """Restart all runs of a job that run on nodes; those runs, at most 1,000.

        Raises `Refused` for a job that never lets a run begin again.
        """
        job = await self._service.get(check_job_id(job_id))
        _check_again(job, f"`tokimori job cancel {job.id}`")
        running = RunFilter(job_id=job.id, states=frozenset({RunState.RUNNING}), limit=MOST_LISTED, longest=0)
        restarted = []
        runs, nodes = await self._store.list_runs(running), await self._store.list_nodes()
        for run in (each for each in runs if each.incarnation == job.incarnation):
            with suppress(Refused, NotFound):  # it has ended meanwhile, or is cancelled
                restarted.append(await self._restart(run.id, nodes))
        return restarted

    @composed
    async def cancel_job(self, job_id: str, reason: str = "cancelled by hand") -> int:
        """Cancel all runs of a job that have not ended, wherever they are; how many. The job itself goes on.

        Stopped on the way, it is asked again, and goes on with those that are left.
        """
        done = await self.cancel_some(job_id, reason)
        cancelled = done.cancelled
        while done.next is not None:
            done = await self.cancel_some(job_id, reason, done.next)
            cancelled += done.cancelled
        return cancelled

    @operation(Role.OPERATE, JOB, audit=OUTCOME, of="job", doing="Cancelling runs")
    async def cancel_some(
        self, job_id: str, reason: str = "cancelled by hand", before: str | None = None
    ) -> CancelledRuns:
        """Cancel the newest runs of a job that have not ended, at most 100: of those older than the run `before`."""
        check_reason("reason", reason)
        job = await self._service.get(check_job_id(job_id))
        behind = None if before is None else RunId(check_uuid(before, field="before"))
        live = RunFilter(job_id=job.id, states=_LIVE, before=behind, limit=MOST_CANCELLED, longest=0)
        runs = await self._store.list_runs(live)
        own = [run for run in runs if run.incarnation == job.incarnation]
        cancelled = await cancel_all(self._service.cancel, own, reason)
        return CancelledRuns(cancelled=cancelled, next=runs[-1].id if len(runs) == MOST_CANCELLED else None)

    # Nodes

    @operation(Role.ADMIN, WHOLE, audit=ITSELF)
    async def drain(self, node_id: str | None = None) -> Sequence[NodeRecord]:
        """Let a node (None: all that live now) take no new runs: what it runs goes on, and it fires schedules still.

        Until `resume`, or its next start. The nodes that were told.
        """
        nodes = await self._nodes(node_id)
        text = f"{format_moment(await self._now())} {self._author or ''}".rstrip()
        for node in nodes:
            await self._drained.put(node.id, text)
        await self._tell("drain", nodes, DrainNode(node_id=_one(node_id)))
        await self._forget_the_dead()
        return [structs.replace(node, drained=True) for node in nodes]

    @operation(Role.ADMIN, WHOLE, audit=ITSELF)
    async def resume(self, node_id: str | None = None) -> Sequence[NodeRecord]:
        """Let a node (None: all that live now) take runs again. The nodes that were told."""
        nodes = await self._nodes(node_id)
        ids = {node.id for node in nodes}
        drained = [
            each for each in await self._store.list_documents(DRAINED.word, limit=MOST_LISTED) if each.name in ids
        ]
        await self._tell("resume", nodes, ResumeNode(node_id=_one(node_id)))
        for document in drained:
            with suppress(Conflict):  # somebody has drained it again while it was told
                await self._drained.delete(document)
        return [structs.replace(node, drained=False) for node in nodes]

    @operation(Role.ADMIN, WHOLE, audit=ITSELF)
    async def stop(self, node_id: str | None = None, *, now: bool = False) -> Sequence[NodeRecord]:
        """Shut down a node (None: all that live now): its runs get its grace to finish, with `now` none at all.

        Those that have not ended by then begin anew elsewhere. What starts nodes (systemd, say) may start it again. The
        nodes that were told.
        """
        at_once, nodes = flag_of("now", now), await self._nodes(node_id)
        await self._tell("stop", nodes, StopNode(node_id=_one(node_id), now=at_once))
        return nodes

    async def _nodes(self, node_id: str | None) -> Sequence[NodeRecord]:
        living = [each for each in await self._service.nodes() if each.runs_jobs]
        if node_id is None:
            return living
        wanted = check_uuid(node_id, field="node")
        found = [each for each in living if each.id == wanted]
        if not found:
            message = f"no node {wanted} is alive"
            raise NotFound(message, field="node", value=wanted, allowed="See `tokimori node list`.")
        return found

    async def _tell(self, what: str, nodes: Sequence[NodeRecord], order: DrainNode | ResumeNode | StopNode) -> None:
        """Give an order to nodes, record that, and wait until they hear it, `LONGEST` seconds at most.

        Whoever does so takes part for that time: the beat of an idle node tells of a peer that it did not know. Who is
        gone before they have heard it has given it all the same: it is recorded first.
        """
        now = await self._now()
        us = NodeRecord(
            id=NodeId(uuid7(now, self._random)),
            host="an order",
            boot_id="",
            pid=0,
            concurrency=0,
            version="",
            started=now,
            state=NodeState.ALIVE,
        )
        await self._give(order)
        of = f"node {order.node_id or '*'}"
        event = f"node.{_BECAME[what]}"
        await record(self._service.audit, f"orders.{what}", of, None, {"nodes": len(nodes)}, event=event)
        await self._store.register(us)
        try:
            wanted = {node.id for node in nodes}
            before = {node.id: node.beat for node in await self._store.list_nodes() if node.id in wanted}
            for _ in range(round(LONGEST / LOOK)):
                if not before:
                    return
                await self._rest(LOOK)
                beats = {node.id: node.beat for node in await self._store.list_nodes() if node.state is NodeState.ALIVE}
                before = {each: beat for each, beat in before.items() if 0 <= beats.get(each, -1) < beat + BEATS}
        finally:
            await self._store.leave(us.id, now)

    async def _forget_the_dead(self) -> None:
        known = await self._store.list_documents(DRAINED.word, limit=MOST_LISTED)
        living = {each.id for each in await self._store.list_nodes() if each.state is NodeState.ALIVE}
        for each in known:  # read before: a node that came since is not taken for dead
            if each.name not in living:
                await self._drained.discard(each.name)

    async def _give(self, order: Order) -> None:
        now = await self._now()
        body = msgspec.Raw(encode_order(order))
        await self._streams.append(TOPIC, Entry(at=now, by=self._author, key=uuid7(now, self._random), body=body))


def _one(node_id: str | None) -> NodeId | None:
    return None if node_id is None else NodeId(check_uuid(node_id, field="node"))


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
