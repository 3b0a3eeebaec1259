"""Muted causes of failures, as the store keeps them."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.document import texts_of

KIND: Final = "mute"
MOST_MUTED: Final = 100
"""Causes that are muted at the same time: each look at failures reads all of them."""


class Mute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A muted cause of failures: its id, its text, from when and until when, by whom and why."""

    id: str
    cause: str
    since: Moment
    until: Moment
    by: str | None = None
    reason: str | None = None

    def anew(self, now: Moment) -> "Mute":
        """Return the mute as if it began then, for as long."""
        return replace(self, since=now, until=Moment(self.until - self.since + now))


encode_mute, decode_mute = texts_of(Mute)
