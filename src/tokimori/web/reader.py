"""The reader of a page: his name, and what he may do there."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from tokimori.model.access_token import Role
from tokimori.service.service import table
from tokimori.service.sight import Access


@lru_cache(maxsize=1)
def _roles() -> Mapping[str, Role]:
    """Return the role that each operation needs."""
    return MappingProxyType({name: each.role for name, each in table().items()})


class Reader(NamedTuple):
    """A reader with his rights. Whatever he may not do is refused by the service; here it is only drawn."""

    access: Access

    @property
    def name(self) -> str:
        """Return his name, as it is recorded with what he does."""
        return self.access.author or "owner"

    @property
    def role(self) -> Role:
        """Return his role."""
        return self.access.role

    def lacks(self, operation: str) -> Role | None:
        """Return the role that he lacks for an operation such as `jobs.pause`; None if he may do it."""
        role = _roles()[operation]
        return None if self.role.includes(role) else role

    def lacking(self, operations: Iterable[str]) -> Sequence[str]:
        """Return those of the operations that he may not do."""
        return [each for each in operations if self.lacks(each) is not None]
