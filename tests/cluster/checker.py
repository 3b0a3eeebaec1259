"""Proves, after everything has ended, that nothing was missed, doubled or early, and that no dead node was missed long.

It believes nobody alone: the store's ledger and attempts are held against what jobs wrote themselves when they began
and ended, and what was due against the clock of the checker. Pure.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from tokimori.clock import MINUTE, SECOND, Moment, format_moment
from tokimori.model.ids import JobId, NodeId, RunId
from tokimori.model.run import Attempt, Run, Skip
from tokimori.model.transitions import ENDS, RunState


@dataclass(frozen=True, slots=True)
class Match:
    """Targets without a start, and starts without a target."""

    missed: tuple[Moment, ...]
    extra: tuple[Moment, ...]


def match(targets: Iterable[Moment], starts: Iterable[Moment], window: int) -> Match:
    """Match targets with starts no earlier than they are, and at most `window` microseconds later."""
    waiting, missed, extra = deque(sorted(targets)), [], []
    for start in sorted(starts):
        while waiting and waiting[0] + window < start:
            missed.append(waiting.popleft())
        if waiting and waiting[0] <= start:
            waiting.popleft()
        else:
            extra.append(start)
    return Match((*missed, *waiting), tuple(extra))


class Interval(NamedTuple):
    """Something that held so many units from `began` up to, but not including, `ended`; the unit of time is free."""

    began: float
    ended: float
    weight: int = 1


class Most(NamedTuple):
    """The most that was held at any moment, and the first such moment."""

    units: int
    at: float


def most_held(intervals: Iterable[Interval]) -> Most:
    """Return the most that was held. At one moment what ends gives back before what begins takes."""
    changes = []
    for each in intervals:
        if each.began < each.ended:
            changes += [(each.began, each.weight), (each.ended, -each.weight)]
    held, most = 0, Most(0, 0)
    for at, change in sorted(changes):
        held += change
        if held > most.units:
            most = Most(held, at)
    return most


TAKE_OVER = 10 * SECOND
WINDOW = 2 * MINUTE
"""How late, at most, what was due may begin under faults."""
GIVEN_BACK = ("lost", "released")


class FaultKind(StrEnum):
    """Kinds of broken promises."""

    MISSED = "missed"
    DOUBLED = "doubled"
    EARLY = "early"
    TAKE_OVER = "take-over"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken promise, in one sentence."""

    kind: FaultKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLine:
    """Line that a job wrote of one attempt, in its own words and by its own clock. Killed, it has not `ended`."""

    run_id: RunId
    attempt: int
    nominal: Moment
    began: Moment
    ended: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All that is known of one job. `expected`: what had to be run; `tolerated`: what was due as its schedule ended."""

    job_id: JobId
    expected: Sequence[Moment]
    tolerated: Sequence[Moment] = ()
    runs: Sequence[Run]
    skips: Sequence[Skip]
    writes_lines: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that is known of a cluster: the attempts of each run that had several, and what jobs wrote.

    `silences`: of each node, when it was killed, frozen or cut off. `alive`: nodes that have stopped as they
    should, and that the store takes for alive.
    """

    ledgers: Sequence[Ledger]
    attempts: Mapping[RunId, Sequence[Attempt]]
    lines: Sequence[WrittenLine] = ()
    silences: Mapping[NodeId, Sequence[Moment]] = field(default_factory=dict)
    alive: Sequence[NodeId] = ()

    def lines_by_run(self) -> dict[RunId, list[WrittenLine]]:
        """Return the lines of each run."""
        found: dict[RunId, list[WrittenLine]] = {}
        for line in self.lines:
            found.setdefault(line.run_id, []).append(line)
        return found


def check(history: History) -> list[Fault]:
    """Return every broken promise."""
    lines = history.lines_by_run()
    known = {run.id for ledger in history.ledgers for run in ledger.runs}
    faults = [
        Fault(FaultKind.OTHER, f"run {each} wrote a line and is not in the ledger") for each in lines.keys() - known
    ]
    faults += [
        Fault(FaultKind.OTHER, f"node {node} has stopped, and the store does not know") for node in history.alive
    ]
    for ledger in history.ledgers:
        faults += _occurrences(ledger)
        if ledger.writes_lines:
            faults += _starts(ledger, history, lines)
        for run in ledger.runs:
            rows = history.attempts.get(run.id, ())
            faults += _run(ledger, run, lines.get(run.id, []))
            faults += _attempts(ledger, run, rows, lines.get(run.id, []))
    return faults + [
        Fault(FaultKind.TAKE_OVER, f"{one.text}, {one.seconds:.1f} s after the node fell silent")
        for one in take_overs(history)
        if one.seconds > TAKE_OVER / SECOND
    ]


def _occurrences(ledger: Ledger) -> Iterator[Fault]:
    """Yield the faults: every occurrence is one run, and every run one occurrence."""
    count, job = Counter(run.nominal for run in ledger.runs), ledger.job_id
    for moment in ledger.expected:
        if not count[moment]:
            yield Fault(FaultKind.MISSED, f"{job}: {format_moment(moment)} is no run")
    possible = {*ledger.expected, *ledger.tolerated}
    for moment, runs in count.items():
        if runs > 1:
            yield Fault(FaultKind.DOUBLED, f"{job}: {format_moment(moment)} has {runs} runs")
        if moment not in possible:
            yield Fault(FaultKind.OTHER, f"{job}: {format_moment(moment)} is no occurrence")
    for skip in ledger.skips:
        text = f"{job}: {skip.count} skipped, {skip.reason}, from {format_moment(skip.first)}"
        yield Fault(FaultKind.MISSED, text)


def _starts(ledger: Ledger, history: History, lines: Mapping[RunId, Sequence[WrittenLine]]) -> Iterator[Fault]:
    """Yield the starts that do not fit what was due; only lost attempts are too many."""
    written = [line for run in ledger.runs for line in lines.get(run.id, ())]
    complete = [line.began for line in written if line.ended is not None]
    due = [*ledger.expected, *{run.nominal for run in ledger.runs}.intersection(ledger.tolerated)]
    found = match(due, complete, WINDOW)
    for moment in found.missed:
        yield Fault(FaultKind.MISSED, f"{ledger.job_id}: nothing that was written fits {format_moment(moment)}")
    again = sum(row.outcome in GIVEN_BACK for run in ledger.runs for row in history.attempts.get(run.id, ()))
    if len(found.extra) > again:
        text = f"{ledger.job_id}: {len(found.extra)} starts too many, {again} attempts were given back"
        yield Fault(FaultKind.DOUBLED, text)


def _run(ledger: Ledger, run: Run, lines: Sequence[WrittenLine]) -> Iterator[Fault]:
    name = _name(ledger, run)
    if run.state is not RunState.SUCCEEDED:
        ended = "and has not ended" if run.state not in ENDS else f": {run.error}"
        yield Fault(FaultKind.OTHER, f"{name} is {run.state} {ended}")
    begins = [line.began for line in lines] + ([] if run.started is None else [run.started])
    for began in begins:
        if began < run.nominal:
            yield Fault(FaultKind.EARLY, f"{name} began at {format_moment(began)}")
    if ledger.writes_lines and all(line.ended is None for line in lines):
        yield Fault(FaultKind.MISSED, f"{name} never wrote that it was done")


def _attempts(ledger: Ledger, run: Run, rows: Sequence[Attempt], lines: Sequence[WrittenLine]) -> Iterator[Fault]:
    """Yield faults of attempts: one follows another that was lost or given back, with a larger token."""
    name, in_order = _name(ledger, run), sorted(rows, key=lambda row: row.number)
    given_back = [row for row in in_order if row.outcome in GIVEN_BACK]
    if len(lines) > 1 + len(given_back):
        text = f"{name} began {len(lines)} times, {len(given_back)} attempts were given back"
        yield Fault(FaultKind.DOUBLED, text)
    if len(lines) != len({line.attempt for line in lines}):
        yield Fault(FaultKind.DOUBLED, f"{name} began one attempt twice")
    # A claim whose reply was lost is handed back: its attempt never began, and has no row.
    known = {row.number for row in in_order} | {line.attempt for line in lines}
    never_began = set(range(1, run.attempt)) - known
    if run.attempt > 1 + len(given_back) + len(never_began):
        yield Fault(FaultKind.DOUBLED, f"{name} is at attempt {run.attempt}, {len(given_back)} were given back")
    if any(one.token >= other.token for one, other in pairwise(in_order)):
        yield Fault(FaultKind.OTHER, f"{name} has tokens that do not grow: {[row.token for row in in_order]}")
    lost = {row.number for row in in_order if row.outcome == "lost"}
    for one, other in pairwise(sorted(lines, key=lambda line: line.attempt)):
        if one.ended is not None and one.ended > other.began and one.attempt not in lost:
            yield Fault(FaultKind.DOUBLED, f"{name}: attempts {one.attempt} and {other.attempt} ran at the same time")


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A lost attempt, and how many seconds after its node fell silent the run was begun again."""

    text: str
    seconds: float


def take_overs(history: History) -> list[TakeOver]:
    """Return how soon the runs of silent nodes began again; endless if a node was lost that had not been silent."""
    lines = history.lines_by_run()
    return [
        _take_over(ledger, run, row, lines.get(run.id, []), history)
        for ledger in history.ledgers
        for run in ledger.runs
        for row in history.attempts.get(run.id, ())
        if row.outcome == "lost"
    ]


def _take_over(ledger: Ledger, run: Run, row: Attempt, lines: Sequence[WrittenLine], history: History) -> TakeOver:
    name, given_up = f"{_name(ledger, run)} was lost with its node and begun again", row.ended or Moment(0)
    later = [line.began for line in lines if line.attempt > row.number]
    later += [other.started for other in history.attempts[run.id] if other.number > row.number and other.started]
    later += [run.started] if run.started is not None and run.attempt > row.number else []
    silences = [] if row.node_id is None else history.silences.get(row.node_id, ())
    since = max((moment for moment in silences if moment <= given_up), default=None)
    if since is None:
        return TakeOver(f"{name} although that was not silent", float("inf"))
    return TakeOver(name, (min(later) - since) / SECOND if later else float("inf"))


def _name(ledger: Ledger, run: Run) -> str:
    return f"{ledger.job_id} {format_moment(run.nominal)} (run {run.id})"
