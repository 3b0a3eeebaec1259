"""Builds of tasks in the store: pieces of a file, under its task and its digest."""

from collections.abc import Sequence

from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, StoreUnavailable
from tokimori.model.build import MOST_PIECES, build_name, check_digest, check_task_name, piece_name
from tokimori.model.ids import RandomBytes
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.service.asking import checked, retried
from tokimori.service.documents import DocumentKind, Documents

BUILDS = DocumentKind("build", str, str)


class Builds:
    """Files under their tasks and digests, in pieces. Every method may raise `StoreError`."""

    def __init__(self, store: DocumentStore, random: RandomBytes) -> None:
        self._store = store
        self._documents = Documents(store, BUILDS, random)

    async def put(self, task: str, digest: str, number: int, piece: str) -> None:
        """Keep a piece, in place of one that may be there. Raises `InvalidInput`."""
        place = checked("number", number, MOST_PIECES - 1, least=0)
        name = piece_name(check_task_name(task), check_digest(digest), place)
        if not isinstance(piece, str):
            raise InvalidInput("piece: it is no text", field="piece", allowed="base64")
        try:
            await self._documents.add(name, piece)
        except AlreadyExists:
            await retried(lambda: self._replace(name, piece), Conflict)

    async def _replace(self, name: str, piece: str) -> None:
        known = await self._documents.find(name)
        if known.text != piece:
            await self._documents.replace(known, piece)

    async def pieces(self, task: str, digest: str) -> Sequence[str]:
        """See `tokimori.ports.builds.Builds`."""
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
        """Delete all pieces of a task, those that nobody made a build of, too."""
        await self._delete(build_name(task, ""))

    async def _delete(self, prefix: str) -> None:
        await retried(lambda: self._documents.delete_all(prefix), Conflict, StoreUnavailable)
