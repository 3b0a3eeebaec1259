"""Requests that are sent again: the key that a principal puts on one is his, and stands for that request alone."""

from hashlib import sha256

import msgspec

from tokimori.errors import AlreadyExists, Conflict, InvalidInput
from tokimori.model.ids import uuid7
from tokimori.model.request import KEPT, KIND, Keyed, decode_keyed, encode_keyed
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.service import Service
from tokimori.service.store_calls import retried

KEYED = DocumentKind(KIND, encode_keyed, decode_keyed)
LONGEST = 255


async def made_under(service: Service, principal: str, key: str, said: object) -> str:
    """Return the inner key of a request: the same one each time that the request is sent.

    Other callers get other keys, and another request under the same key is refused. Raises `InvalidInput`.
    """
    if not 1 <= len(key) <= LONGEST or not key.isprintable():
        allowed = f"1 to {LONGEST} printable characters"
        raise InvalidInput(f"Idempotency-Key: {key!r} is no key", field="Idempotency-Key", value=key, allowed=allowed)
    digest = sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()
    name = sha256(msgspec.json.encode([principal, key])).hexdigest()
    known = await retried(lambda: _keyed(service, name, digest), AlreadyExists, Conflict)
    if known.digest != digest:
        message = f"Idempotency-Key: another request was sent with the key {key!r}"
        raise InvalidInput(message, field="Idempotency-Key", value=key, allowed="a new key for a new request")
    return known.made


async def _keyed(service: Service, name: str, digest: str) -> Keyed:
    documents, now = Documents(service._shared.store, KEYED, service._shared.random), await service._shared.now()
    fresh = Keyed(at=now, digest=digest, made=uuid7(now, service._shared.random))
    for document in await service._shared.store.list_documents(KIND, prefix=name, limit=1):
        known = documents.value_of(document)
        if known.at >= now - KEPT:
            return known
        await documents.replace(document, fresh)
        return fresh
    await documents.add(name, fresh)
    return fresh
