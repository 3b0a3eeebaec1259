"""Claimed runs of a node, between the store and its executor. No I/O, no waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.engine.pace import LINGER, Pace
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import Key, Unsettled
from tokimori.model.approval import in_place_of_begin
from tokimori.model.attempt_notes import Notes, given_to, is_inherited, notes_row, payload_for
from tokimori.model.ids import NodeId, RunId
from tokimori.model.job import kills_on_lost_lease
from tokimori.model.outcome import Expired, Failed, Hold, Released, RetryAt, RetryIn
from tokimori.model.run import NEVER, NO_DETAILS, Output, Run, joined_as, parents_of, shifted_times
from tokimori.model.target import Http, Unreadable
from tokimori.ports.executor import AttemptTask, Ended, Grew, Noted, Report, Started
from tokimori.ports.nodes import StartedRun
from tokimori.ports.working import LARGE, Change, Claimed, Verdict

MOST_CLAIMED = 1000
"""And never more than this at once: one claim is one transaction."""
LATE = 1.0
"""Seconds for which a claimed run may wait for a place."""
UNREADABLE_WAIT = 2.0
"""Seconds after which a run whose definition this node can't read may be claimed again, perhaps by one that can."""
ENOUGH = 128
"""Runs that are worth a transaction, however soon as many more will have ended."""


class _Seen(NamedTuple):
    """Observation of the backlog: its time (monotonic seconds), how many had left by then, and how many waited."""

    at: float
    left: int
    backlog: int


class Work:
    """The runs that this node owns: in the backlog, running, or ended and not yet settled."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.pace = Pace(concurrency)
        self._most = MOST_CLAIMED
        self._owned: dict[Key, Claimed] = {}
        self._backlog: deque[Claimed] = deque()
        self._left = 0
        self._seen = _Seen(0.0, 0, 0)
        self._running: set[Key] = set()
        self.unsettled = Unsettled()
        self._started: dict[Key, StartedRun] = {}
        self._ends: dict[Key, float] = {}
        self._outputs: dict[RunId, Output] = {}
        self._notes: dict[Key, Notes] = {}
        self._unsaved: set[Key] = set()
        self.short = False  # an attempt could not begin, as the machine was short of something
        self.begun_before: dict[Key, Claimed] = {}
        """Attempts that began here before the store gave them to another node: it may give them back."""

    @property
    def busy(self) -> bool:
        """Return whether anything is in hand."""
        return bool(self._owned) or bool(self.unsettled)

    @property
    def running(self) -> frozenset[Key]:
        """Return the attempts that an executor has."""
        return frozenset(self._running)

    @property
    def has_outputs(self) -> bool:
        """Return whether running attempts wrote or noted anything since the last call."""
        return bool(self._outputs) or bool(self._unsaved)

    @property
    def startable(self) -> bool:
        """Return whether there are claimed runs that could start now."""
        return bool(self._backlog) and len(self._running) < self.concurrency

    def room(self) -> int:
        """Return how many more runs to claim: one claim's worth, with two of these in the backlog.

        While a claim is under way, the node works on the backlog.
        """
        free = self.concurrency - len(self._running)
        starved = self.busy and not self._backlog
        ends = max(self.pace.ahead(), self.pace.burst() if starved else 0)
        ahead = min(2 * self._most, free + ends)
        return max(0, min(self._most, ahead - len(self._backlog)))

    def resize(self, concurrency: int) -> None:
        """Set the number of places. Runs beyond them go on."""
        self.concurrency = self.pace.places = concurrency

    def linger(self, more: Callable[[], bool]) -> float:
        """Return the seconds for which ends may wait for more. `more`: if something can be claimed.

        0 unless every place is used and enough runs wait: as many as usually end meanwhile. If there is more to claim,
        twice as many more, or one for each place, whichever is less, as a claim takes time.
        """
        seconds, waiting = self.pace.linger(), len(self._backlog)
        ends = self.pace.rate * seconds
        if len(self._running) < self.concurrency or waiting < ends:
            return 0.0
        enough = ends + min(self.concurrency, 2 * ends)
        return seconds if waiting >= enough or not more() else 0.0

    def worth_it(self, runs: int) -> bool:
        """Return if this many are worth a transaction of their own beside another one.

        If runs end as they begin (no-ops), it would be two transactions in place of one.
        """
        few = min(ENOUGH, int(self.pace.rate * LINGER))
        return bool(self._running) and runs >= min(self._most, max(self.concurrency, few))

    def not_claimed(self) -> None:
        """Note that a claim failed: it may have been too large for the store."""
        self._most = max(1, self._most // 2)

    def accept(self, claimed: Sequence[Claimed], owner: NodeId, now: Moment, ahead: int = 0) -> None:
        """Take over the claimed runs. A run whose job is gone, or can't be read, is released at once.

        It may be claimed after a pause: else this node would claim it again and again, and nothing else. If payloads
        are large, the next claim is smaller. A run that has expired only because the clock may be `ahead` begins.
        """
        self.pace.claimed(now)
        size = sum([len(payload) for each in claimed if (payload := each.run.payload) is not None])
        self._most = max(1, len(claimed) * LARGE // size) if size >= LARGE else min(MOST_CLAIMED, 2 * self._most)
        for run in claimed:
            key = (run.run.id, run.run.token)
            if key in self._owned:
                continue
            self._owned[key] = run
            definition = run.definition
            if definition is None or type(definition.target) is Unreadable:
                self._hand_back(run, owner, now, RetryIn(UNREADABLE_WAIT))
            elif run.run.details is NO_DETAILS and not definition.approval:  # most runs: nothing keeps them from it
                self._backlog.append(run)
            elif run.run.details.spawned is not None:  # somebody held and resumed it: it only waits
                self._hand_back(run, owner, now, RetryAt(NEVER))
            elif (instead := in_place_of_begin(run.run, definition, now, ahead)) is not None:
                self._hand_back(run, owner, now, instead)
            else:
                self._backlog.append(run)

    def next_tasks(self) -> list[AttemptTask]:
        """Return the tasks to start now, as far as there is room; they count as running from here."""
        tasks = []
        while self._backlog and len(self._running) < self.concurrency:
            claimed = self._backlog.popleft()
            self._left += 1
            task = task_of(claimed)
            if task is not None:
                self._running.add((task.run_id, task.token))
                tasks.append(task)
        return tasks

    def take(self, report: Report, owner: NodeId, chance: float, shift: int = 0, at: float = 0.0) -> None:
        """Store an executor's report. Reports of runs that this node no longer owns are dropped.

        `shift` is by how much this machine's clock, which executors go by, is behind the store's (microseconds). `at`
        are the seconds of the monotonic clock.
        """
        key = (report.run_id, report.token)
        claimed = self._owned.get(key)
        if claimed is None or key not in self._running:
            return
        match shifted(report, shift) if shift else report:
            case Ended() as ended:
                self._end(key, claimed, ended, owner, chance)
            case Started(pid=pid, at=began):
                self._started[key] = StartedRun(run_id=report.run_id, token=report.token, pid=pid, at=began)
                if (timeout := timeout_of(claimed)) is not None:
                    self.expect_end(key, at + timeout)
            case Grew(output=output):
                self._outputs[report.run_id] = output
            case Noted(notes=notes):
                self._note(key, notes)

    def _end(self, key: Key, claimed: Claimed, report: Ended, owner: NodeId, chance: float) -> None:
        self.pace.end(report.at)
        self.short = self.short or (type(report.outcome) is Released and report.outcome.short)
        self._running.discard(key)
        if self._ends or self._started or self._outputs or self._unsaved:  # of what ends at once there is nothing
            self._ends.pop(key, None)
            self._started.pop(key, None)
            self._outputs.pop(report.run_id, None)
            self._unsaved.discard(key)
        self.unsettled.add(
            change_of(
                claimed,
                report.outcome,
                owner=owner,
                now=report.at,
                chance=chance,
                started=report.started,
                pid=report.pid,
                output=report.output,
                notes=self._notes.pop(key, None) if self._notes else None,
                cpu=report.cpu,
                memory=report.memory,
            ),
            claimed.run.payload,
        )

    def _note(self, key: Key, notes: Notes) -> None:
        known = self._notes.get(key)
        self._notes[key] = notes if known is None else replace(notes, payload=known.payload)
        self._unsaved.add(key)

    def hand_back_backlog(self, owner: NodeId, now: Moment, reason: str) -> None:
        """Release, unpenalised, the runs that have not begun."""
        self._left += len(self._backlog)
        while self._backlog:
            self._hand_back(self._backlog.popleft(), owner, now, Released(reason))

    def hand_back_late(self, at: float, owner: NodeId, now: Moment) -> int:
        """Release surplus runs if some have waited for `LATE` seconds; return how many.

        As many stay as began within the last `LATE` seconds. Called with each beat (`at`: monotonic seconds).
        """
        seen, passed = self._seen, at - self._seen.at
        if passed < LATE:
            return 0
        left, late = self._left - seen.left, 0
        if left < seen.backlog and len(self._running) >= self.concurrency:
            late = max(0, len(self._backlog) - int(left / passed * LATE))
            self.pace.slow_down(left / passed, now)
            for _ in range(late):
                self._hand_back(self._backlog.pop(), owner, now, Released("its node has no place for it soon"))
        self._seen = _Seen(at, self._left, len(self._backlog))
        return late

    def _hand_back(
        self,
        claimed: Claimed,
        owner: NodeId,
        now: Moment,
        outcome: Released | RetryIn | RetryAt | Expired | Failed | Hold,
    ) -> None:
        self.unsettled.add(change_of(claimed, outcome, owner=owner, now=now, chance=0), claimed.run.payload)

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> list[Change]:
        """Forget the changes that the store has judged; return the refused ones."""
        self.unsettled.settled(changes)
        for change in changes:
            self._owned.pop((change.run_id, change.token), None)
        lost = Verdict.LOST
        return [change for change, verdict in zip(changes, verdicts, strict=True) if verdict is lost]

    def started(self) -> tuple[StartedRun, ...]:
        """Return the processes that began, still run, and are not yet reported to the store."""
        return tuple(self._started.values())

    def note_reported(self, started: Iterable[StartedRun]) -> None:
        """Note that the store knows these. A run that lasts longer reports the payload of its job, too."""
        for run in started:
            key = run.run_id, run.token
            self._started.pop(key, None)
            claimed = self._owned.get(key)
            if claimed is not None and key in self._running:
                payload = payload_for(claimed.run, claimed.definition)
                if payload != given_to(claimed.run):
                    known = self._notes.get(key, Notes(attempt=claimed.run.attempt))
                    self._notes[key] = replace(known, payload=payload)
                    self._unsaved.add(key)

    def take_outputs(self) -> list[Output]:
        """Return outputs and notes of running attempts since the last call."""
        outputs = [*self._outputs.values(), *(notes_row(key[0], self._notes[key]) for key in self._unsaved)]
        self._outputs.clear()
        self._unsaved.clear()
        return outputs

    def not_saved(self) -> None:
        """Note that the last outputs and notes may be unsaved: of notes there may be no next report."""
        self._unsaved.update(self._notes)

    def compare(self, owned: frozenset[Key]) -> tuple[list[Key], list[Key]]:
        """Compare with the runs that the store says this node owns; return (unknown here, unknown there)."""
        unknown = [key for key in owned if key not in self._owned and key not in self.unsettled]
        return unknown, [key for key in self._owned if key not in owned]

    def expect_end(self, key: Key, at: float) -> None:
        """Note that the attempt is asked to end from then on, in seconds of the monotonic clock, which nobody sets."""
        if key in self._running:
            self._ends[key] = min(at, self._ends.get(key, at))

    def overtime(self, before: float) -> list[tuple[Run, float]]:
        """Return the runs whose attempts were asked to end before then, and have not, and when; oldest first."""
        late = sorted((at, key) for key, at in self._ends.items() if at < before)
        return [(self._owned[key].run, at) for at, key in late if key in self._owned]

    def owns(self, key: Key) -> bool:
        """Return whether the attempt is this node's, begun or not."""
        return key in self._owned

    def note_cancel(self, key: Key, reason: str) -> bool:
        """Keep the order with the run; return if it has to be carried out (False: known, or not running here)."""
        claimed = self._owned.get(key)
        if claimed is None or claimed.run.cancel is not None or key in self.unsettled:
            return False
        self._owned[key] = with_cancel(claimed, reason)
        return True

    def cancel_backlog(self, key: Key, owner: NodeId, now: Moment) -> bool:
        """Cancel a run in the backlog; return whether it was still there."""
        for claimed in self._backlog:
            if (claimed.run.id, claimed.run.token) == key:
                self._backlog.remove(claimed)
                self._left += 1
                self._hand_back(self._owned[key], owner, now, Released("cancelled before it began"))
                return True
        return False

    def disown(self, key: Key) -> None:
        """Forget a run that another node owns now, but not that it has begun here."""
        claimed = self._owned.pop(key, None)
        if claimed is not None and claimed in self._backlog:
            self._backlog.remove(claimed)
            self._left += 1
        elif claimed is not None:
            self.begun_before[key] = claimed
            for old in list(self.begun_before)[:-MOST_CLAIMED]:
                del self.begun_before[old]
        self._running.discard(key)
        self._ends.pop(key, None)
        self.unsettled.drop(key)
        self._started.pop(key, None)
        self._outputs.pop(key[0], None)
        self._notes.pop(key, None)
        self._unsaved.discard(key)


def shifted(report: Report, shift: int) -> Report:
    """Return the report with its times moved by so many microseconds."""
    match report:
        case Started():
            return replace(report, at=Moment(report.at + shift))
        case Noted():
            return report
        case Grew(output=output):
            return replace(report, output=replace(output, times=shifted_times(output.times, shift)))
        case Ended():
            started = None if report.started is None else Moment(report.started + shift)
            wrote = report.output
            if wrote is not None:
                wrote = replace(wrote, times=shifted_times(wrote.times, shift))
            return replace(report, at=Moment(report.at + shift), started=started, output=wrote)


def timeout_of(claimed: Claimed) -> float | None:
    """Return the seconds of the attempt's time-out; a service that has accepted a request may report its end later."""
    definition = claimed.definition
    if definition is None or definition.timeout is None or isinstance(definition.target, Http):
        return None
    return definition.timeout


def task_of(claimed: Claimed) -> AttemptTask | None:
    """Return the executor's task for a claimed run; None if its job is gone, or can't be read."""
    run, definition = claimed.run, claimed.definition
    if definition is None or isinstance(definition.target, Unreadable):
        return None
    details = run.details
    alone, joined = details is NO_DETAILS and run.parent_id is None, joined_as(run) if details.parents else ""
    return AttemptTask(  # the first ones by position: Python gathers more than 15 keywords in a dictionary (0.6 µs)
        run.id,
        run.token,
        run.attempt,
        run.job_id,
        definition.target,
        run.nominal,
        run.due,
        definition.timeout,
        definition.timeout_grace,
        kills_on_lost_lease(definition, keyed=run.concurrency_key is not None),
        definition.time_zone,
        run.payload if joined == "runs" else payload_for(run, definition),
        not alone and is_inherited(run),
        details.checkpoint,
        run.parent_id,
        definition.auto_complete_success,
        definition.own_process,
        definition.queue if definition.client else None,
        traceparent=details.traceparent,
        parents=() if alone else parents_of(run),
        joined=joined,
        max_cpu=definition.max_cpu,
        max_memory=definition.max_memory,
    )


def with_cancel(claimed: Claimed, reason: str) -> Claimed:
    """Return the claimed run, ordered to cancel."""
    return replace(claimed, run=replace(claimed.run, cancel=reason))
