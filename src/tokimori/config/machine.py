"""What the settings' defaults take from the machine and the person who asks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where things are kept here, by the XDG Base Directory Specification, and how many cores there are."""

    home: Path
    state_dir: Path
    config_files: tuple[Path, ...]
    cores: int

    def default_store(self, state_dir: Path) -> str:
        """The URL of the SQLite file in the directory."""
        return f"sqlite://{quote(str(state_dir / 'tokimori.db'))}"


def this_machine(environ: Mapping[str, str]) -> Machine:
    """This machine, for the user who runs this process."""
    home = _home(environ)
    config_home = _xdg(environ, "XDG_CONFIG_HOME", home / ".config")
    state_home = _xdg(environ, "XDG_STATE_HOME", home / ".local" / "state")
    is_root = os.geteuid() == 0
    return Machine(
        home=home,
        state_dir=Path("/var/lib/tokimori") if is_root else state_home / "tokimori",
        config_files=(config_home / "tokimori" / "tokimori.toml", Path("/etc/tokimori/tokimori.toml")),
        cores=len(os.sched_getaffinity(0)),
    )


def _home(environ: Mapping[str, str]) -> Path:
    """Without HOME what the system says; a user whom it does not know, as in a container, is at home in /."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path("/")


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """The variable's directory; the specification has a relative one ignored."""
    path = Path(environ.get(name, ""))
    return path if path.is_absolute() else default
