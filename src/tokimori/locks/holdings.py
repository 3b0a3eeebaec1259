"""Units that a program holds or wants, for its threads and tasks. No I/O, no waiting."""

from collections.abc import Callable, Hashable, Iterator

from msgspec import Struct

from tokimori.errors import InvalidInput, PermitLost, Refused
from tokimori.model.ids import NodeId, PermitId
from tokimori.model.semaphores import MOST_UNITS
from tokimori.model.words import check_word

Owner = Hashable
"""A thread or a task. It may take again the units that it holds; others in the program may not."""

POLL = 0.5
"""Seconds after which a waiter asks the store again, even without a notice of a change."""
HASTE = 0.05
"""Seconds for each one ahead in line, before which a waiter does not ask again, even after a change."""


_UNITS = f"1 to {MOST_UNITS}"


class Wanted(Struct, frozen=True, kw_only=True):
    """Units of a semaphore that a thread or task wants.

    `limit` is the limit that the semaphore must have; None means any (1 if nobody made it). `wait` is the most seconds
    to wait, None as long as it takes. `rank` is the place in line; None means behind all others. `on_lost` is called
    once, on the session's loop, if the units are lost.
    """

    name: str
    weight: int = 1
    limit: int | None = None
    wait: float | None = None
    rank: int | None = None
    on_lost: Callable[[], None] | None = None

    def check(self) -> None:
        """Check that a semaphore could grant this. Raises `InvalidInput`."""
        check_word("semaphore", self.name)
        for field, units in (("weight", self.weight), ("limit", self.limit)):
            _check_units(field, units)
        if self.wait is not None and not (_is_number(self.wait) and self.wait >= 0):
            raise InvalidInput(
                f"wait: {self.wait!r} is not a valid time", field="wait", value=self.wait, allowed="≥ 0 seconds"
            )
        _check_callable(self.on_lost)


def _check_units(field: str, units: object) -> None:
    """Check a number of units; None is only for a limit. Raises `InvalidInput`."""
    if units is None and field == "limit":
        return
    if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= MOST_UNITS:
        raise InvalidInput(f"{field}: {units!r} is out of range", field=field, value=units, allowed=_UNITS)


def _check_callable(on_lost: object) -> None:
    if on_lost is not None and not callable(on_lost):
        message = f"on_lost: {on_lost!r} can't be called"
        raise InvalidInput(message, field="on_lost", value=on_lost, allowed="a function without arguments")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Held:
    """Units of a semaphore that a thread or task holds.

    `token` grows with each grant of the semaphore, so that another system can refuse a write with an old token.
    `permit` is None for units of the run by which this program was started: the node of that run keeps them.
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
        """Return if others may hold the units now or soon: the store has not answered for 5 s, or has given them away.

        Once it is True it stays True.
        """
        self._lost = self._lost or self._doubtful()
        return self._lost

    def lose(self) -> None:
        """Mark the units as lost."""
        self._lost = True


class Holdings:
    """The units that the threads and tasks of one program hold."""

    def __init__(self) -> None:
        self._held: dict[tuple[Owner, str], Held] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def enter(self, owner: Owner, wanted: Wanted) -> Held | None:
        """Take units again that this owner holds; None if it holds none. Raises `PermitLost`, and `Refused`."""
        held = self._held.get((owner, wanted.name))
        if held is None:
            return None
        if held.lost:
            raise lost(held)
        check_weight(wanted, held.weight)
        held.depth += 1
        return held

    def add(self, owner: Owner, held: Held) -> None:
        """Note units that the owner was granted."""
        self._held[owner, held.name] = held

    def leave(self, owner: Owner, name: str) -> Held:
        """Release units that were taken once; at `depth` 0 the owner no longer holds them. Raises `Refused`."""
        held = self._held.get((owner, name))
        if held is None:
            raise Refused(f"semaphore: this thread or task holds nothing of {name!r}", field="semaphore", value=name)
        held.depth -= 1
        if held.depth == 0:
            del self._held[owner, name]
        return held


def check_weight(wanted: Wanted, weight: int) -> None:
    """Check that the owner holds as much as it wants: for more it would wait for itself. Raises `Refused`."""
    if wanted.weight > weight:
        message = (
            f"weight: {weight} of {wanted.name!r} are held here already, and no more can be taken: release them first"
        )
        raise Refused(message, field="weight", value=wanted.weight, allowed=f"at most {weight}")


def pauses(ahead: int) -> tuple[float, float]:
    """Return the seconds to wait before asking again, at least and at most, with so many ahead in line.

    Of a thousand in line only the first few can be next. If all asked after each change, the store could not answer.
    """
    return min(POLL, HASTE * ahead), POLL


def lost(held: Held) -> PermitLost:
    """Return the error that says that these units were lost."""
    return PermitLost(
        f"semaphore: the units of {held.name!r} (token {held.token}) were lost: others may have held them meanwhile",
        field="semaphore",
        value=held.name,
        allowed="a program that reaches its store at least every 5 s",
    )
