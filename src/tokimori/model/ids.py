"""Ids: checks of job ids, and new ids of runs and nodes."""

import re
from collections.abc import Callable
from typing import NewType
from uuid import UUID

from tokimori.clock import MILLISECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.words import DOTS

JobId = NewType("JobId", str)
RunId = NewType("RunId", str)
NodeId = NewType("NodeId", str)
ClaimId = NewType("ClaimId", str)
PermitId = NewType("PermitId", str)
"""Id of held units of a semaphore, or of a place in its line. A program makes its own; a run has one per semaphore."""
Incarnation = NewType("Incarnation", int)
"""A job's life from `add` to `delete`; the same id added again is another one. A random number below 2^63."""
Token = NewType("Token", int)
"""Fencing token, which grows with every claim of a run: earlier owners can't settle it."""
Lane = NewType("Lane", str)
"""Where a ready run waits: queue, handler and labels, as one text."""

RandomBytes = Callable[[int], bytes]

_BELOW_2_48 = 2**48 - 59
"""The largest prime below 2^48."""

JOB_ID_ALLOWED = "1 to 255 of A-Z a-z 0-9 . _ : @ + -, not starting with -, neither . nor .."
_JOB_ID = re.compile(r"[A-Za-z0-9._:@+][A-Za-z0-9._:@+-]{0,254}\Z", re.ASCII)


def check_job_id(text: object, *, field: str = "id") -> JobId:
    """Return the text as a job id. Raises `InvalidInput`."""
    if not isinstance(text, str) or _JOB_ID.match(text) is None or text in DOTS:
        raise InvalidInput(f"{field}: {text!r} is not a job id", field=field, value=text, allowed=JOB_ID_ALLOWED)
    return JobId(text)


def uuid7(now: Moment, random: RandomBytes) -> str:
    """Return a UUID version 7, so that ids are ordered by time, to the microsecond.

    48 bits of milliseconds, 12 bits of the millisecond's fraction (RFC 9562, section 6.2, method 3), 62 random bits.
    """
    milliseconds, microseconds = divmod(now, MILLISECOND)
    fraction = (microseconds << 12) // MILLISECOND
    chance = int.from_bytes(random(8)) >> 2
    value = (milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | chance
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def child_base(parent: RunId) -> int:
    """Return a number below 2^48 for the ids of a run's children: the same on every store and at every try.

    The remainder by a prime takes every digit of the parent's id into account. The digits are read to the base 31: ids
    of children are sums of a moment, a base and places, and to the base 16 the bases of their own children were sums of
    these again. So two ways down a family led to the same id if only the order of their places differed.
    """
    return int(parent.replace("-", ""), 31) % _BELOW_2_48


def child_id(due: Moment, base: int, place: int) -> RunId:
    """Return the id of the run of a dependent job: a UUID whose bits after the time are not drawn, but given.

    `base` is that of the parent, `place` (below 2^24) the child's among those of this parent: a child that follows
    its parent in two ways has two places, and so two ids. The id ends with their sum: people name a run by its last
    digits, which differ between the children of a parent as between those of many parents.
    """
    after = f"{place:06x}{(base + place) % (1 << 48):012x}"
    text = f"{due // MILLISECOND:012x}7{after[:3]}8{after[3:]}"
    return RunId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def new_incarnation(random: RandomBytes) -> Incarnation:
    """Return a random incarnation; the caller makes it, to recognise its job after a lost reply to `add`."""
    return Incarnation(int.from_bytes(random(8)) >> 1)


def check_uuid(text: object, *, field: str) -> str:
    """Return a run or node id in its canonical form. Raises `InvalidInput`."""
    try:
        return str(UUID(str(text)))
    except ValueError:
        raise InvalidInput(f"{field}: {text!r} is not a UUID", field=field, value=text, allowed="a UUID") from None
