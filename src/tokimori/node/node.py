"""A node: the duties of the engine, one after the other, and the only loop that waits."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from enum import Enum
from random import Random

from msgspec.structs import replace

from tokimori.clock import MILLISECOND, SECOND, Clock, Moment
from tokimori.engine.fire import Fired, Schedules, fire
from tokimori.engine.foresee import NOTHING, ahead_of, fire_foreseen, foresee
from tokimori.engine.hand_back import hand_back
from tokimori.engine.prune import Pruner
from tokimori.engine.reap import reap
from tokimori.engine.reckon import reckon
from tokimori.engine.rhythm import WHENEVER_DUE, Rhythm, newest_tick, next_look
from tokimori.engine.share import Turn, next_turn, share_of, share_of_many
from tokimori.engine.work import Key, Work
from tokimori.errors import StoreError
from tokimori.model.ids import ClaimId, Lane, NodeId, RandomBytes, uuid7
from tokimori.model.lease import TICK_BUSY, TICK_IDLE, Lease
from tokimori.model.timeline import Timeline, follow
from tokimori.model.watch import LATE_TICK, Watch, next_overdue, observe, overdue
from tokimori.node.alarm import Alarm
from tokimori.node.identity import Identity
from tokimori.node.work_source import WorkSource
from tokimori.ports.executor import Executor, Report, StopReason
from tokimori.ports.nodes import Beat, Pulse, Survey
from tokimori.ports.store import Store
from tokimori.ports.working import Claim

log = logging.getLogger(__name__)

LONGEST_SLEEP = 2.0
FIRST_BACKOFF = 0.1
DEAF = 0.5
"""Seconds after a failure of the store in which its hints are not followed: what others try in vain is one, too."""


class Phase(Enum):
    """How a node stops: first it claims no more, then it hands back what is left, at last it waits for no store."""

    WORKING = "working"
    DRAINING = "draining"
    RELEASING = "releasing"
    LEAVING = "leaving"


class Node:
    """One process that takes part.

    `cycle` does whatever is to be done and says when it wants to be called again; `run` calls it until the node has
    stopped. Everything that a node knows of the store's state is a copy that the next tick corrects.
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
    ) -> None:
        self._store = store
        self._source = source or store
        self._executor = executor
        self._clock = clock
        self._random = random
        self._chance = Random(int.from_bytes(random(8))).random  # noqa: S311  jitter, no secret
        self.identity = identity
        self._rhythm = rhythm
        self._alarm = Alarm()
        self._schedules = Schedules()
        self._reports: list[Report] = []
        self._pruner = Pruner(clock.monotonic(), self._chance, executor.forget)
        self._begin()

    def _begin(self) -> None:
        """A new life under a new id."""
        now, at = self._clock.now(), self._clock.monotonic()
        self.id = NodeId(uuid7(now, self._random))
        self.phase = Phase.WORKING
        self.finished = False
        self._work = Work(self.identity.concurrency)
        self._lease = Lease(at)
        self._timeline = Timeline(now, at)
        self._watch = Watch()
        self._unbroken = False
        self._tick_at = at
        self._look_at = at
        self._aligned = now
        self._survey = Survey(next_due=None, lanes=())
        self._stale = True
        self._orphans = False
        self._outdated = True
        self._in_vain: Moment | None = None
        self._turn = Turn.ANYBODY
        self._foreseen = NOTHING
        self._deaf_until = at
        self._release_at = float("inf")

    @property
    def now(self) -> Moment:
        """The corrected time."""
        return self._timeline.now(self._clock.monotonic())

    @property
    def healthy(self) -> bool:
        """Whether the store has answered a beat lately."""
        return self._lease.holds(self._clock.monotonic())

    def wake(self) -> None:
        """Something may have changed: look at once."""
        self._stale = True
        if self._clock.monotonic() >= self._deaf_until:
            self._alarm.ring()

    def hear(self, report: Report) -> None:
        """What the executors tell. A place that becomes free is filled at once, while the store may still be busy."""
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._refill)
        self._reports.append(report)

    def _refill(self) -> None:
        self._take_reports()
        self._start_tasks()
        self._alarm.ring()

    async def start(self) -> None:
        """Join the store; where that fails it may be called again.

        A first offset by chance keeps nodes from planning the same jobs at the same moment.
        """
        await self._register()
        await self._tick()
        self._store.watch(self.wake)
        self._stale = True  # nobody has told of what came between the tick and the watch
        self._tick_at -= self._chance() * TICK_IDLE
        self._aligned = self.now

    async def _register(self) -> None:
        await self._store.register(self.identity.record(self.id, self._clock.now()))

    async def run(self) -> None:
        """Work until stopped. An error of the store is waited out; what was in hand stays in hand."""
        backoff = FIRST_BACKOFF
        while not self.finished:
            try:
                delay = await self.cycle()
                if backoff > FIRST_BACKOFF:
                    log.info("the store answers again")
                backoff = FIRST_BACKOFF
            except StoreError as fault:
                log.warning("the store can't be used; trying again: %s", fault)
                self._deaf_until = self._clock.monotonic() + DEAF
                delay, backoff = backoff, min(backoff * 2, LONGEST_SLEEP)
            except Exception:
                log.exception("a cycle failed; the node goes on")
                delay, backoff = backoff, min(backoff * 2, LONGEST_SLEEP)
            await self._alarm.sleep(delay)

    def stop(self) -> str:
        """Asked once: claim no more, let runs finish for the grace. Asked again: hand them back now. What it does.

        Asked a third time: kill them, and go even if the store does not answer.
        """
        self._alarm.ring()
        if self.phase is Phase.WORKING:
            self.phase = Phase.DRAINING
            grace = self.identity.stop_grace
            self._release_at = self._clock.monotonic() + grace
            return f"Stopping: what runs gets {grace:g} s to finish. Ask again to hand it back at once."
        if self.phase is Phase.DRAINING:
            self._release()
            return "Stopping now: what runs is ended and handed back."
        self.phase = Phase.LEAVING
        self._end_all(grace=0)
        return "Stopping now: what runs is killed; whatever the store has not heard of, other nodes take over."

    async def cycle(self) -> float:
        """Do what is to be done now; the seconds until there is more."""
        self._take_reports()
        if self.phase is Phase.WORKING:
            await self._tick_if_due()
            await self._work_on()
        else:
            await self._wind_down()
        return self._delay()

    async def _tick_if_due(self) -> None:
        if self._clock.monotonic() >= self._tick_at:
            await self._tick()

    async def _work_on(self) -> None:
        """Every duty once. One that fails keeps no other from its work; its error is raised at the end."""
        began, ended = self._clock.monotonic(), len(self._work.changes())
        if not self._work.busy:
            self._work.pace.begin(began)
        # The claim goes right behind the settle, in one group of the store: it may have what the settle frees.
        duties = (self._fire(), self._settle(), self._claim(), *self._rare_duties(began))
        fired, _, claimed, *_ = results = await asyncio.gather(*duties, return_exceptions=True)
        self._start_tasks()
        if fired is True or self._clock.monotonic() >= self._look_at:
            self._stale = True
        if self._stale and claimed is not True:
            await self._look()
        self._work.pace.note(ended, self._clock.monotonic())
        if self._work.busy:
            self._tick_at = min(self._tick_at, max(self._clock.monotonic(), self._lease.sent + TICK_BUSY))
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _rare_duties(self, at: float) -> Iterator[Coroutine[None, None, object]]:
        """Those of which most cycles have nothing."""
        if self._work.unsettled:
            yield self._save_outputs()
        if self._orphans:
            yield self._reap()
        if self._outdated:
            yield self._reckon()
        if at >= self._pruner.next_at:
            yield self._pruner.step(self._store, self.now, at)

    def _start_tasks(self) -> None:
        """Fill the free places. What ends at once (a no-op) frees its place for the next one right away.

        A claim may be answered after the node was asked to stop: what it gave is handed back, not begun.
        """
        while self._may_start() and (tasks := self._work.next_tasks()):
            self._executor.start(tasks)
            self._take_reports()

    def _may_start(self) -> bool:
        return self.phase is Phase.WORKING and self._lease.holds(self._clock.monotonic())

    async def _look(self) -> None:
        self._stale = False
        asked = self._clock.monotonic()
        self._survey = await self._source.survey(self.now, past=self._in_vain)
        self._look_at = asked + self._rhythm.update_interval_seconds

    async def _fire(self) -> bool:
        """Whether to look what there is now: something was fired or became ready, or another node was faster."""
        next_due = self._survey.next_due
        self._aligned = newest_tick(self._aligned, self.now, self._rhythm)
        if next_due is None or not self._timeline.trusted:
            self._turn = Turn.ANYBODY
            return False
        if next_due > self._aligned:
            self._turn = Turn.ANYBODY
            await self._foresee(next_look(self._aligned, next_due, self._rhythm))
            return False
        fired = await self._fire_due()
        turn, self._turn = self._turn, next_turn(self._turn, fired)
        if fired is None:
            if turn is Turn.ANYBODY:
                # What the store names as due is for newer nodes: looked past until the next tick.
                self._in_vain = self._aligned
                self._survey = replace(self._survey, next_due=None)
            return True
        lanes = fired.lanes.union(self._survey.lanes)
        self._survey = replace(self._survey, lanes=tuple(sorted(lanes)))
        return not fired.full

    async def _fire_due(self) -> Fired | None:
        if self._foreseen.serves(self._aligned):
            fired = await fire_foreseen(self._store, self._foreseen, self._aligned)
            self._foreseen = self._foreseen.written
            return fired
        return await fire(
            self._store,
            self._aligned,
            self._random,
            self._schedules,
            share=share_of(self._turn, self.id, self._watch.peers),
            share_of_many=share_of_many(self._turn, self.id, self._watch.peers),
        )

    async def _foresee(self, moment: Moment) -> None:
        now = self.now
        if self._foreseen.moment == moment or now < ahead_of(moment, now):
            return
        share = share_of_many(self._turn, self.id, self._watch.peers)
        self._foreseen = await foresee(self._store, moment, self._random, self._schedules, share)

    async def _claim(self) -> bool:
        """Whether there may be more to claim."""
        lanes = tuple(lane for lane in self._survey.lanes if self.identity.serves(lane))
        limit = self._work.room()
        if not lanes or not limit or not self._lease.holds(self._clock.monotonic()):
            return False
        claim = Claim(id=ClaimId(self._random(16).hex()), node=self.id, lanes=lanes, limit=limit)
        claimed = await self._source.claim(claim, self.now)
        self._work.accept(claimed, self.id, self.now)
        self._start_tasks()  # the store may still be busy with what ended before
        if len(claimed) < limit:
            self._survey = replace(self._survey, lanes=_without(self._survey.lanes, lanes))
        return len(claimed) == limit

    async def _settle(self) -> bool:
        """Whether anything was settled, and so may have woken somebody."""
        changes = self._work.changes()
        if not changes:
            return False
        verdicts = await self._source.settle(changes, self.id, self.now)
        self._stale = True
        for change in self._work.settled(changes, verdicts):
            log.warning("run %s of %s was no longer this node's; its end changed nothing", change.run_id, change.job_id)
        return True

    async def _save_outputs(self) -> bool:
        """Whether anything was written."""
        outputs = self._work.take_outputs()
        if outputs:
            await self._store.save_outputs(outputs)
        return bool(outputs)

    def _take_reports(self) -> None:
        """Executors go by this machine's clock; what they tell is kept in the store's time."""
        reports, self._reports = self._reports, []
        shift = self.now - self._clock.now()
        for report in reports:
            self._work.take(report, self.id, self._chance(), shift if abs(shift) >= MILLISECOND else 0)

    async def _tick(self) -> None:
        """Beat, and hear what concerns this node. Late or failed ticks break the watch over the others."""
        sent = self._clock.monotonic()
        on_time = sent - self._tick_at <= LATE_TICK
        unbroken, self._unbroken = self._unbroken and on_time, False
        self._stale = False  # a hint that comes while the tick is under way is one to follow
        started = self._work.started()
        pulse = await self._store.tick(Beat(node=self.id, started=started), self.now)
        self._work.told(started)
        if pulse is None:
            await self._reborn()
            return
        at = self._clock.monotonic()
        self._tick_at = sent + (TICK_BUSY if self._work.busy else TICK_IDLE)
        self._unbroken = at - sent <= LATE_TICK
        self._lease = Lease(sent)
        self._executor.renew(sent)
        self._timeline = follow(self._timeline, pulse.now, sent, at)
        self._survey = pulse.survey
        self._look_at = sent + self._rhythm.update_interval_seconds
        self._in_vain = None
        self._watch = observe(self._watch, pulse.peers, at, unbroken=unbroken and self._unbroken)
        self._orphans = pulse.orphans
        await self._bury(at)
        await self._compare(pulse)

    async def _bury(self, at: float) -> None:
        for peer, beat in overdue(self._watch, at):
            if await self._store.bury(peer, beat, self.id, self.now):
                log.warning("node %s has fallen silent; its runs are taken over", peer)
                self._orphans = True

    async def _reap(self) -> bool:
        """Whether dead nodes' runs were taken over."""
        self._orphans = await reap(self._store, self.id, self.now, self._chance) > 0
        self._stale = True
        return self._orphans

    async def _reckon(self) -> None:
        """A node that starts may have newer rules of time zones than those by which jobs wait."""
        self._outdated = await reckon(self._store, self.now, self._schedules) > 0
        self._stale = True

    async def _compare(self, pulse: Pulse) -> None:
        """Hand back what the store gives this node and it does not know; end what it runs and no longer owns."""
        unknown, lost = self._work.compare(pulse.owned)
        for key in lost:
            log.warning("run %s is no longer this node's; its process is ended", key[0])
            self._executor.stop(*key, StopReason.DISOWN)
            self._work.disown(key)
        self._stale |= await hand_back(self._store, unknown, self.id, self.now)
        for run_id, token, reason in pulse.cancels:
            self._cancel((run_id, token), reason)

    def _cancel(self, key: Key, reason: str) -> None:
        if self._work.note_cancel(key, reason) and not self._work.cancel_backlog(key, self.id, self.now):
            self._executor.stop(*key, StopReason.CANCEL)

    async def _reborn(self) -> None:
        """This node was declared dead: nothing that it does counts any more. It ends its processes and joins anew."""
        log.warning("node %s was declared dead; it ends its processes and goes on under a new id", self.id)
        for key in self._work.running:
            self._executor.stop(*key, StopReason.DISOWN)
        phase, release_at = self.phase, self._release_at
        self._begin()
        self.phase, self._release_at = phase, release_at
        await self._register()

    async def _wind_down(self) -> None:
        self._work.hand_back_backlog(self.id, self.now, "the node stops")
        if self.phase is Phase.DRAINING and self._clock.monotonic() >= self._release_at:
            self._release()
        if self.phase is Phase.LEAVING and not self._work.running:
            self.finished = True
        await self._tick_if_due()
        await self._settle()
        await self._save_outputs()
        if not self._work.busy:
            self.finished = await self._store.leave(self.id, self.now)

    def _release(self) -> None:
        self.phase = Phase.RELEASING
        self._end_all(grace=None)

    def _end_all(self, grace: float | None) -> None:
        for key in self._work.running:
            self._executor.stop(*key, StopReason.RELEASE, grace=grace)

    def _delay(self) -> float:
        at = self._clock.monotonic()
        if self._reports or self._work.unsettled or (self._lease.holds(at) and self._can_go_on()):
            return 0
        moments = [self._tick_at, at + LONGEST_SLEEP]
        if self.phase is Phase.DRAINING:
            moments.append(self._release_at)
        next_due = self._survey.next_due
        if self.phase is Phase.WORKING:
            moments += [self._look_at, self._pruner.next_at]
        if self.phase is Phase.WORKING and next_due is not None and self._timeline.trusted:
            now, look = self.now, next_look(self._aligned, next_due, self._rhythm)
            look = look if self._foreseen.moment == look else ahead_of(look, now)
            moments.append(at + max(0, look - now) / SECOND)
        overdue_at = next_overdue(self._watch)
        if overdue_at is not None and overdue_at > at:
            self._tick_at = min(self._tick_at, overdue_at)
            moments.append(overdue_at)
        return max(0, min(moments) - at)

    def _can_go_on(self) -> bool:
        """Whether there is something to start or to claim."""
        if self.phase is not Phase.WORKING:
            return False
        lanes = any(self.identity.serves(lane) for lane in self._survey.lanes)
        return self._orphans or self._outdated or self._work.startable or (lanes and self._work.room() > 0)


def _without(lanes: tuple[Lane, ...], drained: tuple[Lane, ...]) -> tuple[Lane, ...]:
    gone = frozenset(drained)
    return tuple(lane for lane in lanes if lane not in gone)
