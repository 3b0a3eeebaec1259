"""Schema of the store: applied and pending migrations, and installed and missing functions."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from tokimori.clock import DAY, Moment
from tokimori.errors import SchemaMismatch
from tokimori.model.ids import Incarnation, NodeId, RunId, Token
from tokimori.model.run import Run
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import LEDGER, Applied, Migration, Parts, differences, note_of, pending, status_of
from tokimori.stores.rows import ATTEMPT, BIRTH, RUN, SETTLED, names_of

_MADE = re.compile(r"^CREATE OR REPLACE FUNCTION tokimori_([a-z_]+)\(", re.MULTILINE)
_NAMED = re.compile(r"\btokimori_([a-z_]+)\(")


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """Functions that call each other.

    `names` are theirs, without the common prefix; `digest` ends the installed names; `schema` is the newest that their
    program knows.
    """

    text: str
    names: frozenset[str]
    digest: str
    schema: int

    def rendered(self, statement: str) -> str:
        """Return the statement, which calls the functions of this set."""
        return _NAMED.sub(self._installed, statement)

    def _installed(self, named: re.Match[str]) -> str:
        return f"tokimori_{named[1]}_{self.digest}(" if named[1] in self.names else named[0]

    @property
    def installation(self) -> str:
        """Return the statements that make the functions, in one transaction: they name each other."""
        return f"SET LOCAL check_function_bodies = off;\n\n{self.rendered(self.text)}"


NO_FUNCTIONS = FunctionSet("", frozenset(), "", 0)


def function_set(text: str, schema: int) -> FunctionSet:
    """Return the set of these functions.

    With another schema it is another set: a migration that shuts out older programs drops their sets, even if it
    changes no function.
    """
    digest = sha256(f"{schema}\n{text}".encode()).hexdigest()[:8]
    return FunctionSet(text, frozenset(_MADE.findall(text)), digest, schema)


def known_functions(schema: int) -> FunctionSet:
    """Return the functions of this version, whose newest schema is given."""
    folder = files("tokimori.stores.postgres.functions")
    texts = {entry.name: entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".sql")}
    return function_set(filled_in("\n".join(texts[name] for name in sorted(texts))), schema)


_TYPES: dict[object, str] = {
    **dict.fromkeys((RunId, NodeId), "uuid"),
    **dict.fromkeys((Incarnation, Moment, Token), "bigint"),
    int: "integer",
}
"""Types of the fields of a run that are not text."""


def types_of(columns: str) -> list[str]:
    """Return the types of these columns of a run. A rank is a moment less a head start, and others are as large."""
    kinds = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Run).items()} | dict.fromkeys(
        ("rank", "cpu", "memory"), (Moment,)
    )
    return [_TYPES.get(kinds[name][0], "text") for name in names_of(columns)]


def without(columns: str, others: str) -> str:
    """Return the columns without the others."""
    left_out = set(names_of(others))
    return ", ".join(column for column in columns.split(", ") if column.strip('"') not in left_out)


PLANNED = without(BIRTH, "state, created, payload, parent_id, root")
"""Columns that a plan gives for each of its runs."""
OWN = "id, token, started, ended, pid, exit_code, signal, error, result, details, cpu, memory"
"""Columns that a change gives for its own run."""
COMMON, MOVED = "incarnation, node_id, state", 'due, "rank", failures, lost'
"""Columns that are the same in most changes of a batch, and columns that a success leaves as they are."""
_LISTS = {"RUN": RUN, "BIRTH": BIRTH, "PLANNED": PLANNED, "SETTLED": SETTLED, "ATTEMPT": ATTEMPT}
_LISTS |= {"CHANGE": f"{OWN}, {COMMON}, {MOVED}", "MOVED": MOVED}
_MARK = re.compile(rf"\{{([a-z]+\.|_[a-z_]*)?({'|'.join(_LISTS)})( types| arrays)?(?: - ([a-z_, ]+))?\}}")


def filled_in(text: str) -> str:
    """Return the text, in which each mark is replaced by the columns that it asks for."""
    return _MARK.sub(lambda mark: ", ".join(_column_texts(*mark.groups(default=""))), text)


def _column_texts(prefix: str, name: str, form: str, left_out: str) -> Iterator[str]:
    columns = without(_LISTS[name], left_out)
    if prefix.startswith("_"):
        columns = columns.replace('"', "")
    types = types_of(columns) if form else []
    for place, column in enumerate(columns.split(", ")):
        type_ = f" {types[place]}{'[]' if form == ' arrays' else ''}" if form else ""
        yield f"{prefix}{column}{type_}"


_ONLY_ONE = 0x746F6B696D6F7269
"""The number of the lock under which tables are made: the letters of our name."""
# The first of the names gets the namespace, if there is one; the second is cut in two to be left as it is.
LOCK_KEY = f"{_ONLY_ONE} + hashtext('tokimori_') - hashtext('tokimori' || '_')"
"""Key of the lock under which tables and functions are made and dropped."""
_LOCK = f"SELECT pg_advisory_xact_lock({LOCK_KEY});"
# Constraints are recognised by their columns and indexes; how a table is stored is its administrator's to say.
_PARTS = """
WITH tables AS (
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relnamespace = $1 AND c.relkind = 'r' AND c.relname LIKE 'tokimori\\_%')
SELECT 'table', relname::text, 'there' FROM tables
UNION ALL
SELECT 'column', format('%s.%s', t.relname, a.attname), concat_ws(' ',
    format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attcollation <> y.typcollation THEN format('COLLATE %I', l.collname) END,
    CASE WHEN a.attnotnull THEN 'NOT NULL' END, 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid))
FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid JOIN pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'index', format('%s.%s', t.relname, i.relname), concat_ws(' ', CASE WHEN x.indisunique THEN 'UNIQUE' END,
    regexp_replace(substring(pg_get_indexdef(i.oid) FROM ' (USING .*)$'), ' WITH \\([^)]*\\)', ''))
FROM tables t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indisvalid
UNION ALL
SELECT 'function',
    replace(format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), n.nspname || '.', ''),
    'the text with checksum ' || md5(p.prosrc)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.pronamespace = $1 AND p.proname LIKE 'tokimori\\_%'"""
_LIVE = "SELECT coalesce(relnamespace, current_schema()::regnamespace) FROM (VALUES (1)) one LEFT JOIN pg_class ON "
_LIVE += "pg_class.oid = to_regclass('tokimori_schema_migrations')"
LONGEST = 600.0
"""Seconds that migrations may take, or wait for another node's."""


known_migrations = partial(migrations.known_migrations, "tokimori.stores.postgres.migrations")
"""The migrations of this version, oldest first."""


async def status(session: Any, known: Sequence[Migration], functions: FunctionSet) -> SchemaStatus:
    """See `Schema.schema`. Functions that are missing are pending, too."""
    found = status_of(await _applied(session), known)
    if found.version is not None and await _used(session, functions) is not None:
        return found
    return replace(found, pending=(*found.pending, f"functions_{functions.digest}"))


async def _applied(session: Any) -> list[Applied]:
    if await session.fetchval("SELECT to_regclass('tokimori_schema_migrations')::text") is None:
        return []
    rows = await session.fetch("SELECT version, checksum, oldest FROM tokimori_schema_migrations")
    return [Applied(*row) for row in rows]


async def _used(session: Any, functions: FunctionSet) -> Moment | None:
    """Return the moment at which a program last used these functions. None: they are not in the database."""
    used: Moment | None = await session.fetchval(
        "SELECT used FROM tokimori_function_sets WHERE digest = $1", functions.digest
    )
    return used


async def note_use(session: Any, functions: FunctionSet, now: Moment) -> None:
    """Note, once a day, that a program has opened the store to use these functions."""
    if await session.fetchval("SELECT to_regclass('tokimori_function_sets')::text") is None:
        return
    used = await _used(session, functions)
    if used is not None and used < now - DAY:
        await session.execute("UPDATE tokimori_function_sets SET used = $2 WHERE digest = $1", functions.digest, now)


async def migrate(session: Any, known: Sequence[Migration], functions: FunctionSet, now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. All or nothing; a second caller waits, and then finds nothing to do."""
    async with session.transaction():
        await session.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; "
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        )
        await session.execute(_LOCK)
        for statements in _missing(await status(session, known, functions), known, functions, now):
            await session.execute(statements)
        return await status(session, known, functions)


def _missing(found: SchemaStatus, known: Sequence[Migration], functions: FunctionSet, now: Moment) -> Iterator[str]:
    """Yield the pending statements. Raises `SchemaMismatch` for a schema that is too new."""
    missing = pending(found, known)
    if missing:
        yield LEDGER.strip()
    for migration in missing:
        yield f"-- {migration.name}\n{migration.text.strip()}\n{note_of(migration, now)}"
    if found.pending:
        yield _made(functions, max([found.oldest, *(migration.oldest for migration in missing)]), now)


def _made(functions: FunctionSet, oldest: int, now: Moment) -> str:
    """Return the statements that make the functions, and drop those of programs that the schema no longer admits."""
    drop = functions.rendered(f"SELECT tokimori_drop_function_sets('{functions.digest}', {oldest}, NULL, NULL);")
    return (
        f"{functions.installation.strip()}\n"
        f"INSERT INTO tokimori_function_sets (digest, schema, used)\n"
        f"VALUES ('{functions.digest}', {functions.schema}, {now})\n"
        f"ON CONFLICT (digest) DO UPDATE SET used = excluded.used;\n{drop}"
    )


async def make_again(session: Any, known: Sequence[Migration], functions: FunctionSet, now: Moment) -> None:
    """Make the functions that were dropped while their program did not use them.

    Raises `SchemaMismatch` if a migration has shut that program out, or tables are missing.
    """
    async with session.transaction():
        await session.execute(_LOCK)
        found = await status(session, known, functions)
        if pending(found, known):
            raise SchemaMismatch("the store lacks tables of this version: run `tokimori db migrate`")
        await session.execute(_made(functions, found.oldest, now))


async def script(session: Any, known: Sequence[Migration], functions: FunctionSet, now: Moment, *, whole: bool) -> str:
    """See `Schema.script`. On an empty store it fails as a whole when it is carried out a second time."""
    nothing = status_of([], known)
    empty = replace(nothing, pending=(*nothing.pending, functions.digest))
    found = empty if whole else await status(session, known, functions)
    statements = list(_missing(found, known, functions, now))
    return "\n\n".join(["BEGIN;", _LOCK, *statements, "COMMIT;"]) + "\n" if statements else ""


async def check(session: Any, known: Sequence[Migration], functions: FunctionSet) -> list[str]:
    """See `Schema.differences`: against tables that the same migrations make for this session alone, and that go."""
    found = await _parts(session, await session.fetchval(_LIVE))
    transaction = session.transaction()
    await transaction.start()
    try:
        # Functions of a temporary schema are not found by their names: what they say is not checked here.
        await session.execute("SET LOCAL search_path = pg_temp; SET LOCAL check_function_bodies = off")
        for text in (LEDGER, *(migration.text for migration in known), functions.installation):
            await session.execute(text)
        expected = await _parts(session, await session.fetchval("SELECT pg_my_temp_schema()"))
    finally:
        await transaction.rollback()
    return differences(expected, found)


async def _parts(session: Any, schema: int) -> Parts:
    return {(kind, name): text for kind, name, text in await session.fetch(_PARTS, schema)}
