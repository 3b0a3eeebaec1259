"""Rate of a client: a bucket of tokens that fills as time goes by. Pure: time is an argument."""

import re
from typing import Final, NamedTuple

from tokimori.errors import InvalidInput

_SECOND: Final = 10**9
_PERIODS: Final = {"s": _SECOND, "m": 60 * _SECOND, "h": 3_600 * _SECOND}
_RATE: Final = re.compile(r"([1-9][0-9]{0,6})/([smh])", re.ASCII)
MOST: Final = 1_000_000
"""The most tokens of a bucket."""


class Rate(NamedTuple):
    """So many requests in `period` nanoseconds; after a rest all of them may come at once."""

    limit: int
    period: int

    @property
    def interval(self) -> int:
        """Return the nanoseconds in which one token comes."""
        return self.period // self.limit


def parse_rate(text: str, *, field: str) -> Rate:
    """Read `100/s`, `600/m` or `1000/h`. Raises `InvalidInput`."""
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) > MOST:
        allowed = f"a number from 1 to {MOST:,} for each second, minute or hour, such as 100/s, 600/m or 1000/h"
        raise InvalidInput(f"{field}: {text!r} is no rate", field=field, value=text, allowed=allowed)
    return Rate(int(found[1]), _PERIODS[found[2]])


class Bucket(NamedTuple):
    """Tokens of one client, as one number: the moment at which the bucket is full, in nanoseconds."""

    full_at: int = 0

    def take(self, rate: Rate, now: int) -> tuple["Bucket", int]:
        """Return the bucket without one token, and 0; if it is empty, the same bucket, and the time until a token."""
        full_at = max(self.full_at, now) + rate.interval
        wait = full_at - now - rate.period
        return (self, wait) if wait > 0 else (Bucket(full_at), 0)
