"""Moments as people write them on a command line: `2030-01-01`, `2030-01-01 09:30`, `7d` ago or `2h` from now."""

from typing import TYPE_CHECKING

from tokimori.clock import Moment
from tokimori.schedules.typed import told_ago

if TYPE_CHECKING:
    from tokimori.service.service import Service

AGO = "a time, a day, or how long ago, such as 7d"
AHEAD = "a time, a day, or how long from now, such as 2h"


def moment_ago(field: str, text: str, zone: str, now: Moment) -> Moment:
    """Return the moment that such a text means in the zone. Raises `InvalidInput`."""
    from tokimori.service.given import moment_of

    return moment_of(field, told_ago(field, text, now), zone)


async def past_or_none(service: "Service", field: str, text: str | None) -> Moment | None:
    """Return the moment in the service's zone; None where nothing was said. Raises `InvalidInput`."""
    return None if text is None else moment_ago(field, text, service.time_zone, await service.store.now())
