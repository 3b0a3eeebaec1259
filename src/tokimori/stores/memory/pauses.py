"""Paused queues, in memory."""

from tokimori.model.pause import Pause
from tokimori.stores.memory.tables import Tables


def add_pause(tables: Tables, pause: Pause) -> Pause:
    """See `Pausing.add_pause`."""
    return tables.pauses.setdefault(pause.queue, pause)


def delete_pause(tables: Tables, queue: str) -> None:
    """See `Pausing.delete_pause`."""
    tables.pauses.pop(queue, None)


def list_pauses(tables: Tables) -> list[Pause]:
    """See `Pausing.list_pauses`."""
    return [tables.pauses[queue] for queue in sorted(tables.pauses)]
