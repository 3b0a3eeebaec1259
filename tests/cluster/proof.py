"""Proves that three nodes on one PostgreSQL keep their promises in trouble, and tells it in figures."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.accounts import finish, prepare, read
from tests.cluster.checker import Fault, FaultKind, History, Ledger, check, take_overs
from tests.cluster.fleet import Fleet
from tests.cluster.store_faults import FAULTS, place
from tests.cluster.trouble import scene, start_nodes, suffer
from tokimori.clock import SECOND, Moment

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
        return _proof(trouble, fleet, at_work.returns, history, codes)


def prove_store(store: str, trouble: str, folder: Path, *, jobs: int, before: float, seconds: float) -> Proof:
    """Let two nodes work on this store for so many seconds, then suffer, and then recover; and look what is left."""
    fault = FAULTS[store, trouble]
    with place(store, fault, folder, seconds) as at_work:
        fleet = at_work.fleet
        asyncio.run(prepare(fleet, jobs))
        try:
            for _ in range(2):
                fleet.start_node(url=at_work.url, module=at_work.module)
            fleet.wait_until_up()
            time.sleep(before)
            fault(at_work)
            time.sleep(RECOVERY + 1)
            end = asyncio.run(finish(fleet, jobs, patience=60))
            codes = fleet.stop()
        finally:
            fleet.stop(5)
        history = asyncio.run(read(fleet, jobs, end))
        return _proof(f"{store}: {trouble}", fleet, at_work.returns, history, codes)


def _proof(trouble: str, fleet: Fleet, returns: Sequence[Moment], history: History, codes: Sequence[int]) -> Proof:
    return Proof(
        trouble=trouble,
        occurrences=sum(occurrences(ledger) for ledger in history.ledgers),
        runs=sum(len(ledger.runs) for ledger in history.ledgers),
        faults=check(history),
        take_over=max((one.seconds for one in take_overs(history)), default=None),
        recovery=max((recovery(history, back) for back in returns), default=None),
        codes=codes,
        left_over=fleet.left_over(),
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
