"""Runs that workers elsewhere hold, with their deadlines, and ends of earlier ones. No I/O."""

from collections.abc import Collection, Iterator, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import ClaimLost, Refused
from tokimori.model.ids import ClaimId, Lane, RunId, Token
from tokimori.model.lanes import handler_of, lacking, queue_of
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.working import Claimed
from tokimori.service.claims.worker_arguments import WorkerRequest

Key = tuple[RunId, Token]

MOST_REMEMBERED = 10_000
"""Number of ended claims whose ends are remembered."""


class HeldRun(Struct, kw_only=True):
    """A run that a worker has. `alive_until` and `deadline` are monotonic seconds; `since` is the store's time.

    `said`: the end that is on its way to the store. `unseen`: the store did not name it lately. `access_token` is the
    name of that with which it was claimed.
    """

    claimed: Claimed
    claim: ClaimId
    worker: str
    alive_time: float
    alive_until: float
    deadline: float
    since: Moment
    said: str | None = None
    unseen: bool = False
    access_token: str | None = None

    @property
    def key(self) -> Key:
        """Return the attempt."""
        return self.claimed.run.id, self.claimed.run.token

    @property
    def over_at(self) -> float:
        """Return the time at which the run is taken away without a heartbeat; infinity while its end is stored."""
        return inf if self.said is not None else min(self.alive_until, self.deadline)


class Over(Struct, frozen=True):
    """End of a claim: what its worker `said` (None: nothing), the state of the run, and why.

    `access_token` is as of `HeldRun`.
    """

    said: str | None
    state: RunState | None
    why: str
    access_token: str | None = None


class Hands:
    """All that is in hand at one place, by (run, token)."""

    def __init__(self) -> None:
        self._held: dict[Key, HeldRun] = {}
        self._over: dict[Key, Over] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(list(self._held.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def add(self, held: HeldRun) -> None:
        """Add a run that a worker holds."""
        self._held[held.key] = held

    def of_claim(self, claim: ClaimId, access_token: str | None) -> list[HeldRun]:
        """Return the runs of a claim that are still held. Raises `Refused` if another access token made it."""
        found = [held for held in self._held.values() if held.claim == claim]
        if any(held.access_token != access_token for held in found):
            message = "id: somebody else has made this claim"
            raise Refused(message, field="id", value=claim, allowed="a random UUID of your own")
        return found

    def get(self, key: Key) -> HeldRun | None:
        """Return the run in hand under this token."""
        return self._held.get(key)

    def over(self, key: Key) -> Over | None:
        """Return the end of the claim, if that is still known."""
        return self._over.get(key)

    def access_token_of(self, key: Key) -> str | None:
        """Return the name of the access token with which it was claimed."""
        known = self._held.get(key) or self._over.get(key)
        return None if known is None else known.access_token

    def drop(self, key: Key, over: Over) -> None:
        """Remove a run from those that are held."""
        over = replace(over, access_token=self.access_token_of(key))
        self._held.pop(key, None)
        self._over[key] = over
        while len(self._over) > MOST_REMEMBERED:
            del self._over[next(iter(self._over))]

    def drop_all(self, why: str) -> None:
        """Drop all."""
        for key in list(self._held):
            self.drop(key, Over(None, None, why))

    def cancel(self, key: Key, reason: str) -> None:
        """Mark a run as cancelled. Its worker receives that with its next heartbeat."""
        held = self._held.get(key)
        if held is not None and held.claimed.run.cancel is None:
            held.claimed = replace(held.claimed, run=replace(held.claimed.run, cancel=reason))

    def compare(self, owned: Collection[Key]) -> None:
        """Remove runs that the store has not named twice in a row. One missing once may be newer than the answer."""
        for held in self:
            if held.key in owned or held.said is not None:
                held.unseen = False
            elif held.unseen:
                self.drop(held.key, Over(None, None, "the store has taken it back"))
            else:
                held.unseen = True

    @property
    def next_over(self) -> float:
        """Return when the next one is taken away."""
        return min((held.over_at for held in self._held.values()), default=inf)


def claim_lost(key: Key, why: str) -> ClaimLost:
    """Return the error for a worker that reports on a run which it no longer holds."""
    return ClaimLost(
        f"run {key[0]} is no longer this worker's, and nothing was changed: {why}",
        field="token",
        value=key[1],
        allowed="the token of a claim that still holds",
    )


class OpenLanes:
    """The lanes of one survey, by the function that their runs want."""

    def __init__(self) -> None:
        self._lanes: Sequence[Lane] = ()
        self._by_function: dict[str, list[Lane]] = {}

    def serving(self, request: WorkerRequest, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
        """Return the lanes that serve the request. The same lanes again are not sorted again."""
        if lanes is not self._lanes:
            self._sort(lanes)
        types = self._by_function if request.types is None else dict.fromkeys(request.types)
        found = [lane for name in types for lane in self._by_function.get(name, ()) if _serves(request, lane)]
        return tuple(sorted(found))

    def _sort(self, lanes: Sequence[Lane]) -> None:
        self._lanes, self._by_function = lanes, {}
        for lane in lanes:
            if function := handler_of(lane):
                self._by_function.setdefault(function, []).append(lane)


def _serves(request: WorkerRequest, lane: Lane) -> bool:
    return request.queue in (None, queue_of(lane)) and not lacking(request.labels, lane)


def how_it_is(run: Run, token: Token) -> str:
    """Return why a claim of the run under this token is over."""
    if run.token != token:
        return "it was given to somebody else since" if token < run.token else "no claim of it had this token yet"
    return f"it is {run.state.value}" + (f": {run.error}" if run.error else "")
