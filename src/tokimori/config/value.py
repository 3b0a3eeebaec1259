"""One value of a setting, which is read, checked and shown, and the facts of the machine behind defaults."""

import math
import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, get_origin
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, inspect

from tokimori.errors import InvalidInput, Refused
from tokimori.model.words import check_word
from tokimori.ownership import user_id
from tokimori.schedules.zones import check_zone
from tokimori.spelling import nearest

_PASSWORD = re.compile(r"(://[^/:@]*:).*(@)", re.DOTALL)
_ACCOUNT = re.compile(r"^((?:redis|valkey)[a-z+]*://).*(@)", re.IGNORECASE | re.DOTALL)
"""Account in a URL. Redis has passwords without users, so that a single word before the @ may be one."""
_PARAMETER = re.compile(r"([?&])([^=&]*)=([^&]*)", re.DOTALL)
_SECRET_NAME = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)
_WITHOUT_SERVER = re.compile(r"memory:|sqlite:", re.IGNORECASE)
MASK = "***"
URLS = frozenset(("store", "datasource.job.url", "datasource.semaphore.url"))
"""Settings whose values are URLs of stores, and may hold a password."""


class Described(Protocol):
    """Description of a setting, as its value needs it."""

    @property
    def kind(self) -> object:
        """Return its type, with limits."""
        ...


def read_value(
    name: str, given: object, table: Mapping[str, Described], *, base: Path, home: Path, is_text: bool
) -> object:
    """Return the value of the setting, read from `given`; texts of variables are converted. Raises `InvalidInput`.

    A relative path starts at `base`, one that begins with `~` at `home`.
    """
    setting = table.get(name)
    if setting is None:
        raise _unknown(name, given, table)
    kind: Any = setting.kind
    try:
        if Path in (kind.__origin__, *get_args(kind.__origin__)):
            return base / _expanded(msgspec.convert(given, str), home)
        if is_text and get_origin(kind.__origin__) is dict:
            return _checked(name, _pairs(str(given)))
        if is_text and get_origin(kind.__origin__) is tuple:
            return tuple(part.strip() for part in str(given).split(",") if part.strip())
        return _checked(name, msgspec.convert(given, kind, strict=not is_text))
    except (msgspec.ValidationError, ValueError) as fault:
        if isinstance(fault, InvalidInput):
            raise
        shown = redacted(name, given)
        raise InvalidInput(
            f"{name}: {shown!r} is not allowed", field=name, value=shown, allowed=allowed_of(kind)
        ) from None


def redacted(name: str, value: object) -> object:
    """Return the value of a setting without passwords; in place of a URL, nothing that may be one."""
    if name.rpartition(".")[2] in ("password", "secret"):
        return MASK if value is not None else None
    if name in URLS:
        if isinstance(value, str):
            return _redacted_url(value)
        return MASK if value is not None else None
    return value


def _redacted_url(text: str) -> str:
    if text and "://" not in text and not _WITHOUT_SERVER.match(text):
        return MASK
    account = _ACCOUNT.sub(rf"\1{MASK}\2", text) if ":" not in _account_of(text) else _PASSWORD.sub(r"\1***\2", text)
    return _PARAMETER.sub(_masked_parameter, account)


def _account_of(url: str) -> str:
    return url.partition("://")[2].rpartition("@")[0]


def _masked_parameter(found: "re.Match[str]") -> str:
    """Return the parameter, masked if it is a password. Drivers decode names, so `pass%77ord` is one, too."""
    mark, name, value = found.groups()
    return f"{mark}{name}={MASK if _SECRET_NAME.search(unquote(name)) else value}"


def allowed_of(kind: object) -> str:
    """Return the allowed values of a setting of this type, in words."""
    origin: Any = getattr(kind, "__origin__", kind)
    if Path in (origin, *get_args(origin)):
        return "the path of a file or directory, as text"
    if get_origin(origin) is Literal:
        return f"one of {', '.join(get_args(origin))}"
    described = inspect.type_info(kind)
    match described.type if isinstance(described, inspect.Metadata) else described:
        case inspect.UnionType(types=types):
            given = next(each for each in types if not isinstance(each, inspect.NoneType))
            return _allowed_by(given).replace(" of seconds", "")  # no optional setting is a time
        case one:
            return _allowed_by(one)


def _allowed_by(described: inspect.Type) -> str:
    match described:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=least, le=most):
            return f"a whole number, {least} to {most}" if most is not None else f"a whole number, at least {least}"
        case inspect.FloatType(ge=least):
            return f"a number of seconds, at least {least}"
        case inspect.DictType():
            return "a table of texts; as a variable: key=value,key=value"
        case inspect.VarTupleType():
            return "a list of texts; as a variable: one,two"
        case _:
            return "a text, not empty"


def _checked(name: str, value: object) -> object:
    match value:
        case str() if name == "time_zone":
            return check_zone(value, field=name)
        case float() if math.isnan(value):
            raise ValueError("not a number")
        case dict():
            for key, text in value.items():
                check_word(name, key)
                check_word(f"{name}.{key}", text)
        case _:
            pass
    return value


def _pairs(text: str) -> dict[str, str]:
    """Return `a=1,b=2` as a mapping."""
    return {key.strip(): value.strip() for key, value in (pair.split("=", 1) for pair in text.split(",") if pair)}


def _expanded(text: str, home: Path) -> Path:
    if not text:
        raise ValueError("empty")
    first, _, rest = text.partition("/")
    return home / rest if first == "~" else Path(text)


def _unknown(name: str, given: object, names: Collection[str]) -> InvalidInput:
    by_last_part = {known.rpartition(".")[2]: known for known in names}
    meant = nearest(name, names) or by_last_part.get(nearest(name.rpartition(".")[2], by_last_part) or "")
    hint = "" if meant is None else f"; did you mean {meant}?"
    return InvalidInput(f"{name}: there is no such setting{hint}", field=name, value=given)


def as_text(value: object) -> str:
    """Return the value as a variable of the environment says it."""
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return ",".join(f"{name}={each}" for name, each in value.items())
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


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
