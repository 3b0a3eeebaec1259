"""Ledger of a job: the fate of each occurrence of its schedule, with faults. Pure.

schedule = runs ∪ skips ∪ what was pruned. Only the newest definition of a job is known: occurrences before the last
change can't be checked, and are no faults.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from heapq import merge

from msgspec import Struct, field
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.policies import AnchoredOn, retention_of
from tokimori.model.run import Run, Skip, asked_by
from tokimori.model.transitions import RunState


class Fate(StrEnum):
    """Fates of an occurrence."""

    RUN = "run"
    """It is a run, of its own or of a backfill."""
    SKIPPED = "skipped"
    """It was skipped, for the given reason."""
    BEFORE = "before"
    """It was before the job was added."""
    PRUNED = "pruned"
    """It is older than the kept runs and skips of the job: only the job's counts have it."""
    OPEN = "open"
    """It has not been decided yet."""
    UNKNOWN = "unknown"
    """It has neither run nor skip, and the job was changed after it: perhaps its schedule did not name it then. Or it
    lies before the rows that were read."""
    MISSING = "missing"
    """It has neither run nor skip: a fault."""
    UNSCHEDULED = "unscheduled"
    """It is a scheduled run at a moment that the schedule does not name: a fault."""

    TWICE = "twice"
    """It has another scheduled run: a fault."""


FAULTS = frozenset({Fate.MISSING, Fate.UNSCHEDULED, Fate.TWICE})


class LedgerLine(Struct, frozen=True, kw_only=True):
    """One occurrence, or several in a row that became the same and are no runs: `count` from `first` to `last`."""

    first: Moment
    last: Moment
    count: int
    fate: Fate
    run_id: RunId | None = None
    state: RunState | None = None
    origin: str | None = None
    reason: str | None = None


class LedgerRun(Struct, frozen=True, gc=False):
    """Facts of a run that the ledger shows; thousands of payloads and results would fill the memory."""

    id: RunId
    state: RunState
    origin: str
    created: Moment


class LedgerRecords(Struct, frozen=True, kw_only=True):
    """Records of a job's occurrences: runs by moment, and skips in their order.

    `twice`: a second run of moments with several scheduled runs. `known_from`: older runs, or skips, were not read.
    """

    fired: Mapping[Moment, LedgerRun]
    backfilled: Mapping[Moment, LedgerRun]
    skips: Sequence[Skip]
    twice: Mapping[Moment, LedgerRun] = field(default_factory=dict)
    known_from: Moment | None = None


def ledger_run(run: Run) -> LedgerRun:
    """Return the facts of the run for a ledger."""
    return LedgerRun(run.id, run.state, run.origin, run.created)


def by_moment(runs: Iterable[Run]) -> Mapping[Moment, LedgerRun]:
    """Return the runs as a ledger keeps them."""
    return {run.nominal: ledger_run(run) for run in runs}


def ledger(job: Job, moments: Sequence[Moment], kept: LedgerRecords, now: Moment) -> Iterator[LedgerLine]:
    """Yield the fate of these occurrences, in their order, with unscheduled runs between them."""
    lines = _together(_each(job, sorted([*moments, *_others(job, moments, kept)]), frozenset(moments), kept, now))
    return merge(lines, _twice(kept), key=lambda line: line.first)


def without_runs(job: Job, moments: Sequence[Moment], kept: LedgerRecords, now: Moment) -> Iterator[LedgerLine]:
    """Yield the same without occurrences that have a scheduled run, which are the most and need no more words."""
    left = [moment for moment in moments if moment not in kept.fired]
    yield from _together(_each(job, sorted([*left, *_others(job, moments, kept)]), frozenset(left), kept, now))
    yield from _twice(kept)


def _twice(kept: LedgerRecords) -> Iterator[LedgerLine]:
    return (_of_run(moment, run, Fate.TWICE) for moment, run in sorted(kept.twice.items()))


def _others(job: Job, moments: Sequence[Moment], kept: LedgerRecords) -> Sequence[Moment]:
    """Return the moments of other scheduled runs; those before the last change had another schedule."""
    return [moment for moment in kept.fired.keys() - set(moments) if kept.fired[moment].created > job.updated]


def known_since(job: Job, now: Moment) -> Moment:
    """Return since when the store may have runs and skips of the job: since its addition, within the retention."""
    return Moment(max(job.created + 1, now - retention_of(job.definition.retention)))


def _each(
    job: Job, moments: Iterable[Moment], known: frozenset[Moment], kept: LedgerRecords, now: Moment
) -> Iterator[LedgerLine]:
    pruned_before = now - retention_of(job.definition.retention)
    firsts = [skip.first for skip in kept.skips]
    for moment in moments:
        if moment not in known:
            yield _of_run(moment, kept.fired[moment], Fate.RUN if _was_before(job, moment) else Fate.UNSCHEDULED)
        elif (run := kept.fired.get(moment) or kept.backfilled.get(moment)) is not None:
            yield _of_run(moment, run, Fate.RUN)
        elif (skip := _covering(kept.skips, firsts, moment)) is not None:
            yield LedgerLine(first=moment, last=moment, count=1, fate=Fate.SKIPPED, reason=skip.reason)
        else:
            yield LedgerLine(first=moment, last=moment, count=1, fate=_without(job, moment, kept, pruned_before))


def _was_before(job: Job, moment: Moment) -> bool:
    """Return if the schedule counts from the last run: only the newest of these is known."""
    return job.definition.anchored_on is AnchoredOn.LAST_RUN and moment <= job.anchor


def _of_run(moment: Moment, run: LedgerRun, fate: Fate) -> LedgerLine:
    origin = asked_by(run.origin)
    return LedgerLine(first=moment, last=moment, count=1, fate=fate, run_id=run.id, state=run.state, origin=origin)


def _covering(skips: Sequence[Skip], firsts: Sequence[Moment], moment: Moment) -> Skip | None:
    """Return the skip whose range has the moment; `firsts` are the first moments of the skips, in order."""
    place = bisect_left(firsts, moment + 1) - 1
    return skips[place] if place >= 0 and moment <= skips[place].last else None


def _without(job: Job, moment: Moment, kept: LedgerRecords, pruned_before: int) -> Fate:
    if moment > job.fired_through:
        return Fate.OPEN
    if moment <= job.created:
        return Fate.BEFORE
    if moment < pruned_before:
        return Fate.PRUNED
    if moment <= job.updated or (kept.known_from is not None and moment < kept.known_from):
        return Fate.UNKNOWN
    return Fate.MISSING


def _together(lines: Iterable[LedgerLine]) -> Iterator[LedgerLine]:
    """Yield the lines; one without a run is joined with the one before if both say the same."""
    row: LedgerLine | None = None
    for line in lines:
        if row is not None and _alike(row, line):
            row = replace(row, last=line.last, count=row.count + 1)
            continue
        if row is not None:
            yield row
        row = line
    if row is not None:
        yield row


def _alike(row: LedgerLine, line: LedgerLine) -> bool:
    return row.run_id is line.run_id is None and row.fate is line.fate and row.reason == line.reason
