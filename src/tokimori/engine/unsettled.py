"""Unsettled: ends of attempts that the store has not written yet, and what becomes of one that it refuses. No I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from tokimori.engine.settle import storable
from tokimori.errors import StoreError, StoreRefused, StoreTooSlow
from tokimori.model.ids import RunId, Token
from tokimori.model.transitions import RunState
from tokimori.ports.working import Change

Key = tuple[RunId, Token]

MOST_AT_ONCE = 1000
"""No more changes go into one transaction."""
PATIENCE = 3
"""So often a change that is sent alone may take the store too long, before that counts as a refusal."""
PAUSE = 5.0
"""Seconds between two of these tries."""
ASIDE = 60.0
"""Seconds after which a change of which the store refused every form is tried again."""


def blames_a_change(fault: Exception) -> bool:
    """Whether what was asked is at fault: not a store that is away, or one that a person has to mend as a whole."""
    return isinstance(fault, StoreTooSlow) or refuses_for_good(fault)


def refuses_for_good(fault: Exception) -> bool:
    """Whether asking the same again would bring the same answer, while other requests are taken."""
    return isinstance(fault, StoreRefused) or not isinstance(fault, StoreError)


@dataclass(slots=True)
class _Refused:
    """A change that the store refused. `forms`: what is left to be tried; `at`: when (monotonic seconds)."""

    change: Change
    forms: Iterator[Change]
    at: float
    slow: int = 0
    aside: bool = False


class Unsettled:
    """Changes on their way to the store, the oldest first.

    A batch that is refused is halved until the one is found that is at fault; all others are settled meanwhile. It is
    sent alone from then on: as a failure with the store's words; if that is refused too, as one that parks no job; then
    as one that has no children; and if nothing helps, it is set aside for a while.
    """

    def __init__(self) -> None:
        self._changes: dict[Key, Change] = {}
        self._suspects: list[Key] = []
        self._refused: dict[Key, _Refused] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._changes or key in self._refused

    def __bool__(self) -> bool:
        """Whether there is any, set aside or not."""
        return bool(self._changes or self._refused)

    def add(self, change: Change) -> None:
        """A change that the store has to hear of; one that is known stays."""
        key = key_of(change)
        if key not in self._refused:
            self._changes.setdefault(key, change)

    def drop(self, key: Key) -> None:
        """Forget the change of this attempt."""
        self._changes.pop(key, None)
        self._refused.pop(key, None)

    def ready(self, at: float) -> bool:
        """Whether there is any to send now."""
        return bool(self._changes) or any(refused.at <= at for refused in self._refused.values())

    @property
    def stuck(self) -> bool:
        """Whether nothing is left but what the store refuses in every form."""
        return bool(self._refused) and not self._changes and all(refused.aside for refused in self._refused.values())

    def batch(self, at: float) -> list[Change]:
        """What to settle next, in one transaction."""
        for refused in self._refused.values():
            if refused.at <= at:
                return [refused.change]
        suspects = [self._changes[key] for key in self._suspects if key in self._changes]
        if suspects:
            return suspects[: max(1, len(suspects) // 2)]
        return list(islice(self._changes.values(), MOST_AT_ONCE))

    def refuse(self, batch: Sequence[Change], fault: Exception, at: float) -> str:
        """The store refused this batch, and would again; what that leads to, for people."""
        if len(batch) > 1:
            self._suspects = [key_of(change) for change in batch]
            return f"the store refused a batch of {len(batch)} ends of runs; it is halved to find the one: {fault}"
        (change,) = batch
        key = key_of(change)
        self._changes.pop(key, None)
        refused = self._refused.setdefault(key, _Refused(change, refused_forms(change, fault), at))
        return f"run {change.run_id} of {change.job_id}: {_next(refused, fault, at)}"


def _next(refused: _Refused, fault: Exception, at: float) -> str:
    if isinstance(fault, StoreTooSlow) and refused.slow < PATIENCE - 1:
        refused.slow += 1
        refused.at = at + PAUSE
        return f"its end takes the store too long, and is tried again in {PAUSE:g} s: {fault}"
    refused.slow, refused.at = 0, at
    form = next(refused.forms, None)
    if form is None:
        refused.at, refused.aside = at + ASIDE, True
        return f"the store takes its end in no form; it is tried again in {ASIDE:g} s: {fault}"
    refused.change = form
    without = " without children" if form.childless else ""
    return f"the store refused its end; it ends as failed{without}: {fault}"


def refused_forms(change: Change, fault: Exception) -> Iterator[Change]:
    """What is settled instead of a change that the store refuses: each if those before it are refused too."""
    words = storable(f"the store refused how this attempt ended ({change.state}): {fault}")[:MOST_WORDS]
    failed = replace(
        change,
        state=RunState.FAILED,
        error=words,
        attempt=None,
        output=None,
        result=None,
        details=None,
        pid=None,
        exit_code=change.exit_code,
    )
    yield failed
    if failed.parks:
        failed = replace(failed, parks=False)
        yield failed
    yield replace(failed, childless=True)


MOST_WORDS = 2_000
"""Characters of the store's words that are kept."""


def key_of(change: Change) -> Key:
    """Which attempt it ends."""
    return change.run_id, change.token
