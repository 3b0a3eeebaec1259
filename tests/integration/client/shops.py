"""Programs with a table of their own in the store's database, and the connections that such programs have."""

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit

import django
import psycopg
import psycopg2
import pymysql
import sqlalchemy
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper as DjangoPostgres
from django.db.backends.sqlite3.base import DatabaseWrapper as DjangoSqlite
from psycopg.rows import dict_row
from pymysql.cursors import DictCursor
from sqlalchemy.orm import Session

SOLD = "INSERT INTO orders VALUES (1)"


class Shop:
    """A program with a table of its own beside the store's, and its connection."""

    def __init__(self, url: str, connection: Any, execute: Callable[[str], Any], end: Any) -> None:
        self.url = url
        self.connection = connection
        self.execute = execute
        self._end = end

    def commit(self) -> None:
        """The transaction holds."""
        self._end.commit()

    def rollback(self) -> None:
        """The transaction never was."""
        self._end.rollback()

    def close(self) -> None:
        """Go."""
        self._end.close()


def by_sqlite3(url: str) -> Shop:
    """The standard library, with rows of its own kind."""
    connection = sqlite3.connect(path_of(url))
    connection.row_factory = sqlite3.Row
    return Shop(url, connection, connection.execute, connection)


def by_psycopg(url: str) -> Shop:
    """psycopg, with rows that are dicts."""
    connection = psycopg.connect(url, row_factory=dict_row)
    return Shop(url, connection, connection.execute, connection)


def by_psycopg2(url: str) -> Shop:
    """psycopg2."""
    connection = psycopg2.connect(url)
    return Shop(url, connection, lambda text: connection.cursor().execute(text), connection)


def by_pymysql(url: str) -> Shop:
    """PyMySQL, with rows that are dicts."""
    connection = pymysql.connect(**place_of(url), cursorclass=DictCursor, charset="latin1")
    return Shop(url, connection, lambda text: connection.cursor().execute(text), connection)


def place_of(url: str) -> dict[str, Any]:
    """Where a MariaDB database is, in the words of its drivers."""
    parts = urlsplit(url)
    socket = parse_qs(parts.query)["unix_socket"][0]
    return {"user": parts.username, "database": parts.path.lstrip("/"), "unix_socket": socket}


def by_sqlalchemy(url: str, driver: str = "") -> Shop:
    """A connection of SQLAlchemy, whichever driver it has."""
    made = sqlalchemy.create_engine(for_sqlalchemy(url, driver), poolclass=sqlalchemy.NullPool)
    connection = made.connect()
    return Shop(url, connection, lambda text: connection.execute(sqlalchemy.text(text)), connection)


def by_session(url: str) -> Shop:
    """A session of SQLAlchemy's ORM."""
    session = Session(sqlalchemy.create_engine(for_sqlalchemy(url), poolclass=sqlalchemy.NullPool))
    return Shop(url, session, lambda text: session.execute(sqlalchemy.text(text)), session)


def by_django(url: str) -> Shop:
    """Django's, in a transaction."""
    named = {
        "TIME_ZONE": None,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False,
        "AUTOCOMMIT": True,
        "ATOMIC_REQUESTS": False,
    }
    account = {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    connection: Any
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    if url.startswith("sqlite"):
        connection = DjangoSqlite({**named, **account, "NAME": path_of(url)})
    elif url.startswith("mariadb"):
        pymysql.install_as_MySQLdb()
        where = place_of(url)
        given = {"NAME": where["database"], "USER": where["user"], "HOST": where["unix_socket"]}
        made = import_module("django.db.backends.mysql.base").DatabaseWrapper
        connection = made({**named, **account, **given, "TEST": {"CHARSET": None, "COLLATION": None}})
    else:
        parts = psycopg.conninfo.conninfo_to_dict(url)
        given = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts["port"]}
        connection = DjangoPostgres({**named, **account, **given})
    connection.set_autocommit(False)

    def execute(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    return Shop(url, connection, execute, connection)


def path_of(url: str) -> str:
    """The file of an SQLite store."""
    return url.removeprefix("sqlite://")


def for_sqlalchemy(url: str, driver: str = "") -> str:
    """The same database in the words of SQLAlchemy."""
    if url.startswith("sqlite"):
        return url.replace("sqlite:///", "sqlite:////") if not url.startswith("sqlite:////") else url
    if url.startswith("mariadb"):
        return url.replace("mariadb://", f"{driver or 'mysql+pymysql'}://")
    return url.replace("postgresql://", f"postgresql+{driver or 'psycopg'}://")


SHOPS: dict[str, tuple[str, Callable[[str], Shop]]] = {
    "sqlite3": ("sqlite", by_sqlite3),
    "sqlalchemy-sqlite": ("sqlite", by_sqlalchemy),
    "session-sqlite": ("sqlite", by_session),
    "django-sqlite": ("sqlite", by_django),
    "psycopg": ("postgresql", by_psycopg),
    "psycopg2": ("postgresql", by_psycopg2),
    "sqlalchemy-psycopg": ("postgresql", by_sqlalchemy),
    "sqlalchemy-psycopg2": ("postgresql", lambda url: by_sqlalchemy(url, "psycopg2")),
    "session-psycopg": ("postgresql", by_session),
    "django-psycopg": ("postgresql", by_django),
    "pymysql": ("mariadb", by_pymysql),
    "sqlalchemy-pymysql": ("mariadb", by_sqlalchemy),
    "sqlalchemy-mariadb": ("mariadb", lambda url: by_sqlalchemy(url, "mariadb+pymysql")),
    "session-pymysql": ("mariadb", by_session),
    "django-pymysql": ("mariadb", by_django),
}
EACH = tuple(SHOPS)
