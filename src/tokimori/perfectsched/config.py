"""The configuration of a collection: PerfectSched's keys, of which one section of `config/perfectsched.yml` is made."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote

import msgspec

from tokimori.errors import InvalidConfig, InvalidInput
from tokimori.schedules.zones import check_zone

TYPE = "rdb_compat"
TABLE = "schedules"
"""Table that is used if only a URL is given."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration with PerfectSched's keys. `table` is the queue of the collection's jobs. Times are seconds.

    `timezone` is for schedules without one. A task without a heartbeat for `alive_time` can be acquired again, a
    retried one after `retry_wait`. `tasks()` polls every `poll_interval`. `log` is a file of acquired and finished
    tasks. `max_acquire` bounds `poll_multi`.
    """

    type: str
    url: str
    table: str
    timezone: str = "UTC"
    alive_time: Annotated[float, msgspec.Meta(gt=0)] = 300
    retry_wait: Annotated[float, msgspec.Meta(ge=0)] = 300
    sslca: str | None = None
    poll_interval: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    log: str | None = None
    max_acquire: int = 1

    @property
    def store(self) -> str:
        """Return the URL of the store, or the address of a node."""
        if self.sslca is None:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}ssl_ca={quote(self.sslca, safe='')}"


def config_of(given: str | Mapping[str, object]) -> Config:
    """Return the configuration; a text is the URL alone. Raises `InvalidConfig`."""
    if isinstance(given, str):
        return Config(type=TYPE, url=given, table=TABLE)
    if not isinstance(given, Mapping):
        raise InvalidConfig([f"{given!r} is no section of a configuration; allowed: a URL, or its keys and values"])
    missing = [f"'{name}' option is not set" for name in ("type", "url", "table") if given.get(name) is None]
    if missing:
        raise InvalidConfig(missing)
    if given["type"] != TYPE:
        raise InvalidConfig([f"type: {given['type']!r} is not a type that is known; allowed: {TYPE}"])
    try:
        found = msgspec.convert({name: value for name, value in given.items() if value is not None}, Config)
        check_zone(found.timezone, field="timezone")
    except msgspec.ValidationError as fault:
        raise InvalidConfig([f"{fault}; allowed: {', '.join(Config.__struct_fields__)}"]) from None
    except InvalidInput as fault:
        raise InvalidConfig([f"{fault.message}; allowed: {fault.allowed}"]) from None
    return found
