"""Screens of the page, and what can be done there. `screens/registry.py` lists them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from tokimori.service.service import Service
from tokimori.web.visit import Visit


class Moved(NamedTuple):
    """The answer of a screen that is to be found at another address."""

    to: str


Shown = Mapping[str, object] | Moved
"""The values of a screen's template, or where the screen is."""


class Screen(NamedTuple):
    """A screen: its path, its template, and the function that reads what the template shows.

    `place` is the entry of the rail to which it belongs; `leads` if that entry leads to this screen.
    """

    path: str
    place: str
    template: str
    show: Callable[[Visit], Awaitable[Shown]]
    leads: bool = False


class Field(NamedTuple):
    """Something that is asked before an act. `kind`: `text`, `area` for long texts, `check` for yes or no."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"


class Receipt(NamedTuple):
    """Result of an act: a sentence, and an address where there is more to see."""

    text: str
    to: str | None = None


Given = Mapping[str, str]
"""Texts that were filled in, by the names of fields; what was left empty is missing."""


class Act(NamedTuple):
    """Something that a button does to each of the chosen things, such as `jobs.pause`.

    `name` is the operation of the service whose role it needs. `fields` are asked first, and so is what is `sure` (a
    sentence that says what will happen). `undo` is the act that takes it back.
    """

    name: str
    verb: str
    done: str
    do: Callable[[Service, str, Given], Awaitable[Receipt | None]]
    fields: Sequence[Field] = ()
    sure: str = ""
    undo: str | None = None
    style: str = ""
    back: str | None = None
    """The address of the next page, if not that where one was."""

    @property
    def noun(self) -> str:
        """Return the noun of the things, such as `jobs`."""
        return self.name.partition(".")[0]

    @property
    def asks(self) -> bool:
        """Return whether something is asked first."""
        return bool(self.fields or self.sure)
