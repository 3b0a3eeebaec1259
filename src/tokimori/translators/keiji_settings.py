"""Keiji's `settings.conf`, lines KEY=value, as our settings. Pure."""

from collections.abc import Iterator
from pathlib import PurePath

from tokimori.config.value import MASK
from tokimori.errors import InvalidInput
from tokimori.model.env_file import read_env
from tokimori.translators.became import Became, shown, unknown
from tokimori.translators.store_urls import store_url

KEYS = dict.fromkeys(("DB_URL", "TIME_ZONE", "ROTATE_LOGS", "LOG_MAX_SIZE"))
_LEAST = 1024
"""Bytes of a log file, in our settings."""


def read_keiji(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key. Raises `InvalidInput`, whose field is the key."""
    for key, value in read_env(text.encode(), "settings").items():
        match key:
            case "DB_URL":
                yield _store(value, base)
            case "TIME_ZONE":
                yield Became(key=key, given=shown(value), settings={"time_zone": value})
            case "ROTATE_LOGS":
                yield _rotation(value)
            case "LOG_MAX_SIZE":
                yield _size(value)
            case _:
                yield unknown(key, KEYS, "Keiji")


def _store(value: str, base: PurePath) -> Became:
    if value == "default":
        why = "nothing has to be said: the default is a file of SQLite in the state folder"
        return Became(key="DB_URL", given=value, why=why)
    store = store_url(value, base, {}, field="DB_URL")
    return Became(key="DB_URL", given=MASK, settings={"store": store.url}, why=store.why)


def _rotation(value: str) -> Became:
    if value not in {"0", "1"}:
        raise InvalidInput(
            f"ROTATE_LOGS: {shown(value)} is not allowed", field="ROTATE_LOGS", value=shown(value), allowed="0 or 1"
        )
    why = "" if value == "0" else "it is the file log.file that is rotated; `tokimori system start` makes one"
    return Became(key="ROTATE_LOGS", given=value, settings={"log.rotate": value == "1"}, why=why)


def _size(value: str) -> Became:
    if not (value.isascii() and value.isdecimal() and len(value) <= 18):
        raise InvalidInput(
            f"LOG_MAX_SIZE: {shown(value)} is not allowed",
            field="LOG_MAX_SIZE",
            value=shown(value),
            allowed="a number of bytes",
        )
    why = "" if int(value) >= _LEAST else f"{_LEAST} bytes are the least here"
    return Became(key="LOG_MAX_SIZE", given=value, settings={"log.max_size": max(_LEAST, int(value))}, why=why)
