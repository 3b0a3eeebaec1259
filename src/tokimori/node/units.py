"""Units of semaphores that are in another store than the jobs: acquired, released and lost.

A node waits in line for a lane, as a program does, before it knows a run. It beats in both stores. If it may have lost
units, it ends the run that holds them before others can have them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from math import inf

from tokimori.clock import Clock
from tokimori.engine.unsettled import Key
from tokimori.errors import NotGranted, PermitLost, StoreUnavailable, TokimoriError
from tokimori.locks.holdings import Held, Wanted
from tokimori.locks.session import Session
from tokimori.model.ids import Lane, RandomBytes
from tokimori.model.lanes import units_apart
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.semaphores import permits_text
from tokimori.ports.executor import Executor, StopReason

log = logging.getLogger(__name__)

UNUSED = 5.0
"""Seconds after which units that no claim has used are released, if the node does not look any more."""
KEPT = 0.1
"""Seconds from the look that offers the units to the next one: by then a node with a free place has claimed."""
RETRY = 2.0
"""Seconds to the next try if the store of the semaphores does not answer, or refuses."""
DOUBT = LEASE - 0.5
"""Seconds without an answer to a beat in that store, after which the runs that hold units end. It is shorter than the
lease that the keeper knows, so that on a living node only these runs end.
"""


@dataclass(eq=False, slots=True)
class Units:
    """Units that one run of the lane needs. Once they may have been lost, they stay doubtful.

    `since`: the time by which its place in any line counts. `offered`: the node has looked since they were acquired.
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
        """Return if no one else can have them."""
        return not self.doubtful and not any(held.lost for held in self.held)

    @property
    def text(self) -> str:
        """Return them as a text for the run's command."""
        return permits_text((held.name, held.weight, held.token or 0) for held in self.held)


class Stock:
    """Units of a node: free for a lane, or used by a run. Everything happens on one loop.

    `session` makes the node's session in the store of the semaphores, which calls back at each beat. `claims` says if
    the node still claims. `executor` ends runs that lose their units.
    """

    def __init__(
        self,
        executor: Executor,
        session: Callable[[Callable[[float], None]], Session],
        *,
        clock: Clock,
        random: RandomBytes,
        claims: Callable[[], bool],
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._random = random
        self._claims = claims
        self._wake: Callable[[], None] = lambda: None
        self._in_line: dict[Lane, asyncio.Task[None]] = {}
        self._in_hand: dict[Lane, Units] = {}
        self._used: dict[Key, Units] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sent = self._beat_sent = -inf
        self._doubt: asyncio.TimerHandle | None = None
        self._taking_part: asyncio.Task[None] | None = None
        self._session = session(self._renewed)

    def open(self) -> None:
        """Join the store of the semaphores from now on."""
        self._taking_part = asyncio.get_running_loop().create_task(self._take_part())

    async def _take_part(self) -> None:
        """Keep the session all the time: living members declare dead ones dead."""
        while True:
            try:
                await self._session.join()
            except TokimoriError as fault:
                log.warning("runs with semaphores wait: %s", fault)
            await asyncio.sleep(RETRY)

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` when units are free for a claim."""
        self._wake = wake

    async def close(self) -> None:
        """Leave all lines. Units that are left go back with the session."""
        waiting = [*self._in_line.values(), *([] if self._taking_part is None else [self._taking_part])]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._doubt is not None:
            self._doubt.cancel()
        await self._session.close()

    # Having them

    def take(self, lane: Lane) -> Units | None:
        """Return free units for one run of the lane; None if there are none yet; the node then waits in line."""
        units = self._in_hand.pop(lane, None)
        if units is None:
            self.wait_in_line(lane)
        return units

    def wait_in_line(self, lane: Lane) -> None:
        """Acquire units for a run of this lane, unless there are some or soon will be."""
        if lane not in self._in_line and lane not in self._in_hand:
            self._in_line[lane] = task = asyncio.get_running_loop().create_task(self._wait_in_line(lane))
            task.add_done_callback(lambda _: self._leave_line(lane, task))

    def _leave_line(self, lane: Lane, task: asyncio.Task[None]) -> None:
        """Leave the line. A task that is cancelled before it begins runs none of its code, not even `finally`."""
        if self._in_line.get(lane) is task:
            del self._in_line[lane]

    def look(self, lanes: Collection[Lane]) -> None:
        """Note the lanes with ready runs. Other lanes need no units; a full node keeps none."""
        for lane in self._in_line.keys() - set(lanes):
            self._in_line[lane].cancel()
        for lane, units in list(self._in_hand.items()):
            if units.offered or lane not in lanes:
                self.give_back(self._in_hand.pop(lane))
            else:
                units.offered = True
                asyncio.get_running_loop().call_later(KEPT, self._offer_again, units)

    def _offer_again(self, units: Units) -> None:
        """Offer unused units again, at intervals: if the store refuses the rest, the node would look all the time."""
        if self._in_hand.get(units.lane) is units:
            self._wake()

    async def _wait_in_line(self, lane: Lane) -> None:
        units = Units(lane)
        try:
            await self._fill(units)
        except TokimoriError as fault:
            self.give_back(units)
            level = logging.DEBUG if isinstance(fault, StoreUnavailable) else logging.WARNING  # `_take_part` logs that
            log.log(level, "runs of the lane %s wait: %s", lane, fault)
            await asyncio.sleep(RETRY)
        except BaseException:
            self.give_back(units)
            raise
        else:
            self._keep(units)
        finally:
            del self._in_line[lane]

    def _keep(self, units: Units) -> None:
        """Hold the units until the node claims with them. A node that no longer claims releases them."""
        if self._claims():
            self._in_hand[units.lane] = units
            asyncio.get_running_loop().call_later(UNUSED, self._expire, units)
            self._wake()
        else:
            self.give_back(units)

    async def _fill(self, units: Units) -> None:
        """Acquire units of several semaphores at once. If one is not free, the node releases the others and waits for
        that one first.
        """
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
            self.give_back(self._in_hand.pop(units.lane))

    # Using them

    def use(self, key: Key, units: Units) -> None:
        """Assign the units to this run."""
        self._used[key] = units

    def used_by(self, key: Key) -> Units | None:
        """Return the units that the run uses."""
        return self._used.get(key)

    def free(self, key: Key) -> None:
        """Free the run's units."""
        units = self._used.pop(key, None)
        if units is not None:
            self.give_back(units)

    def free_idle(self) -> None:
        """Free the units of runs that ended unsettled. Running ones are disowned; their end frees their units."""
        for key in [key for key, units in self._used.items() if not units.running]:
            self.free(key)

    # Giving them back

    def give_back(self, units: Units) -> None:
        """Release the units, as soon as the store answers."""
        self.later(self._released(units))

    async def _released(self, units: Units) -> None:
        """Return units by the session, later, if the store does not answer now."""
        while units.held:  # a task that is cancelled here leaves the rest to `_wait_in_line`
            each = units.held.pop(0)
            try:
                await self._session.release(units, each.name)
            except PermitLost:
                pass
            except TokimoriError as fault:
                log.warning("units of %r will be released later: %s", each.name, fault)
        self._session.wake()  # the store notifies of what others do, not of this: this node may be next

    def later(self, work: Coroutine[None, None, None]) -> None:
        """Run the work in the background; `close` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # Losing them

    def renew(self, sent: float) -> None:
        """Note that a beat sent at this moment renewed the node's lease in the store of the jobs."""
        self._sent = sent
        self.renew_again()

    def renew_again(self) -> None:
        """Renew by the older lease, so that a run with units ends with it if this node is frozen or dead."""
        bound = any(units.kills and not units.doubtful for units in self._used.values())
        sent = min(self._sent, self._beat_sent) if bound else self._sent
        if sent > -inf:
            self._executor.renew(sent)

    def _renewed(self, sent: float) -> None:
        """Note that a beat of the session was answered."""
        self._beat_sent = sent
        if self._doubt is not None:
            self._doubt.cancel()
        left = sent + DOUBT - self._clock.monotonic()
        self._doubt = asyncio.get_running_loop().call_later(max(0.0, left), self._doubt_all)
        self.renew_again()

    def _doubt_all(self) -> None:
        for units in self._in_hand.values():
            units.doubtful = True
        for key, units in self._used.items():
            self._end(key, units)
        self.renew_again()

    def _lost(self, units: Units) -> None:
        """Note that these units are lost: another holder may have them."""
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
