"""URL of a Redis store: the server's place, and how to talk to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from tokimori.stores.urls import Addresses, invalid, read

SCHEMES = frozenset({"redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix"})
ALLOWED = "redis://user:password@host:port/number?namespace=…, rediss:// with TLS, or redis+unix:///path/of/socket?db=0"
DEFAULT_PORT = 6379
_invalid = partial(invalid, "redis", ALLOWED)
_TLS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A store's server, database number and keys.

    `name` is for people; `prefix` begins every key: its braces keep all of them in one slot of a cluster. Either
    `path`, of a Unix socket, or `host` and `port`. `tls` holds the driver's settings; None: no TLS.
    """

    name: str
    prefix: str
    host: str = ""
    port: int = DEFAULT_PORT
    path: str | None = None
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Mapping[str, Any] | None = None
    addresses: Addresses | None = None


def address_of(url: str) -> RedisAddress:
    """Return the address that a URL names. Raises `InvalidInput`."""
    scheme = url.partition(":")[0].lower()
    on_socket, with_tls = scheme.endswith("+unix"), scheme in {"rediss", "valkeys"}
    known = {"namespace"} | (_TLS if with_tls else set()) | ({"db"} if on_socket else set())
    parts, port, settings = read(url, "Redis", known, _invalid)
    port = port or DEFAULT_PORT
    path, host = unquote(parts.path), parts.hostname or "127.0.0.1"
    if on_socket and (not path.startswith("/") or parts.hostname):
        raise _invalid("a socket is named by its absolute path, after three slashes")
    number = _number(settings.get("db", "0") if on_socket else path.lstrip("/") or "0")
    user, password = unquote(parts.username or "") or None, unquote(parts.password or "") or None
    place = f"{path}?db={number}" if on_socket else f"{host}:{port}/{number}"
    return RedisAddress(
        name=f"{parts.scheme}://{user}@{place}" if user and password else f"{parts.scheme}://{place}",
        prefix=_prefix(settings.get("namespace", "")),
        host=host,
        port=port,
        path=path if on_socket else None,
        db=number,
        user=user,
        password=password,
        tls={name: settings[name] for name in _TLS & settings.keys()} if with_tls else None,
    )


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise _invalid("the database is a number, such as 0")
    return int(text)


def _prefix(namespace: str) -> str:
    if not namespace:
        return "{tokimori}:"
    if _NAMESPACE.match(namespace) is None:
        raise _invalid("a namespace is 1 to 64 of A-Z a-z 0-9 . _ -")
    return f"{{tokimori.{namespace}}}:"
