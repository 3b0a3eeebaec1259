"""Interface for a run within a transaction of the caller, in the store's own database."""

from typing import Protocol, runtime_checkable

from msgspec import Struct


class Outside(Struct, frozen=True, kw_only=True):
    """Statements for the program's own connection, with `?` for each value.

    `driver` is `sqlite`, `postgresql` or `mysql`. `where` identifies the database; the store's own connection answers
    `here`. `add` stores a run: it waits without a lane, so that no lock on its job is needed, and gets the job's lane
    when it is due (`Planning.promote`). If it `checks`, it refuses runs of a stopped or deleted job, and returns a row
    if it stored one; else the caller checks before. `known` finds the run of an incarnation and an origin. `told` wakes
    nodes after the commit; None if they notice without it.
    """

    driver: str
    where: str
    here: tuple[object, ...]
    add: str
    known: str
    checks: bool = True
    told: tuple[str, tuple[object, ...]] | None = None


@runtime_checkable
class HasOutside(Protocol):
    """A store whose database takes part in transactions of other programs."""

    async def outside(self) -> Outside:
        """Return the statements, for the database that this store is in."""
        ...
