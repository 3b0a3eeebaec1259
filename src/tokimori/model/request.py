"""Requests for runs, and their keys: a request may get, or replace, another run of its key. Pure."""

from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, HOUR, MINUTE, Moment
from tokimori.errors import Conflict
from tokimori.model.document import Document, texts_of
from tokimori.model.ids import Lane, RunId
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run
from tokimori.model.transitions import BEFORE_START, ENDS, RunMove, RunState, move, sources

KIND: Final = "keyed"
KEPT: Final = DAY
"""Time for which a key is remembered."""


class Keyed(Struct, frozen=True, kw_only=True):
    """First request of a key: its time, a digest of its content, and the key of its run or job."""

    at: Moment
    digest: str
    made: str


encode_keyed, decode_keyed = texts_of(Keyed)


REMEMBERED = HOUR
"""Time for which the run that took over a request is remembered, for a repeat after a lost reply."""
AHEAD = MINUTE
"""Lead from which a run counts as made by a clock ahead."""
ID_LENGTH = 36
"""Length of a UUID, with which the origins of runs that share a key end."""


class Unique(StrEnum):
    """Times for which a run holds its key, so that there is no other one."""

    UNTIL_START = "until_start"
    UNTIL_END = "until_end"


class InPlaceOf(Struct, frozen=True, array_like=True):
    """Run that a request expects to replace, and the payload that it has; no run: none that has not started."""

    run_id: RunId | None = None
    payload: str | None = None


class Manner(Struct, frozen=True, kw_only=True):
    """Manner of a request.

    `forced`: even if its job is paused or parked. The rest concerns the newest run with the same key, as of now
    (`spans_of_key`; of the live ones if it is unique). `replaces`: if it has never started, it takes over the request,
    instead of a new run; with `in_place_of` only if it is as expected. `since`: if it was made after that moment, it
    answers the request. `unique`: while it holds the key, it answers the request, if it can't be replaced.
    """

    forced: bool = False
    replaces: bool = False
    since: Moment | None = None
    unique: Unique | None = None
    in_place_of: InPlaceOf | None = None

    @property
    def shares_key(self) -> bool:
        """Return whether other runs of the key matter."""
        return self.replaces or self.since is not None or self.unique is not None

    @property
    def of_live(self) -> bool:
        """Return whether only runs that have not ended matter: an older one may go on when a newer one has ended."""
        return self.unique is not None

    @property
    def waits_for_end(self) -> bool:
        """Return whether a run that has begun holds the key, too."""
        return self.unique is Unique.UNTIL_END and not self.replaces

    @property
    def held_in(self) -> frozenset[RunState]:
        """Return the states in which a run answers; until the start those of runs without an attempt."""
        if self.unique is None or self.replaces:
            return frozenset() if self.unique is None else frozenset({RunState.HELD})
        return BEFORE_START | {RunState.HELD} if self.unique is Unique.UNTIL_START else frozenset(RunState) - ENDS


PLAIN = Manner()


def shared_origin(key: str, run_id: RunId) -> str:
    """Return the origin of a run that shares its key with others. The length keeps keys apart that begin alike."""
    return f"k:{len(key)}:{key} {run_id}"


def shared_prefix(run: Run) -> str:
    """Return the prefix of the origins of all runs that share a key with this one, in the order of their ids."""
    return run.origin[:-ID_LENGTH]


def spans_of_key(run: Run) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the span of all origins of the key, and the span before runs that a clock ahead has made.

    If the newest run is one of these, and is not replaced, the newest before them counts. Ids are hexadecimal: `g`
    comes after all of them.
    """
    prefix = shared_prefix(run)
    return (prefix, f"{prefix}g"), (prefix, f"{prefix}{first_id_at(Moment(run.created + AHEAD))}")


def is_ahead(newest: Run, asked: Run) -> bool:
    """Return whether a clock that was ahead has made the newest run of the key."""
    return newest.created >= asked.created + AHEAD


def answers(newest: Run, asked: Run, manner: Manner) -> bool:
    """Return whether the newest run of the key is too young for another one, or holds the key."""
    if newest.state in manner.held_in and (manner.waits_for_end or not newest.attempt):
        return True
    return manner.since is not None and newest.created > manner.since and not is_ahead(newest, asked)


def check_in_place_of(newest: Run | None, manner: Manner) -> None:
    """Check that the newest run of the key is what the request expects. Raises `Conflict`."""
    if manner.in_place_of is not None:
        waits = newest is not None and never_started(newest)
        if manner.in_place_of != (InPlaceOf(newest.id, newest.payload) if waits and newest else InPlaceOf()):
            raise changed_meanwhile()


def changed_meanwhile() -> Conflict:
    """Return the error that a run is not what a request was to replace."""
    return Conflict(
        "in_place_of: the run of that key has begun, or was changed meanwhile: nothing was requested",
        field="in_place_of",
        allowed="the run that holds the key now, and its payload",
    )


def key_of_payload(payload: str | None) -> str:
    """Return the key of requests that are the same if their payloads are; equal JSON is equal."""
    try:
        text = msgspec.json.encode(msgspec.json.decode(payload or "null"), order="sorted")
    except (msgspec.DecodeError, RecursionError):
        text = (payload or "").encode()
    return f"payload {sha256(text).hexdigest()}"


def never_started(run: Run) -> bool:
    """Return if no part of the run has been executed, and it is not held."""
    return not run.attempt and run.state in sources(RunMove.PUT_OFF)


EXPIRY: Final = "expiry"
"""Kind of the documents that stand for runs with `expires`: they are written with the run."""
EXPIRY_VERSION: Final = 1
"""Version of each: none is ever changed, and the same one may be written again."""


def expiries_of(*runs: Run) -> list[Document]:
    """Return the documents for those of these runs that expire, by name in the order of these moments."""
    return [expiry_at(run.details.expires, run.id) for run in runs if run.details.expires is not None]


def expiry_at(moment: Moment, run_id: RunId) -> Document:
    """Return the document for a run to which something happens at that moment unless it begins."""
    return Document(kind=EXPIRY, name=f"{moment:020d} {run_id}", text="", version=EXPIRY_VERSION)


PUT_OFF = ("state", "nominal", "due", "priority", "rank", "payload", "lane", "blocked_on", "details")
"""Fields that a run gets from a later request of its key."""


def put_off(run: Run, asked: Run, lane: Lane) -> Run:
    """Return a run that never started, with the content of a later request of its key. It waits for its moment anew."""
    return replace(
        run,
        state=move(run.state, RunMove.PUT_OFF),
        nominal=asked.nominal,
        due=asked.due,
        priority=asked.priority,
        rank=asked.rank,
        payload=asked.payload,
        lane=lane,
        blocked_on=None,
        details=asked.details,
    )
