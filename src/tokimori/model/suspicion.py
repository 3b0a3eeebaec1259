"""Suspects of keepers' deaths: jobs that ran at three deaths run apart, until one is left. Pure.

A keeper that dies takes all its attempts along, whichever command killed it. So a death that several jobs share counts
against none of them yet. If only commands of one job ran, that death counts against it, and so do those that it shared
before. The others have lost attempts by then, but nothing of their budget.
"""

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from tokimori.model.ids import JobId, RunId

COMMON = 0
"""The cell of all jobs that are not suspect."""
SUSPECT_FROM = 3
"""Deaths at which a job ran, before it is suspect."""
MOST_CELLS = 8
"""Cells over which the suspects of one death are spread: each has a keeper, and that takes some 10 MB."""
CLEARED_AFTER = 3
"""Ends in a row, none by a keeper's death, after which a suspect is none any more."""
ALIVE_AND_WELL = 60.0
"""Seconds after which a keeper's death follows no other in a row."""
MOST_KNOWN = 1000
"""Jobs, and runs, that are remembered; the oldest are forgotten."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before another keeper starts, from the second death on, twice as long with each."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class Record(Struct, frozen=True, kw_only=True):
    """Record of a job that ran at the death of a keeper. `ends`: its own ends since the last death.

    `cell` is where it runs. `proved`: its own keeper was killed.
    """

    deaths: int = 0
    ends: int = 0
    cell: int = COMMON
    proved: bool = False


class Suspicion(Struct, frozen=True, kw_only=True):
    """Deaths that a node remembers. `shared`: how many losses of a run count against nobody yet.

    `cells` is how many cells were given out.
    """

    jobs: Mapping[JobId, Record] = MappingProxyType({})
    shared: Mapping[RunId, int] = MappingProxyType({})
    cells: int = 0

    def cell_of(self, job: JobId) -> int:
        """Return the number of the keeper for the commands of this job."""
        record = self.jobs.get(job)
        return COMMON if record is None else record.cell

    def pause_of(self, job: JobId) -> float:
        """Return the seconds before a keeper for the cell of this job starts: none if it has ended well since."""
        record = self.jobs.get(job)
        return 0.0 if record is None or record.ends else pause_after(record.deaths)


class Judgement(Struct, frozen=True, kw_only=True):
    """Consequences of a death. `counts`: by how many attempts a run's budget of lost ones shrinks.

    `suspects` run in other cells from now on. `culprit`: it is the only one whose commands ran.
    """

    suspicion: Suspicion
    counts: Mapping[RunId, int]
    suspects: tuple[JobId, ...]
    culprit: JobId | None


def after_death(known: Suspicion, present: Mapping[RunId, JobId]) -> Judgement:
    """Judge the death of a keeper that had attempts of these runs.

    A culprit in a keeper of its own is proof: it clears those suspected with it.
    """
    names = sorted(set(present.values()))
    culprit = names[0] if len(names) == 1 else None
    jobs = dict(known.jobs)
    for name in names:
        jobs[name] = _with_death(jobs.pop(name, Record()), alone=culprit is not None)
    suspects = tuple(name for name in names if jobs[name].deaths >= SUSPECT_FROM)
    spread = min(len(suspects), MOST_CELLS)
    for number, name in enumerate(suspects):
        jobs[name] = _moved(jobs[name], known.cells + 1 + number % spread)
    shared = dict(known.shared)
    counts = {run: shared.pop(run, 0) + (1 if culprit else 0) for run in present}
    if culprit is None:
        shared |= {run: count + 1 for run, count in counts.items()}
        counts = dict.fromkeys(present, 0)
    elif jobs[culprit].proved:
        jobs = {name: record for name, record in jobs.items() if record.proved}
        shared = {}
    suspicion = Suspicion(jobs=_newest(jobs), shared=_newest(shared), cells=known.cells + spread)
    return Judgement(suspicion=suspicion, counts=counts, suspects=suspects, culprit=culprit)


def after_end(known: Suspicion, job: JobId, run: RunId) -> Suspicion:
    """Return the suspicion after an attempt that ended in another way than by a keeper's death."""
    if job not in known.jobs and run not in known.shared:
        return known
    jobs, shared = dict(known.jobs), dict(known.shared)
    shared.pop(run, None)
    record = jobs.get(job)
    if record is not None and record.deaths >= SUSPECT_FROM:
        jobs[job] = Record(deaths=record.deaths, ends=record.ends + 1, cell=record.cell, proved=record.proved)
        if record.ends + 1 >= CLEARED_AFTER:
            del jobs[job]
    return Suspicion(jobs=jobs, shared=shared, cells=known.cells)


def pause_after(deaths: int) -> float:
    """Return the seconds before another keeper, or node of a program, starts after so many deaths in a row."""
    return 0.0 if deaths < 2 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(deaths - 2, 10))


def _with_death(record: Record, *, alone: bool) -> Record:
    proved = record.proved or (alone and record.cell != COMMON)
    return Record(deaths=record.deaths + 1, cell=record.cell, proved=proved)


def _moved(record: Record, cell: int) -> Record:
    return Record(deaths=record.deaths, cell=cell, proved=record.proved)


def _newest(known: dict[_K, _V]) -> dict[_K, _V]:
    return dict(islice(known.items(), max(0, len(known) - MOST_KNOWN), None))
