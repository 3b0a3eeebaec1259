"""Addresses of servers whose user or password is changed while nodes run: the file that holds them is read again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from tokimori.clock import Clock
from tokimori.errors import StoreError, TokimoriError

A = TypeVar("A")
T = TypeVar("T")
Again = Callable[[], str | None]
"""Returns the URL as it is now; None if nothing has changed since it was asked last."""
Addresses = Callable[[], Sequence[Any]]
"""Returns the addresses to try, the newest first."""
log = logging.getLogger(__name__)
HOLDS = 300.0
"""Seconds for which the address before is tried, too: the server may learn the new one later than the file."""
_LOOKS_EVERY = 1.0


class Rotation:
    """The address in a URL that may be read `again`, and for five minutes the one before."""

    def __init__(self, url: str, address_of: Callable[[str], object], again: Again, clock: Clock) -> None:
        self._url, self._address_of, self._again, self._clock = url, address_of, again, clock
        self._known: tuple[object, ...] = (address_of(url),)
        self._until, self._looked = 0.0, clock.monotonic()

    def __call__(self) -> Sequence[object]:
        """Return the addresses to try, the newest first."""
        now = self._clock.monotonic()
        if now >= self._looked + _LOOKS_EVERY:
            self._looked = now
            try:
                self._become(self._again() or self._url, now)
            except TokimoriError as fault:
                log.warning("the address of the store of before goes on: %s", fault)
        return self._known if now < self._until else self._known[:1]

    def _become(self, url: str, now: float) -> None:
        if url == self._url:
            return
        newest = self._address_of(url)  # first: of a file that is half written there is no place
        if _place_of(url) != _place_of(self._url):
            log.warning("the file names another store now: the one of before goes on until this program is restarted")
            return
        self._url, self._known, self._until = url, (newest, self._known[0]), now + HOLDS
        log.info("the address of the store has changed: the one before it is tried for %d s more, too", HOLDS)


def _place_of(url: str) -> tuple[object, ...]:
    """Return all but the user and the password."""
    parts = urlsplit(url)
    settings = [each for each in parse_qsl(parts.query) if each[0] not in {"user", "password", "passfile"}]
    return parts.scheme, parts.hostname, parts.port, parts.path, sorted(settings)


async def by_newest(address: A, addresses: Addresses | None, connect: Callable[[A], Awaitable[T]]) -> T:
    """Connect by the newest address, and if that fails by the one before. Raises `StoreError`, of the newest."""
    newest, *before = (address,) if addresses is None else await asyncio.to_thread(addresses)
    try:
        return await connect(newest)
    except StoreError:
        for each in before:
            with suppress(StoreError):
                return await connect(each)
        raise
