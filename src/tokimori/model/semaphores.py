"""Semaphores and concurrency keys of a job, and names of the lines in which its runs wait."""

import re
from collections.abc import Iterable, Sequence

from tokimori.errors import InvalidInput
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.words import WORD_ALLOWED, check_text, check_word

MOST_UNITS = 1_000_000
"""The most units that a semaphore may have, a run may want, or a key may have running."""
LONGEST_KEY = 255
DEFAULT_LIMIT = 1
"""Limit of a semaphore that was not made by a person: a mutex."""

LIMIT_LINE = ""
"""The line of the job's `max_running`; with a run it is kept as None."""
KEY_LINE = "key"
"""The line of the run's own concurrency key."""
_SEMAPHORE_LINE = "semaphore:"
RATE_OF_JOB = "job:"
"""Beginning of the names of rates of jobs."""
_RATE_OF_QUEUE = "queue:"
_AT = "@"

_WANTED = re.compile(r"(?P<name>[^:]*)(?::(?P<weight>[1-9][0-9]{0,6}))?\Z", re.ASCII)
_ALLOWED = f"NAME or NAME:WEIGHT, each name once; a name is {WORD_ALLOWED}, a weight 1 to {MOST_UNITS}"


def line_of(semaphore: str) -> str:
    """Return `Run.blocked_on` of a run that waits for this semaphore."""
    return _SEMAPHORE_LINE + semaphore


def semaphore_of(blocked_on: str | None) -> str | None:
    """Return the semaphore in whose line a run waits; None in any other line."""
    text = blocked_on or LIMIT_LINE
    return text.removeprefix(_SEMAPHORE_LINE) if text.startswith(_SEMAPHORE_LINE) else None


def rate_of_job(incarnation: int, rate: ClaimRate) -> str:
    """Return the semaphore that is the rate of a job: its name says the rate, and nobody holds its units.

    What was taken is kept under the part before the rate, so that an edit forgets nothing.
    """
    return f"{RATE_OF_JOB}{incarnation}{_AT}{rate.stored}"


def rate_of_queue(queue: str) -> str:
    """Return the semaphore that is the rate of a queue: nobody holds its units."""
    return _RATE_OF_QUEUE + queue


QUEUE_RATES = (_RATE_OF_QUEUE, f"{_RATE_OF_QUEUE[:-1]};")
"""The names of rates of queues are between these."""


def is_rate_alone(name: str) -> bool:
    """Return if the semaphore is the rate of a job or a queue, which people do not name."""
    return name.startswith((RATE_OF_JOB, _RATE_OF_QUEUE))


def ledger_of(name: str) -> str:
    """Return the name under which a store keeps what was taken of the rate."""
    return name.partition(_AT)[0]


def made_with(name: str, limit: int = DEFAULT_LIMIT) -> tuple[int, str | None]:
    """Return the limit and the rate, as stored, of a semaphore that nobody has made yet."""
    return (MOST_UNITS, name.partition(_AT)[2] or None) if is_rate_alone(name) else (limit, None)


def wanted(semaphores: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return (name, weight) of each that the definition names, by name: the order in which they are locked and judged.

    Raises `InvalidInput`.
    """
    found: dict[str, int] = {}
    for text in semaphores:
        match = _WANTED.match(text)
        weight = int((match and match["weight"]) or 1)
        if match is None or match["name"] in found or weight > MOST_UNITS:
            raise InvalidInput(
                f"semaphores: {text!r} is not NAME or NAME:WEIGHT, or its name stands twice",
                field="semaphores",
                value=text,
                allowed=_ALLOWED,
            )
        check_word("semaphores", match["name"])
        found[match["name"]] = weight
    return tuple(sorted(found.items()))


def permits_text(held: Iterable[tuple[str, int, int]]) -> str:
    """Return the units of a run in another store, for its command: `NAME:WEIGHT:TOKEN`, with spaces between."""
    return " ".join(f"{name}:{weight}:{token}" for name, weight, token in held)


def permits_in(text: str) -> dict[str, tuple[int, int]]:
    """Return (weight, token) by name, as `permits_text` has written them; anything else is skipped."""
    parts = [part.split(":") for part in text.split()]
    return {part[0]: (int(part[1]), int(part[2])) for part in parts if _is_permit(part)}


def _is_permit(part: list[str]) -> bool:
    return len(part) == 3 and all(number.isdecimal() for number in part[1:])


def check_concurrency_key(key: str | None) -> str | None:
    """Return the key, if runs can have it. Raises `InvalidInput`."""
    if key is None:
        return None
    field = "concurrency_key"
    check_text(field, key)
    if not 1 <= len(key) <= LONGEST_KEY:
        allowed = f"1 to {LONGEST_KEY} characters"
        raise InvalidInput(f"{field}: {len(key)} characters are no key", field=field, value=key, allowed=allowed)
    return key
