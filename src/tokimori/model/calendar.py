"""Calendars: named days off, which jobs share."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from tokimori.model.document import texts_of
from tokimori.schedules.days_off import DaysOff, dates_of, parse_days_off, united, weekdays_of


class Calendar(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Named days off, as they were typed.

    `dates` are `2026-12-25`, ranges such as `2026-12-24/2027-01-01`, and `12-25` for every year; `weekdays` are `sat`
    and the like. A job that names the calendar keeps off them in its own time zone.
    """

    name: str
    description: str | None = None
    dates: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()


class _Days(Struct, frozen=True, omit_defaults=True):
    """Days off as a job keeps them."""

    dates: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()


encode_calendar, decode_calendar = texts_of(Calendar)
_days_decoder = msgspec.json.Decoder(_Days)


def days_off_of(calendar: Calendar) -> DaysOff:
    """Return its days. Raises `InvalidInput`."""
    return parse_days_off(calendar.dates, calendar.weekdays)


def encode_days_off(calendars: Sequence[Calendar]) -> str | None:
    """Return the days off of all these calendars, as a job keeps them; None without any. Raises `InvalidInput`.

    Equal days have equal texts.
    """
    if not calendars:
        return None
    days = united([days_off_of(calendar) for calendar in calendars])
    return msgspec.json.encode(_Days(tuple(dates_of(days)), tuple(weekdays_of(days)))).decode()


@lru_cache(maxsize=256)
def decode_days_off(text: str) -> DaysOff:
    """Read what a job keeps."""
    days = _days_decoder.decode(text)
    return parse_days_off(days.dates, days.weekdays)
