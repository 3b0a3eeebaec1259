"""The place where workers outside of nodes claim, and what they have in hand there (docs/decisions/0034).

The program in which this lives takes part as a node that runs no jobs itself. It holds the runs of its workers under
its own lease, each as long as its worker says a word in its alive time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from random import Random
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.engine.families import Families, FamilyStore
from tokimori.engine.lookout import Lookout
from tokimori.engine.refusals import RefusedRuns, is_fault_of_request, log_refusal, raise_first
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import hand_back
from tokimori.engine.work import UNREADABLE_WAIT
from tokimori.errors import ClaimLost, Refused, StoreError, StoreUnavailable
from tokimori.locks.membership import Membership, MemberStore, Program, nap
from tokimori.model.approval import in_place_of_begin
from tokimori.model.ids import Lane, RandomBytes
from tokimori.model.lease import TICK_IDLE
from tokimori.model.outcome import Lost, Outcome, Released, RetryAt, RetryIn, TimedOut
from tokimori.model.run import NEVER
from tokimori.model.target import Function
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Pulse
from tokimori.ports.work_source import WorkSource
from tokimori.ports.working import Change, Claim, Claimed, Verdict, is_cut
from tokimori.service.claims.claimed import ClaimedRun, HeartbeatAnswer, view_of
from tokimori.service.claims.held import Hands, HeldRun, Key, OpenLanes, Over, claim_lost, how_it_is
from tokimori.service.claims.timekeeping import Timekeeper
from tokimori.service.claims.worker_arguments import WorkerRequest, output_of
from tokimori.service.store_calls import retried

log = logging.getLogger(__name__)

MOST_IN_HAND = 1_000
"""Runs that all workers of one place have in hand together."""
MOST_WAITING = 100
"""Workers that wait for runs at one place."""
LEAST_NAP, LONGEST_NAP = 0.02, 0.5
"""Seconds between two looks of a worker that waits, at least and at most."""
AT_ONCE = 20
"""Number of ends sent together: one by one each would wait for a commit of its own."""
LONGEST_REPORT = 1.0
"""Seconds, or little more, between two beats for runs of silent workers: the rest comes behind the next beat."""
FAREWELL = 5.0
"""Seconds for which a place that closes asks a store again that does not answer."""


class ClaimStore(WorkSource, MemberStore, FamilyStore, Protocol):
    """The part of a store that claims use."""


class ClaimPlace:
    """Claims of workers, and the runs that they hold. Every method that waits may raise `StoreError`.

    `may_give`: whether runs may still be given out. `most_waiting`: the number of workers that may wait at a time.
    `timekeeper` makes the due runs while a worker claims; within a node it is None.
    """

    def __init__(
        self,
        store: ClaimStore,
        clock: Clock,
        random: RandomBytes,
        program: Program,
        *,
        may_give: Callable[[], bool] = lambda: True,
        most_waiting: int = MOST_WAITING,
        timekeeper: Timekeeper | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._chance = Random(int.from_bytes(random(8))).random  # noqa: S311  jitter, no secret
        self._may_give = may_give
        self._most_waiting = most_waiting
        self._membership = Membership(
            store, clock, random, program, self, renewed=lambda _sent: None, rests=True, receive=self._receive_pulse
        )
        self._timekeeper = timekeeper
        self._lookout = Lookout(store, TICK_IDLE, clock.monotonic()) if timekeeper is None else timekeeper.lookout
        self._refused = RefusedRuns("to give out a ready run (see `tokimori run list --state ready`)")
        self._open_lanes = OpenLanes()
        self._hands, self._families = Hands(), Families(store)
        self._bells: set[asyncio.Event] = set()
        self._waiting = 0
        self._asking = asyncio.Lock()
        self._seen: frozenset[Key] = frozenset()
        self._unknown: frozenset[Key] = frozenset()
        self._closed = False
        self._patient_until = inf

    # What workers ask, and their program

    async def take(self, request: WorkerRequest) -> Sequence[ClaimedRun]:
        """See `Claims.claim`."""
        if again := self._hands.of_claim(request.id, request.access_token):
            return [await view_of(held, self._store) for held in again]
        waits = request.wait > 0
        self._check_room(waits=waits)
        if not waits:  # a caller who does not wait gets the present state
            self._lookout.stale = True
        bell = asyncio.Event()
        self._bells.add(bell)
        self._waiting += waits
        try:
            return await self._wait(request, bell)
        finally:
            self._bells.discard(bell)
            self._waiting -= waits

    async def heartbeat(self, key: Key, alive_time: float | None) -> HeartbeatAnswer:
        """See `Claims.heartbeat`."""
        held = await self._held(key)
        if alive_time is not None:
            held.alive_time = alive_time
        held.alive_until = self._clock.monotonic() + held.alive_time
        return HeartbeatAnswer(run_id=key[0], alive_time=held.alive_time, cancel=held.claimed.run.cancel)

    async def end(self, key: Key, said: str, outcome: Outcome, output: str | None = None) -> RunState:
        """See `Claims.finish`: `said` is the word."""
        over, held = self._hands.over(key), self._hands.get(key)
        if over is not None and over.said == said and over.state is not None:
            return over.state
        if held is None or held.said != said:  # said again while it is on its way: the store knows it by its token
            held = await self._held(key)
        return await self._settle(held, said, outcome, f"`{said}` was said of it", output=output)

    def access_token_of(self, key: Key) -> str | None:
        """Return the name of the access token that claimed the run here; None if there was none, or it is forgotten."""
        return self._hands.access_token_of(key)

    @property
    def in_hand(self) -> int:
        """Return how many runs workers have in hand."""
        return len(self._hands)

    async def close(self, reason: str = "the node that its worker asks stops") -> None:
        """Stop giving out runs, release those that are held without counting their attempts, and leave."""
        self._closed, self._patient_until = True, self._clock.monotonic() + FAREWELL
        self.wake()
        for some in _some_at_a_time(self._hands):
            if not all(await asyncio.gather(*(self._hand_back(held, reason) for held in some))):
                break
        await self._membership.leave()

    async def _hand_back(self, held: HeldRun, reason: str) -> bool:
        """Hand back runs; return whether the store has answered."""
        try:
            await self._settle(held, "close", Released(reason), reason)
        except (StoreError, ClaimLost) as fault:
            log.warning("run %s could not be handed back, and will be taken over: %s", held.key[0], fault)
            return not isinstance(fault, StoreUnavailable)
        return True

    # Claiming

    def _check_room(self, *, waits: bool) -> None:
        if self._closed or not self._may_give():
            raise Refused("this node stops and gives out no more runs", allowed="another node, or this one later")
        if waits and self._waiting >= self._most_waiting:
            raise Refused(
                f"{self._waiting} workers wait for runs here, as many as may",
                field="wait",
                allowed=f"{self._most_waiting} at a time; wait = 0, which is always answered; another node; or a "
                "worker that asks for more at once (limit)",
            )
        if len(self._hands) >= MOST_IN_HAND:
            raise Refused(
                f"{len(self._hands)} runs are in the hands of workers here, as many as may be",
                allowed=f"{MOST_IN_HAND} at a time; another node, or this one when some of them have ended",
            )

    async def _wait(self, request: WorkerRequest, bell: asyncio.Event) -> list[ClaimedRun]:
        ends = self._clock.monotonic() + request.wait
        while True:
            await self._membership.join()
            taken = await self._take(request)
            left = ends - self._clock.monotonic()
            if taken or left <= 0 or self._closed or not self._may_give():
                return [await view_of(held, self._store) for held in taken]
            await nap(bell, min(LEAST_NAP, left), min(LONGEST_NAP, left))

    async def _take(self, request: WorkerRequest) -> list[HeldRun]:
        """Return the runs for this request now. The one that has waited longest is first."""
        async with self._asking:
            member = self._membership
            await self._read_ready()
            lanes = self._open_lanes.serving(request, self._lookout.survey.lanes)
            room = min(request.limit, MOST_IN_HAND - len(self._hands))
            if not lanes or room <= 0 or self._closed or not member.holds_lease():
                return []
            claimed = await self._ask(request, lanes, room)
            return [held for each in claimed if (held := await self._accept(each, request)) is not None]

    async def _read_ready(self) -> None:
        """Read which runs are ready, after making those that are due."""
        member, lookout = self._membership, self._lookout
        if lookout.stale:
            await lookout.look(member.now, self._clock.monotonic())
        if self._timekeeper is not None and member.holds_lease() and await self._timekeeper.fire(member):
            await lookout.look(member.now, self._clock.monotonic())

    async def _ask(self, request: WorkerRequest, lanes: tuple[Lane, ...], room: int) -> list[Claimed]:
        asked = self._refused.next(lanes, room, self._clock.monotonic())
        member = self._membership
        claim = Claim(id=request.id, node=member.id, lanes=asked.lanes, limit=asked.limit, skip=asked.skip)
        try:
            claimed = await retried(lambda: self._store.claim(claim, member.now), StoreUnavailable) or []
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            log_refusal(log, self._refused.refuse(asked, fault, self._clock.monotonic()), fault)
            return []
        self._refused.took(asked)
        if len(claimed) < asked.limit and not is_cut(claimed):
            self._lookout.drop(asked.lanes)
        return claimed

    async def _accept(self, claimed: Claimed, request: WorkerRequest) -> HeldRun | None:
        """Accept a claimed run. None: this version can't read it; perhaps another one can, after a while."""
        at, definition = self._clock.monotonic(), claimed.definition
        held = HeldRun(
            claimed=claimed,
            claim=request.id,
            worker=request.worker,
            alive_time=request.alive_time,
            alive_until=at + request.alive_time,
            deadline=inf if definition is None or definition.timeout is None else at + definition.timeout,
            since=self._membership.now,
            access_token=request.access_token,
        )
        self._hands.add(held)
        if (back := _handed_back(held, self._membership.ahead)) is not None:
            with suppress(ClaimLost):
                await self._settle(held, *back)
            return None
        return held

    # Ending

    async def _held(self, key: Key) -> HeldRun:
        """Return the run in hand under this token. Raises `ClaimLost`, and `Refused` if it was claimed elsewhere."""
        held = self._hands.get(key)
        if held is not None and held.said is None:
            return held
        over = self._hands.over(key)
        if over is not None:
            raise claim_lost(key, over.why)
        if held is not None:
            raise claim_lost(key, f"`{held.said}` was said of it")
        run = await self._store.get_run(key[0])
        if run.state is RunState.RUNNING and run.token == key[1]:
            raise Refused(
                f"run {run.id} was claimed at another place, which knows its worker",
                field="run",
                value=run.id,
                allowed="the address at which it was claimed",
            )
        raise claim_lost(key, how_it_is(run, key[1]))

    async def _settle(
        self, held: HeldRun, said: str, outcome: Outcome, why: str, *, output: str | None = None
    ) -> RunState:
        """Have the store write how it ended. Raises `ClaimLost` if it was no longer in hand."""
        held.said, key, member = said, held.key, self._membership
        try:
            change = self._change(held, outcome, output)
            changes = await self._families.settling([change])
            (verdict,) = await retried(
                lambda: self._store.settle(changes, member.id, member.now),
                StoreUnavailable,
                wanted=lambda: self._clock.monotonic() < self._patient_until,
            )
        except BaseException:
            held.said = None
            raise
        self._lookout.stale = True
        if verdict is Verdict.LOST:
            self._hands.drop(key, Over(None, None, "the store has given it to another worker, or ended it"))
            raise claim_lost(key, "the store has given it to another worker, or ended it")
        self._hands.drop(key, Over(said, change.state, why))
        await self._families.settled([change], [verdict], member.id, member.now)
        return change.state

    def _change(self, held: HeldRun, outcome: Outcome, output: str | None) -> Change:
        run = held.claimed.run
        began = _is_readable(held.claimed) and held.said != "put off" and run.details.spawned is None
        change = change_of(
            held.claimed,
            outcome,
            owner=self._membership.id,
            now=self._membership.now,
            chance=self._chance(),
            started=held.since if began else None,
            output=None if output is None else output_of(run, output),
        )
        if run.details.as_stored is not None:  # another version wrote what this one can't read
            return change
        return replace(change, details=replace(change.details or run.details, worker=held.worker))

    # Calls of the membership

    def is_needed(self) -> bool:
        """See `PermitHolder`."""
        return bool(self._bells) or len(self._hands) > 0

    def has_unreported(self) -> bool:
        """See `PermitHolder`. Return whether a worker's time may end before the next beat."""
        return self._hands.next_over <= self._clock.monotonic() + TICK_IDLE

    async def report(self) -> None:
        """See `PermitHolder`. Take away runs without a heartbeat, and release runs that no worker holds."""
        if self._timekeeper is not None and await self._timekeeper.reap(self._membership):
            self.wake()
        at = self._clock.monotonic()
        for some in _some_at_a_time(held for held in self._hands if held.over_at <= at):
            raise_first(await asyncio.gather(*(self._take_away(held, at) for held in some), return_exceptions=True))
            if self._clock.monotonic() >= at + LONGEST_REPORT:
                return
        if self._unknown:
            unknown, self._unknown = tuple(self._unknown), frozenset()
            member = self._membership
            changes = await hand_back(self._store, unknown, member.id, member.now)
            if changes:
                await self._store.settle(changes, member.id, member.now)

    async def _take_away(self, held: HeldRun, at: float) -> None:
        if held.over_at > at:  # its worker has said a word meanwhile
            return
        timeout = None if held.claimed.definition is None else held.claimed.definition.timeout
        silent = f"its worker ({held.worker}) said nothing for {held.alive_time:g} s"
        late = f"it took longer than {timeout or 0:g} s"
        outcome: Outcome = TimedOut(late) if held.deadline <= at else Lost(silent)
        why = late if held.deadline <= at else silent
        log.warning("run %s of %s is taken away: %s", held.key[0], held.claimed.run.job_id, why)
        try:
            await self._settle(held, "taken away", outcome, why)
        except StoreUnavailable:
            raise
        except Exception as fault:
            log_refusal(log, f"run {held.key[0]} could not be taken away; it is tried again: {fault}", fault)

    def wake(self) -> None:
        """See `PermitHolder`: something may have changed."""
        self._lookout.stale = True
        for bell in self._bells:
            bell.set()

    def lapsed(self) -> None:
        """See `PermitHolder`. Claim nothing until the store answers again. Held runs are fenced by their tokens."""

    def gone(self) -> None:
        """See `PermitHolder`."""
        self._hands.drop_all("the store received nothing for too long from the node that its worker asks")
        self.wake()

    def _receive_pulse(self, pulse: Pulse) -> None:
        """Handle the answer to a beat. A claim that is under way may own what this place does not know yet."""
        self._lookout.receive(pulse.survey, self._clock.monotonic())
        if self._timekeeper is not None:
            self._timekeeper.receive(pulse)
        for run_id, token, reason in pulse.cancels:
            self._hands.cancel((run_id, token), reason)
        self._hands.compare(pulse.owned)
        unknown = frozenset(key for key in pulse.owned if key not in self._hands and self._hands.over(key) is None)
        known_before, self._seen = self._seen, unknown
        self._unknown = frozenset() if self._asking.locked() else unknown & known_before
        for bell in self._bells:
            bell.set()


def _is_readable(claimed: Claimed) -> bool:
    return claimed.definition is not None and isinstance(claimed.definition.target, Function)


def _handed_back(held: HeldRun, ahead: int) -> tuple[str, Outcome, str] | None:
    """Return how a run is settled at once that no worker gets; None if one gets it."""
    run, definition = held.claimed.run, held.claimed.definition
    if definition is None or not _is_readable(held.claimed):
        return "unreadable", RetryIn(UNREADABLE_WAIT), "its job can't be read"
    if run.details.spawned is not None:  # somebody held and resumed it: it only waits
        return "waits", RetryAt(NEVER), "it waits for the runs that it has spawned"
    instead = in_place_of_begin(run, definition, held.since, ahead)
    return None if instead is None else ("put off", instead, "it may not begin now")


def _some_at_a_time(hands: Iterable[HeldRun]) -> Iterator[Sequence[HeldRun]]:
    held = list(hands)
    return (held[first : first + AT_ONCE] for first in range(0, len(held), AT_ONCE))
