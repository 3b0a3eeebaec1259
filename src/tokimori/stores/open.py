"""Opening of a store by its URL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import structs

from tokimori.clock import Clock
from tokimori.errors import InvalidInput, StoreError
from tokimori.ports.store import Store
from tokimori.stores.mysql import address as mysql_address
from tokimori.stores.postgres.address import address_of
from tokimori.stores.redis import address as redis_address
from tokimori.stores.redis.address import SCHEMES
from tokimori.stores.urls import ALLOWED as NAMESPACE_ALLOWED
from tokimori.stores.urls import Again, Namespace, Rotation, is_allowed

ALLOWED = (
    "sqlite:///absolute/path, postgresql://user:password@host:port/database, "
    "mariadb://user:password@host:port/database, redis://user:password@host:port/number or memory:"
)


def open_store(url: str, clock: Clock, again: Again | None = None) -> Store:
    """Return the store that a URL names, not yet connected. Raises `InvalidInput`.

    `again` reads the URL anew: a new user or password of a server holds for new connections.
    """
    scheme, colon, rest = url.partition(":")
    match scheme.lower():
        case "sqlite" if colon:
            from tokimori.stores.sqlite.store import SqliteStore  # noqa: PLC0415  a command needs one store of five

            return SqliteStore(file_of(url), clock, namespace_of(url))
        case "postgresql" | "postgres" if colon:
            return _postgres(url, clock, again)
        case "mysql" | "mariadb" if colon:
            return _mysql(url, clock, again)
        case "memory" if not rest:
            from tokimori.stores.memory.store import MemoryStore  # noqa: PLC0415

            return MemoryStore(clock)
        case known if known in SCHEMES and colon:
            return _redis(url, clock, again)
        case _ if not colon and ("/" in url or Path(url).suffix in (".db", ".sqlite", ".sqlite3")):
            what = (
                f"store: {url!r} is a file, and not the URL of a store; did you mean sqlite://{Path(url).absolute()}?"
            )
            raise InvalidInput(what, field="store", value=url, allowed=ALLOWED)
        case _:
            raise _invalid(url, "not the URL of a store")


def _postgres(url: str, clock: Clock, again: Again | None) -> Store:
    address = address_of(url)
    with _driver("PostgreSQL", "postgres"):
        from tokimori.stores.postgres.store import PostgresStore  # noqa: PLC0415
    rotated = None if again is None else Rotation(url, address_of, again, clock)
    return PostgresStore(structs.replace(address, addresses=rotated), clock)


def _mysql(url: str, clock: Clock, again: Again | None) -> Store:
    address = mysql_address.address_of(url)
    with _driver("MySQL", "mysql"):
        from tokimori.stores.mysql.store import MysqlStore  # noqa: PLC0415
    rotated = None if again is None else Rotation(url, mysql_address.address_of, again, clock)
    return MysqlStore(replace(address, addresses=rotated), clock)


def _redis(url: str, clock: Clock, again: Again | None) -> Store:
    address = redis_address.address_of(url)
    with _driver("Redis", "redis"):
        from tokimori.stores.redis.store import RedisStore  # noqa: PLC0415
    rotated = None if again is None else Rotation(url, redis_address.address_of, again, clock)
    return RedisStore(replace(address, addresses=rotated), clock)


@contextmanager
def _driver(kind: str, extra: str) -> Iterator[None]:
    """Raise `StoreError` with the extra to install if the driver within is missing."""
    try:
        yield
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        message = f"store: {kind} needs the package {package}: pip install 'tokimori[{extra}]'"
        raise StoreError(message, field="store", value=extra) from None


def file_of(url: str) -> str:
    """Return the path in the URL of an SQLite file. Raises `InvalidInput`."""
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
        raise _invalid(url, "an SQLite file is named by its absolute path, after three slashes")
    if parts.fragment or parts.query.partition("=")[0] not in {"", "namespace"}:
        raise _invalid(url, "no setting but namespace can follow the path of an SQLite file")
    path = f"/{unquote(parts.path).lstrip('/')}"
    if any("\ud800" <= each <= "\udfff" for each in path):
        raise _invalid(url, "a path is in UTF-8")
    if "\0" in path or len(path) > 4_000 or max(map(len, path.encode().split(b"/"))) > 240:
        raise _invalid(url, "a path holds no NUL, and each name in it has at most 240 bytes")
    return os.path.realpath(path) if ".." in path.split("/") else path  # as SQLite does, even if a folder is missing


def namespace_of(url: str) -> Namespace:
    """Return the namespace in the URL of an SQLite file. Raises `InvalidInput`."""
    _, named, name = urlsplit(url).query.partition("=")
    if named and not is_allowed(name):
        raise _invalid(url, f"a namespace is {NAMESPACE_ALLOWED}")
    return Namespace(name)


def _invalid(url: str, fault: str) -> InvalidInput:
    """Return the error for a URL. Only its scheme is repeated, as the rest may hold a password."""
    scheme = url.partition(":")[0] if "://" in url or url.lower().startswith(("memory:", "sqlite:")) else "***"
    return InvalidInput(f"store: {scheme}: {fault}; allowed: {ALLOWED}", field="store", value=scheme, allowed=ALLOWED)
