"""What the parts of the store share: one for each part of the protocol, together they are the store."""

from collections.abc import Callable

from tokimori.errors import StoreError
from tokimori.stores.mysql.address import Address
from tokimori.stores.mysql.sessions import Sessions


class Part:
    """Sessions with the server, while the store is open, and who is to be woken by what this process asks of it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._sessions: Sessions | None = None
        self._beats: Sessions | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def _db(self) -> Sessions:
        return self._opened(self._sessions)

    def _opened(self, sessions: Sessions | None) -> Sessions:
        if sessions is None:
            raise StoreError(f"store {self._address.name} is not open")
        return sessions

    def _tell(self) -> None:
        """What people ask of jobs and runs is news to this process; others learn of it by their next tick."""
        for wake in self._watchers:
            wake()
