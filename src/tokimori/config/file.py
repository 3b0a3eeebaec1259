"""The configuration file: its place and its content. Settings from variables."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokimori.config.value import Machine
from tokimori.ownership import others_reach, user_id
from tokimori.spelling import nearest

PREFIX = "TOKIMORI_"
CONFIG_PATH = f"{PREFIX}CONFIG_PATH"
ENV = f"{PREFIX}ENV"
"""Variable that names the section `[env.NAME]` of the file that is in force."""

_NOT_SETTINGS = frozenset(
    PREFIX + name
    for name in (
        "CONFIG_PATH",
        "ENV",
        "DEBUG",
        "CACERT",
        "SECRETS_KEYS",
        # what a job gets to know of its own run (DESIGN §7), and hands on to a tokimori that it starts
        "JOB_ID",
        "RUN_ID",
        "ATTEMPT",
        "TOKEN",
        "NOMINAL_TIME",
        "DUE_TIME",
        "PARENT_RUN_ID",
        "PARENT_RESULT",
        "PARENT_RESULT_FILE",
        "PERMITS",
        "PAYLOAD",
        "PAYLOAD_FILE",
        "OUTCOME_FILE",
        # and a command under `tokimori lock`
        "LOCK",
        "LOCK_TOKEN",
    )
)


def from_variables(environ: Mapping[str, str], names: Collection[str]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the settings from variables, and a warning for each unknown `TOKIMORI_` variable. Ignore empty ones."""
    settings = {PREFIX + name.upper().replace(".", "_"): name for name in names}
    found: dict[str, object] = {settings[key]: text for key, text in environ.items() if key in settings and text}
    ours = (key for key in sorted(environ) if key.startswith(PREFIX))
    unknown = (key for key in ours if key not in settings and key not in _NOT_SETTINGS)
    known_names = {*settings, *_NOT_SETTINGS}
    return found, (*(_ignored(key, known_names) for key in unknown), *_near_misses(environ, known_names))


def _ignored(key: str, known: Collection[str]) -> str:
    return f"{key}: there is no such setting; the variable is ignored{_hint(key.removeprefix(PREFIX), known)}"


def _hint(rest: str, known: Collection[str]) -> str:
    """Return a hint on a similar name, ignoring the common prefix."""
    meant = nearest(rest, [name.removeprefix(PREFIX) for name in known])
    return "" if meant is None else f"; did you mean {PREFIX}{meant}?"


def _near_misses(environ: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """Yield variables with a misspelt prefix before a valid name."""
    for key in sorted(environ):
        first, _, rest = key.partition("_")
        if first != PREFIX[:-1] and PREFIX + rest in known and nearest(first, [PREFIX[:-1]]) is not None:
            yield f"{key}: it is none of our variables, and ignored; did you mean {PREFIX}{rest}?"


FILE_NAME = "tokimori.toml"
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class Found(NamedTuple):
    """File to read, if there is one, the faults of a named one, and the files that were skipped."""

    path: Path | None
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_file(named: Path | None, environ: Mapping[str, str], cwd: Path, machine: Machine) -> Found:
    """Return the file that the flag names, else that of the variable, else the first of the usual places that exists.

    Settings decide what a node runs: root reads no file that another user may have written.
    """
    for origin, path in (("--config", named), (CONFIG_PATH, environ.get(CONFIG_PATH))):
        if path:
            return _named(cwd / path, origin)
    warnings: list[str] = []
    for path in (cwd / FILE_NAME, *machine.config_files):
        if _exists(path):
            if (fault := _foreign(path)) is None:
                return Found(path, (), tuple(warnings))
            warnings.append(f"{path} is passed over, because root trusts no other user: {fault}")
    return Found(None, (), tuple(warnings))


def read_toml(path: Path) -> tuple[dict[str, object], list[str]]:
    """Return the content of the file, or its faults (`file:line: …`)."""
    import tomllib  # noqa: PLC0415  most commands find no file

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


class FileContent(NamedTuple):
    """Content of a file: common settings, its sections `[env.NAME]`, and the faults that make it unreadable."""

    always: Mapping[str, object] = {}
    sections: Mapping[str, Mapping[str, object]] = {}
    faults: tuple[str, ...] = ()


def read_content(path: Path | None, env: str | None) -> FileContent:
    """Return the content of the file. A missing section `env` is a fault: other settings would be in force."""
    toml, faults = ({}, []) if path is None else read_toml(path)
    env_sections = toml.pop("env", {})
    sections: dict[str, Any] = env_sections if isinstance(env_sections, dict) else {"NAME": env_sections}
    faults += [
        f"{path}: env.{name}: {section!r} is no section; allowed: [env.{name}] with settings below it"
        for name, section in sections.items()
        if not isinstance(section, dict)
    ]
    if env and not faults and env not in sections:
        place = "there is no configuration file" if path is None else f"{path} has no section [env.{env}]"
        there = ", ".join(sections) or "none"
        faults.append(f"{ENV}: {env!r} is in force, but {place}; sections that there are: {there}")
    return FileContent(toml, {} if faults else sections, tuple(faults))


def flattened(toml: Mapping[str, object], names: Collection[str], prefix: str = "") -> dict[str, object]:
    """Return the tables of the file as dotted names; a table that is the value of a setting stays whole."""
    flat: dict[str, object] = {}
    for key, value in toml.items():
        name = prefix + key
        if isinstance(value, dict) and name not in names and any(known.startswith(f"{name}.") for known in names):
            flat |= flattened(value, names, f"{name}.")
        else:
            flat[name] = value
    return flat


def _named(path: Path, origin: str) -> Found:
    if not _exists(path):
        return Found(None, (f"{origin}: there is no file {path}",))
    fault = _foreign(path)
    return Found(path) if fault is None else Found(None, (f"{origin}: root trusts no other user: {fault}",))


def _foreign(path: Path) -> str | None:
    """Return why another user may have written the file, which matters to root. Both ends of a link count."""
    if user_id() != 0:
        return None
    try:
        return others_reach(path.parent) or others_reach(path)
    except OSError:
        return None  # reading it says why it can't be read


def _exists(path: Path) -> bool:
    """Return if there is a file. An unreadable one counts, so that it is reported."""
    try:
        return path.exists()
    except PermissionError:
        return True
