"""Paused queues, in memory."""

from tokimori.model.pause import Pause
from tokimori.stores.memory.tables import Tables


def add_pause(tables: Tables, pause: Pause) -> Pause:
    return tables.pauses.setdefault(pause.queue, pause)


def delete_pause(tables: Tables, queue: str) -> None:
    tables.pauses.pop(queue, None)


def list_pauses(tables: Tables) -> list[Pause]:
    return [tables.pauses[queue] for queue in sorted(tables.pauses)]
