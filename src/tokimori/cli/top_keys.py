"""Keys of `tokimori top`: the chosen run, questions and orders. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

_DOWN, _UP, _YES = frozenset({"j", "\x1b[B"}), frozenset({"k", "\x1b[A"}), frozenset({"y", "Y"})
QUIT = frozenset({"q", "\x03", "\x04"})
"""Keys that leave it: q, Ctrl-C, Ctrl-D."""


class Verb(StrEnum):
    """Orders for the chosen run."""

    CANCEL = "cancel"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Subject:
    """A run on the screen, and its job."""

    run: str
    job: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order for a run, or for its job."""

    verb: Verb
    subject: Subject

    def __str__(self) -> str:
        of = f"run {self.subject.run}" if self.verb is Verb.CANCEL else f"job {self.subject.job}"
        return f"{self.verb} {of}"


@dataclass(frozen=True, slots=True)
class State:
    """State of the screen beside the store: the `chosen` run, the order that is `asked` about, the run that is
    `followed`, and the last message (`told`).
    """

    chosen: str | None = None
    asked: Order | None = None
    followed: str | None = None
    told: str = ""


_ORDERS: Mapping[str, Verb] = MappingProxyType({"c": Verb.CANCEL, "p": Verb.PAUSE})


def pressed(state: State, key: str, subjects: Sequence[Subject]) -> tuple[State, Order | None]:
    """Return the state after a key, and an order that is to be carried out: only one that was asked about and
    confirmed.
    """
    if state.asked is not None:
        asked = replace(state, asked=None, told="")
        return (asked, state.asked) if key in _YES else (replace(asked, told="nothing was done"), None)
    subject = chosen(state, subjects)
    if subject is None:
        return state, None
    if key in _DOWN or key in _UP:
        place = subjects.index(subject) + (1 if key in _DOWN else -1)
        return replace(state, chosen=subjects[max(0, min(place, len(subjects) - 1))].run, told=""), None
    if key == "f":
        return replace(state, followed=None if state.followed == subject.run else subject.run, told=""), None
    verb = _ORDERS.get(key)
    return (state if verb is None else replace(state, asked=Order(verb, subject), told="")), None


def chosen(state: State, subjects: Sequence[Subject]) -> Subject | None:
    """Return the run that is chosen; the first one where that one has ended."""
    return next((each for each in subjects if each.run == state.chosen), subjects[0] if subjects else None)


def keys_in(typed: str) -> list[str]:
    """Return the keys of what a terminal has sent: an arrow is three characters."""
    keys: list[str] = []
    left = typed
    while left:
        length = 3 if left.startswith("\x1b[") else 1
        keys.append(left[:length])
        left = left[length:]
    return keys
