"""URLs of databases in the forms of DBI (Perl) and Sequel (Ruby), as the URL of one of our stores. Pure.

Errors name the faulty part, and repeat no value, as it may be a password.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tokimori.errors import InvalidInput

ALLOWED = (
    "dbi:mysql:database=…;host=…, dbi:Pg:dbname=…;host=…, dbi:SQLite:/path; mysql2://user:password@host/database, "
    "postgres://user:password@host/database or sqlite:///path"
)
_DBI = re.compile(r"dbi:([A-Za-z0-9_]+)(?:\([^()]*\))?:(.*)\Z", re.IGNORECASE | re.DOTALL)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)\Z", re.DOTALL)
_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^;\s]*)\s*(?:;|\s|\Z)", re.ASCII)
_MEMORY = frozenset({"", "/", ":memory:"})
_MYSQL, _POSTGRES, _SQLITE = "mariadb", "postgresql", "sqlite"
_DRIVERS = {"mysql": _MYSQL, "mariadb": _MYSQL, "pg": _POSTGRES, "sqlite": _SQLITE}
_SCHEMES = {
    **dict.fromkeys(("mysql", "mysql2", "trilogy", "mariadb"), _MYSQL),
    **dict.fromkeys(("postgres", "postgresql"), _POSTGRES),
    "sqlite": _SQLITE,
}
_PARTS = {
    **dict.fromkeys(("database", "dbname", "db"), "database"),
    **dict.fromkeys(("host", "hostname", "hostaddr"), "host"),
    "port": "port",
    **dict.fromkeys(("user", "username"), "user"),
    "password": "password",
}
_SETTINGS = {
    _MYSQL: {
        **dict.fromkeys(("mysql_socket", "mariadb_socket", "socket", "unix_socket"), "unix_socket"),
        **dict.fromkeys(("mysql_ssl_ca_file", "mariadb_ssl_ca_file", "sslca", "ssl_ca"), "ssl_ca"),
        **dict.fromkeys(("mysql_ssl_client_cert", "mariadb_ssl_client_cert", "sslcert", "ssl_cert"), "ssl_cert"),
        **dict.fromkeys(("mysql_ssl_client_key", "mariadb_ssl_client_key", "sslkey", "ssl_key"), "ssl_key"),
        **dict.fromkeys(("ssl_mode", "sslmode"), "ssl_mode"),
        "namespace": "namespace",
    },
    _POSTGRES: {
        name: name
        for name in (
            *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"),
            *("namespace", "statement_cache_size"),
        )
    },
}
_MYSQL_TLS = {**dict.fromkeys(("mysql_ssl", "mariadb_ssl"), "required")}
_MYSQL_TLS |= dict.fromkeys(("mysql_ssl_verify_server_cert", "mariadb_ssl_verify_server_cert"), "verify_identity")
_MODES = ("disabled", "required", "verify_ca", "verify_identity")
_WEIGHTY = re.compile(r"ssl|tls|service|default|auth|pass", re.IGNORECASE)
"""Settings that can't be left out: trust in the server, and its address."""
_OFF = frozenset({"", "0", "false", "no", "off"})


class StoreUrl(NamedTuple):
    """URL of our store, and the names of settings that were left out, as it has no equal."""

    url: str
    left_out: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Return a sentence about settings that were left out, if any."""
        return f"left out, because a node needs none of it: {', '.join(self.left_out)}" if self.left_out else ""


def store_url(text: str, base: PurePath, more: Mapping[str, str | None], *, field: str = "store") -> StoreUrl:
    """Return the store at that place.

    `more` are settings beside the URL, as DBI has user and password; a relative path begins at `base`. Raises
    `InvalidInput`, which names the field.
    """
    try:
        return _read(text.strip(), base, {name: value for name, value in more.items() if value})
    except ValueError as fault:
        raise InvalidInput(f"{field}: {fault}", field=field, allowed=ALLOWED) from None


def _read(text: str, base: PurePath, more: Mapping[str, str]) -> StoreUrl:
    if (dbi := _DBI.match(text)) is not None:
        kind = _look_up(dbi[1], _DRIVERS, "driver of DBI")
        parts = dict(_pairs(dbi[2], kind))
    elif (url := _URL.match(text)) is not None:
        kind = _look_up(url[1], _SCHEMES, "scheme")
        parts = {"database": unquote(_path_of(url[2]))} if kind == _SQLITE else _parts_of(text)
    else:
        raise ValueError("it is neither a DSN of DBI nor a URL")
    return _file(parts, base) if kind == _SQLITE else _server(kind, parts | dict(more))


def _look_up(word: str, names: Mapping[str, str], what: str) -> str:
    found = names.get(word.lower())
    if found is None:
        raise ValueError(f"there is no store for the {what} {word!r}")
    return found


def _pairs(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a DSN; MySQL's and SQLite's may begin with values alone."""
    if kind == _POSTGRES:
        at = 0
        while (pair := _PAIR.match(text, at)) is not None and pair.end() > at:
            yield _PARTS.get(pair[1].lower(), pair[1]), re.sub(r"\\(.)", r"\1", pair[2].strip("'"))
            at = pair.end()
        if text[at:].strip("; \t\n"):
            raise ValueError("the part after the driver is not a list of name=value")
        return
    alone = ["database", "host", "port"] if kind == _MYSQL else ["database"]
    for part in re.split(r"[;:](?![^\[]*\])" if kind == _MYSQL else ";", text):
        name, equals, value = part.partition("=")
        if equals:
            yield _PARTS.get(name.strip().lower(), name.strip()), value.strip().strip("[]")
        elif part and alone:
            yield alone.pop(0), part.strip().strip("[]")
        elif part:
            raise ValueError("the part after the driver is not a list of name=value")


def _parts_of(url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
        more = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError("it can't be read as a URL") from None
    found = {
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "host": unquote(parts.hostname or ""),
        "port": "" if port is None else str(port),
        "database": unquote(parts.path.removeprefix("/")),
    }
    return found | {_PARTS.get(name.lower(), name): value for name, value in more}


def _path_of(rest: str) -> str:
    """Return the path in a URL of SQLite, as Sequel reads it: `sqlite://a.db` is relative."""
    return rest.removeprefix("//").partition("?")[0]


def _file(said: Mapping[str, str], base: PurePath) -> StoreUrl:
    path = said.get("database", "" if not said else None)
    if path is None or "\0" in path:
        raise ValueError("it names no file")
    left_out = tuple(_left_out(name) for name in said if name not in _PARTS.values())
    return StoreUrl("memory:" if path in _MEMORY else f"sqlite://{quote(str(base / path))}", left_out)


def _server(kind: str, said: Mapping[str, str]) -> StoreUrl:
    """Return the URL of a server from its settings."""
    settings, modes, left_out = dict[str, str](), set[str](), list[str]()
    for name, value in said.items():
        if (ours := _SETTINGS[kind].get(name.lower())) is not None:
            if value:
                settings[ours] = value.lstrip(":").lower() if ours == "ssl_mode" else value
        elif kind == _MYSQL and name.lower() in _MYSQL_TLS:
            modes |= {_MYSQL_TLS[name.lower()]} if value.lower() not in _OFF else set()
        elif name not in _PARTS.values():
            left_out.append(_left_out(name))
    if modes and "ssl_ca" not in settings:  # with an authority the server has to prove its identity
        settings.setdefault("ssl_mode", max(modes))
    if settings.get("ssl_mode", _MODES[0]) not in _MODES:
        raise ValueError(f"ssl_mode can be {', '.join(_MODES)}")
    return StoreUrl(_url(kind, said, settings), tuple(left_out))


def _left_out(name: str) -> str:
    if _WEIGHTY.search(name):
        raise ValueError(f"{name!r} has no equal, and without it another server might be believed")
    return name


def _url(kind: str, said: Mapping[str, str], settings: dict[str, str]) -> str:
    host, port, database = said.get("host", ""), said.get("port", ""), said.get("database", "")
    if port and not (port.isdecimal() and port.isascii() and 0 < int(port[:6]) < 65_536):
        raise ValueError("a port is a number, 1 to 65535")
    if not database:
        raise ValueError("it names no database")
    if host.startswith("/") and kind == _POSTGRES:  # the folder of a socket
        settings, host = {"host": host, **({"port": port} if port else {}), **settings}, ""
    if kind == _MYSQL and "unix_socket" in settings:
        host = ""
    elif not host and kind == _MYSQL:
        host = "localhost"
    if re.search(r"[\s/?#@\[\]\\]|[^\x21-\x7e]", host):
        raise ValueError("its host is no name of a host")
    user, password = quote(said.get("user", ""), safe=""), said.get("password", "")
    if kind == _POSTGRES and not host:
        settings |= {name: said[name] for name in ("user", "password") if said.get(name)}
        user = password = ""
    account = f"{user}:{quote(password, safe='')}@" if password else f"{user}@" if user else ""
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port and host else "")
    query = f"?{urlencode(settings)}" if settings else ""
    return f"{kind}://{account}{place}/{quote(database, safe='')}{query}"
