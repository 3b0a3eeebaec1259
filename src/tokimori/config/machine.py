"""Facts behind the defaults of settings: the machine, and the user of this process."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from tokimori.errors import Refused
from tokimori.ownership import user_id


class Machine(Struct, frozen=True, kw_only=True):
    """Places on this machine, by the XDG Base Directory Specification, and its number of cores."""

    home: Path
    state_dir: Path
    config_files: tuple[Path, ...]
    cores: int

    def default_store(self, state_dir: Path) -> str:
        """Return the URL of the SQLite file in the directory."""
        return f"sqlite://{quote(str(state_dir / 'tokimori.db'))}"


SYSTEM_STATE = Path("/var/lib/tokimori")


def state_dirs(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the state folder of this user, and that of the machine."""
    return _xdg(environ, "XDG_STATE_HOME", _home(environ) / ".local" / "state") / "tokimori", SYSTEM_STATE


def this_machine(environ: Mapping[str, str]) -> Machine:
    """Return this machine, for the user who runs this process."""
    home = _home(environ)
    config_home = _xdg(environ, "XDG_CONFIG_HOME", home / ".config")
    of_user, of_system = state_dirs(environ)
    return Machine(
        home=home,
        state_dir=of_system if user_id() == 0 else of_user,
        config_files=(config_home / "tokimori" / "tokimori.toml", Path("/etc/tokimori/tokimori.toml")),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _home(environ: Mapping[str, str]) -> Path:
    """Return HOME, else the system's entry, else / (an unknown user, as in a container)."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path("/")


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the variable's directory; a relative one is ignored, as the specification says."""
    path = Path(environ.get(name, ""))
    return path if path.is_absolute() else default


def check_linux(what: str) -> None:
    """Refuse a feature that needs Linux's processes and clocks on other systems. Raises `Refused`."""
    system: str = sys.platform
    if system != "linux":
        raise Refused(
            f"{what} needs Linux, and this is {system}",
            allowed='a Linux machine, container or WSL; programs here ask its node: tokimori.open("http://HOST:8000")',
        )
