"""What stores with tables do by the same statements: a server's or a file's own part is how it carries them out."""

from abc import abstractmethod
from collections.abc import Sequence

from tokimori.model.decide import Due
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job
from tokimori.model.pause import Pause
from tokimori.model.run import Attempt, Output, Skip
from tokimori.ports.nodes import NodeRecord
from tokimori.stores.documents import span
from tokimori.stores.job_rows import DELETED, JOB, due_of, job_of, tombstone_of
from tokimori.stores.rows import (
    ATTEMPT,
    DOCUMENT,
    NODE,
    OUTPUT,
    PAUSE,
    SKIP,
    Row,
    attempt_of,
    document_of,
    document_row,
    node_of,
    output_of,
    pause_of,
    skip_of,
)
from tokimori.stores.rules.errors import document_changed, existing, no_document, no_job


class TableReader:
    """The part of a store that is asked for seldom, each by one statement of its own.

    `_if_new` ends the insert of a document: one of the same name stays as it is. `_due` selects jobs `j` as
    `due_of` reads them.
    """

    _if_new = "ON CONFLICT DO NOTHING"
    _due: str

    @abstractmethod
    async def _select(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows that the statement finds; in it `%s` stands for each value."""

    @abstractmethod
    async def _change(self, statement: str, *values: object) -> int:
        """How many rows the statement has changed, in a transaction of its own."""

    @abstractmethod
    def tell(self) -> None:
        """Tell whoever watches of a change."""

    async def _row(self, statement: str, *values: object) -> Row | None:
        return next(iter(await self._select(statement, *values)), None)

    async def get_job(self, job_id: JobId) -> Job:
        found = await self._row(f"SELECT {JOB} FROM tokimori_jobs WHERE id = %s", job_id)
        return job_of(existing(found, no_job(job_id)))

    async def list_jobs(self, *, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        """See `Jobs.list_jobs`. The comment is for MariaDB and MySQL alone, which carry it out."""
        index, restriction = ("due", "AND state = 'enabled' AND next_due IS NULL") if idle else ("id", "")
        statement = f"""SELECT {JOB} FROM tokimori_jobs /*! FORCE INDEX (tokimori_jobs_{index}) */
            WHERE id > %s {restriction} ORDER BY id LIMIT %s"""
        return [job_of(row) for row in await self._select(statement, after or "", limit)]

    async def get_due(self, job_id: JobId) -> Due:
        return due_of(existing(await self._row(f"{self._due} WHERE j.id = %s", job_id), no_job(job_id)))

    async def deleted_job(self, job_id: JobId) -> Job:
        return tombstone_of(job_id, existing(await self._row(DELETED, job_id), no_job(job_id)))

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        statement = "SELECT incarnation, job_id FROM tokimori_deleted_jobs WHERE incarnation > %s ORDER BY 1 LIMIT %s"
        return [(row[0], row[1]) for row in await self._select(statement, -1 if after is None else after, limit)]

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        job = await self.get_job(job_id)
        statement = f"SELECT {SKIP} FROM tokimori_skips WHERE incarnation = %s ORDER BY first DESC LIMIT %s"
        return [skip_of(row) for row in await self._select(statement, job.incarnation, limit)]

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        statement = f"SELECT {ATTEMPT} FROM tokimori_attempts WHERE run_id = %s ORDER BY number"
        return [attempt_of(row) for row in await self._select(statement, run_id)]

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        statement = f"SELECT {OUTPUT} FROM tokimori_outputs WHERE run_id = %s AND attempt = %s"
        row = await self._row(statement, run_id, attempt)
        return None if row is None else output_of(row)

    async def get_document(self, kind: str, name: str) -> Document:
        return existing(await self._document(kind, name), no_document(kind, name))

    async def _document(self, kind: str, name: str) -> Document | None:
        statement = f"SELECT {DOCUMENT} FROM tokimori_documents WHERE kind = %s AND name = %s"
        row = await self._row(statement, kind, name)
        return None if row is None else document_of(row)

    async def list_documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        comparison, first, last = span(prefix, after)
        statement = f"""SELECT {DOCUMENT} FROM tokimori_documents
            WHERE kind = %s AND name {comparison} %s AND name <= %s ORDER BY name LIMIT %s"""
        return [document_of(row) for row in await self._select(statement, kind, first, last, limit)]

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """See `Documents.put_document`. What one statement did not write another one looks at: nobody waits between."""
        kind, name, text, version = document_row(document)
        if replaces is None:
            statement = f"INSERT INTO tokimori_documents ({DOCUMENT}) VALUES (%s, %s, %s, %s) {self._if_new}"
            written = await self._change(statement, kind, name, text, version)
        else:
            statement = "UPDATE tokimori_documents SET text = %s, version = %s WHERE kind = %s AND name = %s"
            written = await self._change(f"{statement} AND version = %s", text, version, kind, name, replaces)
        if not written and await self._document(kind, name) != document:
            raise document_changed(kind, name)

    async def delete_document(self, kind: str, name: str, version: int) -> None:
        statement = "DELETE FROM tokimori_documents WHERE kind = %s AND name = %s AND version = %s"
        deleted = await self._change(statement, kind, name, version)
        if not deleted and await self._document(kind, name) is not None:
            raise document_changed(kind, name)

    async def delete_pause(self, queue: str) -> None:
        await self._change("DELETE FROM tokimori_pauses WHERE queue = %s AND queue <> ''", queue)
        self.tell()

    async def list_pauses(self) -> list[Pause]:
        """See `Pausing.list_pauses`. Without the row of no queue, which MariaDB locks."""
        statement = f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue <> '' ORDER BY queue"
        return [pause_of(row) for row in await self._select(statement)]

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        statement = f"""SELECT {NODE} FROM tokimori_nodes
            ORDER BY state <> 'alive', coalesce("left", started) DESC, id DESC LIMIT %s"""
        return [node_of(row) for row in await self._select(statement, limit)]
