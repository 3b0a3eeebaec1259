"""Keys of `tokimori top`: from what is seen and typed to the next state, and to an order. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO.|.", re.DOTALL)
DOWN, UP = frozenset({"j", "\x1b[B", "\x1bOB"}), frozenset({"k", "\x1b[A", "\x1bOA"})
PAGE_DOWN, PAGE_UP = frozenset({" ", "\x1b[6~"}), frozenset({"b", "\x1b[5~"})
_FIRST, _LAST = frozenset({"g", "\x1b[H"}), frozenset({"G", "\x1b[F"})
_OPEN, _YES = frozenset({"f", "\r", "\n"}), frozenset({"y", "Y"})
_BACK, _ERASE = frozenset({"\x1b"}), frozenset({"\x7f", "\x08"})
_LEAVE = frozenset({"\x03", "\x04"})
PAGE = 10
"""Rows or lines by which a page moves."""
_LONGEST = 200
"""Characters of a filter."""


class View(StrEnum):
    """Views, in the order of their keys 1 to 4."""

    NOW = "now"
    JOBS = "jobs"
    FAILURES = "failures"
    PLAN = "plan"


VIEWS = tuple(View)


class Verb(StrEnum):
    """Orders for the chosen row."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RETRY = "retry"
    TRIGGER = "trigger"


_ORDERS: Mapping[str, Verb] = MappingProxyType({"c": Verb.CANCEL, "p": Verb.PAUSE, "t": Verb.RETRY, "r": Verb.TRIGGER})
_OF_A_RUN = frozenset({Verb.CANCEL, Verb.RETRY})


@dataclass(frozen=True, slots=True)
class Subject:
    """A run, a job or both, of a row. `runs`: the run has not ended. `table` distinguishes the rows of a job."""

    run: str | None
    job: str | None
    runs: bool = True
    table: str = ""

    def __str__(self) -> str:
        return f"{self.run or ''} {self.job or ''} {self.table}".rstrip()


@dataclass(frozen=True, slots=True)
class Order:
    """An order for a run, or for its job."""

    verb: Verb
    subject: Subject

    def __str__(self) -> str:
        of = f"run {self.subject.run}" if self.verb in _OF_A_RUN else f"job {self.subject.job}"
        return f"{self.verb} {of}"


@dataclass(frozen=True, slots=True)
class State:
    """State of the screen beside the store.

    `chosen` is the chosen row, and `asked` the order that waits for a yes. `followed` is the row whose log is shown,
    from line `top` on (None: its end). `typing` is the text that is being typed: a `filter` of rows, or the `needle` in
    a log, of which `only` matches are shown. Rows are sorted by column `sort` (None: as they came), or `backwards`.
    `message` is the last message.
    """

    view: View = View.NOW
    chosen: str | None = None
    asked: Order | None = None
    followed: Subject | None = None
    top: int | None = None
    typing: str | None = None
    filter: str = ""
    needle: str = ""
    only: bool = False
    sort: int | None = None
    backwards: bool = False
    help: bool = False
    over: bool = False
    message: str = ""


def keys_in(typed: str) -> list[str]:
    """Return the keys in a terminal's input: an arrow is three characters, a page key four."""
    return _KEY.findall(typed)


def pressed(
    state: State, key: str, subjects: Sequence[Subject], *, columns: int = 0, log: Sequence[str] = ()
) -> tuple[State, Order | None]:
    """Return the state after a key, and an order that is to be carried out: only one that was asked about and
    confirmed. `subjects` are the rows that are shown, `columns` how many can be sorted by, `log` the lines of the log.
    """
    if key in _LEAVE or (key == "q" and state.typing is None and state.asked is None):
        return replace(state, over=True), None
    if state.asked is not None:
        asked = replace(state, asked=None, message="")
        return (asked, state.asked) if key in _YES else (replace(asked, message="nothing was done"), None)
    if state.typing is not None:
        return _typed(state, key, log), None
    if state.help or key == "?":
        return replace(state, help=not state.help), None
    state = replace(state, message="")
    if key in ("1", "2", "3", "4", "\t"):
        place = (VIEWS.index(state.view) + 1) % len(VIEWS) if key == "\t" else int(key) - 1
        return State(view=VIEWS[place]), None
    if key == "/":
        return replace(state, typing=""), None
    subject = chosen(state, subjects)
    if key in _ORDERS:
        return _asked(state, _ORDERS[key], subject), None
    if state.followed is not None:
        return _in_log(state, key, log), None
    return _in_rows(state, key, subjects, subject, columns), None


def chosen(state: State, subjects: Sequence[Subject]) -> Subject | None:
    """Return the row that is chosen; the first one if that one has gone."""
    return next((each for each in subjects if str(each) == state.chosen), subjects[0] if subjects else None)


def _asked(state: State, verb: Verb, subject: Subject | None) -> State:
    """Ask about an order for the log's run, or for the chosen row, if it is one for such a row."""
    subject = state.followed or subject
    if subject is None or (subject.run if verb in _OF_A_RUN else subject.job) is None:
        return state if subject is None else replace(state, message=f"{verb}: this row has no such run or job")
    if verb is Verb.CANCEL and not subject.runs:
        return replace(state, message="cancel: this run has ended")
    return replace(state, asked=Order(verb, subject))


def _typed(state: State, key: str, log: Sequence[str]) -> State:
    text = state.typing or ""
    if key in ("\r", "\n"):
        if state.followed is None:
            return replace(state, typing=None, filter=text, chosen=None)
        return _found(replace(state, typing=None, needle=text, top=None), log, -1)
    if key in _BACK:
        return replace(state, typing=None)
    if key in _ERASE:
        return replace(state, typing=text[:-1])
    return replace(state, typing=text + key) if key.isprintable() and len(text) < _LONGEST else state


def _in_rows(state: State, key: str, subjects: Sequence[Subject], subject: Subject | None, columns: int) -> State:
    if key == "s" and columns:
        following = 0 if state.sort is None else state.sort + 1
        return replace(state, sort=following if following < columns else None)
    if key == "S":
        return replace(state, backwards=not state.backwards)
    if key in _BACK:
        return replace(state, filter="")
    if subject is None:
        return state
    if key in _OPEN:
        if subject.run is None:
            return replace(state, message="this row has no run whose log could be shown")
        return replace(state, followed=subject, chosen=str(subject), top=None, needle="", only=False)
    place = subjects.index(subject)
    to = len(subjects) - 1 if key in _LAST else _moved(place, key)
    return state if to is None else replace(state, chosen=str(subjects[max(0, min(to, len(subjects) - 1))]))


def _moved(place: int, key: str) -> int | None:
    """Return the place to which the key leads; None if it is no key that moves."""
    steps = ((1, DOWN), (-1, UP), (PAGE, PAGE_DOWN), (-PAGE, PAGE_UP), (-place, _FIRST))
    return next((place + step for step, keys in steps if key in keys), None)


def _in_log(state: State, key: str, log: Sequence[str]) -> State:
    if key in _BACK:
        return replace(state, followed=None, needle="", only=False)
    if key == "m":
        return replace(state, only=not state.only and state.needle != "", top=None)
    if key == "n":
        return _found(state, log, 1)
    if key == "N":
        return _found(state, log, -1)
    if key in _LAST or key == "f":
        return replace(state, top=None)
    place = max(0, len(log) - PAGE) if state.top is None else state.top
    to = _moved(place, key)
    return state if to is None else replace(state, top=max(0, min(to, len(log) - 1)))


def matches(line: str, needle: str) -> bool:
    """Return whether the text is in the line, in capitals or not."""
    return needle.casefold() in line.casefold()


def _found(state: State, log: Sequence[str], step: int) -> State:
    """Go to the next line that has the needle, or to the one before; beyond the last one to the first."""
    places = [place for place, line in enumerate(log) if matches(line, state.needle)] if state.needle else []
    if not places:
        return replace(state, message=f"{state.needle!r} is not in this log" if state.needle else "")
    here = len(log) if state.top is None else state.top
    further = [place for place in places if (place > here if step > 0 else place < here)]
    place = (further or places)[0 if step > 0 else -1]
    return replace(state, top=place, message=f"match {places.index(place) + 1} of {len(places)}")
