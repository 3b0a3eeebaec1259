"""Where the machine's zone is found."""

from pathlib import Path

import pytest

from tokimori.cli.moment import machine_zone
from tokimori.errors import InvalidInput

PARIS = "/usr/share/zoneinfo/Europe/Paris"


@pytest.mark.parametrize(
    "target",
    [
        PARIS,
        "../usr/share/zoneinfo/Europe/Paris",
        "/usr/share/zoneinfo/posix/Europe/Paris",
        "/usr/share/zoneinfo/right/Europe/Paris",
    ],
)
def test_the_link_names_the_zone(tmp_path: Path, target: str) -> None:
    """What /etc/localtime points at comes before everything else."""
    (tmp_path / "localtime").symlink_to(target)
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert machine_zone({"TZ": "America/Lima"}, tmp_path) == "Europe/Paris"


def test_the_file_names_the_zone_where_no_link_does(tmp_path: Path) -> None:
    """A copied /etc/localtime has no name; /etc/timezone may."""
    (tmp_path / "localtime").write_bytes(b"TZif")
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert machine_zone({"TZ": "America/Lima"}, tmp_path) == "Asia/Tokyo"


@pytest.mark.parametrize("name", ["America/Lima", ":America/Lima"])
def test_the_environment_names_the_zone_where_no_file_does(tmp_path: Path, name: str) -> None:
    """TZ is the last that is asked."""
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Mars/Base")
    assert machine_zone({"TZ": name}, tmp_path) == "America/Lima"


@pytest.mark.parametrize("environ", [{}, {"TZ": ""}, {"TZ": "EST5EDT,M3.2.0,M11.1.0"}])
def test_a_machine_without_a_zone_is_in_utc(tmp_path: Path, environ: dict[str, str]) -> None:
    """So says the C library."""
    assert machine_zone(environ, tmp_path) == "UTC"


def test_a_zone_without_a_name_is_no_guess(tmp_path: Path) -> None:
    """Where there is a zone but no name for it, the person has to say it; what is said to be allowed is."""
    (tmp_path / "localtime").write_bytes(b"TZif")
    with pytest.raises(InvalidInput, match="timezone: ") as raised:
        machine_zone({}, tmp_path)
    assert raised.value.allowed == "--timezone ZONE, or TZ=ZONE in the environment"
    assert machine_zone({"TZ": "Asia/Tokyo"}, tmp_path) == "Asia/Tokyo"
