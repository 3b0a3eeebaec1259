"""Paused queues: statements on their table."""

from tokimori.model.pause import Pause
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.rows import PAUSE, pause_of, pause_row


async def add_pause(db: PostgresConnections, pause: Pause) -> Pause:
    """See `Pausing.add_pause`. The function waits for the claims that are under way."""
    await db.rows("SELECT tokimori_pause($1, $2, $3, $4)", *pause_row(pause))
    kept = await db.row(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = $1", pause.queue)
    return pause if kept is None else pause_of(kept)
