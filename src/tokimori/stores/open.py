"""From a store's URL to the store."""

from urllib.parse import unquote, urlsplit

from tokimori.clock import Clock
from tokimori.errors import InvalidInput
from tokimori.ports.store import Store
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.sqlite.store import SqliteStore

ALLOWED = "sqlite:///absolute/path or memory:"
_PLANNED = frozenset({"postgresql", "postgres", "mysql", "mariadb", "redis", "rediss", "valkey"})


def open_store(url: str, clock: Clock) -> Store:
    """The store that a URL names, not yet connected. Raises `InvalidInput`."""
    scheme, colon, rest = url.partition(":")
    match scheme.lower():
        case "sqlite" if colon:
            return SqliteStore(file_of(url), clock)
        case "memory" if not rest:
            return MemoryStore(clock)
        case known if known in _PLANNED:
            raise _invalid(url, f"stores of kind {known} are not in this version yet")
        case _:
            raise _invalid(url, "not the URL of a store")


def file_of(url: str) -> str:
    """The path in the URL of an SQLite file. Raises `InvalidInput`."""
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
        raise _invalid(url, "an SQLite file is named by its absolute path, after three slashes")
    if parts.query or parts.fragment:
        raise _invalid(url, "no settings can follow the path of an SQLite file")
    return unquote(parts.path)


def _invalid(url: str, fault: str) -> InvalidInput:
    """The URL may hold a password: only its scheme is repeated."""
    scheme = url.partition(":")[0]
    return InvalidInput(f"store: {scheme}: {fault}; allowed: {ALLOWED}", field="store", value=scheme, allowed=ALLOWED)
