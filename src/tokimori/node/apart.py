"""Runs whose semaphores are in another store than their jobs: units are had there first, then a run is claimed here.

A lane says which units its runs want, so that a node stands in line for a lane, as a program does, before it knows a
run: none runs without its units, none is claimed to wait, and the runs of a lane keep their order. The units go back
behind the settle. A node that may have lost them ends the run before others can have them: it beats in both stores.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from tokimori.clock import Clock, Moment
from tokimori.engine.work import Key
from tokimori.errors import NotGranted, PermitLost, StoreError, StoreUnavailable, TokimoriError
from tokimori.locks.holdings import Held, Wanted
from tokimori.locks.session import Session
from tokimori.model.ids import ClaimId, JobId, Lane, NodeId, RandomBytes, RunId, Token
from tokimori.model.job import units_apart
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.outcome import Released
from tokimori.model.semaphores import permits_text, wanted
from tokimori.node.work_source import WorkSource
from tokimori.ports.executor import Ended, Executor, Report, StopReason, Task
from tokimori.ports.nodes import Survey
from tokimori.ports.working import Change, Claim, Claimed, Verdict

log = logging.getLogger(__name__)

UNUSED = 5.0
"""Seconds after which units that no claim has used are given back, where the node does not even look any more."""
KEPT = 0.1
"""Seconds from the look that offers the units to the next one: by then a node that has a place has claimed."""
RETRY = 2.0
"""Seconds to the next try where the store of the semaphores does not answer, or refuses."""
DOUBT = LEASE - 0.5
"""Seconds without an answer to a beat in that store, after which the runs that hold units end: sooner than the lease of
both stores, which the keeper knows, so that of a node that lives only these end.
"""


@dataclass(eq=False, slots=True)
class Units:
    """What one run of the lane needs. They are doubtful for good once they may have been lost.

    `since`: from when its place counts, in whichever line. `offered`: the node has looked since they were had.
    """

    lane: Lane
    since: int = 0
    held: list[Held] = field(default_factory=list)
    offered: bool = False
    doubtful: bool = False
    running: bool = False
    kills: bool = False
    disowned: bool = False

    @property
    def sure(self) -> bool:
        """Whether nobody else can have them."""
        return not self.doubtful and not any(held.lost for held in self.held)

    @property
    def text(self) -> str:
        """For the run's command."""
        return permits_text((held.name, held.weight, held.token or 0) for held in self.held)


class Apart:
    """Stands between a node and its store, and between the node and its executor. Everything happens on one loop.

    `moved` says the definition of a job anew that was added when its semaphores were still with it.
    """

    def __init__(
        self,
        store: WorkSource,
        executor: Executor,
        session: Callable[[Callable[[float], None]], Session],
        *,
        clock: Clock,
        random: RandomBytes,
        moved: Callable[[JobId], Awaitable[object]],
    ) -> None:
        self._store = store
        self._executor = executor
        self._clock = clock
        self._random = random
        self._moved = moved
        self._report: Callable[[Report], None] = _nobody
        self._wake: Callable[[], None] = lambda: None
        self._id: Callable[[], NodeId | None] = lambda: None
        self._claims: Callable[[], bool] = lambda: True
        self._node: NodeId | None = None
        self._standing: dict[Lane, asyncio.Task[None]] = {}
        self._in_hand: dict[Lane, Units] = {}
        self._used: dict[Key, Units] = {}
        self._moving: set[JobId] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._sent = self._beat_sent = -inf
        self._doubt: asyncio.TimerHandle | None = None
        self._taking_part: asyncio.Task[None] | None = None
        self._session = session(self._renewed)

    def watch(self, wake: Callable[[], None], node: Callable[[], NodeId], claims: Callable[[], bool]) -> None:
        """Call `wake` when there are units with which to claim. `node` says who the node is now, `claims` whether it
        claims still.
        """
        self._wake = wake
        self._id = node
        self._claims = claims

    # Between the node and its store

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`. Where nothing is ready any more nobody stands in line, and a full node keeps no units."""
        self._check_node()
        found = await self._store.survey(now, past=past)
        for lane in self._standing.keys() - set(found.lanes):
            self._standing[lane].cancel()
        for lane, units in list(self._in_hand.items()):
            if units.offered or lane not in found.lanes:
                self._give_back(self._in_hand.pop(lane))
            else:
                units.offered = True
                asyncio.get_running_loop().call_later(KEPT, self._wake)
        return found

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`. Of a lane whose runs want units, as many as there are units in hand."""
        apart = [lane for lane in claim.lanes if units_apart(lane)]
        found: list[Claimed] = []
        for lane in apart:
            if len(found) < claim.limit:
                found += await self._claim_with_units(claim, lane, now)
        here = tuple(lane for lane in claim.lanes if lane not in apart)
        if here and len(found) < claim.limit:
            rest = replace(claim, lanes=here, limit=claim.limit - len(found))
            try:
                found += [self._checked(each, ()) for each in await self._store.claim(rest, now)]
            except StoreError:
                if not found:
                    raise
        return found

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`. Then the units go back, whatever the verdict: nothing of these runs runs here."""
        verdicts = await self._store.settle(changes, by, now)
        for change in changes:
            self._free((change.run_id, change.token))
        return verdicts

    async def _claim_with_units(self, claim: Claim, lane: Lane, now: Moment) -> list[Claimed]:
        """One run, if there are units. Where the store does not answer, the node hands back what it does not know."""
        units = self._in_hand.pop(lane, None)
        if units is None:
            self._stand_in_line(lane)
            return []
        claimed: list[Claimed] = []
        try:
            if units.sure:
                one = replace(claim, id=ClaimId(self._random(16).hex()), lanes=(lane,), limit=1)
                claimed = await self._store.claim(one, now)
        except StoreError as fault:
            log.warning("the store does not answer a claim: %s", fault)
        finally:
            if not claimed:
                self._give_back(units)
        for each in claimed:
            self._used[each.run.id, each.run.token] = units
            self._stand_in_line(lane)  # there may be more
        return [self._checked(each, units_apart(lane)) for each in claimed]

    def _checked(self, claimed: Claimed, units: tuple[tuple[str, int], ...]) -> Claimed:
        """A run that wants other units than it has is one that this node can't read: it goes back for a moment."""
        definition = claimed.definition
        if definition is None or wanted(definition.semaphores) == units:
            return claimed
        if not definition.apart:
            self._move(claimed.run.job_id)
        return replace(claimed, definition=None)

    def _check_node(self) -> None:
        """A node that was declared dead settles nothing of before. What still runs it disowns, and so ends."""
        if (node := self._id()) != self._node:
            self._node = node
            for key in [key for key, units in self._used.items() if not units.running]:
                self._free(key)

    def _move(self, job_id: JobId) -> None:
        if job_id not in self._moving:
            self._moving.add(job_id)
            self._later(self._said_anew(job_id))

    async def _said_anew(self, job_id: JobId) -> None:
        try:
            await self._moved(job_id)
        except TokimoriError as fault:
            log.warning("the semaphores of job %s can't be had in their store: %s", job_id, fault)
        finally:
            self._moving.discard(job_id)

    # Having units

    def _stand_in_line(self, lane: Lane) -> None:
        if lane not in self._standing and lane not in self._in_hand:
            self._standing[lane] = asyncio.get_running_loop().create_task(self._stand(lane))

    async def _stand(self, lane: Lane) -> None:
        units = Units(lane)
        try:
            await self._fill(units)
        except TokimoriError as fault:
            self._give_back(units)
            told = logging.DEBUG if isinstance(fault, StoreUnavailable) else logging.WARNING  # `_take_part` tells that
            log.log(told, "runs of the lane %s wait: %s", lane, fault)
            await asyncio.sleep(RETRY)
        except BaseException:
            self._give_back(units)
            raise
        else:
            self._keep(units)
        finally:
            del self._standing[lane]

    def _keep(self, units: Units) -> None:
        """Until the node claims with them. One that does not claim any more leaves them to others."""
        if self._claims():
            self._in_hand[units.lane] = units
            asyncio.get_running_loop().call_later(UNUSED, self._expire, units)
            self._wake()
        else:
            self._give_back(units)

    async def _fill(self, units: Units) -> None:
        """All of them at once: who has to wait for one holds no other, and begins in the line of that one."""
        await self._session.join()  # from here on it goes by that store's clock
        units.since = self._session.now
        weights = dict(units_apart(units.lane))
        first = next(iter(weights))
        while True:
            await self._acquire(units, first, weights[first], wait=None)
            refused = await self._refused(units, {name: weights[name] for name in weights if name != first})
            if refused is None:
                return
            await self._released(units)
            first = refused
            await asyncio.sleep(self._random(1)[0] / 5000)  # two that want the same two don't go on in step

    async def _refused(self, units: Units, weights: dict[str, int]) -> str | None:
        for name, weight in weights.items():
            try:
                await self._acquire(units, name, weight, wait=0.0)
            except NotGranted:
                return name
        return None

    async def _acquire(self, units: Units, name: str, weight: int, *, wait: float | None) -> None:
        asked = Wanted(name=name, weight=weight, wait=wait, rank=units.since, on_lost=lambda: self._lost(units))
        units.held.append(await self._session.acquire(asked, units))

    def _expire(self, units: Units) -> None:
        if self._in_hand.get(units.lane) is units:
            self._give_back(self._in_hand.pop(units.lane))

    # Giving them back

    def _free(self, key: Key) -> None:
        units = self._used.pop(key, None)
        if units is not None:
            self._give_back(units)

    def _give_back(self, units: Units) -> None:
        self._later(self._released(units))

    async def _released(self, units: Units) -> None:
        """What the store does not hear of now the session tells it later."""
        while units.held:  # whoever is cancelled here leaves the rest to `_stand`
            each = units.held.pop(0)
            try:
                await self._session.release(units, each.name)
            except PermitLost:
                pass
            except TokimoriError as fault:
                log.warning("units of %r are given back later: %s", each.name, fault)
        self._session.wake()  # the store tells of what others do: this node may be next itself

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # Losing them

    def _renewed(self, sent: float) -> None:
        """A beat of the session was answered."""
        self._beat_sent = sent
        if self._doubt is not None:
            self._doubt.cancel()
        left = sent + DOUBT - self._clock.monotonic()
        self._doubt = asyncio.get_running_loop().call_later(max(0.0, left), self._doubt_all)
        self._renew()

    def _doubt_all(self) -> None:
        for units in self._in_hand.values():
            units.doubtful = True
        for key, units in self._used.items():
            self._end(key, units)
        self._renew()

    def _lost(self, units: Units) -> None:
        """Others may have them already."""
        if units.doubtful:
            return
        units.doubtful = True
        for key in [key for key, used in self._used.items() if used is units]:
            self._end(key, units)

    def _end(self, key: Key, units: Units) -> None:
        units.doubtful = True
        grace = max(0.0, self._beat_sent + LEASE_KILL - self._clock.monotonic())
        if units.running and units.kills:
            log.warning("run %s ends: its node can't reach the store of its semaphores", key[0])
            self._executor.stop(*key, StopReason.RELEASE, grace=grace)

    def _renew(self) -> None:
        """A run that holds units ends with the older lease, if this node can't end it: when it is frozen, or dead."""
        bound = any(units.kills and not units.doubtful for units in self._used.values())
        sent = min(self._sent, self._beat_sent) if bound else self._sent
        if sent > -inf:
            self._executor.renew(sent)

    # Between the node and its executor

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report
        await self._executor.open(self._hear)
        self._taking_part = asyncio.get_running_loop().create_task(self._take_part())

    async def _take_part(self) -> None:
        """All the time: who holds units and dies is buried by those who are there."""
        while True:
            try:
                await self._session.join()
            except TokimoriError as fault:
                log.warning("runs that want semaphores wait: %s", fault)
            await asyncio.sleep(RETRY)

    def start(self, tasks: Sequence[Task]) -> None:
        """See `Executor.start`. What may have lost its units meanwhile does not begin."""
        certain = [task for task in map(self._with_units, tasks) if task is not None]
        if any(task.permits for task in certain):
            self._renew()
        self._executor.start(certain)

    def _with_units(self, task: Task) -> Task | None:
        units = self._used.get((task.run_id, task.token))
        if units is None:
            return task
        if not units.sure:
            outcome = Released("the store of its semaphores does not answer")
            self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=self._clock.now()))
            return None
        units.running, units.kills = True, task.kill_on_lost_lease
        return replace(task, permits=units.text)

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`. Nobody settles what this node has disowned: its units go back when it has ended."""
        units = self._used.get((run_id, token))
        if units is not None and reason is StopReason.DISOWN:
            units.disowned = True
            if not units.running:
                self._free((run_id, token))
        self._executor.stop(run_id, token, reason, grace=grace)

    def _hear(self, report: Report) -> None:
        units = self._used.get((report.run_id, report.token))
        if units is not None and isinstance(report, Ended):
            units.running = False
            if units.disowned:
                self._free((report.run_id, report.token))
        self._report(report)

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self._sent = sent
        self._renew()

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""
        self._executor.forget(before)

    async def close(self) -> None:
        """See `Executor.close`. Whatever units are left go back with the session."""
        await self._executor.close()
        waiting = [*self._standing.values(), *([] if self._taking_part is None else [self._taking_part])]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._doubt is not None:
            self._doubt.cancel()
        await self._session.close()


def _nobody(_report: Report) -> None:
    """Before `open`, nobody is told."""
