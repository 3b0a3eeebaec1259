"""Address of a server of PostgreSQL, and its errors made into ours, each with its remedy."""

import ssl
from functools import partial
from urllib.parse import unquote, urlencode, urlunsplit

import asyncpg
from msgspec import Struct

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.stores.rules.errors import TOO_SLOW
from tokimori.stores.urls import ALLOWED as NAMESPACE_ALLOWED
from tokimori.stores.urls import UNNAMED, Addresses, Namespace, invalid, is_allowed, read

_MISSING = frozenset({"42P01", "42883", "42703"})
"""An undefined table, function or column."""
_ADVICE: dict[type[StoreError], dict[str, str]] = {
    StoreTooSlow: {"57014": TOO_SLOW, "55P03": "holds what was asked for locked for over 2 s"},
    StoreUnavailable: {
        "08": "lost the connection",
        "25P03": "ended an idle transaction",
        "25006": "is read-only, perhaps a standby: name the primary server",
        "25P02": "lost the connection",
        "40": "undid a transaction that met others",
        "53": "needs more connections, memory or disk than there is",
        "57": "is being stopped, started or restored",
        "58": "can't read or write its files: check its disk",
    },
    StoreError: {
        "28": "refused the user: check user and password in the URL, and the server's pg_hba.conf",
        "3D": "has no such database: make it with `createdb`, or name another one in the URL",
        "42501": (
            "gives the user too few rights: GRANT it CREATE and USAGE on its schema, or have the owner of Tokimori's "
            "tables and functions carry out what `tokimori db sql` prints"
        ),
    },
    StoreRefused: {"22": "can't keep a value that it was given", "23": "refused a row"},
}
UNDONE = ("40001", "40P01")
"""Errors of a transaction that was undone by a conflict: the whole method is repeated at once."""

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError, ValueError)
"""Errors of the driver. A certificate's error is an `OSError`, a bad file of certificates a `ValueError`. A session
that was cut, and is closed while the driver waits for an answer, is an `InternalClientError`."""


def store_error(fault: BaseException, name: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store `name`."""
    match fault:
        case asyncpg.PostgresError():
            return _server_error(fault, name)
        case ssl.SSLError():
            return StoreError(
                f"store {name} can't prove who it is ({fault.strerror or fault}): check sslrootcert in the URL"
            )
        case ConnectionError() if "SSL" in str(fault):
            return StoreError(
                f"store {name} speaks no TLS, which the URL asks for: set up TLS on the server, or say sslmode=prefer"
            )
        case asyncpg.ClientConfigurationError() | ValueError():
            return StoreError(f"store {name}: the URL's settings can't be used: {fault}")
        case TimeoutError():
            return StoreUnavailable(f"store {name} does not answer: check the server and the network")
        case OSError():
            return StoreUnavailable(
                f"store {name} can't be reached ({fault.strerror or fault}): check that the server runs and that host "
                "and port are right"
            )
        case _:
            return StoreUnavailable(f"store {name} lost the connection ({fault})")


def _server_error(fault: asyncpg.PostgresError, name: str) -> StoreError:
    code = fault.sqlstate or ""
    text = str(fault).splitlines()[0]
    if code in _MISSING and "tokimori_" in text:
        return SchemaMismatch(f"store {name} lacks tables of this version: run `tokimori db migrate` ({text})")
    if code.startswith("28") and any(unsafe in text for unsafe in ("no encryption", "SSL off")):
        return StoreError(f"store {name} wants TLS: say sslmode=require in the URL ({text})")
    for kind, advices in _ADVICE.items():
        for prefix, advice in advices.items():
            if code.startswith(prefix):
                return kind(f"store {name} {advice} ({text})")
    return StoreRefused(f"store {name} can't do what it was asked ({code}: {text})")


_DRIVERS = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "host", "port", "user", "password", "dbname", "passfile"}
)
_OURS = frozenset({"statement_cache_size", "namespace"})
ALLOWED = "postgresql://user:password@host:port/database?sslmode=…&statement_cache_size=0&namespace=…"
_invalid = partial(invalid, "postgresql", ALLOWED)


class PostgresAddress(Struct, frozen=True):
    """A store's server and database.

    `dsn` is for the driver, with the password; `name` is for people. `pooled`: a pooler such as PgBouncer may give each
    transaction another session, so that no state is kept in one (`statement_cache_size=0`).
    """

    dsn: str
    name: str
    pooled: bool
    namespace: Namespace = UNNAMED
    addresses: Addresses | None = None


def address_of(url: str) -> PostgresAddress:
    """Return the address in a URL; missing parts come from PGHOST, PGUSER and so on. Raises `InvalidInput`."""
    parts, port, settings = read(url, "PostgreSQL", _DRIVERS | _OURS, _invalid)
    cache = settings.pop("statement_cache_size", "")
    if cache not in {"", "0"}:
        raise _invalid("statement_cache_size can only be 0, for a pooler such as PgBouncer")
    namespace = settings.pop("namespace", "")
    if namespace and not is_allowed(namespace):
        raise _invalid(f"a namespace is {NAMESPACE_ALLOWED}")
    host = settings.get("host", unquote(parts.hostname or ""))
    database = settings.get("dbname", unquote(parts.path.lstrip("/")))
    user = settings.get("user", unquote(parts.username or ""))
    at = f"{user}@" if user else ""
    place = f"{host}:{settings.get('port', port or 5432)}"
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(settings), ""))
    return PostgresAddress(
        dsn=dsn, name=f"postgresql://{at}{place}/{database}", pooled=cache == "0", namespace=Namespace(namespace)
    )
