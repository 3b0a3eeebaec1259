"""Interface for a run within a transaction of the caller, in the store's own database."""

from typing import Protocol, runtime_checkable

from msgspec import Struct


class Outside(Struct, frozen=True, kw_only=True):
    """Statements that the program's own connection carries out. In each of them `?` stands for a value.

    `driver` is `sqlite`, `postgresql` or `mysql`. `where` asks which database this is; the store's own connection
    answers `here`. `add` keeps a run: it waits without a lane, so that no lock is needed on its job, and gets that of
    its job when it is due (`Planning.promote`). Where it `checks`, it keeps none of a job that is stopped or gone, and
    answers with a row if it did; else who asks has to look before. `known` asks for the run of an incarnation and an
    origin. `told` wakes nodes once the transaction is committed; None where they notice by themselves.
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
