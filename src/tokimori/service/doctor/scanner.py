"""Checks of invariants that each node repeats, so that a fault is known before somebody asks."""

from collections import Counter
from collections.abc import Mapping

from tokimori.service.doctor.finding import Finding, Level
from tokimori.service.doctor.reader import DoctorReader
from tokimori.service.doctor.reading import DoctorReading, confirmed
from tokimori.service.doctor.rules import CHECKS, INVARIANTS, LATE
from tokimori.service.service import Service
from tokimori.service.store_care import doctors_reader


class Scanner:
    """Compares each reading with the one before: what is wrong in one of them alone was under way.

    `late`: microseconds after which a job that is due counts as not fired.
    """

    def __init__(self, reader: DoctorReader, late: int = LATE) -> None:
        self._reader = reader
        self._late = late
        self._last: DoctorReading | None = None
        self.findings: tuple[Finding, ...] = ()

    async def look(self) -> None:
        """Read once more. Raises `StoreError`."""
        before, self._last = self._last, await self._reader.invariants(self._late)
        if before is not None:
            both = confirmed(before, self._last, 0.0)
            rules = [rule for check, _, rule in CHECKS if check in INVARIANTS]
            self.findings = tuple(found for rule in rules for found in rule(both))

    @property
    def broken(self) -> Mapping[str, int]:
        """Return the number of findings of each check, zero included."""
        found = Counter(each.check for each in self.findings)
        return {check: found[check] for check in sorted(INVARIANTS)}

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Return what does not work. What somebody should look at is left to the doctor."""
        return tuple(each for each in self.findings if each.level is Level.FAIL)


def scanner_of(service: Service, late: int = LATE) -> Scanner:
    """Return a scanner of the store of this service."""
    return Scanner(doctors_reader(service._ground), late)
