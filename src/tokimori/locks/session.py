"""A program's session: a node that runs no jobs. It beats, buries the dead, and holds and waits for permits.

DESIGN §3: the rules by which nodes believe in each other hold for it too, so that the units of a program that died come
back within 10 s even where only programs are left. Everything here happens on one loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from tokimori.clock import Clock, Moment
from tokimori.errors import NotFound, NotGranted, StoreError, StoreUnavailable
from tokimori.locks.holdings import POLL, Held, Holdings, Owner, Wanted, check_weight, lost, pauses
from tokimori.model.ids import NodeId, PermitId, RandomBytes, RunId, Token, uuid7
from tokimori.model.lease import LEASE, TICK_IDLE, Lease
from tokimori.model.timeline import Timeline, follow
from tokimori.model.watch import LATE_TICK, Watch, next_overdue, observe, overdue
from tokimori.ports.nodes import Beat, NodeRecord, Nodes, NodeState, Pulse
from tokimori.ports.semaphores import Grant, InLine, NodeGone, Semaphores, Wish
from tokimori.ports.store import Schema

log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds to the next beat after one that the store did not answer."""
IDLE = 60.0
"""Seconds after which a session that holds nothing and waits for nothing leaves, until it is needed again."""
LATE_REPLY = 6.0
"""Seconds for which what was asked and given up may still reach the store: so long it is given back again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a program says of itself. `run_id` and `token` are those of the run as whose command it was started.

    `permits`: (weight, token) by name of what that run holds in a store apart from that of its job.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    run_id: RunId | None = None
    token: Token | None = None
    permits: Mapping[str, tuple[int, int]] = field(default_factory=dict)


async def _nothing() -> None:
    """There is nothing to prepare."""


class SessionStore(Schema, Nodes, Semaphores, Protocol):
    """What a session asks of the store."""


class Session:
    """One program on one store. It joins with the first thing that it wants, and beats until it is idle or closed.

    `renewed` hears, as seconds of the clock, when each beat was sent that the store answered: leases count from there.
    `prepare` is done before the store is first asked for anything, and may open it. Without `rests` it beats until it
    is closed, however idle it is.
    """

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        random: RandomBytes,
        program: Program,
        *,
        renewed: Callable[[float], None] = lambda _sent: None,
        prepare: Callable[[], Awaitable[object]] = _nothing,
        rests: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._program = program
        self._renewed = renewed
        self._prepare = prepare
        self._rests = rests
        self._holdings = Holdings()
        self._joining = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._bells: set[asyncio.Event] = set()
        self._giving_back: dict[tuple[PermitId, NodeId], float] = {}
        self._news = asyncio.Event()
        self._lapse: asyncio.TimerHandle | None = None
        self._watched = False
        self._away = False
        self._joined = False
        self._begin()

    def _begin(self) -> None:
        """A new life under a new id."""
        now, at = self._clock.now(), self._clock.monotonic()
        self.id = NodeId(uuid7(now, self._random))
        self._timeline = Timeline(now, at)
        self._watch = Watch()
        self._lease = Lease(-inf)
        self._unbroken = False
        self._tick_at = at
        self._needed_at = at

    @property
    def now(self) -> Moment:
        """The corrected time."""
        return self._timeline.now(self._clock.monotonic())

    async def join(self) -> None:
        """Take part from now on, unless it does already. Raises `StoreError`."""
        await self._prepare()
        await self._join()

    # Taking and giving back

    async def acquire(self, wanted: Wanted, owner: Owner) -> Held:
        """Wait for the units, and hold them for the owner; what it holds already is taken again without waiting.

        Raises `NotGranted` (not in time), `Refused` (its weight is above the limit, or the limit another one),
        `InvalidInput` and `PermitLost`.
        """
        wanted.check()
        held = self._holdings.enter(owner, wanted)
        if held is None:
            await self._prepare()
            held = await self._of_own_run(wanted) or await self._stand_in_line(wanted)
            self._holdings.add(owner, held)
        return held

    async def release(self, owner: Owner, name: str) -> None:
        """Give the units back at once, if nothing around it needs them. Raises `PermitLost`, and `Refused`."""
        held = self._holdings.leave(owner, name)
        if held.depth == 0 and held.permit is not None and not await self._release(held.permit, held.node):
            held.lose()
        if held.lost:
            raise lost(held)

    async def close(self) -> None:
        """Leave the store, and with it everything that is held or waited for. What does not answer is left behind."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if self._lapse is not None:
            self._lapse.cancel()
        if not self._joined:
            return
        self._gone(self.id)
        try:
            await self._store.leave(self.id, self.now)
        except StoreError as fault:
            log.info("the session %s could not leave; it is declared dead soon: %s", self.id, fault)

    def wake(self) -> None:
        """Something may have changed: who stands in line asks again soon."""
        for bell in self._bells:
            bell.set()

    async def _of_own_run(self, wanted: Wanted) -> Held | None:
        """What the run holds as whose command this program runs; its node ends this program if the run is lost."""
        if wanted.name in self._program.permits:
            weight, token = self._program.permits[wanted.name]
            check_weight(wanted, weight)
            return Held(wanted, token, node=self.id, permit=None)
        if self._program.run_id is None or self._program.token is None:
            return None
        try:
            found = await self._store.get_semaphore(wanted.name)
        except NotFound:
            return None
        for permit in found.holders:
            if (permit.run_id, permit.token) == (self._program.run_id, self._program.token):
                check_weight(wanted, permit.weight)
                return Held(wanted, permit.token, node=permit.node, permit=None)
        return None

    async def _stand_in_line(self, wanted: Wanted) -> Held:
        began = self._clock.monotonic()
        await self._join()
        rank = self.now if wanted.rank is None else wanted.rank
        wish = self._wish(wanted, rank)
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            while True:
                answer = await self._ask(wish)
                if isinstance(answer, Grant) and self._lease.holds(self._clock.monotonic()):
                    return self._held(wanted, wish, answer)
                if isinstance(answer, NodeGone):
                    self._gone(wish.node)
                    await self._join()
                    wish = self._wish(wanted, rank)  # its place in line is the same
                else:
                    await self._wait(wanted, answer, bell, began)
        except BaseException:
            self._give_back_later(wish.id, wish.node, LATE_REPLY)
            raise
        finally:
            self._bells.discard(bell)

    async def _wait(self, wanted: Wanted, answer: Grant | InLine | None, bell: asyncio.Event, began: float) -> None:
        """Until it is time to ask again. Raises `NotGranted`.

        A grant that came when the lease had run out counts as none: only a beat that is answered says that it is ours.
        """
        left = inf if wanted.wait is None else began + wanted.wait - self._clock.monotonic()
        if left <= 0:
            raise _not_granted(wanted, answer)
        least, most = pauses(answer.ahead) if isinstance(answer, InLine) else (0.0, POLL)
        await _nap(bell, min(least, left), min(most, left))

    def _wish(self, wanted: Wanted, rank: int) -> Wish:
        return Wish(
            id=PermitId(uuid7(self.now, self._random)),
            node=self.id,
            semaphore=wanted.name,
            weight=wanted.weight,
            limit=wanted.limit,
            rank=rank,
        )

    async def _ask(self, wish: Wish) -> Grant | InLine | NodeGone | None:
        """None: the store did not answer."""
        try:
            answer = await self._store.acquire(wish, self.now)
            return answer if self._is(wish.node) else NodeGone()  # it took long
        except StoreUnavailable as fault:
            self._note_away(fault)
            return None

    def _held(self, wanted: Wanted, wish: Wish, grant: Grant) -> Held:
        return Held(
            wanted,
            grant.token,
            node=wish.node,
            permit=wish.id,
            doubtful=lambda: not self._is(wish.node) or not self._lease.holds(self._clock.monotonic()),
        )

    async def _release(self, permit: PermitId, node: NodeId) -> bool:
        """False: others may hold it. A store that does not answer is told later."""
        try:
            return await self._store.release(permit, node, self.now)
        except StoreUnavailable:
            self._give_back_later(permit, node, 0.0)
            return True
        except BaseException:
            self._give_back_later(permit, node, 0.0)
            raise

    def _give_back_later(self, permit: PermitId, node: NodeId, patience: float) -> None:
        if self._is(node):
            self._giving_back[permit, node] = self._clock.monotonic() + patience
            self._news.set()

    # Taking part

    def _is(self, node: NodeId) -> bool:
        """Whether that is still this session."""
        return self._joined and self.id == node

    def _gone(self, node: NodeId) -> None:
        """That was this session, and is dead: nothing that it held counts any more."""
        if self._is(node):
            self._joined = False
            self._giving_back.clear()
            self._lose_everything()

    async def _join(self) -> None:
        """Take part, under a new id, unless this session does already."""
        async with self._joining:
            while not self._joined:
                await self._register()
                self._start_beating()
                await self._tick()  # whoever stands in line goes by the store's clock
            if not self._watched:
                self._store.watch(self.wake)
                self._watched = True

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
                self._note_away(fault)
            except Exception:
                log.exception("a beat failed; the session goes on")
            await _nap(self._news, 0.0, self._delay())

    async def cycle(self) -> None:
        """Do what is to be done now: beat, bury, give back; leave after long idleness."""
        at = self._clock.monotonic()
        if self._bells or self._giving_back or any(True for _ in self._holdings):
            self._needed_at = at
        if self._rests and at >= self._needed_at + IDLE:
            await self._rest()
            return
        if at >= self._tick_at:
            self._tick_at, due = at + RETRY, self._tick_at
            await self._tick(due)
        for (permit, node), until in list(self._giving_back.items()):
            if await self._store.release(permit, node, self.now) or self._clock.monotonic() >= until:
                self._giving_back.pop((permit, node), None)

    async def _rest(self) -> None:
        """Whoever asks meanwhile is told that this node is gone, and joins anew."""
        node = self.id
        await self._store.leave(node, self.now)
        self._gone(node)

    def _delay(self) -> float:
        at = self._clock.monotonic()
        overdue_at = next_overdue(self._watch)
        if overdue_at is not None and overdue_at > at:
            self._tick_at = min(self._tick_at, overdue_at)
        if self._giving_back:
            return min(RETRY, max(0.0, self._tick_at - at))
        return max(0.0, self._tick_at - at)

    async def _tick(self, due: float | None = None) -> None:
        """Beat, and bury whoever fell silent. Late or failed ticks break the watch over the others, as a node's do."""
        sent = self._clock.monotonic()
        on_time = sent - (sent if due is None else due) <= LATE_TICK
        unbroken, self._unbroken = self._unbroken and on_time, False
        node = self.id
        pulse = await self._store.tick(Beat(node=node), self.now)
        if pulse is None:
            log.warning("the session %s was declared dead: what it held is lost", node)
            self._gone(node)
        elif self._is(node):
            self._note_pulse(pulse, sent, unbroken=unbroken)
            await self._bury()

    def _note_away(self, fault: StoreError) -> None:
        """Told once, however many ask how often."""
        log.log(logging.DEBUG if self._away else logging.WARNING, "the store of the semaphores is away: %s", fault)
        self._away = True

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

    async def _bury(self) -> None:
        for peer, beat in overdue(self._watch, self._clock.monotonic()):
            if await self._store.bury(peer, beat, self.id, self.now):
                log.warning("node %s has fallen silent; what it held is free", peer)
                self.wake()

    # Losing

    def _check_lease(self) -> None:
        """Tell the holders if the lease ran out, else look again when it would."""
        if self._lapse is not None:
            self._lapse.cancel()
        left = self._lease.sent + LEASE - self._clock.monotonic()
        if left > 0:
            self._lapse = asyncio.get_running_loop().call_later(left, self._check_lease)
        else:
            self._lose_everything()

    def _lose_everything(self) -> None:
        for held in self._holdings:
            if held.permit is not None:
                self._lose(held)

    def _lose(self, held: Held) -> None:
        held.lose()
        told, held.on_lost = held.on_lost, None
        if told is not None:
            try:
                told()
            except Exception:
                log.exception("what was to be told of a lost permit failed")


async def _nap(bell: asyncio.Event, least: float, most: float) -> None:
    """Wait until the bell rings, at least and at most so many seconds."""
    await asyncio.sleep(least)
    handle = asyncio.get_running_loop().call_later(max(0.0, most - least), bell.set)
    await bell.wait()
    handle.cancel()
    bell.clear()


def _not_granted(wanted: Wanted, answer: object) -> NotGranted:
    ahead = f"{answer.ahead} before it in line" if isinstance(answer, InLine) else "the store does not answer"
    return NotGranted(
        f"semaphore: {wanted.name!r} was not to be had within {wanted.wait or 0:g} s ({ahead})",
        field="wait",
        value=wanted.wait,
        allowed="more seconds, or none for as long as it takes",
    )
