"""The configuration file: which one, and what stands in it."""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tokimori.config.machine import Machine
from tokimori.config.variables import CONFIG_PATH

FILE_NAME = "tokimori.toml"
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class Found(NamedTuple):
    """The file to read, if there is one, and the faults of one that was named."""

    path: Path | None
    faults: tuple[str, ...] = ()


def find_file(named: Path | None, environ: Mapping[str, str], cwd: Path, machine: Machine) -> Found:
    """The file that the flag names, else that of the variable, else the first of the usual places that exists."""
    for origin, path in (("--config", named), (CONFIG_PATH, environ.get(CONFIG_PATH))):
        if path:
            return _named(cwd / path, origin)
    return Found(next((path for path in (cwd / FILE_NAME, *machine.config_files) if _exists(path)), None))


def read_toml(path: Path) -> tuple[dict[str, object], list[str]]:
    """The content of the file, or its faults (`file:line: …`)."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")), []
    except OSError as fault:
        return {}, [f"{path}: can't be read: {fault.strerror}"]
    except UnicodeDecodeError:
        return {}, [f"{path}: is not UTF-8 text"]
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        place = _AT_LINE.search(message)
        if place is None:
            return {}, [f"{path}: {message}"]
        return {}, [f"{path}:{place[1]}: {message[: place.start()]} (column {place[2]})"]


def flattened(toml: Mapping[str, object], names: Collection[str], prefix: str = "") -> dict[str, object]:
    """The tables of the file as dotted names; a table that is the value of a setting stays whole."""
    flat: dict[str, object] = {}
    for key, value in toml.items():
        name = prefix + key
        if isinstance(value, dict) and name not in names and _is_section(name, names):
            flat |= flattened(value, names, f"{name}.")
        else:
            flat[name] = value
    return flat


def _named(path: Path, origin: str) -> Found:
    return Found(path) if _exists(path) else Found(None, (f"{origin}: there is no file {path}",))


def _exists(path: Path) -> bool:
    """Whether there is a file. One that can't be read counts, so that it is reported and not passed over."""
    try:
        return path.exists()
    except PermissionError:
        return True


def _is_section(name: str, names: Collection[str]) -> bool:
    return any(known.startswith(f"{name}.") for known in names)
