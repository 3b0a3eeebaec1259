"""Worker of a node: it claims runs, has the executor run them, and settles their ends. A cap on the machine's load."""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from math import inf

from tokimori.clock import MILLISECOND, Clock
from tokimori.engine.duty import Stopwatch
from tokimori.engine.families import Families
from tokimori.engine.lookout import Lookout
from tokimori.engine.refusals import PlannedClaim, RefusedRuns, is_fault_of_request, log_refusal
from tokimori.engine.unsettled import Key, hand_back
from tokimori.engine.work import Work
from tokimori.model.ids import ClaimId, Lane, RandomBytes
from tokimori.model.lanes import handler_of
from tokimori.model.outcome import Released
from tokimori.model.target import Handler
from tokimori.node.flow import Flow
from tokimori.node.membership import Identity, Membership
from tokimori.node.stopping import Stopping
from tokimori.ports.executor import Ended, Executor, Report, StopReason
from tokimori.ports.meter import Meter
from tokimori.ports.nodes import Pulse
from tokimori.ports.work_source import WorkSource
from tokimori.ports.working import Claim, Claimed, is_cut

log = logging.getLogger(__name__)

FIRST, LONGEST = 0.5, 30.0
"""Seconds of a pause: each is twice as long as the one before."""
OVER = 60.0
"""Seconds without a shortage after a pause, after which the next pause is the shortest again."""


def load_average() -> float:
    """Return how many threads of this machine ran or wanted to, on average over a minute, as `uptime` shows it."""
    return os.getloadavg()[0]


class LoadCap:
    """Load cap of a node: while the load is above `most` it claims no new runs (None: no cap). Its runs go on.

    `read` returns the load. `holds`: if the last look stopped claims.
    """

    def __init__(self, most: float | None = None, read: Callable[[], float] = load_average) -> None:
        self._most = most
        self._read = read
        self.holds = False

    def look(self) -> bool:
        """Return if claims stop now. The beginning and the end are logged."""
        most = self._most
        if most is None:
            return False
        load, held = self._read(), self.holds
        self.holds = load > most
        if self.holds and not held:
            log.warning("no run is claimed until the load average, %.2f, is at most %g (node.max_load)", load, most)
        elif held and not self.holds:
            log.warning("runs are claimed again: the load average is %.2f", load)
        return self.holds


class Shortage:
    """Shortage of a machine, and the pauses for it, in monotonic seconds. `why`: the missing resource, or empty.

    Within a pause the node begins no more runs than have ended.
    """

    def __init__(self) -> None:
        self.why = ""
        self._until = -inf
        self._pause = FIRST
        self._freed = 0

    def receive(self, reports: Iterable[Report], at: float) -> bool:
        """Begin a pause if one of these attempts could not begin, and return if so. There is one pause at a time."""
        found = ""
        for report in reports:
            if type(report) is Ended:
                if type(report.outcome) is Released and report.outcome.short:
                    found = report.outcome.reason
                elif report.started is not None:
                    self._freed += 1
        if found:
            self._freed = 0
        if not found or at < self._until:
            return False
        self._pause = FIRST if at >= self._until + OVER else min(2 * self._pause, LONGEST)
        self._until, self.why = at + self._pause, found
        log.warning("for %g s the node begins no more runs than end: %s", self._pause, found)
        return True

    def room(self, at: float) -> float:
        """Return how many runs may be claimed now."""
        return inf if at >= self._until else self._freed

    def took(self, runs: int) -> None:
        """Note the number of claimed runs."""
        self._freed = max(0, self._freed - runs)

    def over(self, at: float) -> bool:
        """Return once if the last pause has just ended."""
        ended = bool(self.why) and at >= self._until
        if ended:
            self.why = ""
            log.info("runs are claimed again")
        return ended


HARDLY = MILLISECOND // 10
"""Smaller differences of a machine's clock are not corrected. A start must not seem too early."""


class Worker:
    """Carrier of runs from the work source to the executor, and of their ends back, for one life of its node.

    While functions can't be started here (`able`), no run of one is claimed. `short` receives the resource that the
    machine lacks to begin any run, and an empty text when that is over.
    """

    def __init__(
        self,
        source: WorkSource,
        executor: Executor,
        membership: Membership,
        lookout: Lookout,
        stopping: Stopping,
        *,
        load_cap: LoadCap,
        clock: Clock,
        random: RandomBytes,
        chance: Callable[[], float],
        meter: Meter,
        timed: Stopwatch,
        families: Families,
        able: Callable[[], bool] = lambda: True,
        short: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._executor = executor
        self._membership = membership
        self._lookout = lookout
        self._stopping = stopping
        self._load_cap = load_cap
        self._clock = clock
        self._random = random
        self._chance = chance
        self._meter = meter
        self._timed = timed
        self._families = families
        self._able = able
        self._short = short
        self._shortage = Shortage()
        self._reports: list[Report] = []
        self._refused = RefusedRuns("to give out a ready run (see `tokimori run list --state ready`)")
        self.work = Work(membership.identity.concurrency)

    # Executing

    def receive(self, report: Report) -> bool:
        """Keep an executor's report until `refill`; return if it is the first since."""
        self._reports.append(report)
        return len(self._reports) == 1

    def refill(self) -> None:
        """Take the reports of executors, and fill the places that became free."""
        self.take_reports()
        self.start_tasks()

    def take_reports(self) -> None:
        """Store the reports of executors, converted from this machine's clock to the store's time."""
        reports, self._reports = self._reports, []
        node, shift = self._membership.id, self._membership.now - self._clock.now()
        shift = shift if abs(shift) >= HARDLY else 0
        at = self._clock.monotonic()
        for report in reports:
            self.work.take(report, node, self._chance(), shift, at)
        short, self.work.short = self.work.short, False
        if (short or self._shortage.why) and self._shortage.receive(reports, at):
            self.work.hand_back_backlog(node, self._membership.now, self._shortage.why)
            self._short(self._shortage.why)

    def start_tasks(self) -> None:
        """Fill the free places. A run that ends at once (a no-op) frees its place for the next one.

        If a claim is answered after the request to stop, its runs are released, not begun.
        """
        while self._may_start() and (tasks := self.work.next_tasks()):
            self._meter.started(tasks, self._membership.now)
            self._executor.start(tasks)
            self.take_reports()

    def _may_start(self) -> bool:
        return self._stopping.working and self._membership.has_lease

    def _room(self) -> int:
        """Return the number of runs that may be claimed: limited by free places and by the state of the machine."""
        at = self._clock.monotonic()
        if self._shortage.over(at):
            self._short("")
        return int(min(self.work.room(), self._shortage.room(at)))

    def end_all(self, reason: StopReason, grace: float | None = None) -> None:
        """End all running attempts."""
        for key in self.work.running:
            self._executor.stop(*key, reason, grace=grace)

    # Claiming and settling

    def settle_and_claim(self, goes_on: Callable[[], bool]) -> tuple[Awaitable[int], Awaitable[bool]]:
        """Settle and claim, each repeated while the other is under way, if that is worth it (`Flow`).

        The claim goes right behind the settle, in one group of the store, and so gets the places that it frees.
        """
        work, flow = self.work, Flow(goes_on)
        if not work.busy:
            work.pace.begin(self._clock.monotonic())
        return (
            flow.again(self.settle, lambda: work.worth_it(work.unsettled.fresh)),
            flow.again(self.claim, lambda: work.worth_it(work.room())),
        )

    async def claim(self) -> bool:
        """Claim as many runs as there is room for; return if there may be more."""
        lanes = tuple(self._served_lanes())
        limit = self._room()
        if self._stopping.drained or self._load_cap.look() or not lanes or not limit or not self._membership.has_lease:
            return False
        node, handlers = self._membership.id, self._membership.identity.handlers
        asked = self._refused.next(lanes, limit, self._clock.monotonic())
        claimed = await self._claim(asked)
        if claimed is None:
            return False
        self._meter.claimed(claimed)
        self._shortage.took(len(claimed))
        self.take_reports()  # ends from before the claim belong to the pace before it
        self.work.accept(claimed, node, self._membership.now, self._membership.ahead)
        self._hand_back_unless(handlers)
        self.start_tasks()  # the store may still be busy with what ended before
        may_be_more = len(claimed) == asked.limit or is_cut(claimed)
        if not may_be_more:
            self._lookout.drop(asked.lanes)
        return may_be_more

    async def _claim(self, asked: PlannedClaim) -> list[Claimed] | None:
        """Claim; return None if the store refuses to give out some of these."""
        name, member = ClaimId(self._random(16).hex()), self._membership
        claim = Claim(id=name, node=member.id, lanes=asked.lanes, limit=asked.limit, skip=asked.skip)
        try:
            claimed = await self._timed("claim", self._source.claim(claim, member.now))
        except Exception as fault:
            self.work.not_claimed()
            if not is_fault_of_request(fault):
                raise
            seems_ill = self._refused.all_refused
            log_refusal(log, self._refused.refuse(asked, fault, self._clock.monotonic()), fault)
            if seems_ill:
                raise
            return None
        if claimed is not None:
            self._refused.took(asked)
        return claimed or []

    async def settle(self) -> int:
        """Settle the ended runs, if any, and send a notice; return how many ends the store has judged."""
        unsettled = self.work.unsettled
        at = self._clock.monotonic()
        changes = unsettled.batch(at)
        if not changes:
            return 0
        member = self._membership
        try:
            whole = await self._families.settling(changes)
            verdicts = await self._timed("settle", self._source.settle(whole, member.id, member.now))
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            log_refusal(log, unsettled.refuse(changes, fault, self._clock.monotonic()), fault)
            if unsettled.ill(changes, fault):
                raise
            return 0
        self._meter.settled(changes, verdicts)
        if log.isEnabledFor(logging.DEBUG):
            for change in changes:
                log.debug("run %s of job %s: attempt ended: %s", change.run_id, change.job_id, change.state)
        self.work.pace.note(sum([change.started is not None for change in changes]), at)  # none that goes back unbegun
        self._lookout.stale = True
        for change in self.work.settled(changes, verdicts):
            log.warning("run %s of %s was no longer this node's; its end changed nothing", change.run_id, change.job_id)
        await self._families.settled(changes, verdicts, member.id, member.now)
        return len(changes)

    def become(self, identity: Identity) -> None:
        """Claim by this identity. If its handlers differ, claimed runs that have not begun are released."""
        handlers = self._membership.identity.handlers
        self._membership.become(identity)
        self.work.resize(identity.concurrency)
        self._hand_back_unless(handlers)

    def _hand_back_unless(self, handlers: Sequence[Handler]) -> None:
        """Release runs claimed with these handlers, if the handlers have changed: new code may not know the runs."""
        member = self._membership
        if member.identity.handlers is not handlers:
            self.work.hand_back_backlog(member.id, member.now, "the code of its node's app has changed")

    def hand_back_backlog(self) -> None:
        """Release, unpenalised, the runs that have not begun."""
        why = "the node takes no more runs" if self._stopping.working else "the node stops"
        self.work.hand_back_backlog(self._membership.id, self._membership.now, why)

    def has_more(self) -> bool:
        """Return whether there are runs to settle, start or claim right now."""
        if self._reports or self.work.unsettled.ready(self._clock.monotonic()):
            return True
        return self._may_start() and (self.work.startable or self._can_claim())

    def linger(self) -> float:
        """Return the seconds for which ends may wait for more."""
        return self.work.linger(lambda: any(self._served_lanes()))

    def _can_claim(self) -> bool:
        return not (self._stopping.drained or self._load_cap.holds) and any(self._served_lanes()) and self._room() > 0

    def _served_lanes(self) -> Iterator[Lane]:
        serves, able = self._membership.serves, self._able()
        return (lane for lane in self._lookout.survey.lanes if serves(lane) and (able or not handler_of(lane)))

    # What the store says of it

    async def compare(self, pulse: Pulse) -> None:
        """Release runs that the store gives this node and it does not know; end runs that it no longer owns.

        It also releases claimed runs that would wait long for a place.
        """
        if late := self.work.hand_back_late(self._clock.monotonic(), self._membership.id, self._membership.now):
            log.info("released %d claimed runs, which any node may start: this node has no place for them soon", late)
        unknown, lost = self.work.compare(pulse.owned)
        for key in lost:
            log.warning("run %s is no longer this node's; its process is ended", key[0])
            self._executor.stop(*key, StopReason.DISOWN)
            self.work.disown(key)
        member, begun = self._membership, self.work.begun_before
        for change in await hand_back(self._source, unknown, member.id, member.now, begun):
            self.work.unsettled.add(change)
        for run_id, token, reason in pulse.cancels:
            self._cancel((run_id, token), reason)

    def restart(self, key: Key) -> None:
        """End an attempt, so that its run begins anew. A run that has not begun needs nothing."""
        if key in self.work.running:
            self._executor.stop(*key, StopReason.RESTART)

    def _cancel(self, key: Key, reason: str) -> None:
        node, now = self._membership.id, self._membership.now
        if self.work.note_cancel(key, reason) and not self.work.cancel_backlog(key, node, now):
            self.work.expect_end(key, self._clock.monotonic())
            self._executor.stop(*key, StopReason.CANCEL)
