"""Koyomi's configuration, TOML, as our settings. Pure."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import MappingProxyType

from tokimori.config.value import MASK
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.translators.became import Became, shown, unknown
from tokimori.translators.store_urls import store_url

_SAME = {
    "time_zone": "",
    "worker.interval_minutes": "ticks lie on whole multiples of it since midnight UTC, whenever a node was started",
    "worker.minimum_interval_seconds": "",
    "schedule.update_interval_seconds": "a node asks for edits at least so often; each beat, every 2 s, asks too",
}
_DEFAULTS = {
    "job.lock_ttl_seconds": 25.0,
    "worker.minimum_interval_seconds": 30.0,
    "worker.interval_minutes": 1.0,
}
_CLOCK = (
    "Nodes use the store's clock; it can't be set. `tokimori schedule explain TEXT --after TIME` shows what would run"
    " then; tokimori.testing.Rehearsal is a node with a clock that you move"
)
_NO_EQUAL = {
    "debug_mode": _CLOCK,
    "debug.now": _CLOCK,
    "debug.worker.sleep_seconds": _CLOCK,
    "job.lock_ttl_seconds": "no lock is needed: an occurrence becomes one run whatever the number of nodes, because the"
    " store holds (job, nominal time) once",
}
_LOG = ("log.debug", "log.console", "log.file", "log.file_path")
_MOST_NUMBER = 2**63
_LOG_FILE = "log/koyomi.log"
_MODULE = "datasource.module."
_CONNECTOR = "datasource.connector."
_STORES = {"": "store", "job.": "datasource.job.url", "semaphore.": "datasource.semaphore.url"}
_CONNECTED = tuple(f"{_CONNECTOR}{entity}{name}" for entity in _STORES for name in ("dsn", "user", "password"))
KEYS = MappingProxyType(dict.fromkeys((*_SAME, *_NO_EQUAL, *_LOG, f"{_MODULE}job", f"{_MODULE}semaphore", *_CONNECTED)))


def read_koyomi(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key. Raises `InvalidInput`, whose field is the key."""
    try:
        said = dict(_flat(tomllib.loads(text), ""))
    except (ValueError, RecursionError) as fault:  # a number of thousands of digits is a ValueError
        raise InvalidFile(f"not TOML: {fault}", field="file", allowed='TOML, where texts stand in ""') from None
    _check_lengths(said)
    yield from _log(said)
    yield from _stores(said, base)
    for key, value in said.items():
        if key in _SAME:
            yield Became(key=key, given=shown(value), settings={key: value}, why=_SAME[key])
        elif key in _NO_EQUAL:
            yield Became(key=key, given=shown(value), why=_NO_EQUAL[key])
        elif key in (f"{_MODULE}job", f"{_MODULE}semaphore"):
            yield Became(key=key, given=shown(value), why=_module(key, value))
        elif key not in KEYS:
            yield unknown(key, KEYS, "Koyomi")


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key not in KEYS:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, int) and abs(value) > _MOST_NUMBER:
            raise InvalidInput(f"{key}: the number is too large", field=key, allowed=f"at most {_MOST_NUMBER}")
        else:
            yield key, value


def _check_lengths(said: Mapping[str, object]) -> None:
    """lock_ttl < minimum_interval < interval, as Koyomi's page asks for and its program does not check."""
    lock, least, minutes = (_number(said, key) for key in _DEFAULTS)
    for key, value, most, other in (
        ("job.lock_ttl_seconds", lock, least, "worker.minimum_interval_seconds"),
        ("worker.minimum_interval_seconds", least, minutes * 60, "worker.interval_minutes"),
    ):
        if not value < most:
            message = f"{key}: {value:g} is not less than {other}"
            raise InvalidInput(message, field=key, value=value, allowed=f"below {most:g}")


def _number(said: Mapping[str, object], key: str) -> float:
    value = said.get(key, _DEFAULTS[key])
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool) and float(value) >= 0:
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{key}: {shown(value)} is not allowed", field=key, value=shown(value), allowed="a number")


def _truth(said: Mapping[str, object], key: str, *, otherwise: bool) -> bool:
    match said.get(key, otherwise):
        case bool() as value:
            return value
        case "true" | "false" as word:
            return word == "true"
        case value:
            raise InvalidInput(
                f"{key}: {shown(value)} is not allowed", field=key, value=shown(value), allowed="true or false"
            )


def _log(said: Mapping[str, object]) -> Iterator[Became]:
    if not any(key in said for key in _LOG):
        return
    debug, file = _truth(said, "log.debug", otherwise=False), _truth(said, "log.file", otherwise=True)
    console, path = _truth(said, "log.console", otherwise=True), said.get("log.file_path", _LOG_FILE)
    if "log.debug" in said:
        yield Became(key="log.debug", given=shown(debug), settings={"log.level": "debug" if debug else "info"})
    if "log.console" in said:
        lost = not console and not file
        why = "with neither, messages would go nowhere: they go to standard error" if lost else ""
        yield Became(key="log.console", given=shown(console), settings={"log.stderr": console or lost}, why=why)
    named = {"log.file": path} if file else {}
    if "log.file" in said:
        why = "" if "log.file_path" in said else f"it is {_LOG_FILE}, where no log.file_path is said"
        yield Became(key="log.file", given=shown(file), settings=named, why=why if file else "no log.file is said")
    if "log.file_path" in said:
        why = "" if file else "log.file is false: nothing is written there"
        yield Became(key="log.file_path", given=shown(path), settings=named, why=why)


def _module(key: str, value: object) -> str:
    if value == "Teng":
        return "nothing has to be said: the URL of the store says of which kind it is"
    if value == "None" and key.endswith("semaphore"):
        return "without locks each worker of Koyomi runs each job; here a run is run by one node"
    return "a module of Perl has no equal: the URL of the store says of which kind it is"


def _stores(said: Mapping[str, object], base: PurePath) -> Iterator[Became]:
    for entity, setting in _STORES.items():
        place = _CONNECTOR + entity
        dsn, user, password = (_text(said, place + name) for name in ("dsn", "user", "password"))
        if dsn is None:
            for name in ("user", "password"):
                if place + name in said:
                    yield Became(key=place + name, given=MASK, why=f"no {place}dsn is said, to which it belongs")
            continue
        store = store_url(dsn, base, {"user": user, "password": password}, field=f"{place}dsn")
        yield Became(key=f"{place}dsn", given=MASK, settings={setting: store.url}, why=store.why)
        for name, value in (("user", user), ("password", password)):
            if value is not None:
                yield Became(key=place + name, given=MASK, settings={setting: store.url})


def _text(said: Mapping[str, object], key: str) -> str | None:
    value = said.get(key)
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{key}: this is no text", field=key, allowed="a text")
