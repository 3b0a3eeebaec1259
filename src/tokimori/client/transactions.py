"""Runs that are asked for within a transaction of the program's own: they exist exactly if that commits.

The statements are the store's; the program's connection carries them out. Whatever its driver raises goes through as it
is, because the transaction is the program's: it knows which errors it tries again. docs/decisions/0027 says more.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tokimori.errors import InvalidInput, Refused
from tokimori.model.ids import RunId
from tokimori.model.job import Job, most_active
from tokimori.model.request import expiries_of
from tokimori.model.run import Run
from tokimori.ports.store import HasOutside, Outside, Store
from tokimori.stores.rows import BIRTH, DOCUMENT, document_row, names_of, run_values
from tokimori.stores.sqlite.connection import file_at

ALLOWED = "a connection of sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient, SQLAlchemy or Django, in a transaction"
ASKED = ("force", "debounce", "throttle", "replace", "unique")
"""What a request in a transaction can't say: for it the job, or other runs, would be locked until the commit."""
MYSQL = "mysql"
"""How the drivers and dialects of MariaDB and MySQL are called here."""
_IDLE = 0
"""`transaction_status` of psycopg and psycopg2 if no transaction has begun."""

_MARKS = {"qmark": "?"}
_BEGUN = "SELECT /*M!100600 @@in_transaction OR */ NOT @@autocommit"
"""Query if a transaction has begun, or begins with the next statement. MySQL ignores the comment, as it knows no such
variable."""

_run_row = run_values(names_of(BIRTH))


class Carries(Protocol):
    """Executor of statements in the transaction, with `?` for values. It returns all rows."""

    def __call__(self, statement: str, values: Sequence[object], /) -> list[tuple[Any, ...]]:
        """See above."""
        ...


async def outside_of(store: Store) -> Outside:
    """Return the statements of the store. Raises `Refused` if it has none."""
    if isinstance(store, HasOutside):
        return await store.outside()
    raise Refused(
        "connection: this store takes no part in transactions of other programs",
        field="connection",
        allowed="a store in PostgreSQL, MariaDB, MySQL or SQLite, or no connection",
    )


def check_asked(fields: Mapping[str, object]) -> None:
    """Check that the request can be made within a transaction. Raises `InvalidInput`."""
    for name in ASKED:
        if fields.get(name):
            raise InvalidInput(
                f"{name}: it can't be used within a transaction of yours (connection)",
                field=name,
                value=fields[name],
                allowed="a `key`, or the request behind the commit (Django: `transaction.on_commit(…)`)",
            )


def check_job(job: Job) -> None:
    """Check that runs of the job can be made without a lock on it. Raises `Refused`."""
    if most_active(job.definition) is not None:
        raise Refused(
            f"the job {job.id!r} has a max_waiting, and its runs can't be counted within your transaction",
            field="connection",
            allowed="a job without max_waiting, or no connection",
        )


def add_within(connection: object, run: Run, outside: Outside) -> RunId:
    """Store the run in the transaction of the connection; return the id of the new or existing run.

    Raises `InvalidInput` for a value that is no connection. Raises `Refused` for another database, outside a
    transaction, and if the job was stopped or deleted meanwhile.
    """
    carry, has_begun = _carrier(connection, outside.driver)
    if _place(carry, outside) != outside.here:
        raise Refused(
            "connection: it is one to another database than that of the store, or does not find its tables there",
            field="connection",
            allowed="a connection to the store's own database",
        )
    if not has_begun():
        raise Refused(
            "connection: it is in no transaction, so that each statement would commit by itself",
            field="connection",
            allowed="a connection on which a transaction has begun",
        )
    where = (run.incarnation, run.job_id, run.incarnation, run.origin) if outside.checks else ()
    added = carry(outside.add, (*_run_row(run), *where))
    if not added and (known := _existing_run(carry, run, outside)) != run.id:
        return known
    for document in expiries_of(run):
        carry(f"INSERT INTO tokimori_documents ({DOCUMENT}) VALUES (?, ?, ?, ?)", document_row(document))
    if outside.notice is not None:
        carry(*outside.notice)
    return run.id


def _existing_run(carry: Carries, run: Run, outside: Outside) -> RunId:
    for (known,) in carry(outside.known, 2 * (run.incarnation, run.origin)):
        return RunId(known)
    raise Refused(
        f"the job {run.job_id!r} was stopped or deleted meanwhile, or your transaction began before it was added",
        field="id",
        value=run.job_id,
        allowed="a job that is not stopped",
    )


def _place(carry: Carries, outside: Outside) -> tuple[object, ...]:
    """Return the database of the connection."""
    rows = carry(outside.where, ())
    if outside.driver == "sqlite":
        return tuple(file_at(str(path)) for _, name, path, *_ in rows if name == "main")
    return rows[0]


# Connections


def check_connection(connection: object) -> None:
    """Check that this is a connection of a kind that is known here, before anything is asked. Raises `InvalidInput`."""
    _package_of(connection)


def _package_of(connection: object) -> str:
    """Return the package of a connection. Asynchronous ones of psycopg are of no known kind."""
    kind = type(connection)
    package = kind.__module__.partition(".")[0]
    shape = {
        "sqlalchemy": ("exec_driver_sql", "get_bind", "run_sync"),
        "django": ("vendor",),
        "psycopg": ("info",),
        "psycopg2": ("info",),
        "pymysql": ("get_autocommit",),
        "MySQLdb": ("get_autocommit",),  # mysqlclient
        "mysql": ("in_transaction",),  # Connector/Python
    }
    if isinstance(connection, sqlite3.Connection):
        return "sqlite3"
    is_known = any(hasattr(connection, name) for name in shape.get(package, ()))
    if is_known and (package == "sqlalchemy" or not hasattr(connection, "__aenter__")):
        return package
    message = f"connection: a {kind.__module__}.{kind.__qualname__} is not a connection that is known here"
    raise InvalidInput(message, field="connection", value=connection, allowed=ALLOWED)


def _carrier(connection: object, driver: str) -> tuple[Carries, Callable[[], bool]]:
    """Return the executor of statements for this connection, and a test of whether a transaction has begun.

    Raises `InvalidInput` and `Refused`.
    """
    carry, has_begun = _driven(connection, driver)
    if driver != MYSQL:
        return carry, has_begun

    def in_literals(statement: str, values: Sequence[object], /) -> list[tuple[Any, ...]]:
        return carry(_marked(statement, [_literal(value) for value in values]), ())

    return in_literals, lambda: bool(in_literals(_BEGUN, ())[0][0])


def _driven(connection: object, driver: str) -> tuple[Carries, Callable[[], bool]]:
    """Return the executor by the driver's module and its style of parameters."""
    given: Any = connection
    match _package_of(connection):
        case "sqlalchemy":
            given = given if hasattr(given, "exec_driver_sql") else given.connection()
            _check_driver(driver, given.dialect.name)
            return _by_sqlalchemy(given), lambda: _has_begun(given.connection.dbapi_connection)
        case "django":
            _check_driver(driver, given.vendor)
            return _by_cursor(given, "%s"), lambda: not given.get_autocommit()
        case "sqlite3":
            _check_driver(driver, "sqlite")
            return _by_cursor(given, "?"), lambda: _has_begun(given)
        case "pymysql" | "MySQLdb" | "mysql":
            _check_driver(driver, MYSQL)
            return _by_cursor(given, "%s"), lambda: _has_begun(given)
        case _:
            _check_driver(driver, "postgresql")
            return _by_cursor(given, "%s"), lambda: _has_begun(given)


def _has_begun(driven: Any) -> bool:
    """Return whether the next change belongs to a transaction: one that has begun, or that the driver begins for it."""
    if isinstance(driven, sqlite3.Connection):
        commits = driven.isolation_level is None or getattr(driven, "autocommit", None) is True
        return driven.in_transaction or not commits
    status = getattr(getattr(driven, "info", None), "transaction_status", _IDLE)
    return bool(status != _IDLE or not getattr(driven, "autocommit", False))


def _check_driver(driver: str, found: str) -> None:
    if driver != found.replace("mariadb", MYSQL):  # SQLAlchemy has a word for each of the two servers
        raise Refused(
            f"connection: it is one to {found}, and the store is in another database",
            field="connection",
            value=found,
            allowed=f"a connection to {driver}",
        )


def _by_cursor(connection: Any, mark: str) -> Carries:
    def carry(statement: str, values: Sequence[object], /) -> list[tuple[Any, ...]]:
        cursor = connection.cursor()
        try:
            cursor.execute(_marked(statement, [mark] * len(values)), tuple(values))
            return [_plain(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            cursor.close()

    return carry


def _by_sqlalchemy(connection: Any) -> Carries:
    """Return a carrier through SQLAlchemy: a statement behind its back begins no transaction that it commits."""
    style = connection.dialect.paramstyle

    def carry(statement: str, values: Sequence[object], /) -> list[tuple[Any, ...]]:
        numbered = [f"${n}" for n, _ in enumerate(values, 1)]
        marks = numbered if style == "numeric_dollar" else [_MARKS.get(style, "%s")] * len(values)
        text = _marked(statement, marks)
        found = connection.exec_driver_sql(text, tuple(values))
        return [tuple(row) for row in found] if found.returns_rows else []

    return carry


def _marked(statement: str, marks: Sequence[str]) -> str:
    """Return the statement with the driver's parameter marks. Other percent signs are doubled if the marks have one."""
    parts = statement.split("?")
    if marks and marks[0] == "%s":
        parts = [part.replace("%", "%%") for part in parts]
    return "".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True))


def _literal(value: object) -> str:
    """Return the value as a literal that means the same in each session of MariaDB or MySQL, with any character set."""
    match value:
        case None:
            return "NULL"
        case int():
            return str(int(value))
        case _:
            return f"_utf8mb4 x'{str(value).encode().hex()}'"


def _plain(row: Any) -> tuple[Any, ...]:
    """Return the row as a tuple, whatever the row type of the program's connection."""
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)
