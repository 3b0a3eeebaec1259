"""A node: the duties of the engine, one after the other, and the only loop that waits."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec.structs import replace

from tokimori.clock import SECOND, Clock, Moment
from tokimori.engine.duty import Duty, Stopwatch
from tokimori.engine.families import Families
from tokimori.engine.fire import Schedules
from tokimori.engine.firing import Firing
from tokimori.engine.lookout import WHENEVER_DUE, Lookout, Rhythm
from tokimori.engine.notifications import Messenger
from tokimori.engine.orders import OrderFeed
from tokimori.engine.overdue import Overdue
from tokimori.engine.reap import Reaper
from tokimori.engine.refusals import raise_first
from tokimori.engine.save import Saver
from tokimori.engine.unfinished import refuse_unfinished
from tokimori.errors import StoreError, StoreRefused
from tokimori.model.ids import NodeId, RandomBytes
from tokimori.model.lease import TICK_IDLE
from tokimori.model.run import Run
from tokimori.node.checkup import Patience
from tokimori.node.duties import duties_of
from tokimori.node.flow import LONGEST_FLOW, Bell
from tokimori.node.membership import BeatAnswer, Identity, Membership
from tokimori.node.orders import OrderedNode, carry_out_orders, obey_missed
from tokimori.node.stopping import Phase, Stopping
from tokimori.node.worker import LoadCap, Worker, load_average
from tokimori.ports.executor import Executor, Report, Signalling, StopReason, ignore_signal
from tokimori.ports.meter import UNMETERED, Meter
from tokimori.ports.store import Store
from tokimori.ports.work_source import WorkSource
from tokimori.service.nodes import mark_drained

log = logging.getLogger(__name__)

LONGEST_SLEEP = 2.0


class Node:
    """One process that takes part.

    `cycle` does all work that is due and returns when to call it again; `run` calls it until the node has stopped. A
    node's knowledge of the store is a copy, which the next tick corrects. `source` is where it claims runs: the store,
    or something before it. `load` returns the load of the machine, `meter` counts the node's work.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        clock: Clock,
        random: RandomBytes,
        identity: Identity,
        *,
        rhythm: Rhythm = WHENEVER_DUE,
        source: WorkSource | None = None,
        stopping: Stopping | None = None,
        load: Callable[[], float] = load_average,
        meter: Meter = UNMETERED,
    ) -> None:
        self.address: str | None = None  # of its page, as people reach it
        self._store = store
        self._source = source or store
        self._executor = executor
        self._clock = clock
        self._random = random
        self._chance = Random(int.from_bytes(random(8))).random  # noqa: S311  jitter, no secret
        self.identity = identity
        self._rhythm = rhythm
        self._load_cap = LoadCap(identity.max_load, load)
        self._alarm = Bell()
        self._schedules = Schedules()
        self._meter = meter
        self._timed = Stopwatch(meter, clock)
        self._stopping = stopping or Stopping(clock, identity.stop_grace)
        self.signalling: Signalling = ignore_signal
        """Passes signals to an attempt."""
        self.able: Callable[[], bool] = lambda: True
        """If functions can be started here."""
        self.finished = self._joined = False
        self._cycle_began: float | None = None
        self.fault: str | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin a new life under a new id."""
        at, source = self._clock.monotonic(), self._source
        self._membership = Membership(source, self.identity, self._clock, self._random)
        self._lookout = Lookout(source, self._rhythm.update_interval_seconds, at)
        self._families = Families(self._store, at)
        self._worker = Worker(
            source,
            self._executor,
            self._membership,
            self._lookout,
            self._stopping,
            load_cap=self._load_cap,
            clock=self._clock,
            random=self._random,
            chance=self._chance,
            meter=self._meter,
            timed=self._timed,
            families=self._families,
            able=lambda: self.able(),  # noqa: PLW0108  it is set later
            short=lambda why: self.become(replace(self.identity, short=why)),
        )
        self._firing = Firing(
            self._store,
            self._lookout,
            self._schedules,
            random=self._random,
            rhythm=self._rhythm,
            now=self.now,
            timed=self._timed,
            monotonic=self._clock.monotonic,
        )
        self._orders = OrderFeed(self._store, self._random)
        self._saver = Saver(source, self._worker.work)
        self._overdue = Overdue(self._store, at, self._schedules)
        self._messenger = Messenger(self._store, at, self._random, lambda: self.address)
        chance = Random(int.from_bytes(self._random(8))).random  # noqa: S311  jitter, no secret
        self._reaper = Reaper(self._store, chance, self._meter)
        self._duties: tuple[Duty, ...] = (
            self._saver,
            self._overdue,
            self._membership,
            self._messenger,
            self._families,
            self._reaper,
            *duties_of(
                self._store,
                at,
                self._membership,
                self._schedules,
                forget=self._executor.forget,
                random=self._random,
                chance=chance,
            ),
        )

    @property
    def id(self) -> NodeId:
        """Return the node's id; a new one each time it was declared dead."""
        return self._membership.id

    @property
    def phase(self) -> Phase:
        """Return the phase of its stop."""
        return self._stopping.phase

    @property
    def now(self) -> Moment:
        """Return the corrected time."""
        return self._membership.now

    @property
    def trusts_its_time(self) -> bool:
        """Return if it decides occurrences by its clock: not while that and the store's disagree."""
        return self._membership.trusts_its_time

    @property
    def healthy(self) -> bool:
        """Return whether the store has answered a beat lately."""
        return self._membership.has_lease

    @property
    def lease_left(self) -> float:
        """Return for how many seconds it may still begin work without another beat."""
        return self._membership.lease_left

    @property
    def absent(self) -> str | None:
        """Return why it is absent; None: it has joined, and does not stop."""
        if not self._stopping.working:
            return "the node stops"
        if self._stopping.drained:
            return "the node takes no new runs: `tokimori node resume` lets it"
        return None if self._joined else "the node has not joined yet"

    @property
    def unready(self) -> str | None:
        """Return why it should get no new requests; None: it has joined, and its store answers."""
        return self.absent or (None if self.healthy else "the store does not answer")

    @property
    def cycle_age(self) -> float:
        """Return for how many seconds the current cycle has lasted: most take milliseconds."""
        return 0.0 if self._cycle_began is None else self._clock.monotonic() - self._cycle_began

    def overtime(self, before: float) -> list[tuple[Run, float]]:
        """Return the runs that were asked to end before then and have not, and when (monotonic), oldest first."""
        return self._worker.work.overtime(before)

    def wake(self) -> None:
        """Look at once: something may have changed."""
        self._lookout.stale = True
        self._overdue.wake(self._clock.monotonic())
        self._messenger.wake(self._clock.monotonic())
        self._alarm.notice(self._clock.monotonic())

    def become(self, identity: Identity) -> None:
        """Claim by this identity from now on."""
        if identity != self.identity:
            self.identity = identity
            self._worker.become(identity)
        self.wake()

    def receive(self, report: Report) -> None:
        """Receive a report of the executors. A free place is filled at once, unless the store is away."""
        if self._worker.receive(report):
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self._worker.refill()
        if self.fault is None:
            self._alarm.ring_within(self._worker.linger())

    async def start(self) -> None:
        """Join the store. If it fails, it may be called again.

        A random first offset keeps nodes from planning the same jobs at the same moment.
        """
        await self._register()
        await self._tick()
        self._source.watch(self.wake)
        self._lookout.stale = True  # changes between the tick and the watch sent no notice
        self._membership.tick_at -= self._chance() * TICK_IDLE
        self._firing.begin(self.now)
        self._joined = True

    async def _register(self) -> None:
        """Register. A copy that begins meanwhile sees this node, or is seen by it."""
        await self._orders.begin()
        await self._membership.register()
        try:
            await refuse_unfinished(self._store)
            if self._stopping.drained:
                await mark_drained(self._store, self._random, self.id, self.now)
        except StoreError:
            await self._source.leave(self.id, self.now)
            raise

    async def run(self) -> None:
        """Work until stopped. The node waits out errors of the store, and keeps its runs.

        Raises `StoreReplaced` if its file has been missing for too long: no other program would see its work.
        """
        patience = Patience(self._clock)
        while not self.finished:
            try:
                self._cycle_began = self._clock.monotonic()
                delay = await self.cycle()
                self.fault = None
                patience.answered()
            except StoreError as fault:
                self.fault = str(fault)
                self._alarm.deafen(self._clock.monotonic())
                delay = patience.after(fault)
            except Exception:
                log.exception("a cycle failed; the node goes on")
                self.fault = "a cycle failed; the log says how"
                delay = patience.longer()
            self._cycle_began = None
            await self._alarm.sleep(delay)

    def stop(self) -> str:
        """Go one phase further in the stop; return its meaning, for people.

        First the node claims no more and lets runs finish for the grace, then it releases them. At last it kills them,
        and leaves even if the store does not answer.
        """
        self._alarm.ring()
        meaning = self._stopping.ask()
        if self.phase is not Phase.DRAINING:
            self._worker.end_all(StopReason.RELEASE, grace=0 if self.phase is Phase.LEAVING else None)
        return meaning

    async def cycle(self) -> float:
        """Do the work that is due; return the seconds until there is more."""
        self._worker.take_reports()
        if self._stopping.working:
            if await self._tick_if_due():
                await self._take_steps()
        else:
            await self._stop_on()
        return self._delay()

    async def _tick_if_due(self) -> bool:
        """Tick if it is time; return if this process knows the time of the store."""
        if self._clock.monotonic() >= self._membership.tick_at:
            await self._tick()
        return self._membership.knows_time

    async def _take_steps(self) -> None:
        """Fire, settle, claim, and take a step of every due duty. All go on if one fails; its error is raised then."""
        worker, member, lookout, at = self._worker, self._membership, self._lookout, self._clock.monotonic()
        fire = self._firing.step(member.id, member.peers, member.now, trusted=member.trusts_its_time)
        settle, claim = worker.settle_and_claim(partial(self._goes_on, at + LONGEST_FLOW))
        due = [duty.step(member.id, member.now, at) for duty in self._duties if duty.next_at <= at]
        results = await asyncio.gather(fire, settle, claim, *due, return_exceptions=True)
        worker.start_tasks()
        if worker.work.busy:
            member.tick_soon()
        has_fired, _, claims_on, *steps = [result is True for result in results]
        if has_fired or any(steps) or self._clock.monotonic() >= lookout.next_at:
            lookout.stale = True
        if lookout.stale and not claims_on:  # else the next claim follows at once
            await self._timed("survey", lookout.look(self.now, self._clock.monotonic()))
        raise_first(results)

    def _goes_on(self, until: float) -> bool:
        at = self._clock.monotonic()
        return self._stopping.working and at < min(until, self._membership.next_tick(at), self._next_fire(at))

    async def _tick(self) -> None:
        self._lookout.stale = False  # a hint that comes while the tick is under way is one to follow
        started = self._worker.work.started()
        answer = await self._timed("tick", self._membership.tick(started, busy=self._worker.work.busy))
        self._worker.work.note_reported(started)
        if answer is None:
            await self._reborn()
            return
        self._executor.renew(answer.sent)
        self._lookout.receive(answer.pulse.survey, answer.sent)
        self._reaper.receive(answer.pulse)
        done = await asyncio.gather(self._follow_answer(answer), return_exceptions=True)
        if await carry_out_orders(self._orders, answer, self._ordered_node()):  # the next beat may not report it again
            self._membership.tick_at = self._clock.monotonic()
        raise_first(done)

    async def _follow_answer(self, answer: BeatAnswer) -> None:
        for peer, beat in answer.overdue:
            if await self._store.bury(peer, beat, self.id, self.now):
                log.warning("node %s has fallen silent; its runs are taken over", peer)
                self._reaper.receive(replace(answer.pulse, orphans=True))
        await self._worker.compare(answer.pulse)

    def _ordered_node(self) -> OrderedNode:
        return OrderedNode(self.id, self._worker, self._lookout, self._stopping, self.signalling, self.stop)

    async def _reborn(self) -> None:
        """Join anew after this node was declared dead. Its runs end here; orders for its old id, a drain too, hold."""
        log.warning("node %s was declared dead; it ends its processes and goes on under a new id", self.id)
        self._worker.end_all(StopReason.DISOWN)
        await obey_missed(self._orders, self._ordered_node())
        self._begin()
        await self._register()

    async def _stop_on(self) -> None:
        """Give up after a failure, if it is time: a stopping node does not wait for ever for a store that is away."""
        work = self._worker.work
        try:
            await self._wind_down()
        except StoreError:
            if self._stopping.gives_up(idle=not work.busy or (work.unsettled.stuck and not work.running)):
                log.warning("Stopping with unsaved results; other nodes will take over these runs.")
                self._worker.end_all(StopReason.RELEASE, grace=0)
                self.finished = not work.running
            raise

    async def _wind_down(self) -> None:
        self._worker.hand_back_backlog()
        if self._stopping.grace_is_over():
            self._worker.end_all(StopReason.RELEASE)
        self.finished |= self.phase is Phase.LEAVING and not self._worker.work.running
        if not await self._tick_if_due():
            return
        await self._worker.settle()
        await self._saver.step(self.id, self.now, self._clock.monotonic())
        work = self._worker.work
        if work.unsettled.stuck and not work.running:
            raise StoreRefused("the store has not taken how the last runs ended")
        if not self._worker.work.busy:
            self.finished = await self._source.leave(self.id, self.now)

    def _delay(self) -> float:
        """Return the seconds to sleep, until the earliest duty."""
        at = self._clock.monotonic()
        if self.finished or self._worker.has_more():
            return 0 if self.finished else max(0, min(self._worker.linger(), self._next_fire(at) - at))
        moments = [at + LONGEST_SLEEP, self._membership.next_tick(at), self._stopping.release_at, self._saver.next_at]
        if self._stopping.working:
            moments += [self._lookout.next_at, self._next_fire(at), *(duty.next_at for duty in self._duties)]
        return max(0, min(moments) - at)

    def _next_fire(self, at: float) -> float:
        moment = self._firing.next_moment(self.now) if self._membership.trusts_its_time else None
        return float("inf") if moment is None else at + max(0, moment - self.now) / SECOND
