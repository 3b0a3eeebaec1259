"""Builds of tasks in the store: pieces of a file, under its task and its digest; and those that are being uploaded."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tokimori.clock import Moment
from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.build import (
    MOST_PIECES,
    MOST_UPLOADS,
    UPLOAD,
    UPLOADED,
    Upload,
    build_name,
    check_digest,
    check_task_name,
    content_of,
    decode_upload,
    encode_upload,
    manifest_of,
    piece_name,
    upload_name,
)
from tokimori.model.ids import RandomBytes
from tokimori.model.task import BuildRecord
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.store_calls import retried
from tokimori.service.validation import checked

BUILDS = DocumentKind("build", str, str)
UPLOADS, PIECES = DocumentKind(UPLOAD, encode_upload, decode_upload), DocumentKind(UPLOADED, str, str)


class Uploads:
    """Unfinished uploads of builds, in pieces. Only the uploader sees them until the build is complete."""

    def __init__(self, store: DocumentStore, random: RandomBytes, by: str | None) -> None:
        self._uploads = Documents(store, UPLOADS, random)
        self._pieces = Documents(store, PIECES, random)
        self._by = by

    async def has(self, task: str, digest: str) -> bool:
        """Check if he makes this build."""
        return bool(await self._uploads.list(upload_name(self._by, task, digest)))

    async def begin(self, task: str, digest: str, now: Moment) -> Upload:
        """Begin an upload for the caller. Raises `Refused` if it has too many unfinished ones."""
        if len(await self._uploads.list(upload_name(self._by))) >= MOST_UPLOADS:
            message = f"build: {MOST_UPLOADS} builds are being uploaded already: finish one, or wait for a day"
            raise Refused(message, field="build", value=digest, allowed=f"at most {MOST_UPLOADS} at a time")
        upload = Upload(by=self._by, at=now, digest=digest)
        await self._uploads.put(upload_name(self._by, task, digest), upload)
        return upload

    async def put(self, task: str, digest: str, number: int, piece: str) -> None:
        """Keep a piece, in place of one that may be there."""
        await self._pieces.put(f"{upload_name(self._by, task, digest)}.{number:04}", piece)

    async def pieces(self, task: str, digest: str) -> dict[int, str]:
        """Return the uploaded pieces by number."""
        name = f"{upload_name(self._by, task, digest)}."
        return {int(each.name[-4:]): each.text async for each in self._pieces.each(name)}

    async def end(self, task: str, digest: str) -> None:
        """Delete an upload with its pieces."""
        name = upload_name(self._by, task, digest)
        await retried(lambda: self._pieces.delete_all(f"{name}."), Conflict, StoreUnavailable)
        await self._uploads.discard(name)


def checked_place(task: str, digest: str, number: int, piece: str) -> None:
    """Refuse a number or text that can't be a piece of a build. Raises `InvalidInput`."""
    checked("number", number, MOST_PIECES - 1, least=0)
    check_task_name(task)
    check_digest(digest)
    if not isinstance(piece, str):
        raise InvalidInput("piece: it is no text", field="piece", allowed="base64")


class Builds:
    """Files under their tasks and digests, in pieces. Every method may raise `StoreError`."""

    def __init__(self, store: DocumentStore, random: RandomBytes) -> None:
        self._store = store
        self._documents = Documents(store, BUILDS, random)

    async def store(self, task: str, digest: str, pieces: Sequence[str]) -> None:
        """Store a build that is whole, and what its digest names: nothing else is written under that name."""
        for number, piece in enumerate(pieces):
            await self._documents.put(piece_name(task, digest, number), piece)

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """See `tokimori.ports.executor.Builds`."""
        found = await self._documents.list(f"{build_name(check_task_name(task), check_digest(digest))}.")
        if not found:
            raise NotFound(
                f"No build of {task} has the digest {digest[:12]}. Run `tokimori task build {task}`.",
                field="build",
                value=digest,
                allowed=f"See `tokimori task builds {task}`.",
            )
        return found

    async def delete(self, task: str, digest: str) -> None:
        """Delete all pieces of a build; it is no error if there are none."""
        await self._delete(f"{build_name(task, digest)}.")

    async def delete_all(self, task: str) -> None:
        """Delete all pieces of a task, unfinished uploads included."""
        await self._delete(build_name(task, ""))

    async def _delete(self, prefix: str) -> None:
        await retried(lambda: self._documents.delete_all(prefix), Conflict, StoreUnavailable)


async def is_whole(builds: Builds, name: str, digest: str, number: int, piece: str) -> bool:
    """Return whether the piece exists and fits its digest."""
    with suppress(NotFound):
        pieces = await builds.pieces(name, digest)
        if number < len(pieces) and pieces[number] == piece:
            return True
        with suppress(Refused):
            await asyncio.to_thread(content_of, pieces, digest)
            message = f"build: {digest[:12]} is whole, and none of its pieces becomes another one"
            raise AlreadyExists(message, field="build", value=digest, allowed="another digest for another build")
    return False


async def complete(builds: Builds, uploads: Uploads, name: str, build: BuildRecord) -> None:
    """Store the uploaded build if it fits its digest. The upload ends in either case."""
    uploaded = await uploads.pieces(name, build.digest)
    try:
        kept = [] if uploaded.keys() >= set(range(build.pieces)) else await builds.pieces(name, build.digest)
        pieces = [piece for _, piece in sorted({**dict(enumerate(kept)), **uploaded}.items())]
        await _check_content(name, build, pieces)
        if uploaded:
            await builds.store(name, build.digest, pieces)
    finally:
        await uploads.end(name, build.digest)


async def _check_content(name: str, build: BuildRecord, pieces: Sequence[str]) -> None:
    content = await asyncio.to_thread(content_of, pieces, build.digest)
    task = (await asyncio.to_thread(manifest_of, content)).task
    if task != name or len(pieces) != build.pieces or len(content) != build.size:
        raise Refused(f"build: {build.digest[:12]} is one of {task!r}", field="build", value=build.digest)
