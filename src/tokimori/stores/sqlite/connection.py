"""Connections to the database file, with the settings that the promises need."""

import sqlite3

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 2000",  # only for other programs: ours wait for the file lock
    "PRAGMA wal_autocheckpoint = 2000",  # pages; it comes with a commit, so under the file lock too
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
    "PRAGMA secure_delete = OFF",  # Debian's default costs a write of every deleted row
)
_FIXED = (3, 51, 3)


def connect(path: str) -> sqlite3.Connection:
    """A connection for the thread that uses it; transactions are begun and ended by hand."""
    db = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    try:
        for setting in _SETTINGS:
            db.execute(setting)
    except sqlite3.Error:
        db.close()
        raise
    return db


def faults(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> tuple[str, ...]:
    """What this version of SQLite can't promise."""
    if version >= _FIXED:
        return ()
    return (
        f"SQLite {'.'.join(map(str, version))} has the WAL-reset bug (fixed in 3.51.3): Tokimori's processes keep "
        "clear of it, but no other program may write to the store while nodes run",
    )
