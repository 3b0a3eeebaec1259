"""Requests for runs, and their keys: a request may get, or replace, another run of its key. Pure."""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, HOUR, MINUTE, Moment
from tokimori.model.ids import Lane, RunId
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run
from tokimori.model.transitions import RunMove, move, sources

KIND: Final = "keyed"
KEPT: Final = DAY
"""Time for which a key is remembered."""


class Keyed(Struct, frozen=True, kw_only=True):
    """First request of a key: its time, a digest of its content, and the key of its run or job."""

    at: Moment
    digest: str
    made: str


_decoder = msgspec.json.Decoder(Keyed)


def encode_keyed(keyed: Keyed) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(keyed).decode()


def decode_keyed(text: str) -> Keyed:
    """Return the request in a text of `encode_keyed`. Raises `ValueError`."""
    return _decoder.decode(text)


REMEMBERED = HOUR
"""Time for which the run that took over a request is remembered, for a repeat after a lost reply."""
AHEAD = MINUTE
"""Lead from which a run counts as made by a clock ahead."""
ID_LENGTH = 36
"""Length of a UUID, with which the origins of runs that share a key end."""


class Manner(Struct, frozen=True, kw_only=True):
    """Manner of a request.

    `forced`: even if its job is paused or parked. The rest concerns the newest run with the same key, as of now
    (`spans_of_key`). `replaces`: if it has never started, it takes over the request, instead of a new run. `since`: if
    it was made after that moment, it answers the request.
    """

    forced: bool = False
    replaces: bool = False
    since: Moment | None = None

    @property
    def shares_key(self) -> bool:
        """Return whether other runs of the key matter."""
        return self.replaces or self.since is not None


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
    """Return whether the newest run of the key is too young for another one."""
    return manner.since is not None and newest.created > manner.since and not is_ahead(newest, asked)


def never_started(run: Run) -> bool:
    """Return if no part of the run has been executed, and it is not held."""
    return not run.attempt and run.state in sources(RunMove.PUT_OFF)


PUT_OFF = ("state", "nominal", "due", "priority", "rank", "payload", "lane", "blocked_on")
"""Fields that a run gets from a later request of its key."""


def put_off(run: Run, asked: Run, lane: Lane) -> Run:
    """Return a run that has never started, with the content of a later request of its key. It waits for its moment
    anew.
    """
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
    )
