"""Unsettled: ends of attempts that the store has not written yet, and retries of those that it refuses. No I/O."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.engine.refusals import MOST_WORDS, PATIENCE, is_fault_of_request, log_refusal, pause_after
from tokimori.engine.settle import change_of, storable
from tokimori.errors import NotFound, StoreTooSlow, StoreUnavailable
from tokimori.model.ids import NodeId, RunId, Token
from tokimori.model.outcome import Released
from tokimori.model.run import Run, encode_details
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.work_source import WorkSource
from tokimori.ports.working import LARGE, Change, Claimed

Key = tuple[RunId, Token]

MOST_AT_ONCE = 1000
"""No more changes go into one transaction."""


@dataclass(slots=True)
class _RefusedChange:
    """Change that the store refused, and that is sent alone since. `form` is sent next, at `at` (monotonic seconds).

    `tries` counts how often it was sent unchanged, `forms` are the smaller forms left for this try.
    """

    change: Change
    form: Change
    at: float
    tries: int = 0
    forms: Iterator[Change] = field(default_factory=lambda: iter(()))


class Unsettled:
    """Changes on their way to the store, the oldest first.

    A refused batch is halved until the change at fault is found; all others are settled meanwhile. That change is sent
    alone from then on, a few times unchanged: the store as a whole may have been ill. Then smaller forms are sent
    (`lesser_forms`), and if the store takes none of them, all begins anew after a while. A change that only takes the
    store too long is never made smaller: its row may be locked.
    """

    def __init__(self) -> None:
        self._changes: dict[Key, Change] = {}
        self._sizes: dict[Key, int] = {}
        """Bytes of ends that bring more than their row; most do not."""
        self._suspects: list[Key] = []
        self._refused: dict[Key, _RefusedChange] = {}
        self._most = MOST_AT_ONCE
        self._alone_next = False
        self._took = True

    def __contains__(self, key: object) -> bool:
        return key in self._changes or key in self._refused

    def __bool__(self) -> bool:
        """Return if there are any changes, refused or not."""
        return bool(self._changes or self._refused)

    @property
    def fresh(self) -> int:
        """Return how many the store has not refused so far."""
        return len(self._changes)

    @property
    def refused(self) -> int:
        """Return how many the store has refused, and not taken since."""
        return len(self._refused)

    @property
    def stuck(self) -> bool:
        """Return if only refused changes are left."""
        return bool(self._refused) and not self._changes

    def ill(self, batch: Sequence[Change], fault: Exception) -> bool:
        """Return if the store, not a change of this refused batch, seems to be at fault: then ask less often."""
        return len(batch) > 1 and (isinstance(fault, StoreTooSlow) or not self._took)

    def add(self, change: Change, payload: str | None = None) -> None:
        """Add a change for the store, and the payload of its run; one that is known stays."""
        key = change.run_id, change.token
        if key not in self._refused:
            self._changes.setdefault(key, change)
            brings = change.output or change.result or change.details or change.then or payload
            if brings and (size := size_of(change) + len(payload or "")):
                self._sizes[key] = size

    def drop(self, key: Key) -> None:
        """Forget the change of this attempt."""
        self._changes.pop(key, None)
        self._sizes.pop(key, None)
        self._refused.pop(key, None)

    def ready(self, at: float) -> bool:
        """Return whether a change can be sent now."""
        return bool(self._changes) or self._due(at) is not None

    def batch(self, at: float) -> list[Change]:
        """Return the changes to settle next, in one transaction. Those sent alone take turns with all others."""
        alone = self._due(at) if self._alone_next or not self._changes else None
        if alone is not None:
            return [alone.form]
        suspects = [self._changes[key] for key in self._suspects if key in self._changes]
        if suspects:
            return suspects[: max(1, len(suspects) // 2)]
        return self._first()

    def _first(self) -> list[Change]:
        """Return the oldest changes for one transaction: at most `_most`, and fewer if they are large."""
        if not self._sizes:
            return list(islice(self._changes.values(), self._most))
        first, size = list[Change](), 0
        for key, change in islice(self._changes.items(), self._most):
            first.append(change)
            size += self._sizes.get(key, 0)
            if size >= LARGE:
                break
        return first

    def _due(self, at: float) -> _RefusedChange | None:
        due = [refused for refused in self._refused.values() if refused.at <= at]
        return min(due, key=lambda refused: refused.at, default=None)

    def settled(self, batch: Sequence[Change]) -> None:
        """Remove changes that the store has judged, whatever the verdict."""
        self._alone_next, self._took = key_of(batch[0]) not in self._refused, True
        self._most = min(MOST_AT_ONCE, 2 * self._most)
        for known in (self._changes, self._sizes, self._refused):
            for change in batch if known else ():
                known.pop((change.run_id, change.token), None)

    def refuse(self, batch: Sequence[Change], fault: Exception, at: float) -> str:
        """Return the store refused this batch, and would again; what that leads to, for people."""
        self._alone_next = key_of(batch[0]) not in self._refused
        if len(batch) == 1:
            return f"run {batch[0].run_id} of {batch[0].job_id}: {self._refuse_one(batch[0], fault, at)}"
        if isinstance(fault, StoreTooSlow):
            self._most, self._suspects = len(batch) // 2, []
            return f"{len(batch)} ends of runs take the store too long at once; fewer are sent: {fault}"
        self._suspects = [key_of(change) for change in batch]
        return f"the store refused {len(batch)} ends of runs; they are halved to find the one at fault: {fault}"

    def _refuse_one(self, change: Change, fault: Exception, at: float) -> str:
        key = key_of(change)
        self._changes.pop(key, None)
        self._sizes.pop(key, None)
        refused = self._refused.setdefault(key, _RefusedChange(change, change, at))
        if refused.form is refused.change:
            refused.tries += 1
            self._took = False
            if not isinstance(fault, StoreTooSlow) and refused.tries >= PATIENCE:
                refused.forms = lesser_forms(refused.change, fault)
        form = None if isinstance(fault, StoreTooSlow) else next(refused.forms, None)
        if form is not None:
            refused.form = form
            without = " without children" if form.childless else ""
            return f"the store refused its end; it is reported as {form.state}{without}: {fault}"
        refused.form, refused.forms = refused.change, iter(())
        pause = pause_after(refused.tries)
        refused.at = at + pause
        return f"the store refused its end, which is tried again in {pause:g} s: {fault}"


def lesser_forms(change: Change, fault: Exception) -> Iterator[Change]:
    """Yield smaller changes to send instead of a refused one, each if those before it are refused too.

    First a success becomes a failure with the store's words, and any other end loses its optional texts. Then the run
    fails, instead of being retried or held. Then its job is not parked. Then it gets no children.
    """
    message = f"the store refused how this attempt ended ({change.state}): {fault}"
    state = RunState.FAILED if change.state is RunState.SUCCEEDED or change.spawns else change.state
    less = replace(
        change, state=state, error=storable(message)[:MOST_WORDS], attempt=None, output=None, result=None, details=None
    )
    yield less
    if less.state not in ENDS:
        less = replace(less, state=RunState.FAILED)
        yield less
    if less.parks:
        less = replace(less, parks=False)
        yield less
    yield replace(less, childless=True)


def size_of(change: Change) -> int:
    """Return about how many bytes the change brings to the store beside its row."""
    output = 0 if change.output is None else len(change.output.head) + len(change.output.tail)
    steps = len(msgspec.json.encode(change.then)) if change.then else 0
    results = (1 + len(change.then)) * len(change.result or "")  # each step may get it
    return output + results + len(encode_details(change.details) or "") + steps


def key_of(change: Change) -> Key:
    """Return the attempt that the change ends."""
    return change.run_id, change.token


log = logging.getLogger(__name__)

NONE: Mapping[Key, Claimed] = MappingProxyType({})
LOST_REPLY = Released("the reply to its claim was lost")


async def hand_back(
    source: WorkSource, keys: Sequence[Key], by: NodeId, now: Moment, begun: Mapping[Key, Claimed] = NONE
) -> list[Change]:
    """Return the changes that release runs of a claim whose reply was lost. Only those in `begun` have begun."""
    runs = await asyncio.gather(*(_run(source, run_id) for run_id, _ in keys))
    return [
        change_of(
            Claimed(run=run, definition=begun[key].definition if key in begun else None),
            LOST_REPLY,
            owner=by,
            now=now,
            chance=0,
            started=now if key in begun else None,
        )
        for run, key in zip(runs, keys, strict=True)
        if run is not None and (run.state, run.node_id, run.token) == (RunState.RUNNING, by, key[1])
    ]


async def _run(source: WorkSource, run_id: RunId) -> Run | None:
    try:
        return await source.get_run(run_id)
    except (NotFound, StoreUnavailable):
        return None  # the next tick reports it again, if it is still there
    except Exception as fault:
        if not is_fault_of_request(fault):
            raise
        log_refusal(
            log,
            f"run {run_id} can't be read; the others are handed back, and it is tried again: {fault}",
            fault,
        )
        return None
