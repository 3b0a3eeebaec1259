"""Whole SQLite files: a copy of one that is in use, and one put in the place of another.

SQLite's online backup sees what one reader sees: what the WAL holds is in the copy, and writers go on meanwhile.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tokimori.errors import StoreError
from tokimori.ownership import PRIVATE, keep_private
from tokimori.stores.migrations import LEDGER, Migration
from tokimori.stores.namespace import PLAIN, Namespace
from tokimori.stores.sqlite.file_lock import FileLock
from tokimori.stores.sqlite.schema import known_migrations

_BESIDE = ("-wal", "-shm", "-journal", "-lock", "-turn")
"""What SQLite, and we, put beside a file."""


def write_snapshot(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy the database to a file of its own, which is there as a whole or not at all. Raises `StoreError`.

    Unless it may `replace` one, `target` must not exist: also one that somebody made meanwhile stays.
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
        raise StoreError(f"{target} can't be written: {fault}", field="file", value=str(target)) from None
    finally:
        with suppress(OSError):
            partial.unlink()


def check_snapshot(file: Path) -> frozenset[str]:
    """Refuse what is no whole database of Tokimori; the installations in it, by their namespaces.

    Raises `StoreError`, which says why.
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
    """Refuse a file whose schema is not, to the word, what some version up to this one has made: no row is read before.

    A trigger, a view or a default value of a stranger would act in his name. Raises `StoreError`.
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
    """Put all that `source` holds in the place of what `target` holds, in one transaction. Raises `StoreError`.

    Under the lock that all writers hold. Who has the file open sees it change.
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
    """Remove a database of ours that nobody uses, with what stands beside it."""
    for each in (file, *(file.with_name(file.name + suffix) for suffix in _BESIDE)):
        each.unlink(missing_ok=True)


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that changes nothing: whoever only reads makes no checkpoint when he leaves, either."""
    place = f"file://{quote(str(file.absolute()))}?mode=ro"
    with closing(sqlite3.connect(place, uri=True, isolation_level=None)) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        yield db


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
