"""Tokens: creating, listing and revoking them, and looking up the holder of one."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from msgspec import Struct

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.access_token import (
    KIND,
    AccessToken,
    Role,
    Scope,
    check_token_name,
    decode_token,
    digest_of,
    encode_token,
    is_text_of,
    name_in,
    new_text,
)
from tokimori.model.ids import RandomBytes, check_job_id
from tokimori.model.words import check_word
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.access import WHOLE
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import STATE, Inside, M, Part, operation
from tokimori.service.store_calls import Now
from tokimori.service.validation import Span, chosen, few, seconds_of
from tokimori.service.views.access import AccessToken as TokenView
from tokimori.service.views.access import NewToken as NewTokenView
from tokimori.service.views.outside import list_of

TOKENS = DocumentKind(KIND, encode_token, decode_token)
MOST_PREFIXES = 100
"""Prefixes, and queues, of one token."""
KNOWN_FOR = 1.0
"""Seconds for which a door caches a token: a revoked one may live that long."""
MOST_KNOWN = 256
"""Tokens that a door remembers for that time."""


class NewToken(Struct, frozen=True, kw_only=True):
    """A new token. `text` is the secret that its holder sends; it is never shown again."""

    token: AccessToken
    text: str


class Tokens(Part[M]):
    """Access tokens of all nodes. Every method may raise `StoreError`."""

    noun, word = "tokens", "token"

    def __init__(self, store: DocumentStore, now: Now, random: RandomBytes, author: str | None) -> None:
        self._documents = Documents(store, TOKENS, random)
        self._now = now
        self._random = random
        self._author = author

    @operation(Role.ADMIN, WHOLE, audit=STATE, gives=NewTokenView.made)
    async def create(
        self,
        name: str,
        role: str,
        *,
        jobs: Sequence[str] = (),
        queues: Sequence[str] = (),
        expires: Span | None = None,
    ) -> NewToken:
        """Make a token of this role (`ping`, `read`, `operate`, `admin`). It expires after `expires` seconds, if given.

        `jobs`: only of jobs whose ids begin with one of these; `queues`: only of jobs in one of these. Raises
        `InvalidInput` and `AlreadyExists`.
        """
        text = new_text(check_token_name(name), self._random)
        now = await self._now()
        token = AccessToken(
            name=name,
            digest=digest_of(text),
            role=chosen(Role, "role", role),
            scope=_scope(jobs, queues),
            created=now,
            by=self._author,
            expires=None
            if expires is None
            else Moment(now + round(seconds_of("expires", expires, above_zero=True) * SECOND)),
        )
        _check_whole(token)
        await self._documents.add(name, token)
        return NewToken(token=token, text=text)

    @operation(Role.ADMIN, WHOLE, doing="Listing tokens", gives=list_of(TokenView.made))
    async def list(self) -> Sequence[AccessToken]:
        """Return all tokens by name, expired ones included."""
        return await self._documents.list()

    async def _state(self, name: str) -> object:
        """Return the token without its hash."""
        token = next((each for each in await self.list() if each.name == name), None)
        return None if token is None else {"role": token.role, "scope": token.scope, "expires": token.expires}

    @operation(Role.ADMIN, WHOLE, audit=STATE)
    async def revoke(self, name: str) -> None:
        """Revoke a token. Every node refuses it within two seconds. Raises `NotFound`."""
        await self._documents.remove(check_token_name(name))


class _KnownToken(Struct, frozen=True):
    """The store's answer about a name, and when it was asked."""

    token: AccessToken | None
    asked: float


class Holders:
    """Holders of tokens. The store's answer about a name is believed for `KNOWN_FOR` seconds."""

    def __init__(self, documents: Documents[AccessToken], now: Now, clock: Clock, guests: "Guests") -> None:
        self._guests = guests
        self._documents = documents
        self._now = now
        self._clock = clock
        self._known: OrderedDict[str, _KnownToken] = OrderedDict()

    async def bearer(self, text: str) -> AccessToken | None:
        """Return the token of this text, expired or not; None if there is none. Raises `StoreError`."""
        if (guest := self._guests(text)) is not None:
            return guest
        name = name_in(text)
        token = None if name is None else await self.named(name)
        return token if token is not None and is_text_of(token, text) else None

    async def named(self, name: str) -> AccessToken | None:
        """Return the token of this name; None if there is none. Raises `StoreError`."""
        return (await self._ask(name)).token

    async def now(self) -> Moment:
        """Return the store's time, by which tokens are over."""
        return await self._now()

    async def _ask(self, name: str) -> _KnownToken:
        sent = self._clock.monotonic()
        known = self._known.get(name)
        if known is None or sent >= known.asked + KNOWN_FOR:
            known = _KnownToken(await self._read(name), sent)
            self._known[name] = known
            self._known.move_to_end(name)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return known

    async def _read(self, name: str) -> AccessToken | None:
        try:
            return await self._documents.get(name)
        except NotFound:
            return None


Guests = Callable[[str], AccessToken | None]
"""Knows the tokens of attempts that run on this node."""


def nobody(_: str) -> AccessToken | None:
    """Return None, for a store without tokens of attempts."""


def holders_of(tokens: Tokens[Inside], clock: Clock, guests: Guests = nobody) -> Holders:
    """Return the holders of these tokens, and of tokens that no store knows."""
    return Holders(tokens._documents, tokens._now, clock, guests)


def _scope(jobs: Sequence[str], queues: Sequence[str]) -> Scope:
    prefixes = [check_job_id(prefix, field="jobs") for prefix in few("jobs", jobs, MOST_PREFIXES)]
    names = [str(queue) for queue in few("queues", queues, MOST_PREFIXES)]
    for queue in names:
        check_word("queues", queue)
    return Scope(jobs=tuple(prefixes), queues=tuple(names))


def _check_whole(token: AccessToken) -> None:
    """Refuse a scope for an admin token, whose holder could make a token without a scope. Raises `InvalidInput`."""
    if token.role is Role.ADMIN and not token.scope.is_everything:
        raise InvalidInput(
            "role: an admin may do everything, so a token of that role has neither jobs nor queues",
            field="role",
            value=token.role,
            allowed="ping, read or operate beside --jobs and --queues",
        )
