"""The time zone of this machine."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone

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
        raise InvalidInput(message, field="timezone", allowed="--timezone ZONE, or a line CRON_TZ=ZONE in the file")
    return "UTC"


def _names(environ: Mapping[str, str], etc: Path) -> Iterator[str]:
    localtime, named = etc / "localtime", etc / "timezone"
    if localtime.is_symlink():
        yield str(localtime.readlink()).rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    if named.is_file():
        yield named.read_text(encoding="utf-8", errors="replace").strip()
    yield environ.get("TZ", "").removeprefix(":")
