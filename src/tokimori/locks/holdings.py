"""What a program holds and what it wants, and for which of its threads or tasks. No I/O, no waiting."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from tokimori.errors import InvalidInput, PermitLost, Refused
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.semaphores import MOST_UNITS
from tokimori.model.words import check_word

Owner = Hashable
"""A thread or a task: what it holds it may take again, and nobody else in the program may."""

POLL = 0.5
"""Seconds between two questions of who stands in line: the truth underneath, whatever the store tells."""
HASTE = 0.05
"""Seconds for each who stands before: so long a place in line does not ask again, even if something has changed."""


_UNITS = f"1 to {MOST_UNITS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Units of a semaphore that somebody wants.

    `limit` is the one that the semaphore has to have; None: whatever it has, 1 if nobody made it. `wait` is for how
    many seconds at most, None for as long as it takes. `rank` is its place in line; None: it begins now. `on_lost` is
    called once, on the session's loop, if they are lost.
    """

    name: str
    weight: int = 1
    limit: int | None = None
    wait: float | None = None
    rank: int | None = None
    on_lost: Callable[[], None] | None = None

    def check(self) -> None:
        """Raises `InvalidInput` for what no semaphore could grant."""
        check_word("semaphore", self.name)
        for field, units in (("weight", self.weight), ("limit", self.limit)):
            if units is not None and not 1 <= units <= MOST_UNITS:
                raise InvalidInput(f"{field}: {units} is out of range", field=field, value=units, allowed=_UNITS)
        if self.wait is not None and not self.wait >= 0:
            raise InvalidInput(f"wait: {self.wait} is no time", field="wait", value=self.wait, allowed="≥ 0 seconds")


class Held:
    """Units of a semaphore in somebody's hands.

    `token` grows with each grant of the semaphore: what is written elsewhere can be refused where a larger one was
    seen. `permit` is None for units that the run holds as whose command this program was started: its node answers
    for them.
    """

    __slots__ = ("_doubtful", "_lost", "depth", "name", "node", "on_lost", "permit", "token", "weight")

    def __init__(
        self,
        wanted: Wanted,
        token: int | None,
        *,
        node: NodeId,
        permit: PermitId | None,
        doubtful: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = wanted.name
        self.weight = wanted.weight
        self.token = token
        self.node = node
        self.permit = permit
        self.depth = 1
        self.on_lost = wanted.on_lost
        self._doubtful = doubtful
        self._lost = False

    @property
    def lost(self) -> bool:
        """Whether somebody else may hold them by now, or soon: the store has not answered for 5 s, or gave them away.

        True for good: whoever was told once is not told otherwise later.
        """
        self._lost = self._lost or self._doubtful()
        return self._lost

    def lose(self) -> None:
        """From now on they are lost."""
        self._lost = True


class Holdings:
    """Everything that the threads and tasks of one program hold."""

    def __init__(self) -> None:
        self._held: dict[tuple[Owner, str], Held] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def enter(self, owner: Owner, wanted: Wanted) -> Held | None:
        """Take again what this owner holds; None: it holds none of these. Raises `PermitLost`, and `Refused`."""
        held = self._held.get((owner, wanted.name))
        if held is None:
            return None
        if held.lost:
            raise lost(held)
        check_weight(wanted, held.weight)
        held.depth += 1
        return held

    def add(self, owner: Owner, held: Held) -> None:
        """The owner was given these."""
        self._held[owner, held.name] = held

    def leave(self, owner: Owner, name: str) -> Held:
        """Give back once what was taken; it is over where its `depth` is 0. Raises `Refused`."""
        held = self._held.get((owner, name))
        if held is None:
            raise Refused(f"semaphore: this thread or task holds nothing of {name!r}", field="semaphore", value=name)
        held.depth -= 1
        if held.depth == 0:
            del self._held[owner, name]
        return held


def check_weight(wanted: Wanted, weight: int) -> None:
    """Who waits for more than it holds would wait for itself. Raises `Refused`."""
    if wanted.weight > weight:
        message = f"weight: {weight} of {wanted.name!r} are held here already, and nothing can be had on top of them"
        raise Refused(message, field="weight", value=wanted.weight, allowed=f"at most {weight}")


def pauses(ahead: int) -> tuple[float, float]:
    """How many seconds who has so many before it waits before it asks again: at least, and at most.

    Of a thousand in line only the first few can be next: were all to ask at each change, nobody would get through.
    """
    return min(POLL, HASTE * ahead), POLL


def lost(held: Held) -> PermitLost:
    """The error that says so."""
    return PermitLost(
        f"semaphore: what was held of {held.name!r} (token {held.token}) was lost: others may have had it meanwhile",
        field="semaphore",
        value=held.name,
        allowed="a program that reaches its store at least every 5 s",
    )
