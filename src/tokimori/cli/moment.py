"""Moments as people write them on a command line: `2030-01-01`, `2030-01-01 09:30`, `7d` ago or `2h` from now."""

from typing import TYPE_CHECKING, Any

import click

from tokimori.clock import Moment
from tokimori.schedules.stamp import LENGTHS, seconds_in, told_ago


class Length(click.ParamType[float]):
    """The type of an option that takes a length of time; its value is seconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if isinstance(value, int | float):
            return value
        seconds = seconds_in(value)
        if seconds is None:
            self.fail(f"{value!r} is not a length of time; allowed: {LENGTHS}", param, ctx)
        return seconds


if TYPE_CHECKING:
    from tokimori.service.service import Service

AGO = "a time, a day, or how long ago, such as 7d"
AHEAD = "a time, a day, or how long from now, such as 2h"


def moment_ago(field: str, text: str, zone: str, now: Moment) -> Moment:
    """Return the moment that such a text means in the zone. Raises `InvalidInput`."""
    from tokimori.service.validation import moment_of

    return moment_of(field, told_ago(field, text, now), zone)


async def past_or_none(service: "Service", field: str, text: str | None) -> Moment | None:
    """Return the moment in the service's zone; None if nothing was said. Raises `InvalidInput`."""
    return None if text is None else moment_ago(field, text, service.time_zone, await service.db.now())
