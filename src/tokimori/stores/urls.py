"""Address of a store: its parts, its namespace, and a newer one when its file or secret changes."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

from tokimori.clock import Clock
from tokimori.errors import InvalidInput, StoreError, TokimoriError

PLAIN = "tokimori_"
"""Prefix of tables, indexes and functions in statements and migrations."""
ALLOWED = "1 to 20 of a-z 0-9 _, with a letter or digit at both ends and between two _"
_NAME = re.compile(r"(?=.{1,20}\Z)[a-z0-9]+(_[a-z0-9]+)*", re.ASCII)
_LITERAL_OR_PLAIN = re.compile(rf"'(?:[^'\\]++|\\.|'')*+'|{PLAIN}", re.DOTALL)


class Namespace(Struct, frozen=True):
    """One installation's part of a database; without a name, the default one.

    Names are in lower case, because databases ignore case. Two underscores end the name, and are in no other name of
    ours, so that no name is ambiguous.
    """

    name: str = ""

    @property
    def prefix(self) -> str:
        """Return the prefix that replaces `PLAIN`."""
        return f"{PLAIN}{self.name}__" if self.name else PLAIN

    def rendered(self, statement: str) -> str:
        """Return the statement, which holds no values, with this installation's names."""
        return statement.replace(PLAIN, self.prefix) if self.name else statement

    def rendered_around_literals(self, statement: str) -> str:
        """Return the same for a statement with values as literals."""
        if not self.name:
            return statement
        return _LITERAL_OR_PLAIN.sub(lambda found: self.prefix if found[0] == PLAIN else found[0], statement)


UNNAMED = Namespace()


def is_allowed(name: str) -> bool:
    """Return whether an installation may have that name."""
    return _NAME.fullmatch(name) is not None


def invalid(kind: str, allowed: str, fault: str) -> InvalidInput:
    """Return the error of a URL, without the URL, as it may hold a password."""
    return InvalidInput(f"store: {kind}: {fault}; allowed: {allowed}", field="store", value=kind, allowed=allowed)


def read(
    url: str, server: str, known: Set[str], invalid: Callable[[str], InvalidInput]
) -> tuple[SplitResult, int | None, dict[str, str]]:
    """Return its parts, its port, and its settings, all of them known. Raises `InvalidInput`."""
    try:
        parts = urlsplit(url)
        port = parts.port
        settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise invalid(f"can't be read as the URL of a {server} server") from None
    for unknown in settings.keys() - known:
        raise invalid(f"there is no setting {unknown!r}; settings are {', '.join(sorted(known))}")
    return parts, port, settings


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
                self._take_url(self._again() or self._url, now)
            except TokimoriError as fault:
                log.warning("the address of the store of before goes on: %s", fault)
        return self._known if now < self._until else self._known[:1]

    def _take_url(self, url: str, now: float) -> None:
        if url == self._url:
            return
        newest = self._address_of(url)  # first: of a file that is half written there is no place
        if _place_of(url) != _place_of(self._url):
            log.warning("the file names another store now: this program uses the one before until it is restarted")
            return
        self._url, self._known, self._until = url, (newest, self._known[0]), now + HOLDS
        log.info("the address of the store has changed: the one before it is tried for %d s more, too", HOLDS)


def _place_of(url: str) -> tuple[object, ...]:
    """Return the parts of the URL without user and password, for a comparison."""
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
