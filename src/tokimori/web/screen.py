"""Screens of the page, and what can be done there. `screens/registry.py` lists them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tokimori.service.service import Service
from tokimori.web.toasts import Toast
from tokimori.web.visit import Visit


class Moved(NamedTuple):
    """Answer of a screen that has another address."""

    to: str
    toast: Toast | None = None


Shown = Mapping[str, object] | Moved
"""The values of a screen's template, or where the screen is."""


class Screen(NamedTuple):
    """Screen: its path, its template, and the function that reads the template's values.

    `place` is the entry of the rail to which it belongs; `leads` if that entry leads to this screen; `own` if readers
    with the same rights are shown different things, by their names.
    """

    path: str
    place: str
    template: str
    show: Callable[[Visit], Awaitable[Shown]]
    leads: bool = False
    own: bool = False
    take: Callable[[Visit, Mapping[str, Sequence[str]]], Awaitable[Shown]] | None = None
    """Takes the form that the screen is; its answer may have a `status`."""


class Field(NamedTuple):
    """Question before an act.

    `kind`: `text`, `area` for long texts, `check` for yes or no, `choice` of one of the `options`, `secret` for a text
    that is not shown again.
    """

    name: str
    label: str
    hint: str = ""
    kind: str = "text"
    options: Sequence[str] = ()
    must: bool = False


class Receipt(NamedTuple):
    """Result of an act: a sentence, and an address with more. `once` is a text that is shown this one time."""

    text: str
    to: str | None = None
    once: str | None = None


Given = Mapping[str, str]
"""Texts that were filled in, by the names of fields; what was left empty is missing."""


class Act(NamedTuple):
    """Act of a button on each chosen thing, such as `jobs.pause`.

    `name` is the operation of the service whose role it needs. `fields` are asked first, and so is `sure` (a sentence
    with the effect). `undo` is the act that takes it back.
    """

    name: str
    verb: str
    done: str
    do: Callable[[Service, str, Given], Awaitable[Receipt | None]] | None = None
    """Does it to the thing of this name; None: the operation of its name does, and needs nothing else."""
    fields: Sequence[Field] = ()
    sure: str = ""
    undo: str | None = None
    style: str = ""
    back: str | None = None
    """The address of the next page, if not that where one was."""
    makes: str = ""
    """The words on the button that makes a thing, whose name is asked for; empty for acts on things that there are."""
    meant: Callable[[Visit], Awaitable[Mapping[str, Any]]] | None = None
    """Function that names the things which the filters of a list mean; None: the act is done to chosen ones."""
    fill: Callable[[Service, str], Awaitable[Given]] | None = None
    """Function that returns the texts in the fields of an existing thing."""

    @property
    def noun(self) -> str:
        """Return the noun of the things, such as `jobs`."""
        return self.name.partition(".")[0]

    @property
    def asks(self) -> bool:
        """Return whether something is asked first."""
        return bool(self.fields or self.sure or self.makes)
