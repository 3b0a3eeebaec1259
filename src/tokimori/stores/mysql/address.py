"""URL of a MariaDB or MySQL store: the server's address, and the settings of connections."""

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from urllib.parse import unquote

from tokimori.errors import StoreError
from tokimori.stores.urls import ALLOWED as NAMESPACE_ALLOWED
from tokimori.stores.urls import UNNAMED, Addresses, Namespace, invalid, is_allowed, read

ALLOWED = "mariadb://user:password@host:port/database?ssl_mode=…&ssl_ca=…&namespace=…, or with unix_socket=/path"
_SETTINGS = frozenset({"unix_socket", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "namespace"})
_PORT = 3306
_invalid = partial(invalid, "mariadb", ALLOWED)


class SslMode(StrEnum):
    """TLS modes, in the words of MySQL's own clients, without the one that falls back to plain text."""

    DISABLED = "disabled"
    REQUIRED = "required"
    """Encrypted; the server's identity is not verified."""
    VERIFY_CA = "verify_ca"
    """The server's certificate must be signed by `ssl_ca`, or by an authority that the system trusts."""
    VERIFY_IDENTITY = "verify_identity"
    """And it must name the host."""


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """A store's server and database. `name` is for people: all but the password."""

    name: str
    host: str
    port: int
    unix_socket: str | None
    user: str
    password: str = field(repr=False)
    database: str
    ssl_mode: SslMode
    ssl_files: dict[str, str]
    namespace: Namespace = UNNAMED
    addresses: Addresses | None = None

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for none. Raises `StoreError` for files that can't be read."""
        if self.ssl_mode is SslMode.DISABLED:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_files.get("ssl_ca"))
            if "ssl_cert" in self.ssl_files:
                context.load_cert_chain(self.ssl_files["ssl_cert"], self.ssl_files.get("ssl_key"))
        except OSError as fault:
            raise StoreError(
                f"store {self.name}: can't read the files of ssl_ca, ssl_cert and ssl_key ({fault.strerror or fault}): "
                "they hold certificates and a key as PEM"
            ) from None
        context.check_hostname = self.ssl_mode is SslMode.VERIFY_IDENTITY
        if self.ssl_mode is SslMode.REQUIRED:
            context.verify_mode = ssl.CERT_NONE
        return context


def address_of(url: str) -> MysqlAddress:
    """Return the address that a URL names. Raises `InvalidInput`."""
    parts, port, settings = read(url, "MariaDB or MySQL", _SETTINGS, _invalid)
    database = unquote(parts.path.lstrip("/"))
    if not database:
        raise _invalid("it names no database")
    namespace = settings.get("namespace", "")
    if namespace and not is_allowed(namespace):
        raise _invalid(f"a namespace is {NAMESPACE_ALLOWED}")
    host, socket = unquote(parts.hostname or ""), settings.get("unix_socket")
    if bool(host) == bool(socket):
        raise _invalid("it names either a host or a unix_socket")
    user = unquote(parts.username or "")
    return MysqlAddress(
        name=f"{parts.scheme}://{f'{user}@' if user else ''}{socket or f'{host}:{port or _PORT}'}/{database}",
        host=host,
        port=port or _PORT,
        unix_socket=socket,
        user=user,
        password=unquote(parts.password or ""),
        database=database,
        ssl_mode=_ssl_mode(settings),
        ssl_files={name: settings[name] for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in settings},
        namespace=Namespace(namespace),
    )


def _ssl_mode(settings: dict[str, str]) -> SslMode:
    """Return the TLS mode. The default is to verify the server's identity if `ssl_ca` is given, else no TLS."""
    usual = SslMode.VERIFY_IDENTITY if "ssl_ca" in settings else SslMode.DISABLED
    try:
        return SslMode(settings.get("ssl_mode", usual).lower())
    except ValueError:
        raise _invalid(f"ssl_mode can be {', '.join(SslMode)}") from None
