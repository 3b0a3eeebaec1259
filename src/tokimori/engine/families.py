"""Families: a run that waits for the runs that its function has spawned ends when they have.

The node that settles the end of a spawned run looks at the waiting run. A document for each waiting run, named by the
moment of the next look, is written before the run waits: so none is forgotten if a look is lost.

Of many spawned runs the settle after which their run waits makes the first ones. All others are stored in documents
before that, so that all are made or none. Each look makes the next ones, by a settle of the waiting run.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.engine.parkings import Parkings, record_parked
from tokimori.engine.settle import SPAWNED_TOGETHER, change_of, steps_of, storable
from tokimori.errors import NotFound, StoreError
from tokimori.model.approval import asked_until
from tokimori.model.document import Document
from tokimori.model.ids import JobId, NodeId, RunId, Token
from tokimori.model.job import Definition
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.parents import parents_in, text_of
from tokimori.model.request import expiry_at
from tokimori.model.run import NEVER, Run, Spawned
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import Runs
from tokimori.ports.working import Change, Claimed, Verdict
from tokimori.spelling import amount

log = logging.getLogger(__name__)

KIND, PIECES = "family", "spawn"
LARGE_PIECE = 128 * 1024
"""Characters of the payloads in one document of spawned runs: behind these it ends."""
SOONEST, LATEST = 10, 600
"""Seconds from one look to the next: as many as the run has waited, within these."""
EVERY, NEXT = 10.0, 0.2
BATCH, TOGETHER = 50, 20
MOST_KNOWN, MOST_NAMED, LONGEST_ERROR = 10_000, 3, 300
_HELD: Final = RunState.HELD
_VERSION = 1
"""Version of each document: none is ever changed, and the same one may be written again."""


class FamilyStore(Parkings, Runs, Protocol):
    """Questions of families to the store."""

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        ...


class Families:
    """Runs that wait for those which they have spawned: what is noted before a settle, done after it, and a `Duty`."""

    def __init__(self, store: FamilyStore, at: float = 0.0) -> None:
        self._store = store
        self._ended: dict[RunId, int] = {}
        """Numbers of spawned runs known to have ended, by the waiting run: the first ones of each family."""
        self.next_at = at

    async def settling(self, changes: Sequence[Change]) -> list[Change]:
        """Note the runs that will wait after these changes, for others or for an approval, and what these will make.

        Return the changes as the store gets them. The same ones may come again. Raises `StoreError`.
        """
        for change in changes:
            if change.state is _HELD and (until := asked_until(change.details)) is not None:
                await self._store.put_document(expiry_at(until, change.run_id), None)
            if change.then and change.spawns and change.details and (spawned := change.details.spawned) is not None:
                first = _first_look(spawned)
                self.next_at = 0.0 if first < spawned.at + SOONEST * SECOND else self.next_at
                await self._store.put_document(_noted(change.run_id, first), None)
                pieces = _pieces(change, spawned)
                while some := list(islice(pieces, TOGETHER)):
                    await asyncio.gather(*(self._store.put_document(each, None) for each in some))
        return [replace(each, later=()) if each.later else each for each in changes]

    async def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict], by: NodeId, now: Moment) -> None:
        """Record parked jobs, and end the runs whose spawned ones have all ended by these changes."""
        await record_parked(self._store, changes, verdicts)
        some = [each for each in changes if each.then or each.family is not None]  # of most runs there are none
        over = {each.run_id if each.spawns else each.family for each in some}
        families = [family for family in over if family is not None]
        for first in range(0, len(families), TOGETHER):
            await asyncio.gather(*(self._look_now(each, by, now) for each in families[first : first + TOGETHER]))

    async def _look_now(self, family: RunId, by: NodeId, now: Moment) -> None:
        try:
            await self.look(family, by, now)
        except StoreError as fault:
            log.warning("if run %s can end is looked at again, as the store did not answer: %s", family, fault)

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. The families whose look is due, and the time of the next one."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY
        for each in await self._store.list_documents(KIND, limit=BATCH):
            moment, _, run_id = each.name.partition(" ")
            if (left := int(moment) - now) > 0:
                self.next_at = at + min(EVERY, max(NEXT, left / SECOND))
                return False
            self.next_at = at + NEXT
            if (again := await self.look(RunId(run_id), by, now)) is None:
                await self._forget(RunId(run_id))
            elif again <= now:
                self.next_at = at
                return True
            else:
                await self._store.put_document(_noted(RunId(run_id), again), None)
            await self._store.delete_document(KIND, each.name, _VERSION)
        return False

    async def look(self, family: RunId, by: NodeId, now: Moment) -> Moment | None:
        """End the run if what it waits for has ended, or its time is over; else return when to look again."""
        with suppress(NotFound):
            run = await self._store.get_run(family)
            spawned = run.details.spawned
            if run.state in ENDS:
                return None
            if spawned is None or run.state is not RunState.WAITING:  # it has not been settled yet, or is held
                return Moment(now + SOONEST * SECOND)
            is_late = spawned.until is not None and spawned.until <= now
            if spawned.left and not is_late and await self._make_next(run, spawned, by, now):
                return now
            if not is_late and (spawned.left or not await self._have_ended(run, spawned)):
                wait = min(LATEST * SECOND, max(SOONEST * SECOND, now - spawned.at))
                return Moment(now + wait if spawned.until is None else min(now + wait, spawned.until))
            await self._end(run, spawned, by, now)
        return None

    async def _make_next(self, run: Run, spawned: Spawned, by: NodeId, now: Moment) -> bool:
        """Make the next runs of many, each once, even if several nodes do so at a time; return if this took effect.

        Each piece has a token of its own, beyond that of the end: so each settle is known again.
        """
        first = spawned.count - spawned.left
        try:
            piece = await self._store.get_document(PIECES, _piece_name(run.id, spawned, first))
        except NotFound:
            return False
        children = msgspec.json.decode(piece.text, type=list[tuple[JobId, str | None]])
        spawned = replace(spawned, left=spawned.left - len(children))
        change = Change(
            run.id,
            run.job_id,
            run.incarnation,
            by,
            Token(run.token + 1 + first),
            run.state,
            run.due,
            run.rank,
            run.failures,
            run.lost,
            Moment(spawned.at + first),
            started=run.started,
            pid=run.pid,
            cpu=run.cpu,
            memory=run.memory,
            details=replace(run.details, spawned=spawned),
            then=steps_of(run, spawned, first, children),
            resumes=True,
        )
        (verdict,) = await self._store.settle([change], by, now)
        return verdict is not Verdict.LOST

    async def _forget(self, run_id: RunId) -> None:
        """Delete the documents about the spawned runs of a run that has ended, a few at a time."""
        while pieces := await self._store.list_documents(PIECES, prefix=f"{run_id} ", limit=TOGETHER):
            for each in pieces:
                await self._store.delete_document(PIECES, each.name, _VERSION)

    async def _have_ended(self, run: Run, spawned: Spawned) -> bool:
        first, many = self._ended.pop(run.id, 0), 1
        while first < spawned.count:
            found = await self._runs(spawned.ids(run.id, first, many))
            live = (place for place, each in enumerate(found) if each is not None and each.state not in ENDS)
            if (place := next(live, None)) is not None:
                self._ended[run.id] = first + place
                for old in list(self._ended)[:-MOST_KNOWN]:
                    del self._ended[old]
                return False
            first, many = first + many, min(2 * many, BATCH)
        return True

    async def _runs(self, ids: Sequence[RunId]) -> list[Run | None]:
        """Return the runs of these ids. None stands for a run that was not made because its job could have none."""
        return await asyncio.gather(*(self._run_or_none(each) for each in ids))

    async def _run_or_none(self, run_id: RunId) -> Run | None:
        try:
            return await self._store.get_run(run_id)
        except NotFound:
            return None

    async def _end(self, run: Run, spawned: Spawned, by: NodeId, now: Moment) -> None:
        """Settle the run as if its attempt ended now. Nothing changes if another node has done so."""
        found: list[Run | None] = []
        for first in range(0, spawned.count, BATCH):
            found += await self._runs(spawned.ids(run.id, first, BATCH))
        ended = max([now, *(each.ended for each in found if each is not None and each.ended is not None)])
        is_large = spawned.count > SPAWNED_TOGETHER
        outcome = (
            (await asyncio.to_thread(_outcome, found, spawned, now)) if is_large else _outcome(found, spawned, now)
        )
        rank = run.rank - (NEVER - spawned.due)
        claimed = Claimed(
            run=replace(run, state=RunState.RUNNING, token=run.token + 1, due=spawned.due, rank=rank),
            definition=await self._definition(run),
        )
        change = change_of(
            claimed,
            outcome,
            owner=by,
            now=ended,
            chance=0,
            started=run.started,
            pid=run.pid,
            cpu=run.cpu,
            memory=run.memory,
        )
        if change.attempt is not None:
            change = replace(change, attempt=replace(change.attempt, node_id=run.node_id, token=run.token))
        changes = [replace(change, resumes=True)]
        verdicts = await self._store.settle(changes, by, now)
        if is_large:
            await self._forget(run.id)
        await self._store.delete_document(KIND, _noted(run.id, _first_look(spawned)).name, _VERSION)
        await self.settled(changes, verdicts, by, now)

    async def _definition(self, run: Run) -> Definition | None:
        with suppress(NotFound):
            job = await self._store.get_job(run.job_id)
            return job.definition if job.incarnation == run.incarnation else None
        return None


def _noted(run_id: RunId, at: Moment) -> Document:
    return Document(kind=KIND, name=f"{at:020d} {run_id}", text="", version=_VERSION)


def _first_look(spawned: Spawned) -> Moment:
    """Return the moment of the first look at the spawned runs. It is now if some of them are not made yet."""
    later = Moment(spawned.at + SOONEST * SECOND)
    return spawned.at if spawned.count > SPAWNED_TOGETHER else min(later, spawned.until or later)


def _piece_name(run_id: RunId, spawned: Spawned, first: int) -> str:
    """Return the name of the document with the runs from this place on. Each attempt has documents of its own."""
    return f"{run_id} {spawned.at:020d} {first:05d}"


def _pieces(change: Change, spawned: Spawned) -> Iterator[Document]:
    rest = change.later
    while rest:
        sizes = accumulate(len(payload or "") for _, payload in rest[:SPAWNED_TOGETHER])
        many = max(1, sum(size <= LARGE_PIECE for size in sizes))
        text = msgspec.json.encode(rest[:many]).decode()
        name = _piece_name(change.run_id, spawned, spawned.count - len(rest))
        yield Document(kind=PIECES, name=name, text=text, version=_VERSION)
        rest = rest[many:]


def _outcome(found: Sequence[Run | None], spawned: Spawned, now: Moment) -> Outcome:
    """Return success with the list of all results, or a failure that names the runs without success."""
    there = [run for run in found if run is not None]
    failed = [run for run in there if run.state is not RunState.SUCCEEDED]
    every = f"of the {amount(spawned.count, 'run')} that it has spawned"
    many = f"{len(failed) + spawned.left} {every}"
    if spawned.left or any(run.state not in ENDS for run in there):
        took = (now if spawned.until is None else spawned.until) - spawned.at
        return Failed(
            f"it took too long: its time was over {round(took / SECOND, 3):g} s after it had spawned runs; "
            f"{many} have not ended",
            final=True,
        )
    if len(there) < len(found):
        missing = len(found) - len(there)
        why = "their jobs were paused, parked, full or deleted"
        return Failed(f"{missing} {every} were not made: {why}", final=True)
    if not failed:
        return Succeeded(result=text_of(parents_in(there), joined="runs"))
    named = "; ".join(_named(run) for run in failed[:MOST_NAMED]) + (" …" if len(failed) > MOST_NAMED else "")
    return Failed(storable(f"{many} have not succeeded: {named}"), final=True)


def _named(run: Run) -> str:
    error = "" if run.error is None else f": {run.error[:LONGEST_ERROR]}"
    return f"run {run.id} of {run.job_id} {run.state}{error}"
