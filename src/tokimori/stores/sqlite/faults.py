"""SQLite's errors as errors of ours, each with what to do about it."""

import sqlite3

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.stores.rules.errors import TOO_SLOW

_CORRUPT = "is damaged: stop all nodes, check it with `PRAGMA integrity_check`, restore a backup"
_UNAVAILABLE = {
    "BUSY": "is locked by another program",
    "LOCKED": "is locked by another program",
    "FULL": "can't grow: free some space on its disk, or raise its size limit",
    "IOERR": "can't be read or written: check its disk",
    "NOMEM": "needs more memory than there is",
    "SCHEMA": "was being changed",
    "PROTOCOL": "is locked by another program",
}
_UNUSABLE = {
    "CANTOPEN": "can't be opened: its directory must exist and be writable",
    "READONLY": "can't be written: check the rights of the file and of its directory",
    "PERM": "can't be opened: check its rights",
    "AUTH": "can't be opened: check its rights",
    "NOTADB": "is not an SQLite database: name another file",
    "CORRUPT": _CORRUPT,
}


def store_error(fault: sqlite3.Error, path: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store."""
    name = getattr(fault, "sqlite_errorname", None) or ""
    kind = name.removeprefix("SQLITE_").partition("_")[0]
    if kind in _UNAVAILABLE:
        return StoreUnavailable(f"store {path} {_UNAVAILABLE[kind]} ({fault})")
    if kind == "INTERRUPT":
        return StoreTooSlow(f"store {path} {TOO_SLOW} ({fault})")
    if kind in _UNUSABLE:
        return StoreError(f"store {path} {_UNUSABLE[kind]} ({fault})")
    if "no such table: tokimori_" in str(fault) or "no such column" in str(fault):
        return SchemaMismatch(f"store {path} lacks tables of this version: run `tokimori db migrate` ({fault})")
    return StoreRefused(f"store {path} can't do what it was asked ({name or type(fault).__name__}: {fault})")
