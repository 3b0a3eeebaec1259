"""The audit log: who has changed what, and when. An entry is a document, whose name puts the newest first."""

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.ids import RandomBytes

KIND: Final = "audit"
MOST_SHOWN: Final = 100_000
"""Bytes of a value before or after; of larger ones only the size is kept."""
_END: Final = 2**62


PARK: Final = "park"
"""Parking by the engine; all other recorded changes are methods of the service."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change: its moment, its author (None: unknown), the method, and the thing before and after.

    `event` is its name among events; None: it is in the audit log alone. `before` and `after` are JSON values; None if
    there was, or is, no such thing, or it is unknown. `queues` are the known queues of its jobs, before and after, by
    their ids.
    """

    at: Moment
    who: str | None
    what: str
    of: str
    before: Any = None
    after: Any = None
    event: str | None = None
    queues: dict[str, tuple[str, ...]] = field(default_factory=dict)


_decoder = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(entry).decode()


def decode_entry(text: str) -> Entry:
    """Return the entry in a text of `encode_entry`. Raises `ValueError`."""
    return _decoder.decode(text)


def shown(value: object) -> Any:
    """Return the value as an entry keeps it: its text, so that it is encoded once."""
    text = msgspec.json.encode(value)
    return msgspec.Raw(text) if len(text) <= MOST_SHOWN else {"left_out": f"{len(text)} bytes"}


def name_of(at: Moment, random: RandomBytes) -> str:
    """Return the name of an entry: names of later ones are smaller, because documents are listed in the order of
    names.
    """
    return f"{older_than(at)}-{random(4).hex()}"


def written_at(name: str) -> Moment:
    """Return the moment in the name of an entry, at which it was written. Raises `ValueError`."""
    return Moment(_END - int(name.partition("-")[0]))


def older_than(moment: Moment) -> str:
    """Return a name between those of the entries after this moment and of those before it."""
    return f"{_END - moment:019d}"
