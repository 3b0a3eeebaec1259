"""What a job may want of semaphores: no more than they have."""

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import Definition
from tokimori.model.semaphores import DEFAULT_LIMIT, wanted
from tokimori.ports.semaphores import Semaphores


async def check_weights(store: Semaphores, definition: Definition) -> None:
    """Refuse a weight above the limit of its semaphore: its runs would wait for ever. Raises `InvalidInput`.

    A semaphore that nobody made has a limit of one. Who deletes it later makes it a mutex again: such runs then wait,
    and say for what.
    """
    for name, weight in wanted(definition.semaphores):
        if weight > DEFAULT_LIMIT and weight > (limit := await _limit(store, name)):
            raise InvalidInput(
                f"semaphores: {name!r} has a limit of {limit}, so that {weight} units never fit",
                field="semaphores",
                value=f"{name}:{weight}",
                allowed=f"{name}:1 to {name}:{limit}, or a larger limit first",
            )


async def _limit(store: Semaphores, name: str) -> int:
    try:
        return (await store.get_semaphore(name)).limit
    except NotFound:
        return DEFAULT_LIMIT
