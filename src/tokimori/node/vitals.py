"""Vital signs: checks of this node's fitness, beside its scheduling loop, so that a hanging loop is seen.

Each check runs by itself, and not again before its answer: a silent one delays no other.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.clock import SECOND, Clock
from tokimori.config.settings import Settings
from tokimori.errors import StoreError
from tokimori.node.node import Node
from tokimori.ports.store import Store
from tokimori.service.db import Scanner, scanner_of
from tokimori.service.doctor.rules import LATE
from tokimori.service.service import Service
from tokimori.stores.open import file_of

log = logging.getLogger(__name__)

EVERY: Final = 4.0
"""Seconds from one look at the store and the disk to the next."""
SCAN_EVERY: Final = 10.0
"""Seconds from one look at what must always hold to the next."""
SILENT: Final = 6.0
"""Seconds after which a silent store or disk counts as gone."""
STANDS_STILL: Final = 8.0
"""Seconds that no cycle of the loop takes. Both together are below the 15 s within which a probe turns red."""
OVERTIME: Final = 5.0
"""Seconds after a request to end, after which an attempt counts as stuck."""
BROKEN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fired": "what is due is not fired",
        "running": "runs have no living node",
        "permits": "permits have no holder",
        "wakes": "runs wait for what is free",
        "held": "runs are held for long",
    }
)
"""Words for broken invariants, by check; they name no job."""
_LOOK = 2.0
"""Seconds from one search for due checks to the next."""
_BYTES = bytes(4096)


class UnreadyCause(NamedTuple):
    """Cause of an unready node: `text` is for everybody, `detail` may name jobs and addresses."""

    kind: str
    text: str
    detail: str | None = None


@dataclass(slots=True)
class Question:
    """Check that is repeated. `fault` is why the last one failed."""

    ask: Callable[[], Awaitable[object]]
    every: float
    asked_at: float | None = None
    fault: str | None = None
    _task: asyncio.Task[None] | None = None

    def again(self, at: float) -> None:
        """Run the check, if it is time and the last answer has come."""
        if (self._task is None or self._task.done()) and (self.asked_at is None or at >= self.asked_at + self.every):
            self.asked_at = at
            self._task = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        try:
            await self.ask()
            self.fault = None
        except (OSError, StoreError) as fault:
            self.fault = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        except Exception as fault:
            log.exception("a look at this node failed")
            self.fault = f"{type(fault).__name__}: the log says more"

    def wrong(self, at: float) -> str | None:
        """Return the fault in words; None if no fault is known."""
        if self.asked_at is not None and self._task is not None and not self._task.done():
            waited = at - self.asked_at
            if waited > SILENT:
                return f"no answer for {waited:.0f} s"
        return self.fault

    async def end(self) -> None:
        """Stop the check."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


class Vitals:
    """Vital signs of one node. `ask_store` reads the time of its store, on connections that the node does not use."""

    def __init__(
        self,
        node: Node,
        ask_store: Callable[[], Awaitable[object]],
        folders: Collection[Path],
        scanner: Scanner,
        clock: Clock,
    ) -> None:
        self._node = node
        self._clock = clock
        self._scanner = scanner
        self._store = Question(ask_store, EVERY)
        self._disk = Question(lambda: asyncio.to_thread(write_probe, folders), EVERY)
        self._scan = Question(scanner.look, SCAN_EVERY)
        self._folders = folders
        self._reported: frozenset[str] = frozenset()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Repeat the checks while this lasts."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            for each in (self._store, self._disk, self._scan):
                await each.end()

    async def _watch(self) -> None:
        while True:
            at = self._clock.monotonic()
            for each in (self._store, self._disk, self._scan):
                each.again(at)
            try:
                self._log_changes()
            except Exception:
                log.exception("can't say why this node is not ready")
            await asyncio.sleep(_LOOK)

    @property
    def broken(self) -> Mapping[str, int]:
        """Return the number of findings of each check of invariants."""
        return self._scanner.broken

    @property
    def unready(self) -> str | None:
        """Return all causes for which the node should get no new requests; None: it is ready."""
        return self._node.absent or "; ".join(each.text for each in self._causes()) or None

    @property
    def causes(self) -> Sequence[UnreadyCause]:
        """Return the causes with what only readers of all jobs may see; none of a node that is drained or stops."""
        return () if self._node.absent else tuple(self._causes())

    def _log_changes(self) -> None:
        """Log the changed answers, with names that unauthenticated callers may not see.

        A node that is drained or stops logs nothing here.
        """
        if self._node.absent:
            return
        causes = tuple(self._causes())
        if (now := frozenset(each.kind for each in causes)) == self._reported:
            return
        self._reported = now
        if causes:
            texts = [f"{each.text} ({each.detail})" if each.detail else each.text for each in causes]
            log.warning("not ready: %s", "; ".join(texts))
        else:
            log.info("ready again")

    def _causes(self) -> Iterator[UnreadyCause]:
        node, at = self._node, self._clock.monotonic()
        if (fault := self._disk.wrong(at)) is not None:
            yield UnreadyCause("disk", f"the disk can't be written: {fault}", ", ".join(map(str, self._folders)))
        if not node.healthy:
            yield self._without_a_lease(self._store.wrong(at))
        elif (still := node.cycle_age) > STANDS_STILL:
            yield _loop_stopped(still)
        for run, since in node.overtime(at - OVERTIME)[:1]:
            late = f"a handler was asked to end {at - since:.0f} s ago, and does not"
            yield UnreadyCause("handler", late, f"run {run.id} of job {run.job_id}")
        for check in sorted({each.check for each in self._scanner.failures}):
            detail = "; ".join(each.text for each in self._scanner.failures if each.check == check)
            yield UnreadyCause(check, f"{BROKEN[check]}: `tokimori doctor` names it", detail)

    def _without_a_lease(self, fault: str | None) -> UnreadyCause:
        """Return the cause that the store has taken no beat of the node for a while."""
        node = self._node
        if fault is None and node.cycle_age > SILENT / 2:
            return _loop_stopped(node.cycle_age)
        return UnreadyCause("store", "the store does not answer", fault or node.fault)


def vitals_of(node: Node, doors: Store, service: Service, settings: Settings, clock: Clock) -> Vitals:
    """Return the vital signs of a node, read through the connections of its door (`doors`, `service`).

    With aligned ticks, due jobs wait for the next tick.
    """
    rests = 60 * (settings.worker.interval_minutes or 0), settings.worker.minimum_interval_seconds or 0
    late = LATE + round(max(*rests, settings.schedule.update_interval_seconds or 0) * SECOND)
    folders, url = {settings.state_dir}, settings.job_store
    if url.lower().startswith("sqlite:"):
        folders.add(Path(file_of(url)).parent)
    return Vitals(node, doors.now, folders, scanner_of(service._shared, late), clock)


def _loop_stopped(seconds: float) -> UnreadyCause:
    return UnreadyCause("loop", f"the scheduling loop has stood still for {seconds:.0f} s, though the store answers")


def write_probe(folders: Collection[Path]) -> None:
    """Write a block to the disk of each folder, and remove it. Raises `OSError`.

    The file name is random, since a link under a known name would be followed.
    """
    for folder in folders:
        with TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(_BYTES)
