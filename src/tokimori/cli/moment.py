"""Moments as people write them on a command line: `2030-01-01`, `2030-01-01 09:30`, `7d` ago or `2h` from now."""

import re
from typing import TYPE_CHECKING

from tokimori.cli.length import seconds_in
from tokimori.clock import SECOND, Moment, format_moment
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.service.service import Service

AGO = "a time, a day, or how long ago, such as 7d"
AHEAD = "a time, a day, or how long from now, such as 2h"
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TO_THE_MINUTE = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d)([Zz]|[+-]\d\d:\d\d)?\Z", re.ASCII)
_ALLOWED = "a time such as 2030-01-01T00:00:00Z, without an offset in the zone; a day such as 2030-01-01"


def told_ago(field: str, text: str, now: Moment) -> str:
    """The text of a moment that is mostly past: a length says how long ago. A time without offset stays without one."""
    return _told(field, text, now, -1)


def told_ahead(field: str, text: str, now: Moment) -> str:
    """The text of a moment that is mostly to come: a length says how long from now."""
    return _told(field, text, now, 1)


def moment_ago(field: str, text: str, zone: str, now: Moment) -> Moment:
    """The moment that such a text means in the zone. Raises `InvalidInput`."""
    from tokimori.service.given import moment_of

    return moment_of(field, told_ago(field, text, now), zone)


async def past_or_none(service: "Service", field: str, text: str | None) -> Moment | None:
    """The moment in the service's zone; None where nothing was said. Raises `InvalidInput`."""
    return None if text is None else moment_ago(field, text, service.time_zone, await service.now())


def _told(field: str, text: str, now: Moment, sign: int) -> str:
    """The text as every door takes it. Raises `InvalidInput`, which says what else a command line takes."""
    from tokimori.schedules.stamp import parse_stamp

    given = text.strip()
    allowed = f"{_ALLOWED}; or {'how long ago: 7d, 1h30m' if sign < 0 else 'how long from now: 2h, 1d12h'}"
    seconds = None if given.isdecimal() else seconds_in(given)
    if seconds is not None:
        try:
            return format_moment(Moment(now + sign * round(seconds * SECOND)))
        except OverflowError:
            message = f"{field}: {text!r} leads out of the years 1 to 9999"
            raise InvalidInput(message, field=field, value=text, allowed=allowed) from None
    if _DAY.match(given):
        given = f"{given}T00:00:00"
    elif found := _TO_THE_MINUTE.match(given):
        given = f"{found[1]}:00{found[2] or ''}"
    try:
        parse_stamp(given, field=field)
    except InvalidInput as fault:
        message = fault.message.replace(repr(given), repr(text))
        raise InvalidInput(message, field=field, value=text, allowed=allowed) from None
    return given
