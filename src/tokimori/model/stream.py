"""Streams: ordered entries of topics. An entry is a document, named by its topic and number.

Numbers of a topic are consecutive. Entry 0 opens it: it says behind which number the first kept one comes. A topic that
was forgotten with its entry 0 begins anew with greater numbers.
"""

import re

import msgspec
from msgspec import Struct

from tokimori.clock import MILLISECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.document import texts_of
from tokimori.model.words import DOTS

OPENING = 0
"""Number of the entry that opens a topic."""
LARGEST_NUMBER = 10**16 - 1
TOPIC_ALLOWED = "1 to 100 of A-Z a-z 0-9 . _ : @ + -, not starting with -, neither . nor .."
_TOPIC = re.compile(r"[A-Za-z0-9._:@+][A-Za-z0-9._:@+-]{0,99}\Z", re.ASCII)


class Entry(Struct, frozen=True, kw_only=True):
    """Entry of a topic: its time (of the store), author (None: unknown) and JSON.

    `key` is unique, unless its author gave it twice.
    """

    at: Moment
    by: str | None
    key: str
    body: msgspec.Raw


class Numbered(Struct, frozen=True, kw_only=True):
    """An entry, and its number in its topic."""

    number: int
    entry: Entry


class _Dated(Struct, frozen=True):
    """Fields of an entry that every version can read."""

    at: Moment


encode_entry, decode_entry = texts_of(Entry)
_dated_decoder = msgspec.json.Decoder(_Dated)


def moment_in(text: str) -> Moment | None:
    """Return the time of an entry, even if this version can read nothing else of it; None if it can't read that."""
    try:
        return _dated_decoder.decode(text).at
    except ValueError:
        return None


def check_topic(field: str, text: object) -> str:
    """Return the text as the name of a topic. Raises `InvalidInput`."""
    if not isinstance(text, str) or _TOPIC.match(text) is None or text in DOTS:
        raise InvalidInput(f"{field}: {text!r} is no topic", field=field, value=text, allowed=TOPIC_ALLOWED)
    return text


def prefix_of(topic: str) -> str:
    """Return the prefix of the names of its entries, and no others."""
    return f"{topic}/"


def entry_name(topic: str, number: int) -> str:
    """Return the name of an entry: names stand in the order of numbers."""
    return f"{topic}/{number:016d}"


def split_name(name: str) -> tuple[str, int]:
    """Return the topic and the number in the name of an entry."""
    topic, _, number = name.rpartition("/")
    return topic, int(number)


def behind_topic(topic: str) -> str:
    """Return a name behind those of all entries of the topic, and before those of the topics that follow."""
    return f"{topic}/~"


def start_at(now: Moment) -> int:
    """Return the number behind which a topic begins that is opened now: greater than any number of a forgotten past."""
    return now // MILLISECOND
