"""Firing of a node: its share of the due jobs, decided at once, at aligned ticks, or a moment ahead."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.engine.duty import Stopwatch
from tokimori.engine.fire import (
    BATCH,
    Fired,
    FiringStore,
    Monotonic,
    ParkingStore,
    Planned,
    Promoter,
    Refusal,
    Schedules,
    apply,
    beside_promotion,
    decided_by,
    fire,
    park,
    with_ids,
)
from tokimori.engine.lookout import Lookout, Rhythm, newest_tick, next_look
from tokimori.engine.pace import PageSize
from tokimori.engine.refusals import PATIENCE, is_fault_of_request, log_refusal, pause_after, refuses_for_good
from tokimori.errors import StoreError, StoreTooSlow
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import Incarnation, NodeId, RandomBytes
from tokimori.model.job import Job
from tokimori.ports.planning import ALL, Share
from tokimori.schedules.schedule import Schedule

AHEAD = SECOND // 10
"""How long before its moment something is foreseen: a few times what reading and deciding take."""
NEAR = SECOND // 50
"""Moments nearer than this are not foreseen: their plans would be written alone, just before others."""
FRESH = SECOND // 2
"""How long after its moment a foreseen plan may be written. Later, the policies for late occurrences apply."""
MOST = 2 * BATCH
"""How many jobs are foreseen, at most."""


class Foreseen(Struct, frozen=True):
    """Plans to write at `moment`, each batch by itself; `rest`: there is more to decide than this."""

    moment: Moment
    batches: tuple[list[Planned], ...]
    rest: bool

    def serves(self, now: Moment) -> bool:
        """Return if foreseen plans may be written now."""
        return bool(self.batches) and self.moment <= now <= self.moment + FRESH

    @property
    def written(self) -> "Foreseen":
        """Return the rest after a batch was written."""
        return replace(self, batches=())


NOTHING = Foreseen(Moment(0), (), rest=True)


def ahead_of(moment: Moment, now: Moment) -> Moment:
    """Return when to foresee what is due at this moment; the moment itself if that is too near."""
    return Moment(moment - AHEAD) if now <= moment - NEAR else moment


async def foresee(
    store: FiringStore,
    moment: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    share_of_many: Share,
    *,
    page_size: PageSize | None = None,
    monotonic: Monotonic = lambda: 0,
) -> Foreseen:
    """Decide now what will be due at this moment, if only an edit of the job itself could change the answer.

    A plan is refused if its job was edited, paused or decided meanwhile. Jobs with active runs, with missed
    occurrences, or that can't be decided, are decided at the moment itself. `page_size`: as in `fire`.
    """
    found, most = await _read(store, moment, page_size)
    many = len(found) >= min(BATCH, most)
    plans: list[Plan] = []
    for first in range(0, len(found), BATCH):
        dues = [due for due in found[first : first + BATCH] if not many or share_of_many.has(due.job.incarnation)]
        decided = decided_by(dues, moment, schedule_for, monotonic)
        plans += [plan async for due, plan in decided if isinstance(plan, Plan) and _is_plain(due, plan)]
        await asyncio.sleep(0)
    rest = len(found) == most or len(plans) < len(found)
    planned = with_ids(plans, moment, random)
    batches = tuple(planned[first : first + BATCH] for first in range(0, len(planned), BATCH))
    return Foreseen(moment, batches if batches or rest else ([],), rest)


async def _read(store: FiringStore, moment: Moment, page_size: PageSize | None) -> tuple[Sequence[Due], int]:
    """Return the jobs that are due at the moment, and the number that was requested. Read more if they are small."""
    most = MOST if page_size is None else page_size.limit
    found = await store.due(moment, most)
    if page_size is None:
        return found, most
    page_size.note(due.job for due in found)
    return (found, most) if page_size.limit <= most else await _read(store, moment, page_size)


def _is_plain(due: Due, plan: Plan) -> bool:
    return due.active == 0 and len(plan.runs) == 1 and not plan.skips


async def fire_foreseen(store: FiringStore, foreseen: Foreseen, now: Moment, promoter: Promoter) -> Fired:
    """Write what was foreseen, all batches at the same time, and make waiting runs ready, as `fire` does.

    If it fails, some may have been written. A retry finds them.
    """
    applying = (apply(store, batch, now) for batch in foreseen.batches)
    decided, _ = await beside_promotion(promoter, now, BATCH, *applying)
    return Fired(decided.lanes, full=foreseen.rest, contended=decided.refused > 0)


MOST_SHARES = 8
"""The most shares of due jobs: the store walks over the jobs of other shares."""


class Turn(Enum):
    """Turn of a node: it decides its share of the due jobs first, and then the jobs that others have left.

    A few due jobs belong to all nodes. If a reading of all shows many, each node decides only its share.
    """

    ANYBODY = "anybody"
    SHARE = "share"
    REST = "rest"


def next_turn(turn: Turn, fired: Fired | None) -> Turn:
    """Return the turn after one that fired this (None: nothing was due)."""
    if turn is Turn.SHARE:
        return Turn.SHARE if fired is not None and fired.full else Turn.REST
    if fired is None or not (fired.full or fired.contended):
        return Turn.ANYBODY
    return Turn.REST if turn is Turn.REST and not fired.contended else Turn.SHARE


def share_of_many(turn: Turn, node: NodeId, peers: Iterable[NodeId]) -> Share:
    """Return this node's share of the jobs read in this turn, if they turn out to be many."""
    return share_of(Turn.SHARE, node, peers) if turn is Turn.ANYBODY else ALL


def share_of(turn: Turn, node: NodeId, peers: Iterable[NodeId]) -> Share:
    """Return the share of this node. If nodes see different peers, some work is done twice; all may take the rest."""
    nodes = sorted([node, *peers])
    if turn is not Turn.SHARE or len(nodes) == 1:
        return ALL
    parts = min(len(nodes), MOST_SHARES)
    return Share(nodes.index(node) % parts, parts)


log = logging.getLogger(__name__)

KNOWN_FOR = 10 * MINUTE
"""Microseconds for which the refusals of a job are remembered."""


@dataclass(slots=True)
class _RefusedJob:
    """Refusals of one job's plans, and the end of its wait."""

    tries: int
    until: Moment


class RefusedJobs:
    """Search by halves for the job whose plan the store refuses. `limit`: the number of jobs to decide in one
    transaction."""

    def __init__(self, store: ParkingStore) -> None:
        self._store = store
        self._known: dict[Incarnation, _RefusedJob] = {}
        self._took = True
        self.limit = BATCH

    def waiting(self, now: Moment) -> Set[Incarnation]:
        """Return the jobs that are not to be decided yet."""
        self._known = {job: refused for job, refused in self._known.items() if refused.until + KNOWN_FOR > now}
        return {job for job, refused in self._known.items() if refused.until > now}

    def took(self, fired: Fired | None) -> None:
        """Note that the store took a batch, if there was one."""
        if fired is not None:
            self.limit, self._took = min(BATCH, 2 * self.limit), True

    async def note(self, refusal: Refusal, now: Moment) -> None:
        """Decide fewer jobs at once; a single refused job waits. Raise the fault if the store seems ill."""
        jobs, fault = refusal
        if len(jobs) == 1:
            await self._set_aside(jobs[0], fault, now)
            return
        self.limit = len(jobs) // 2
        message = f"the store refused what {len(jobs)} jobs bring; fewer are tried at once: {fault}"
        log_refusal(log, message, fault)
        if isinstance(fault, StoreTooSlow) or not self._took:
            raise fault

    async def _set_aside(self, job: Job, fault: Exception, now: Moment) -> None:
        """Set a refused job aside for a while.

        Park it if the store has refused it several times, and for good. A slow store is no such refusal.
        """
        self._took = False
        tries = self._known[job.incarnation].tries + 1 if job.incarnation in self._known else 1
        pause = pause_after(tries)
        self._known[job.incarnation] = _RefusedJob(tries, Moment(now + round(pause * SECOND)))
        if tries >= PATIENCE and refuses_for_good(fault):
            try:
                await park(self._store, job, f"the store refused what its schedule brings: {fault}")
                log.error("the store refuses the runs of job %s; the job is parked: %s", job.id, fault)
                return
            except StoreError as other:
                fault = other
        message = f"the store refused what job {job.id} brings, which is tried again in {pause:g} s: {fault}"
        log_refusal(log, message, fault)


class Firing:
    """Duty to decide this node's share of the due jobs. It takes its first aligned tick at `now`."""

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
        self._firing, self._foreseeing = PageSize(BATCH), PageSize(MOST)

    def begin(self, now: Moment) -> None:
        """Take the first aligned tick now: the node has joined."""
        self._aligned = now

    async def step(self, by: NodeId, peers: Collection[NodeId], now: Moment, *, trusted: bool) -> bool:
        """Fire; return whether to look again: something fired or became ready, or another node was faster.

        Without a `trusted` time nothing is fired.
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
        """Return the next moment to foresee or decide; None if nothing is known to become due."""
        next_due = self._lookout.survey.next_due
        if next_due is None:
            return None
        look = next_look(self._aligned, next_due, self._rhythm)
        return look if self._foreseen.moment == look else ahead_of(look, now)

    async def _fire(self, by: NodeId, peers: Collection[NodeId], now: Moment) -> Fired | None:
        """Fire a batch. If the store refuses it, ask for less next time, and note the refused job."""
        try:
            fired = await self._fire_batch(by, peers, now)
        except Exception as fault:
            if self._foreseen is NOTHING or not is_fault_of_request(fault):
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
            page_size=self._firing,
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
            page_size=self._foreseeing,
            monotonic=self._monotonic,
        )
        self._foreseen = await self._timed("foresee", foreseen)
