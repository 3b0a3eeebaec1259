"""Paused queues: statements on their table."""

import sqlite3

from tokimori.model.pause import Pause
from tokimori.stores.rows import PAUSE, marks, pause_of, pause_row


def add_pause(db: sqlite3.Connection, pause: Pause) -> Pause:
    statement = f"INSERT INTO tokimori_pauses ({PAUSE}) VALUES ({marks(PAUSE)}) ON CONFLICT DO NOTHING"
    db.execute(statement, pause_row(pause))
    kept = db.execute(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = ?", (pause.queue,))
    return pause_of(kept.fetchone())


def paused_queues(db: sqlite3.Connection) -> set[str]:
    """From which nothing is claimed."""
    return {queue for (queue,) in db.execute("SELECT queue FROM tokimori_pauses")}
