"""How Perl's DBI and Ruby's Sequel name a database, as the URLs by which we do. Pure."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from tokimori.errors import InvalidInput

_ALLOWED = "dbi:mysql:database=NAME;host=HOST;port=PORT, dbi:Pg:dbname=NAME;host=HOST or dbi:SQLite:dbname=FILE"
_DATABASE = ("database", "dbname", "db")
_SOCKETS = ("mysql_socket", "unix_socket")


def url_of_dsn(dsn: str, *, user: str | None, password: str | None) -> str:
    """The URL, or the path of a file, of a DSN such as `dbi:mysql:database=koyomi;host=127.0.0.1`.

    Raises `InvalidInput`, which repeats no password.
    """
    word, _, rest = dsn.partition(":")
    driver, colon, terms = rest.partition(":")
    if word.lower() != "dbi" or not colon:
        raise _refused("it is no DSN of DBI")
    said = dict(term.strip().partition("=")[::2] for term in terms.split(";") if "=" in term)
    database = next((said[name] for name in _DATABASE if name in said), "" if said else terms)
    if not database:
        raise _refused("it names no database")
    match driver.lower():
        case "sqlite":
            return database
        case "mysql" | "mariadb":
            return _mysql(database, said, user, password)
        case "pg":
            return f"postgresql://{_account(user, password)}{_place(said)}/{quote(database, safe='')}"
        case _:
            raise _refused(f"{driver!r} is no driver that is known")


def _mysql(database: str, said: Mapping[str, str], user: str | None, password: str | None) -> str:
    name, account = quote(database, safe=""), _account(user, password)
    if socket := next((said[each] for each in _SOCKETS if each in said), ""):
        return f"mysql://{account}/{name}?{urlencode({'unix_socket': socket})}"
    return f"mysql://{account}{_place(said)}/{name}"


def _account(user: str | None, password: str | None) -> str:
    if not user:
        return ""
    return quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + "@"


def _place(said: Mapping[str, str]) -> str:
    host, port = said.get("host") or "localhost", said.get("port")
    return f"{host}:{port}" if port else host


def _refused(fault: str) -> InvalidInput:
    return InvalidInput(f"datasource.connector.dsn: {fault}", field="datasource.connector.dsn", allowed=_ALLOWED)
