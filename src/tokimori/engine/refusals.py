"""Refusals by the store: if the request is at fault, when to retry, and claims that pass a refused run."""

from collections.abc import Sequence
from logging import Logger
from typing import NamedTuple

from msgspec import Struct

from tokimori.errors import StoreError, StoreRefused, StoreTooSlow
from tokimori.model.ids import Lane

PATIENCE = 3
"""Tries of a request as it is before it counts as refused: the store as a whole may have been ill."""
PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds between two tries, more with each."""
MOST_WORDS = 2_000
"""Characters of the store's words that are kept."""


def is_fault_of_request(fault: Exception) -> bool:
    """Return if the request is at fault; the store may be, too.

    Not if the store is away, a person has to mend it, or this machine lacks something.
    """
    return isinstance(fault, StoreTooSlow) or refuses_for_good(fault)


def refuses_for_good(fault: Exception) -> bool:
    """Return whether the same request would be refused again while others are taken."""
    return isinstance(fault, StoreRefused) or not isinstance(fault, StoreError | OSError | MemoryError | RuntimeError)


def pause_after(tries: int) -> float:
    """Return the seconds to the next try of a request that was refused this often."""
    return float(min(LONGEST_PAUSE, PAUSE * 2 ** (tries - 1)))


def log_refusal(log: Logger, text: str, fault: Exception) -> None:
    """Log the effect of a refusal. An error of the store is logged by its text, a bug of ours with its traceback."""
    log.error(text, exc_info=None if isinstance(fault, StoreError) else fault)


def raise_first(results: Sequence[object]) -> None:
    """Raise the first failure among the results of concurrent calls."""
    for result in results:
        if isinstance(result, BaseException):
            raise result


MOST_AT_ONCE = 1000
"""Number of runs claimed at once from a lane after which it counts as sound again."""


class PlannedClaim(NamedTuple):
    """Claim to request: at most `limit` runs of these lanes. `skip`: runs to pass at the head of the one lane."""

    lanes: tuple[Lane, ...]
    limit: int
    skip: int = 0


class _Ill(Struct):
    """Lane in which the store refuses runs: the number of runs to request (`many`) and to skip, and when to retry.

    `climbs`: nothing was claimed since the head was refused. `moved`: the place does not fit any more. `looked`: so
    many of the skipped runs were retried. `looks`: the next one is retried now.
    """

    many: int
    at: float
    skip: int = 0
    tries: int = 0
    climbs: bool = False
    moved: bool = False
    looked: int = 0
    looks: bool = True


class RefusedRuns:
    """Search by halves, first of lanes, then of the number of runs, for the place of the run that the store refuses.

    The store does not say which run it is, so the search finds a place. The place is skipped, and each skipped place is
    retried alone after a while: another run may have come there. `what` names the refused thing for people.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._ill: dict[Lane, _Ill] = {}
        self._suspects: tuple[Lane, ...] = ()
        self._ill_next = True
        self._took = True

    @property
    def all_refused(self) -> bool:
        """Return if the store has given nothing since it refused a single run: it may be ill as a whole."""
        return not self._took

    def next(self, lanes: tuple[Lane, ...], limit: int, at: float) -> PlannedClaim:
        """Return the claim to request of these lanes, at this moment (monotonic seconds). Ill lanes take turns with all
        others."""
        if not self._ill and not self._suspects:
            return PlannedClaim(lanes, limit)
        suspects = tuple(lane for lane in self._suspects if lane in lanes)
        if suspects:
            return PlannedClaim(suspects[: max(1, len(suspects) // 2)], limit)
        well = tuple(lane for lane in lanes if lane not in self._ill)
        lane = next((lane for lane in self._ill if lane in lanes), None)
        if lane is None or (well and not self._ill_next):
            return PlannedClaim(well, limit)
        ill = self._ill[lane] = self._ill.pop(lane)  # the last one from now on
        if ill.moved:
            return PlannedClaim((lane,), 1)
        if ill.skip and ill.at <= at and ill.looks:
            return PlannedClaim((lane,), 1, ill.looked)
        return PlannedClaim((lane,), min(limit, ill.many), ill.skip)

    def took(self, asked: PlannedClaim) -> None:
        """Note that the store has answered the claim."""
        self._took = True
        ill = self._note(asked)
        self._suspects = tuple(lane for lane in self._suspects if lane not in asked.lanes)
        if ill is None:
            return
        if asked.skip < ill.skip:
            ill.looked = 0
        ill.many, ill.skip, ill.climbs, ill.moved = 2 * ill.many, asked.skip, False, False
        if not ill.skip and ill.many > MOST_AT_ONCE:
            del self._ill[asked.lanes[0]]

    def refuse(self, asked: PlannedClaim, fault: Exception, at: float) -> str:
        """Note that the store refused this, and would again; return the effect, for people."""
        if len(asked.lanes) > 1:
            self._suspects = asked.lanes
            return f"the store refuses {self._what} of {len(asked.lanes)} lanes; fewer are tried at once: {fault}"
        ill = self._note(asked) or _Ill(asked.limit, at)
        (lane,), self._suspects = asked.lanes, ()
        self._ill[lane] = ill
        if asked.limit > 1:
            ill.many = asked.limit // 2
            return f"the store refuses {self._what} of {lane}; {ill.many} are tried at once: {fault}"
        self._took = False
        if asked.skip == ill.skip and asked.skip and not ill.climbs:
            ill.moved = True
            return f"the store refuses {self._what} of {lane}, and is asked for the first one again: {fault}"
        _pass_by(ill, asked.skip, at)
        pause = ill.at - at if ill.at > at else pause_after(ill.tries)
        message = f"the store refuses {self._what}: number {asked.skip + 1} of {lane}"
        return f"{message}; the others go on, and this one is tried again in {pause:.0f} s: {fault}"

    def _note(self, asked: PlannedClaim) -> _Ill | None:
        ill = self._ill.get(asked.lanes[0]) if len(asked.lanes) == 1 else None
        self._ill_next = ill is None
        if ill is not None:
            ill.looks = asked.skip == ill.skip
        return ill


def _pass_by(ill: _Ill, place: int, at: float) -> None:
    """Note that the run at this place was refused alone, so that the next look begins behind it."""
    if place == 0:
        ill.climbs, ill.many = True, 1
    if place == ill.skip:
        ill.skip += 1
    elif not ill.moved:
        ill.looked = place + 1
    if ill.tries == 0 or ill.looked >= ill.skip:
        ill.tries, ill.looked = ill.tries + 1, 0
        ill.at = at + pause_after(ill.tries)
    ill.moved = False
