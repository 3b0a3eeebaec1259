"""URL of a PostgreSQL store: the server's address, and the settings of connections."""

from functools import partial
from urllib.parse import unquote, urlencode, urlunsplit

from msgspec import Struct

from tokimori.stores.urls import ALLOWED as NAMESPACE_ALLOWED
from tokimori.stores.urls import UNNAMED, Addresses, Namespace, invalid, is_allowed, read

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
