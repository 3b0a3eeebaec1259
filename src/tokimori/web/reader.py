"""The reader of a page: his name, and what he may do there."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.model.access_token import Role
from tokimori.service.access import WHOLE, Access
from tokimori.service.service import table


@lru_cache(maxsize=1)
def _roles() -> Mapping[str, Role]:
    """Return the role that each operation needs."""
    return MappingProxyType({name: each.role for name, each in table().items()})


@lru_cache(maxsize=1)
def _of_everybody() -> frozenset[str]:
    """Return the operations on shared things, to which a token for some jobs or queues has no right."""
    return frozenset(name for name, each in table().items() if each.reach is WHOLE)


_AS: Final[Mapping[str, str]] = MappingProxyType(
    {"notifiers.add": "jobs.add", "notifiers.delete": "jobs.delete", "notifiers.test": "jobs.trigger"}
)
"""Acts that are called otherwise than the operation whose role they need."""


class Reader(NamedTuple):
    """Reader with his rights. The service refuses what he may not do; the page draws it as forbidden."""

    access: Access

    @property
    def name(self) -> str:
        """Return his name as the audit log records it."""
        return self.access.author or "owner"

    @property
    def role(self) -> Role:
        """Return his role."""
        return self.access.role

    def lacks(self, operation: str) -> Role | None:
        """Return the role that he lacks for an operation such as `jobs.pause`; None if he may do it."""
        role = _roles()[_AS.get(operation, operation)]
        return None if self.role.includes(role) and not self._is_barred(operation) else role

    def _is_barred(self, operation: str) -> bool:
        return not self.access.scope.is_everything and operation in _of_everybody()

    def needs(self, operation: str) -> str:
        """Return the right for an operation that he lacks, in words."""
        name = _AS.get(operation, operation)
        if self.role.includes(_roles()[name]) and self._is_barred(name):
            return "a token of all jobs and queues"
        return f"the role `{_roles()[name]}`"

    def lacking(self, operations: Iterable[str]) -> Sequence[str]:
        """Return the operations for which he lacks the right."""
        return [each for each in operations if self.lacks(each) is not None]
