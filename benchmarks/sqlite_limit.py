"""What any queue on SQLite has to do, and nothing else: claim and complete in batches with bare sqlite3."""

import sqlite3
from pathlib import Path

BATCH = 500


def filled(folder: Path, runs: int) -> sqlite3.Connection:
    """A table of ready runs, in a file as durable as Tokimori's."""
    db = sqlite3.connect(folder / "limit.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, owner TEXT)")
    db.execute("CREATE INDEX ready ON runs (id) WHERE state = 'ready'")
    db.execute("BEGIN")
    db.executemany("INSERT INTO runs (id, state) VALUES (?, 'ready')", [(number,) for number in range(runs)])
    db.execute("COMMIT")
    return db


def claim(db: sqlite3.Connection, most: int = BATCH) -> list[int]:
    """One durable transaction: the runs that are now running, at most so many."""
    db.execute("BEGIN IMMEDIATE")
    rows = db.execute(
        """UPDATE runs SET state = 'running', owner = 'limit' WHERE id IN (
            SELECT id FROM runs WHERE state = 'ready' ORDER BY id LIMIT ?) RETURNING id""",
        (most,),
    ).fetchall()
    db.execute("COMMIT")
    return [row[0] for row in rows]


def complete(db: sqlite3.Connection, runs: list[int]) -> None:
    """Another one: these have succeeded."""
    db.execute("BEGIN IMMEDIATE")
    db.executemany("UPDATE runs SET state = 'succeeded' WHERE id = ? AND state = 'running'", [(run,) for run in runs])
    db.execute("COMMIT")
