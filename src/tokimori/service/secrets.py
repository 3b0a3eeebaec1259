"""Secrets of jobs: they are set, listed and deleted here, and opened for the node that runs a job."""

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from tokimori.errors import Conflict, NotFound, Refused, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.document import Document
from tokimori.model.ids import RandomBytes, check_job_id
from tokimori.model.secret import (
    Secret,
    SecretContent,
    check_secret_name,
    check_value,
    decode_secret,
    encode_content,
    encode_secret,
    no_key,
    value_in,
)
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.ports.secrets import Cipher, OpenSecret
from tokimori.service.access import OPEN, WHOLE, Sight
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.operation import OUTCOME, STATE, Inside, M, Part, operation
from tokimori.service.store_calls import Now, retried
from tokimori.service.validation import few
from tokimori.service.views.access import Secret as SecretView
from tokimori.service.views.outside import list_of

SECRETS = DocumentKind("secret", encode_secret, decode_secret)
MOST_PREFIXES = 100
"""Prefixes of the jobs that may use one secret."""


class NoCipher:
    """Cipher without a key."""

    def seal(self, content: bytes) -> str:
        """Raise `Refused`."""
        raise no_key()

    def open(self, sealed: str) -> bytes:
        """Raise `Refused`."""
        raise no_key()


class Secrets(Part[M]):
    """Values that jobs name as `{{ secret.NAME }}`; they are never shown again. Every method may raise `StoreError`."""

    noun, word = "secrets", "secret"

    def __init__(
        self, store: DocumentStore, now: Now, random: RandomBytes, author: str | None, cipher: Cipher | None
    ) -> None:
        self._documents = Documents(store, SECRETS, random)
        self._now = now
        self._author = author
        self._cipher = cipher or NoCipher()

    @operation(Role.ADMIN, WHOLE, audit=STATE, gives=SecretView.made)
    async def set(self, name: str, value: str, *, jobs: Sequence[str] | None = None) -> Secret:
        """Store a secret, or replace its value. `jobs`: only jobs whose ids begin so may use it; empty: all.

        None leaves that as it is. What starts from now on gets the new value. Raises `InvalidInput`, and `Refused`
        without a key.
        """
        checked, text = check_secret_name(name), check_value(value)
        prefixes = None if jobs is None else _prefixes(jobs)
        return await retried(lambda: self._set(checked, text, prefixes), Conflict)

    async def _set(self, name: str, value: str, jobs: tuple[str, ...] | None) -> Secret:
        known = await self._document_or_none(name)
        if jobs is None:
            jobs = () if known is None else self._documents.value_of(known).jobs
        sealed = await self._sealed(SecretContent(name, jobs, value))
        secret = Secret(name=name, sealed=sealed, jobs=jobs, at=await self._now(), by=self._author)
        if known is None:
            await self._documents.add(name, secret)
        else:
            await self._documents.replace(known, secret)
        return replace(secret, sealed="")

    @operation(Role.OPERATE, OPEN, doing="Listing secrets", gives=list_of(SecretView.made))
    async def list(self) -> Sequence[Secret]:
        """Return all secrets, by name, without their values."""
        return [replace(secret, sealed="") for secret in await self._documents.list()]

    @list.within
    async def _list_within(self, sight: Sight) -> Sequence[Secret]:
        """Return the secrets to which the token has a right of its own: see `judge_of`."""
        return [each for each in await self.list() if sight.scope.may_name(each.jobs)]

    async def _state(self, name: str) -> object:
        """Return the secret without its value, which nothing shows."""
        secret = next((each for each in await self.list() if each.name == name), None)
        return None if secret is None else {"jobs": secret.jobs, "set": secret.at, "by": secret.by}

    @operation(Role.ADMIN, WHOLE, audit=STATE)
    async def delete(self, name: str) -> None:
        """Delete a secret: runs of jobs that name it fail from now on. Raises `NotFound`."""
        await self._documents.remove(check_secret_name(name))

    @operation(Role.ADMIN, WHOLE, audit=OUTCOME, of="secrets", doing="Rotating the key of secrets")
    async def rotate(self) -> int:
        """Encrypt all secrets again with the first key, and return their number. The other keys can then be removed.

        Raises `Refused` for one that no key opens; those before it are done.
        """
        names = [secret.name for secret in await self.list()]
        for name in names:
            await retried(partial(self._rotate, name), Conflict)
        return len(names)

    async def _rotate(self, name: str) -> None:
        known = await self._document_or_none(name)
        if known is not None:
            secret = self._documents.value_of(known)
            content = SecretContent(name, secret.jobs, await self._value_of(secret))
            await self._documents.replace(known, replace(secret, sealed=await self._sealed(content)))

    async def _document_or_none(self, name: str) -> Document | None:
        try:
            return await retried(partial(self._documents.find, name), StoreUnavailable)
        except NotFound:
            return None

    async def _sealed(self, content: SecretContent) -> str:
        return await asyncio.to_thread(self._cipher.seal, encode_content(content))

    async def _value_of(self, secret: Secret) -> str:
        try:
            opened = await asyncio.to_thread(self._cipher.open, secret.sealed)
        except Refused as fault:
            raise _unreadable(secret.name, fault.message) from None
        value = value_in(secret, opened)
        if value is None:
            raise _unreadable(secret.name, "its name or its jobs were changed in the store")
        return value


class Vault:
    """The values of secrets, for the node that runs a job; no door asks it."""

    def __init__(self, secrets: Secrets[Inside]) -> None:
        self._secrets = secrets

    async def open(self, name: str) -> OpenSecret:
        """See `tokimori.ports.documents.Vault`."""
        known = await self._secrets._document_or_none(name)
        if known is None:
            raise _missing(name)
        secret = self._secrets._documents.value_of(known)
        return OpenSecret(name=name, value=await self._secrets._value_of(secret), jobs=secret.jobs)


def _prefixes(jobs: Sequence[str]) -> tuple[str, ...]:
    return tuple(check_job_id(prefix, field="jobs") for prefix in few("jobs", jobs, MOST_PREFIXES))


def _missing(name: str) -> NotFound:
    return NotFound(
        f"secret: there is no secret {name!r}: `tokimori secret set {name}` sets it",
        field="secret",
        value=name,
        allowed="See `tokimori secret list`.",
    )


def _unreadable(name: str, why: str) -> Refused:
    return Refused(
        f"secret: {name!r} can't be opened: {why}; or `tokimori secret set {name}` sets it anew",
        field="secret",
        value=name,
    )
