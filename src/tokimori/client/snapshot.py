"""Whole SQLite files: a copy of one that is in use, and one put in the place of another.

SQLite's online backup sees what one reader sees: what the WAL holds is in the copy, and writers go on meanwhile.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from tokimori.clock import to_datetime
from tokimori.engine import rewind, unfinished
from tokimori.errors import StoreError, TokimoriError
from tokimori.model import audit, message, notifying, order
from tokimori.model.calendar import decode_days_off
from tokimori.model.dependents import On
from tokimori.model.encoding import decode_definition
from tokimori.model.ids import JOB_ID_ALLOWED, check_job_id
from tokimori.model.job import JobState
from tokimori.model.run import SkipReason
from tokimori.model.semaphores import KEY_LINE, line_of
from tokimori.model.settle import WORDS
from tokimori.model.stream import decode_entry
from tokimori.model.transitions import ENDS, RunState
from tokimori.ownership import PRIVATE, keep_private
from tokimori.ports.nodes import NodeState
from tokimori.service.calendars import CALENDARS
from tokimori.service.channels import SUBSCRIBERS
from tokimori.service.definitions.differences import APPS
from tokimori.service.documents import DocumentKind
from tokimori.service.doors.idempotency import KEYED
from tokimori.service.doors.sessions import ENDED
from tokimori.service.expectations import ALARMS, EXPECTATIONS
from tokimori.service.nodes import DRAINED
from tokimori.service.runs.mutes import MUTES
from tokimori.service.secrets import SECRETS
from tokimori.service.sets.resources import DECLARATIONS
from tokimori.service.sets.turns import SETS
from tokimori.service.tasks.builds import BUILDS, PIECES, UPLOADS
from tokimori.service.tasks.tasks import TASKS
from tokimori.service.tokens import TOKENS
from tokimori.stores.migrations import LEDGER, Migration
from tokimori.stores.sqlite.connection import known_migrations
from tokimori.stores.sqlite.connection_thread import FileLock
from tokimori.stores.urls import PLAIN, Namespace

_BESIDE = ("-wal", "-shm", "-journal", "-lock", "-turn")
"""What SQLite, and we, put beside a file."""


def write_snapshot(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy the database to a new file, whole or not at all. Raises `StoreError`.

    Without `replace` the `target` must not exist, and a file that appears during the copy stays.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
        with _reading(source) as old, closing(sqlite3.connect(partial, isolation_level=None)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        _sync(partial)
        if replace:
            partial.replace(target)
        else:
            os.link(partial, target)
        _sync(target.parent)
    except FileExistsError:
        raise StoreError(f"{target} exists already", field="file", value=str(target), allowed="a new file") from None
    except (OSError, sqlite3.Error) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise StoreError(f"{target} can't be written: {why}", field="file", value=str(target)) from None
    finally:
        with suppress(OSError):
            partial.unlink()


def check_snapshot(file: Path) -> frozenset[str]:
    """Refuse a file that is no whole database of Tokimori; return the namespaces of its installations.

    Raises `StoreError` with the reason.
    """
    try:
        with _reading(file) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except (OSError, sqlite3.Error) as fault:
        found, tables = str(fault), []
    if found != "ok":
        message = f"{file} is no whole database, or can't be read: {found}"
        raise StoreError(message, field="file", value=str(file), allowed="a whole database of Tokimori")
    ours = [name.removeprefix(PLAIN) for name in tables if name.startswith(PLAIN)]
    if not ours:
        raise StoreError(f"{file} is no backup: it has no table of ours", field="file", value=str(file))
    return frozenset(name.partition("__")[0] if "__" in name else "" for name in ours)


def check_schema(file: Path, installations: Iterable[str]) -> None:
    """Refuse a file whose schema is not, to the word, that of this or an earlier version.

    This happens before any row is read: a foreign trigger, view or default value would act with our rights. Raises
    `StoreError`.
    """
    known, wrong = known_migrations(), dict[Part, str | None]()
    try:
        with _reading(file) as db:
            found = _parts(db)
    except (OSError, sqlite3.Error) as fault:
        raise StoreError(f"{file} can't be read: {fault}", field="file", value=str(file)) from None
    for name in installations:
        made = [_made(known[:number], Namespace(name)) for number in range(1, len(known) + 1)]
        ours = {part: text for part, text in found.items() if part in made[-1]}
        wrong |= {} if ours in made else {part: text for part, text in made[-1].items() if ours.get(part) != text}
        found = {part: text for part, text in found.items() if part not in ours}
    for (kind, name), _ in sorted({**found, **wrong}.items()):
        message = f"{file}: the {kind} {name!r} is not as Tokimori makes it; nothing was restored"
        raise StoreError(
            message, field="file", value=name, allowed="a file of `tokimori backup` of this version, or an older one"
        )


_Documents = Mapping[str, Callable[[str], object]]
"""The kinds of documents, and how the text of one is read."""


def check_rows(file: Path, installations: Iterable[str]) -> None:
    """Refuse the first row that no version of this program writes: a wrong type, an unknown word, an unreadable text.

    SQLite stores anything in any column. Raises `StoreError`, which names table, row, field, value and what is allowed.
    """
    documents = _document_forms()
    try:
        with _reading(file) as db:
            for name in installations:
                _check_all(db, Namespace(name), documents)
    except sqlite3.Error as fault:
        raise StoreError(f"{file} can't be read: {fault}", field="file", value=str(file)) from None


def _document_forms() -> _Documents:
    """Return the kinds of documents, and how the text of one is read."""
    kinds: tuple[DocumentKind[Any], ...] = (
        *(ALARMS, APPS, BUILDS, CALENDARS, DECLARATIONS, DRAINED, EXPECTATIONS, KEYED, PIECES),
        *(ENDED, MUTES, SECRETS, SETS, SUBSCRIBERS, TASKS, TOKENS, UPLOADS),
    )
    return {each.word: each.decode for each in kinds} | {
        audit.KIND: audit.decode_entry,
        rewind.KIND: lambda text: [int(each) for each in text.split()],
        unfinished.UNFINISHED.kind: str,
        notifying.KIND: lambda text: text == "" or notifying.decode_notifying(text),
        message.KIND: _read_entry,
        order.KIND: _read_entry,
    }


def _read_entry(text: str) -> object:
    """Read an entry of a stream, or the number that opens one."""
    return int(text) if text.isdecimal() else decode_entry(text)


Part = tuple[str, str]
"""What a part of a schema is, and its name."""


_OWN = frozenset(
    {None, "CREATE TABLE sqlite_stat1(tbl,idx,stat)", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"}
)
"""What SQLite adds by itself; a name such as its own says nothing: a trigger may bear one, too."""


def _parts(db: sqlite3.Connection) -> dict[Part, str | None]:
    rows = db.execute("SELECT type, name, sql FROM sqlite_master")
    return {(kind, name): sql for kind, name, sql in rows if sql not in _OWN}


def _made(migrations: Sequence[Migration], namespace: Namespace) -> dict[Part, str | None]:
    """Return the parts that these migrations make."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for text in (LEDGER, *(each.text for each in migrations)):
            db.executescript(namespace.rendered(text))
        return _parts(db)


def put_snapshot(source: Path, target: Path) -> None:
    """Replace the content of `target` by that of `source`, in one transaction and under the lock of all writers.
    Programs that have the file open see it change.

    Raises `StoreError`.
    """
    keep_private(str(target), "-wal", "-shm", "-journal")
    lock = FileLock(os.path.realpath(target))
    try:
        with lock.held(), _reading(source) as new, closing(sqlite3.connect(target, isolation_level=None)) as old:
            new.backup(old)
            old.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as fault:
        raise StoreError(f"store {target} can't be written: {fault}", field="store", value=str(target)) from None
    finally:
        lock.close()


def remove_database(file: Path) -> None:
    """Remove an unused database with the files beside it."""
    for each in (file, *(file.with_name(file.name + suffix) for suffix in _BESIDE)):
        each.unlink(missing_ok=True)


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that changes nothing, and makes no checkpoint at its end."""
    place = f"file://{quote(os.fsencode(file.absolute()))}?mode=ro"
    with closing(sqlite3.connect(place, uri=True, isolation_level=None)) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        yield db


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class _Form(NamedTuple):
    """A form of values: `read` raises, or returns False, for a value of another form."""

    read: Callable[[Any], object]
    allowed: str


def _one_of(words: Iterable[str]) -> _Form:
    known = sorted(map(str, words))
    return _Form(frozenset(known).__contains__, f"one of {', '.join(known)}")


def _within(low: int, high: int, allowed: str) -> _Form:
    return _Form(lambda value: low <= value <= high, allowed)


def _like(pattern: str, allowed: str) -> _Form:
    return _Form(re.compile(pattern, re.DOTALL | re.ASCII).fullmatch, allowed)


_MOMENTS = """
created updated anchor fired_through next_due nominal due started ended latest deleted asked left since first last day
written"""
_NUMBERS = """
incarnation version count attempt number failures lost token settled_token size concurrency beat max_running most_active
max_per_key runs_remaining limit granted weight joins woken newest"""
_FORMS = {
    **dict.fromkeys(_MOMENTS.split(), _Form(to_datetime, "microseconds since 1970, in the years 1 to 9999")),
    **dict.fromkeys(_NUMBERS.split(), _within(0, 2**63, "a number from 0")),
    **dict.fromkeys(("lane", "forced_lane"), _like(r"[^|]*\|[^|]*\|.*", "QUEUE|HANDLER|LABELS")),
    **dict.fromkeys(
        ("runs.id", "history.id", "run_id", "parent_id"), _like("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a UUID")
    ),
    **dict.fromkeys(("jobs.id", "job_id", "parent", "child"), _Form(check_job_id, JOB_ID_ALLOWED)),
    **dict.fromkeys(("moves.origin", "nodes.version"), _Form(lambda _: True, "a text")),
    "origin": _like("[sbcm]:.*", "s:, b:, c: or m:, and a text"),
    "priority": _within(-100, 100, "-100 to 100"),
    "jobs.state": _one_of(frozenset(JobState) - {JobState.DELETED}),
    "runs.state": _one_of(frozenset(RunState) - ENDS),
    "history.state": _one_of(ENDS),
    "nodes.state": _one_of(NodeState),
    "attempts.outcome": _one_of(WORDS.values()),
    "counts.outcome": _one_of({*map(str, ENDS), *map(str, SkipReason)}),
    "skips.reason": _one_of(SkipReason),
    "on": _one_of(On),
    "blocked_on": _like(f"{KEY_LINE}|{line_of('')}.+", f"{KEY_LINE}, or {line_of('NAME')}"),
    "definition": _Form(decode_definition, "a definition that this version can read"),
    "days_off": _Form(decode_days_off, "days off as JSON"),
    "labels": _Form(msgspec.json.Decoder(dict[str, str]).decode, "a JSON object of texts"),
    "names": _Form(msgspec.json.Decoder(list[str]).decode, "a JSON array of texts"),
    "semaphores": _Form(msgspec.json.Decoder(list[tuple[str, int]]).decode, "JSON: [[name, weight], …]"),
    "rate": _like("[1-9][0-9]{0,4}/[1-9][0-9]{3,13}(/smooth)?", "UNITS/MICROSECONDS, and perhaps /smooth"),
}
"""Forms of columns, by name or by table and name."""
_MOST_SHOWN = 200


class _Column(NamedTuple):
    name: str
    types: tuple[type, ...]
    form: _Form | None

    def allows(self, value: object) -> str | None:
        """Return the allowed values if this value is not one of them; else None."""
        if type(value) not in self.types or (isinstance(value, str) and "\0" in value):
            return " or ".join(_TYPES[each] for each in self.types)
        if value is None or self.form is None:
            return None
        with suppress(ValueError, TypeError, OverflowError, RecursionError, TokimoriError):
            read = self.form.read(value)
            return None if read is not None and read is not False else self.form.allowed
        return self.form.allowed


_TYPES = {int: "a whole number", str: "a text without NUL", bytes: "bytes", type(None): "nothing"}


def _check_all(db: sqlite3.Connection, namespace: Namespace, documents: _Documents) -> None:
    db.text_factory = _text_of
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in found:
        short = str(name).removeprefix(namespace.prefix)
        if short != name and "__" not in short:
            _check_table(db, str(name), short, documents)


def _check_table(db: sqlite3.Connection, table: str, short: str, documents: _Documents) -> None:
    described = db.execute(f"PRAGMA table_info({table})").fetchall()
    columns = [_column(short, name, kind, optional=not (needed or key)) for _, name, kind, needed, _, key in described]
    keys = [place for place, *_, key in described if key]
    for row in db.execute(f"SELECT * FROM {table}"):
        for column, value in zip(columns, row, strict=True):
            if (allowed := column.allows(value)) is not None:
                raise _wrong(table, [row[place] for place in keys], column.name, value, allowed)
        if short == "documents":
            _check_document(table, row, documents)


def _column(table: str, name: str, kind: str, *, optional: bool) -> _Column:
    is_of = int if "INT" in kind else bytes if kind == "BLOB" else str
    return _Column(name, (is_of, type(None)) if optional else (is_of,), _FORMS.get(f"{table}.{name}", _FORMS.get(name)))


def _check_document(table: str, row: Sequence[Any], documents: _Documents) -> None:
    kind, name, text, _ = row
    form = _Form(documents[kind], f"a {kind} that this version can read") if kind in documents else None
    if form is None:
        raise _wrong(table, [kind, name], "kind", kind, f"one of {', '.join(sorted(documents))}")
    if (allowed := _Column("text", (str,), form).allows(text)) is not None:
        raise _wrong(table, [kind, name], "text", text, allowed)


def _wrong(table: str, key: Sequence[object], field: str, value: object, allowed: str) -> StoreError:
    shown = repr(value) if len(repr(value)) <= _MOST_SHOWN else f"{repr(value)[:_MOST_SHOWN]}…"
    row = " ".join(map(str, key))[:_MOST_SHOWN]
    message = f"file: {table}, row {row}: {field} is {shown}, allowed: {allowed}; nothing was restored"
    return StoreError(message, field=f"{table}.{field}", value=shown, allowed=allowed)


def _text_of(raw: bytes) -> str | bytes:
    """Return the text. Bytes that are no text stay as they are, and fit no column of texts."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
