"""Care of the store: its time, its schema and its health."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from tokimori.clock import Moment, to_datetime
from tokimori.engine.unfinished import UNFINISHED, unfinished
from tokimori.errors import NotFound
from tokimori.model.access_token import Role
from tokimori.model.words import check_text
from tokimori.ports.store import SchemaStatus
from tokimori.service.access import OPEN, WHOLE
from tokimori.service.copying import refuse_beating
from tokimori.service.doctor.finding import Diagnosis, Finding, Level, diagnosis
from tokimori.service.doctor.reader import DoctorReader
from tokimori.service.doctor.reading import DoctorReading, confirmed
from tokimori.service.doctor.rules import CHECKS, INVARIANTS, LATE, findings
from tokimori.service.expectations import Expectations
from tokimori.service.operation import Inside, M, Part, operation
from tokimori.service.shared import Shared
from tokimori.service.tokens import Tokens
from tokimori.service.validation import flag_of


class StoreCare(Part[M]):
    """Operations on the store itself. Every one may raise `StoreError`."""

    noun, word = "db", "db"

    def __init__(self, shared: Shared) -> None:
        self._shared, self._store = shared, shared.store

    @operation(Role.READ, OPEN, gives=to_datetime)
    async def now(self) -> Moment:
        """Return the store's time, by which nodes fire. This machine's clock may be set wrong."""
        return await self._shared.now()

    @operation(Role.READ, OPEN)
    async def status(self) -> SchemaStatus:
        """Return the version of the store's schema, and which migrations are pending."""
        return await self._store.schema()

    @operation(Role.ADMIN, WHOLE, doing="Checking the store")
    async def doctor(self) -> Diagnosis:
        """Check the store and its nodes; return one finding a check, good ones included.

        If nodes live the store is read twice, `LISTEN` seconds apart, so that changes under way are no faults.
        """
        reading = await doctors_reader(self._shared).read()
        return await self._shared.aside.compute(lambda: diagnosis(findings(reading)))

    @operation(Role.ADMIN, WHOLE, doing="Migrating the store", door=False)
    async def migrate(self) -> SchemaStatus:
        """Apply the migrations that are pending. Raises `SchemaMismatch` for a newer schema."""
        return await self._store.migrate()

    @operation(Role.ADMIN, WHOLE, doing="Migrating the store", door=False)
    async def sql(self, *, whole: bool = False) -> str:
        """Return the SQL of the pending migrations, or (`whole`) all SQL for an empty store. Raises `Refused`."""
        return await self._store.script(whole=flag_of("whole", whole))

    @operation(Role.ADMIN, WHOLE, doing="Migrating the store", door=False)
    async def check(self) -> Sequence[str]:
        """Return how the store's tables differ from those of this version, a sentence each. Raises `Refused`."""
        return await self._store.differences()

    @operation(Role.ADMIN, WHOLE, doing="Retiring the store", door=False)
    async def retire(self, by: str, *, undo: bool = False) -> None:
        """Let no node join the store any more, and no program write to it, or (`undo`) allow both again.

        Raises `Refused` while a node works on it, and `StoreError` for one that holds a part of a copy.
        """
        check_text("by", by)
        undo = flag_of("undo", undo)
        mark = replace(UNFINISHED, text=f"at {to_datetime(await self._shared.now()):%Y-%m-%dT%H:%M:%SZ} by {by}")
        with suppress(NotFound):
            mark = await self._store.get_document(mark.kind, mark.name)
            if not mark.text:
                raise unfinished()
            if undo:
                await self._store.delete_document(mark.kind, mark.name, mark.version)
            return
        if not undo:
            await refuse_beating(self._store)
            await self._store.put_document(mark, None)


def doctors_reader(shared: Shared) -> DoctorReader:
    """Return the reader for the doctor's checks."""
    tokens: Tokens[Inside] = Tokens(shared.store, shared.now, shared.random, None)
    expectations: Expectations[Inside] = Expectations(shared.store, shared.now, shared.random)
    return DoctorReader(
        shared.store,
        shared.store_of_semaphores,
        tokens.list,
        alarms=expectations.alarms,
        clock=shared.clock,
        apart=shared.apart,
        rest=asyncio.sleep,
    )


class Scanner:
    """Comparison of each reading with the one before, since a fault in one alone may be a change under way.

    `late`: microseconds after which a due job counts as not fired.
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
        """Return the findings of things that do not work. Warnings are left to the doctor."""
        return tuple(each for each in self.findings if each.level is Level.FAIL)


def scanner_of(shared: Shared, late: int = LATE) -> Scanner:
    """Return a scanner of this store."""
    return Scanner(doctors_reader(shared), late)
