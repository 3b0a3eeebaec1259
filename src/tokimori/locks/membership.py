"""Membership: a program takes part in the cluster as a node that runs no jobs. It beats, and buries dead nodes.

It follows the same rules as nodes (DESIGN §3), so that the units of a program that died are free again within 10 s even
if only programs are left. Everything here happens on one loop.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreError
from tokimori.model.ids import NodeId, RandomBytes, RunId, Token, uuid7
from tokimori.model.lease import (
    LATE_TICK,
    LEASE,
    TICK_IDLE,
    Lease,
    Timeline,
    Watch,
    follow,
    next_overdue,
    observe,
    overdue,
)
from tokimori.ports.nodes import Beat, NodeRecord, Nodes, NodeState, Pulse
from tokimori.ports.store import Schema


class Program(Struct, frozen=True, kw_only=True):
    """Program as it registers with the store. `run_id` and `token` are of the run that started it, if one did.

    `permits` are the units, (weight, token) by name, that this run holds in another store than its job's.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    run_id: RunId | None = None
    token: Token | None = None
    permits: Mapping[str, tuple[int, int]] = field(default_factory=dict)


log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds from a beat that the store did not answer to the next one."""
IDLE = 60.0
"""Seconds after which a program leaves if it holds nothing and waits for nothing. It joins again when needed."""


class MemberStore(Schema, Nodes, Protocol):
    """The part of the store that a membership uses."""


class PermitHolder(Protocol):
    """Holder of permits under a membership, or waiter for them."""

    def is_needed(self) -> bool:
        """Return if it holds or waits for units, or has releases to report, so that the program may not leave."""
        ...

    def has_unreported(self) -> bool:
        """Return whether there are releases that the store does not know yet."""
        ...

    async def report(self) -> None:
        """Report these releases to the store. Raises `StoreError`."""
        ...

    def wake(self) -> None:
        """Look again, because something may have changed."""
        ...

    def lapsed(self) -> None:
        """Treat all held units as lost, because the store has not answered for too long."""
        ...

    def gone(self) -> None:
        """Forget all units, because their node is dead or has left."""
        ...


class Membership:
    """One program on one store, from `join` until it is idle or leaves; afterwards it joins again under a new id.

    `renewed` is called with the time at which an answered beat was sent, in seconds of the clock: the lease counts from
    there. Without `rests` the program never leaves because it is idle. `receive` is called with each answer to a beat.
    """

    def __init__(
        self,
        store: MemberStore,
        clock: Clock,
        random: RandomBytes,
        program: Program,
        holder: PermitHolder,
        *,
        renewed: Callable[[float], None],
        rests: bool,
        receive: Callable[[Pulse], None] = lambda _pulse: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._program = program
        self._holder = holder
        self._renewed = renewed
        self._rests = rests
        self._pass_on = receive
        self._joining = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._lapse: asyncio.TimerHandle | None = None
        self._watched = False
        self._away = False
        self._joined = False
        self._begin()

    def _begin(self) -> None:
        """Start a new life under a new id."""
        now, at = self._clock.now(), self._clock.monotonic()
        self.id = NodeId(uuid7(now, self._random))
        self._timeline = Timeline(now, at, since=at)
        self._watch = Watch()
        self._lease = Lease(-inf)
        self._unbroken = False
        self._tick_at = at
        self._needed_at = at

    @property
    def now(self) -> Moment:
        """Return the current time, corrected by the store's clock."""
        return self._timeline.now(self._clock.monotonic())

    @property
    def trusts_its_time(self) -> bool:
        """Return whether occurrences may be decided by it."""
        return self._timeline.trusted

    @property
    def steady_since(self) -> float:
        """Return the monotonic second since which the store's time has run as this machine's monotonic clock does."""
        return self._timeline.since

    @property
    def ahead(self) -> int:
        """Return by how many microseconds the store's clock may be ahead, as it has leapt lately."""
        return self._timeline.ahead(self._clock.monotonic())

    @property
    def peers(self) -> Collection[NodeId]:
        """Return the other nodes and programs that live."""
        return self._watch.peers.keys()

    def is_current(self, node: NodeId) -> bool:
        """Return if the program is a member under that id now."""
        return self._joined and self.id == node

    def holds_lease(self) -> bool:
        """Return if the last answered beat is so recent that no other node can have declared this program dead."""
        return self._lease.holds(self._clock.monotonic())

    async def join(self) -> None:
        """Join under a new id, unless the program is a member already. Raises `StoreError`."""
        async with self._joining:
            while not self._joined:
                await self._register()
                self._start_beating()
                await self._tick()  # lines go by the store's clock
            if not self._watched:
                self._store.watch(self._holder.wake)
                self._watched = True

    async def leave(self) -> None:
        """Leave the cluster, and give up all units and places in line, even if the store does not answer."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if self._lapse is not None:
            self._lapse.cancel()
        if not self._joined:
            return
        self.gone(self.id)
        try:
            await self._store.leave(self.id, self.now)
        except StoreError as fault:
            log.info("the session %s could not leave and will be declared dead soon: %s", self.id, fault)

    def gone(self, node: NodeId) -> None:
        """Note that the node is dead. If it was this program, it holds no units any more."""
        if self.is_current(node):
            self._joined = False
            self._holder.gone()

    def hurry(self) -> None:
        """Start the next cycle at once, and not with the next beat."""
        self._news.set()

    def note_away(self, fault: StoreError) -> None:
        """Log that the store does not answer, once for each outage."""
        log.log(logging.DEBUG if self._away else logging.WARNING, "the store of the semaphores is away: %s", fault)
        self._away = True

    async def _register(self) -> None:
        self._begin()
        program = self._program
        await self._store.register(
            NodeRecord(
                id=self.id,
                host=program.host,
                boot_id=program.boot_id,
                pid=program.pid,
                concurrency=0,
                version=program.version,
                started=self._clock.now(),
                state=NodeState.ALIVE,
            )
        )
        self._joined = True

    def _start_beating(self) -> None:
        self._tick_at = self._clock.monotonic() + RETRY
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(self._beat(), name="tokimori-session")

    async def _beat(self) -> None:
        while self._joined:
            try:
                await self.cycle()
            except StoreError as fault:
                self.note_away(fault)
            except Exception:
                log.exception("a beat failed; the session goes on")
            await nap(self._news, 0.0, self._delay())

    async def cycle(self) -> None:
        """Do the work that is due: beat, declare nodes dead, report releases; or leave after long idleness."""
        at = self._clock.monotonic()
        if self._holder.is_needed():
            self._needed_at = at
        if self._rests and at >= self._needed_at + IDLE:
            await self._rest()
            return
        if at >= self._tick_at:
            self._tick_at, due = at + RETRY, self._tick_at
            await self._tick(due)
        await self._holder.report()

    async def _rest(self) -> None:
        """Leave. A thread that wants units meanwhile finds this node gone, and joins again."""
        node = self.id
        await self._store.leave(node, self.now)
        self.gone(node)

    def _delay(self) -> float:
        at = self._clock.monotonic()
        overdue_at = next_overdue(self._watch)
        if overdue_at is not None and overdue_at > at:
            self._tick_at = min(self._tick_at, overdue_at)
        delay = max(0.0, self._tick_at - at)
        return min(RETRY, delay) if self._holder.has_unreported() else delay

    async def _tick(self, due: float | None = None) -> None:
        """Beat, and declare silent nodes dead. A late or failed tick restarts the watch over others, as in a node."""
        sent = self._clock.monotonic()
        on_time = sent - (sent if due is None else due) <= LATE_TICK
        unbroken, self._unbroken = self._unbroken and on_time, False
        node = self.id
        pulse = await self._store.tick(Beat(node=node), self.now)
        if pulse is None:
            log.warning("the session %s was declared dead: what it held is lost", node)
            self.gone(node)
        elif self.is_current(node):
            self._note_pulse(pulse, sent, unbroken=unbroken)
            await self._bury(pulse)

    def _note_pulse(self, pulse: Pulse, sent: float, *, unbroken: bool) -> None:
        at = self._clock.monotonic()
        if self._away:
            log.info("the store of the semaphores answers again")
        self._away = False
        self._check_lease()  # what ran out meanwhile stays lost
        self._unbroken = at - sent <= LATE_TICK
        self._tick_at = sent + TICK_IDLE
        self._lease = Lease(max(sent, self._lease.sent))
        self._timeline = follow(self._timeline, pulse.now, sent, at)
        self._watch = observe(self._watch, pulse.peers, at, unbroken=unbroken and self._unbroken)
        self._renewed(sent)
        self._check_lease()
        self._pass_on(pulse)

    async def _bury(self, pulse: Pulse) -> None:
        """Declare overdue nodes dead. Their units are free from now on, before the next beat reports it."""
        for peer, beat in overdue(self._watch, self._clock.monotonic()):
            if await self._store.bury(peer, beat, self.id, self.now):
                log.warning("the node %s was declared dead: what it held is free", peer)
                self._pass_on(replace(pulse, orphans=True))
                self._holder.wake()

    def _check_lease(self) -> None:
        """Notify the holder if the lease has run out, else check again when it would."""
        if self._lapse is not None:
            self._lapse.cancel()
        left = self._lease.sent + LEASE - self._clock.monotonic()
        if left > 0:
            self._lapse = asyncio.get_running_loop().call_later(left, self._check_lease)
        else:
            self._holder.lapsed()


async def nap(bell: asyncio.Event, least: float, most: float) -> None:
    """Wait until the bell rings, for at least `least` and at most `most` seconds."""
    await asyncio.sleep(least)
    handle = asyncio.get_running_loop().call_later(max(0.0, most - least), bell.set)
    await bell.wait()
    handle.cancel()
    bell.clear()
