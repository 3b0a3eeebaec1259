"""Proves that three nodes on one PostgreSQL keep their promises in trouble, and tells it in figures."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.accounts import finish, prepare, read
from tests.cluster.trouble import Scene, scene, start_nodes, suffer
from tokimori.clock import SECOND, Moment
from tokimori.testing.checker import Fault, FaultKind, History, Ledger, check, take_overs

RECOVERY = 5.0
"""Seconds within which all is punctual again after the server is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What came out of one trouble; seconds are None where nobody was taken over, or nothing had to recover."""

    trouble: str
    occurrences: int
    runs: int
    faults: Sequence[Fault]
    take_over: float | None
    recovery: float | None
    codes: Sequence[int]
    left_over: Sequence[str]

    def row(self) -> Sequence[str]:
        """A row of the table."""
        kinds = Counter(fault.kind for fault in self.faults)
        promised = (FaultKind.MISSED, FaultKind.DOUBLED, FaultKind.EARLY)
        other = len(self.faults) - sum(kinds[kind] for kind in promised)
        counts = (self.occurrences, self.runs, *(kinds[kind] for kind in promised))
        times = ["–" if seconds is None else f"{seconds:.1f}" for seconds in (self.take_over, self.recovery)]
        return [self.trouble, *map(str, counts), *times, str(other)]


def prove(trouble: str, folder: Path, *, jobs: int, writers: int, seconds: float, freeze: float) -> Proof:
    """Let three nodes suffer this trouble while so many jobs are due each second, and look what is left."""
    with scene(folder, seconds, freeze) as at_work:
        fleet = at_work.fleet
        asyncio.run(prepare(fleet, jobs, writers))
        try:
            start_nodes(at_work, trouble)
            suffer(at_work, trouble)
            end = asyncio.run(finish(fleet, jobs, patience=60))
            codes = fleet.stop()
        finally:
            fleet.stop(5)
        history = asyncio.run(read(fleet, jobs, end))
        return _proof(trouble, at_work, history, codes)


def _proof(trouble: str, at_work: Scene, history: History, codes: Sequence[int]) -> Proof:
    return Proof(
        trouble=trouble,
        occurrences=sum(occurrences(ledger) for ledger in history.ledgers),
        runs=sum(len(ledger.runs) for ledger in history.ledgers),
        faults=check(history),
        take_over=max((one.seconds for one in take_overs(history)), default=None),
        recovery=max((recovery(history, back) for back in at_work.returns), default=None),
        codes=codes,
        left_over=at_work.fleet.left_over(),
    )


def occurrences(ledger: Ledger) -> int:
    """How many there were: what was due as the schedule ended counts where it was run."""
    nominal = {run.nominal for run in ledger.runs}
    return len(ledger.expected) + len(nominal.intersection(ledger.tolerated))


def recovery(history: History, back: Moment) -> float:
    """Seconds from the server's return until runs begun again, and no later than a second after they were due.

    What a silent node held is a matter of its take-over, not of the server's return.
    """
    begun = [
        (run.nominal, run.started)
        for ledger in history.ledgers
        for run in ledger.runs
        if run.started is not None and run.started >= back and run.id not in history.attempts
    ]
    late = [at for due, at in begun if due < back + RECOVERY * SECOND and at > due + SECOND]
    first = min((at for _, at in begun), default=None)
    return float("inf") if first is None else (max([first, *late]) - back) / SECOND
