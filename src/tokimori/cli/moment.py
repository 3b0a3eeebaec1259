"""Moments as people write them on a command line (`2030-01-01`, `7d` ago, `2h` from now), and the machine's zone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.schedules.stamp import LENGTHS, past_moment_text, seconds_in
from tokimori.schedules.zones import check_zone

if TYPE_CHECKING:
    from tokimori.service.service import Service


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


AGO = "a time, a day, or how long ago, such as 7d"
AHEAD = "a time, a day, or how long from now, such as 2h"


def moment_ago(field: str, text: str, zone: str, now: Moment) -> Moment:
    """Return the moment that such a text means in the zone. Raises `InvalidInput`."""
    from tokimori.service.validation import moment_of

    return moment_of(field, past_moment_text(field, text, now), zone)


async def past_or_none(service: "Service", field: str, text: str | None) -> Moment | None:
    """Return the moment in the service's zone; None if nothing was said. Raises `InvalidInput`."""
    return None if text is None else moment_ago(field, text, service.time_zone, await service.db.now())


ETC = Path("/etc")


def machine_zone(environ: Mapping[str, str], etc: Path = ETC) -> str:
    """Return the IANA name of the machine's zone: from /etc/localtime, else /etc/timezone, else TZ, else UTC.

    Raises `InvalidInput` if /etc/localtime holds a zone whose name can't be found.
    """
    for name in _names(environ, etc):
        try:
            return check_zone(name)
        except InvalidInput:
            continue
    if (etc / "localtime").exists():
        message = "timezone: this machine's zone has no name: /etc/localtime is not a link to a zone file"
        raise InvalidInput(message, field="timezone", allowed="--timezone ZONE, or TZ=ZONE in the environment")
    return "UTC"


def _names(environ: Mapping[str, str], etc: Path) -> Iterator[str]:
    localtime, named = etc / "localtime", etc / "timezone"
    if localtime.is_symlink():
        yield str(localtime.readlink()).rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    if named.is_file():
        yield named.read_text(encoding="utf-8", errors="replace").strip()
    yield environ.get("TZ", "").removeprefix(":")
