"""Databases that refuse a statement for a row, by a trigger, or tell which tables were written."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.contract.stores.conftest import STORES, forget
from tests.servers import mariadb, postgres
from tokimori.ports.store import Store

DATABASES = ("sqlite", "postgres", "mariadb")
"""Redis has no triggers: it takes any bytes, and refuses no value."""
WORDS = "no such row for us"
_TABLES = "jobs runs history attempts outputs skips arrivals semaphores permits nodes edges family counts"
_WATCHED = [(verb, table) for table in _TABLES.split() for verb in ("INSERT", "UPDATE", "DELETE")]
_REFUSE = tuple(f"refuse{n}" for n in range(4))

Write = tuple[str, str]
"""What was done to which table."""

_TRIGGERS = {
    "sqlite": """
        CREATE TRIGGER {name} BEFORE {verb} ON tokimori_{table} WHEN {when} BEGIN SELECT RAISE(ABORT, '{words}'); END
        """,
    "postgres": """
        CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{words}'; END $$;
        CREATE TRIGGER {name} BEFORE {verb} ON tokimori_{table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {name}()
        """,
    "mariadb": """
DELIMITER //
        CREATE TRIGGER {name} BEFORE {verb} ON tokimori_{table} FOR EACH ROW
        IF {when} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{words}'; END IF //
        """,
}


_HEAR = {
    "sqlite": "CREATE TRIGGER h_{verb}_{table} AFTER {verb} ON tokimori_{table} BEGIN "
    "INSERT INTO heard VALUES ('{verb}', '{table}'); END;",
    "postgres": "CREATE TRIGGER h_{verb} AFTER {verb} ON tokimori_{table} FOR EACH ROW EXECUTE FUNCTION hear();",
    "mariadb": "CREATE TRIGGER h_{verb}_{table} AFTER {verb} ON tokimori_{table} FOR EACH ROW "
    "INSERT INTO heard VALUES ('{verb}', '{table}');",
}
_HEARD = "CREATE TABLE heard (verb text, tab text);"
_FUNCTION = """
CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO heard VALUES (TG_OP, replace(TG_TABLE_NAME, 'tokimori_', '')); RETURN NULL; END $$;
"""


@dataclass(frozen=True, slots=True)
class Database:
    """A store, and the way past it to its database."""

    kind: str
    folder: Path
    store: Store

    def sql(self, text: str) -> Sequence[Sequence[str]]:
        """Carry out statements of an administrator; what the last one answers."""
        match self.kind:
            case "sqlite":
                with sqlite3.connect(self.folder / "tokimori.db") as db:
                    answer = db.execute(text).fetchall() if text.startswith("SELECT") else db.executescript(text)
                db.close()
                return answer if isinstance(answer, list) else []
            case "postgres":
                told = postgres.server().sql(text, _database(postgres.loans.url_of(self.folder)))
                return [line.split("|") for line in told.splitlines()]
            case _:
                told = mariadb.server().sql(text, _database(mariadb.loans.url_of(self.folder)))
                return [line.split("\t") for line in told.splitlines()]

    def refuse(self, verb: str, table: str, when: str, name: str = "refuse0") -> None:
        """Let it refuse these statements for rows like this, by a trigger of this name."""
        self.sql(_TRIGGERS[self.kind].format(verb=verb, table=table, when=when, words=WORDS, name=name))

    def accept(self) -> None:
        """Let it take everything again, and note nothing."""
        if self.kind == "postgres":
            self.sql(f"DROP FUNCTION IF EXISTS {', '.join(_REFUSE)}, hear CASCADE; DROP TABLE IF EXISTS heard")
            return
        names = (*_REFUSE, *(f"h_{verb}_{table}" for verb, table in _WATCHED))
        drops = (f"DROP TRIGGER IF EXISTS {name};" for name in names)
        self.sql("\n".join([*drops, "DROP TABLE IF EXISTS heard;"]))

    def hear(self) -> None:
        """Let it note what is written from now on."""
        every = [_HEAR[self.kind].format(verb=verb, table=table) for verb, table in _WATCHED]
        self.sql("\n".join([_HEARD, _FUNCTION if self.kind == "postgres" else "", *every]))

    def heard(self) -> set[Write]:
        """What was written since it was last asked."""
        told = {(verb, table) for verb, table in self.sql("SELECT DISTINCT verb, tab FROM heard")}
        self.sql("DELETE FROM heard")
        return told - {("verb", "tab")}


def _database(url: str) -> str:
    return urlsplit(url).path.strip("/")


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Database]:
    """An open, empty store with its tables."""
    store = STORES[kind](folder)
    await store.open()
    await store.migrate()
    database = Database(kind, folder, store)
    yield database
    if kind in DATABASES:
        database.accept()  # the next test gets the same one, emptied
    await store.close()
    forget(kind, folder)
