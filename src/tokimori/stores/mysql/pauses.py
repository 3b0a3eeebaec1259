"""Paused queues: statements on their table."""

from collections.abc import Collection

from tokimori.model.ids import Lane
from tokimori.model.pause import Pause, open_lanes
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import SHARED, Answer, sql
from tokimori.stores.rows import PAUSE, pause_of, pause_row

_GATE = ""
"""The row of no queue: whoever claims shares its lock, whoever pauses holds it alone."""
_INSERT_GATE = "INSERT INTO tokimori_pauses (queue, since) VALUES ('', 0)"
MAKE_GATE = _INSERT_GATE.replace("INSERT", "INSERT IGNORE")
PAUSED = "SELECT queue FROM tokimori_pauses"
SHARED_PAUSED = f"{PAUSED} {SHARED} SKIP LOCKED"
"""The same until the claim ends; without the gate while somebody pauses anything: a claim waits for nothing."""


async def add_pause(transaction: Transaction, pause: Pause) -> Pause:
    """See `Pausing.add_pause`. Claims under way are waited for."""
    await transaction.ask(f"{_INSERT_GATE} ON DUPLICATE KEY UPDATE queue = tokimori_pauses.queue")
    _, kept = await transaction.ask(
        sql(
            f"INSERT INTO tokimori_pauses ({PAUSE}) VALUES %s ON DUPLICATE KEY UPDATE queue = tokimori_pauses.queue",
            pause_row(pause),
        ),
        sql(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = %s", pause.queue),
    )
    await transaction.commit()
    return pause_of(kept.rows[0])


def claimable(lanes: Collection[Lane], shared_paused: Answer) -> tuple[Lane, ...]:
    """Return the lanes that are not paused, by the answer to `SHARED_PAUSED`."""
    paused = {queue for (queue,) in shared_paused.rows}
    return open_lanes(lanes, paused - {_GATE}) if _GATE in paused else ()


def paused_queues(paused: Answer) -> frozenset[str]:
    """From which nothing is claimed, by the answer to `PAUSED`."""
    return frozenset(queue for (queue,) in paused.rows) - {_GATE}
