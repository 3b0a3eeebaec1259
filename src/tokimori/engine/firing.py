"""Firing of a node, and its part of what is due: at once, at aligned ticks, or foreseen a moment ahead."""

from collections.abc import Collection

from tokimori.clock import Moment
from tokimori.engine.appetite import Appetite
from tokimori.engine.fire import BATCH, Fired, FiringStore, Monotonic, Schedules, fire
from tokimori.engine.foresee import MOST, NOTHING, ahead_of, fire_foreseen, foresee
from tokimori.engine.look import Lookout
from tokimori.engine.promote import Promoter
from tokimori.engine.refusals import blames_the_asked
from tokimori.engine.refused_jobs import RefusedJobs
from tokimori.engine.rhythm import Rhythm, newest_tick, next_look
from tokimori.engine.share import Turn, next_turn, share_of, share_of_many
from tokimori.engine.stopwatch import Stopwatch
from tokimori.model.ids import NodeId, RandomBytes


class Firing:
    """Decides what is due as far as it is this node's to decide. It takes its first aligned tick at `now`."""

    def __init__(
        self,
        store: FiringStore,
        lookout: Lookout,
        schedules: Schedules,
        *,
        random: RandomBytes,
        rhythm: Rhythm,
        now: Moment,
        timed: Stopwatch,
        monotonic: Monotonic = lambda: 0,
    ) -> None:
        self._store = store
        self._lookout = lookout
        self._random = random
        self._schedules = schedules
        self._rhythm = rhythm
        self._timed = timed
        self._monotonic = monotonic
        self._aligned = now
        self._turn = Turn.ANYBODY
        self._foreseen = NOTHING
        self._refused = RefusedJobs(store)
        self._promoter = Promoter(store)
        self._firing, self._foreseeing = Appetite(BATCH), Appetite(MOST)

    def begin(self, now: Moment) -> None:
        """Take the first aligned tick now: the node has joined."""
        self._aligned = now

    async def step(self, by: NodeId, peers: Collection[NodeId], now: Moment, *, trusted: bool) -> bool:
        """Fire; return whether to look again: something fired or became ready, or another node was faster.

        Where the time is not `trusted` nothing is fired.
        """
        next_due = self._lookout.survey.next_due
        self._aligned = newest_tick(self._aligned, now, self._rhythm)
        if next_due is None or not trusted:
            self._turn = Turn.ANYBODY
            return False
        if next_due > self._aligned:
            self._turn = Turn.ANYBODY
            await self._foresee(next_look(self._aligned, next_due, self._rhythm), by, peers, now)
            return False
        fired = await self._timed("fire", self._fire(by, peers, now))
        turn, self._turn = self._turn, next_turn(self._turn, fired)
        if fired is None:
            if turn is Turn.ANYBODY:
                self._lookout.look_past(self._aligned)  # what the store names as due can't be read here
            return True
        self._lookout.add(fired.lanes)
        return not fired.full

    def next_moment(self, now: Moment) -> Moment | None:
        """Return the next moment to foresee or decide; None if nobody knows of anything."""
        next_due = self._lookout.survey.next_due
        if next_due is None:
            return None
        look = next_look(self._aligned, next_due, self._rhythm)
        return look if self._foreseen.moment == look else ahead_of(look, now)

    async def _fire(self, by: NodeId, peers: Collection[NodeId], now: Moment) -> Fired | None:
        """Fire a batch. If the store refuses it, halve it until the job at fault is found; others go on."""
        try:
            fired = await self._fire_batch(by, peers, now)
        except Exception as fault:
            if self._foreseen is NOTHING or not blames_the_asked(fault):
                raise
            self._foreseen = NOTHING
            return Fired(frozenset(), full=True, contended=False)
        if fired is None or fired.refused is None:
            self._refused.took(fired)
            return fired
        self._foreseen = NOTHING
        await self._refused.note(fired.refused, now)
        return fired._replace(full=True)

    async def _fire_batch(self, by: NodeId, peers: Collection[NodeId], now: Moment) -> Fired | None:
        if self._foreseen.serves(self._aligned):
            fired = await fire_foreseen(self._store, self._foreseen, self._aligned, self._promoter)
            self._foreseen = self._foreseen.written
            return fired
        return await fire(
            self._store,
            self._aligned,
            self._random,
            self._schedules,
            promoter=self._promoter,
            share=share_of(self._turn, by, peers),
            share_of_many=share_of_many(self._turn, by, peers),
            limit=self._refused.limit,
            but=self._refused.waiting(now),
            appetite=self._firing,
            monotonic=self._monotonic,
        )

    async def _foresee(self, moment: Moment, by: NodeId, peers: Collection[NodeId], now: Moment) -> None:
        if self._foreseen.moment == moment or now < ahead_of(moment, now):
            return
        share = share_of_many(self._turn, by, peers)
        foreseen = foresee(
            self._store,
            moment,
            self._random,
            self._schedules,
            share,
            appetite=self._foreseeing,
            monotonic=self._monotonic,
        )
        self._foreseen = await self._timed("foresee", foreseen)
