"""Runs whose semaphores are in another store than their jobs: the node acquires units there, then claims a run here.

A lane names the units that its runs want. No run is claimed without its units, and the runs of a lane keep their order.
The units go back after the settle.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from tokimori.clock import Clock, Moment
from tokimori.engine.refusals import is_fault_of_request
from tokimori.engine.unsettled import key_of
from tokimori.errors import StoreError, TokimoriError
from tokimori.model.ids import ClaimId, JobId, Lane, NodeId, RandomBytes, RunId, Token
from tokimori.model.lanes import units_apart
from tokimori.model.outcome import Released
from tokimori.model.run import Output, Run
from tokimori.model.semaphores import wanted
from tokimori.node.units import Stock
from tokimori.ports.executor import AttemptTask, Ended, Executor, ExecutorAround, Report, StopReason
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.work_source import WorkSource
from tokimori.ports.working import Change, Claim, Claimed, Verdict

log = logging.getLogger(__name__)


class ApartSource:
    """Work source between a node and its store. From a lane that wants units it claims what the stock allows.

    `moved` rewrites the definition of a job that was added when its semaphores were in the same store.
    """

    def __init__(
        self, store: WorkSource, stock: Stock, random: RandomBytes, moved: Callable[[JobId], Awaitable[object]]
    ) -> None:
        self._store = store
        self._stock = stock
        self._random = random
        self._moved = moved
        self._moving: set[JobId] = set()
        self._id: NodeId | None = None

    async def register(self, node: NodeRecord) -> None:
        """See `WorkSource`. A node with a new id has lost the units of the old one."""
        if node.id != self._id:
            self._id = node.id
            self._stock.free_idle()
        await self._store.register(node)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `WorkSource`."""
        return await self._store.tick(beat, now)

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `WorkSource`."""
        found = await self._store.survey(now, past=past)
        self._stock.look(found.lanes)
        return found

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed] | None:
        """See `WorkSource`. Lanes that want units come first, so that units are not kept idle."""
        apart = [lane for lane in claim.lanes if units_apart(lane)]
        here = tuple(lane for lane in claim.lanes if lane not in apart)
        found: list[Claimed] = []
        was_asked = False
        try:
            for lane in apart:
                if len(found) < claim.limit and (some := await self._claim_with_units(claim, lane, now)) is not None:
                    was_asked, found = True, found + some
            if here and len(found) < claim.limit:
                rest = replace(claim, lanes=here, limit=claim.limit - len(found))
                was_asked, some = True, await self._store.claim(rest, now) or []
                found += [self._checked(each, ()) for each in some]
        except StoreError:
            if not found:
                raise
        return found if was_asked else None

    async def get_run(self, run_id: RunId) -> Run:
        """See `WorkSource`."""
        return await self._store.get_run(run_id)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `WorkSource`. Then the units go back, whatever the verdict, as these runs have ended here.

        This includes a run whose end the store refuses, which may take a while.
        """
        try:
            verdicts = await self._store.settle(changes, by, now)
        except Exception as fault:
            if len(changes) == 1 and is_fault_of_request(fault):
                self._stock.free(key_of(changes[0]))
            raise
        for change in changes:
            self._stock.free(key_of(change))
        return verdicts

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `WorkSource`."""
        await self._store.save_outputs(outputs)

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """See `WorkSource`."""
        return await self._store.leave(node, now)

    def watch(self, wake: Callable[[], None]) -> None:
        """See `WorkSource`. Acquired units wake the node, too."""
        self._stock.watch(wake)
        self._store.watch(wake)

    async def _claim_with_units(self, claim: Claim, lane: Lane, now: Moment) -> list[Claimed] | None:
        """Return one run, if there are units. If the store does not answer, the node later releases unknown runs."""
        units = self._stock.take(lane)
        if units is None:
            return None
        claimed: list[Claimed] | None = None
        try:
            if units.sure:
                one = replace(claim, id=ClaimId(self._random(16).hex()), lanes=(lane,), limit=1)
                claimed = await self._store.claim(one, now)
        except StoreError as fault:
            if is_fault_of_request(fault):
                raise
            log.warning("the store does not answer a claim: %s", fault)
        finally:
            if not claimed:
                self._stock.give_back(units)
        for each in claimed or ():
            self._stock.use((each.run.id, each.run.token), units)
            self._stock.wait_in_line(lane)  # there may be more
        return None if claimed is None else [self._checked(each, units_apart(lane)) for each in claimed]

    def _checked(self, claimed: Claimed, units: tuple[tuple[str, int], ...]) -> Claimed:
        """Return the run. If it wants other units than it has, it counts as unreadable, and is released."""
        definition = claimed.definition
        if definition is None or wanted(definition.semaphores) == units:
            return claimed
        if not definition.apart:
            self._move(claimed.run.job_id)
        return replace(claimed, definition=None)

    def _move(self, job_id: JobId) -> None:
        if job_id not in self._moving:
            self._moving.add(job_id)
            self._stock.later(self._said_anew(job_id))

    async def _said_anew(self, job_id: JobId) -> None:
        try:
            await self._moved(job_id)
        except TokimoriError as fault:
            log.warning("can't acquire the semaphores of job %s in their store: %s", job_id, fault)
        finally:
            self._moving.discard(job_id)


class ApartExecutor(ExecutorAround):
    """Executor before the node's own: an attempt that may have lost its units does not begin."""

    def __init__(self, executor: Executor, stock: Stock, clock: Clock) -> None:
        super().__init__(executor)
        self._stock = stock
        self._clock = clock

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        await super().open(report)
        self._stock.open()

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        certain = [task for task in map(self._with_units, tasks) if task is not None]
        if any(task.permits for task in certain):
            self._stock.renew_again()
        self._executor.start(certain)

    def _with_units(self, task: AttemptTask) -> AttemptTask | None:
        units = self._stock.used_by((task.run_id, task.token))
        if units is None:
            return task
        if not units.sure:
            outcome = Released("the store of its semaphores does not answer")
            self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=self._clock.now()))
            return None
        units.running, units.kills = True, task.kill_on_lost_lease
        return replace(task, permits=units.text)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`. A disowned run is not settled: its units go back when it has ended."""
        units = self._stock.used_by((run_id, token))
        if units is not None and reason is StopReason.DISOWN:
            units.disowned = True
            if not units.running:
                self._stock.free((run_id, token))
        self._executor.stop(run_id, token, reason, grace=grace)

    def _receive_report(self, report: Report) -> None:
        units = self._stock.used_by((report.run_id, report.token))
        if units is not None and isinstance(report, Ended):
            units.running = False
            if units.disowned:
                self._stock.free((report.run_id, report.token))
        self._report(report)

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self._stock.renew(sent)

    async def close(self) -> None:
        """See `Executor.close`."""
        await self._executor.close()
        await self._stock.close()
