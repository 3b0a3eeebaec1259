"""Statements that all stores with tables share. Each store carries them out in its own way."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from tokimori.clock import DAY, Moment
from tokimori.model.decide import Due
from tokimori.model.document import LONGEST_NAME, Document
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause
from tokimori.model.retention import FIRST_ID, MOST_COUNTED, DailyCount, daily_counts
from tokimori.model.run import Attempt, Details, Output, Run, Skip, encode_details, may_hold, may_resume
from tokimori.model.transitions import ENDS, STANDING_STILL, RunState
from tokimori.ports.copying import Copied, Key, Kind
from tokimori.ports.ends import EndPlace, Ends
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import MOST_TALLIED, RunFilter, Tally
from tokimori.stores import rows
from tokimori.stores.copying import SOURCES, RowSource, page, value_of
from tokimori.stores.rows import DELETED, JOB, Row, due_of, job_of, tombstone_of
from tokimori.stores.rules.errors import document_changed, existing, no_document, no_job, no_run
from tokimori.stores.rules.new_runs import is_readable

FORGET = """
DELETE FROM tokimori_deleted_jobs WHERE incarnation = {incarnation}
    AND NOT EXISTS (SELECT 1 FROM tokimori_skips WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_arrivals WHERE incarnation = {incarnation})
    AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = {incarnation})
    AND (EXISTS (SELECT 1 FROM tokimori_jobs WHERE id = {job})
        OR NOT EXISTS (SELECT 1 FROM tokimori_history WHERE job_id = {job}))"""
"""Forget a deleted job without rows."""
_SKIPS = f"""
SELECT last - last %% {DAY} AS day, reason, sum(count), 0, count(*) FROM (
    SELECT last, reason, count FROM tokimori_skips
    WHERE incarnation {{}} LIMIT {MOST_COUNTED + 1}) kept GROUP BY 1, 2"""
COUNTS = f"""
SELECT ended - ended %% {DAY} AS day, state, count(*), 0, count(*) FROM (
    SELECT ended, state FROM tokimori_history /*! FORCE INDEX (tokimori_history_job) */ WHERE job_id = %s
    ORDER BY id DESC LIMIT {MOST_COUNTED + 1}) newest GROUP BY 1, 2
UNION ALL
{_SKIPS.format("= (SELECT incarnation FROM tokimori_jobs WHERE id = %s) ORDER BY first DESC")}
UNION ALL
{_SKIPS.format("IN (SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = %s)")}
UNION ALL
SELECT day, outcome, 0, sum(count), 0 FROM tokimori_counts WHERE job_id = %s GROUP BY 1, 2"""
"""Rows that `daily_counts` reads. One statement, so that rows pruned meanwhile are counted once."""


_OF_JOB = "FROM tokimori_history /*! FORCE INDEX (tokimori_history_job_ends) */ WHERE job_id = newest.job"
TALLY = f"""SELECT newest.job, newest.number,
    (SELECT count(*) {_OF_JOB} AND state <> 'succeeded' AND state = 'failed' AND id >= newest.oldest),
    (SELECT count(*) {_OF_JOB} AND state <> 'succeeded' AND state = 'cancelled' AND id >= newest.oldest),
    (SELECT count(*) {_OF_JOB} AND state <> 'succeeded' AND state = 'skipped' AND id >= newest.oldest) FROM (
    SELECT max(job_id) AS job, count(*) AS number, {{oldest}} AS oldest FROM (
        SELECT job_id, id FROM tokimori_history /*! FORCE INDEX (tokimori_history_job) */
        WHERE job_id = {{job}} AND id >= {{since}} ORDER BY id DESC LIMIT {MOST_TALLIED}) listed) newest"""
"""A row that `tallies_of` reads. At most twice `MOST_TALLIED` entries of indexes are read, and no row."""
GET_RUN = " UNION ALL ".join(f"SELECT {rows.RUN} FROM tokimori_{table} WHERE id = %s" for table in ("runs", "history"))
"""One statement: a run that moves to the history meanwhile is in one of both."""
_FROM_NODES = "SELECT * FROM tokimori_nodes /*! FORCE INDEX (tokimori_nodes_gone) */ WHERE"
NODES = f"""
SELECT {{}} FROM ({_FROM_NODES} "left" IS NULL AND state = 'alive' UNION ALL SELECT * FROM (
    {_FROM_NODES} "left" IS NOT NULL AND state <> 'alive' ORDER BY "left" DESC LIMIT %s) gone) n {{}}
ORDER BY n.state <> 'alive', coalesce(n."left", n.started) DESC, n.id DESC LIMIT %s"""
"""Living nodes and the last ones that have left; an index finds these."""
RESUME = """UPDATE tokimori_runs SET state = 'waiting', error = NULL, details = %s
WHERE id = %s AND state = 'held' AND coalesce(details, '') = coalesce(%s, '')"""
LEAVE_LINE = """UPDATE tokimori_runs SET state = %s, error = coalesce(%s, error), nominal = coalesce(%s, nominal),
    "rank" = "rank" + coalesce(%s - due, 0), due = coalesce(%s, due), blocked_on = NULL WHERE id = %s"""

HELD = "SELECT 1 FROM tokimori_documents WHERE kind = %s AND name = %s AND version = %s"
"""Condition that a document has this version."""
_ENDS = RowSource(rows.ENDED, "tokimori_history /*! FORCE INDEX (tokimori_history_written) */", ("written", "id"))
_JOBS_AT_ONCE = 50


def tallies_of(found: Sequence[Row]) -> list[Tally]:
    """Return the tallies of jobs that have ended runs."""
    return [Tally(JobId(job), number - sum(bad), bad[0]) for job, number, *bad in found if number]


class TableReader:
    """Rarely used methods of a store, each one statement.

    `_if_new` ends the insert of a document: one of the same name stays. `_has_bytes` and `_has_text` find some in a
    column; `_scanned_id` is the id of a job if few of all are wanted. `_due` selects jobs `j` as `due_of` reads them.
    """

    _if_new = "ON CONFLICT DO NOTHING"
    _has_bytes = _has_text = "instr({}, %s) > 0"
    _scanned_id = "id"
    _due: str
    _nodes = NODES.format(rows.NODE, "")
    _sources = SOURCES

    @abstractmethod
    async def _select(self, statement: str, *values: object) -> Sequence[Row]:
        """Return the rows that the statement finds; `%s` marks each value."""

    @abstractmethod
    async def _change(self, statement: str, *values: object) -> int:
        """Carry out a statement in a transaction of its own; return the number of rows that it changed."""

    @abstractmethod
    async def _cancel_run(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None) -> object:
        """End a run that has not started, order a running one to end, and leave all others: see `Runs.cancel_run`."""

    @abstractmethod
    async def _leave_line(self, run_id: RunId, was: Moment | None, state: RunState, *new: object) -> object:
        """Change a run that has not begun, and is due at `was` (None: at any), by `LEAVE_LINE`; pass its turn on."""

    @abstractmethod
    def send_notice(self) -> None:
        """Notify the watchers of a change."""

    async def _row(self, statement: str, *values: object) -> Row | None:
        return next(iter(await self._select(statement, *values)), None)

    async def get_job(self, job_id: JobId) -> Job:
        found = await self._row(f"SELECT {JOB} FROM tokimori_jobs WHERE id = %s", job_id)
        return job_of(existing(found, no_job(job_id)))

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job]:
        """See `Jobs.get_jobs`. The last id fills up a statement, so that two texts are prepared for any number."""
        size = 1 if len(job_ids) == 1 else _JOBS_AT_ONCE
        wanted = f"SELECT {JOB} FROM tokimori_jobs WHERE id IN ({', '.join(['%s'] * size)})"
        parts = [job_ids[first : first + size] for first in range(0, len(job_ids), size)]
        filled = [[*part, *[part[-1]] * (size - len(part))] for part in parts]
        return [job_of(row) for part in filled for row in await self._select(wanted, *part)]

    async def list_jobs(
        self,
        *,
        after: JobId | None = None,
        limit: int = 1000,
        idle: bool = False,
        like: Sequence[str] = (),
        states: Collection[JobState] = (),
    ) -> list[Job]:
        """See `Jobs.list_jobs`. The comment is a hint that only MariaDB and MySQL read."""
        index, restriction = ("due", "AND state = 'enabled' AND next_due IS NULL") if idle else ("id", "")
        restriction += "".join(f" AND {self._has_text.format('definition')}" for _ in like)
        restriction += f" AND state IN ({', '.join(['%s'] * len(states))})" if states else ""
        is_rare = bool(like) or (bool(states) and JobState.ENABLED not in states)
        column = self._scanned_id if is_rare else "id"
        statement = f"""SELECT {JOB} FROM tokimori_jobs /*! FORCE INDEX (tokimori_jobs_{index}) */
            WHERE {column} > %s {restriction} ORDER BY {column} LIMIT %s"""
        return [job_of(row) for row in await self._select(statement, after or "", *like, *sorted(states), limit)]

    async def list_queues(self, first: str, limit: int) -> list[tuple[str, int]]:
        """See `Jobs.list_queues`. An entry of an index is read for each job, or on PostgreSQL each row."""
        statement = """SELECT queue, count(*) FROM tokimori_jobs /*! FORCE INDEX (tokimori_jobs_queue) */
            WHERE queue >= %s GROUP BY queue ORDER BY queue LIMIT %s"""
        return [(row[0], row[1]) for row in await self._select(statement, first, limit)]

    async def get_due(self, job_id: JobId) -> Due:
        return due_of(existing(await self._row(f"{self._due} WHERE j.id = %s", job_id), no_job(job_id)))

    async def deleted_job(self, job_id: JobId) -> Job:
        return tombstone_of(job_id, existing(await self._row(DELETED, job_id), no_job(job_id)))

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        statement = "SELECT incarnation, job_id FROM tokimori_deleted_jobs WHERE incarnation > %s ORDER BY 1 LIMIT %s"
        return [(row[0], row[1]) for row in await self._select(statement, -1 if after is None else after, limit)]

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        job = await self.get_job(job_id)
        statement = f"SELECT {rows.SKIP} FROM tokimori_skips WHERE incarnation = %s ORDER BY first DESC LIMIT %s"
        return [rows.skip_of(row) for row in await self._select(statement, job.incarnation, limit)]

    async def get_run(self, run_id: RunId) -> Run:
        return rows.run_of(existing(await self._row(GET_RUN, run_id, run_id), no_run(run_id)))

    async def ended_among(self, run_ids: Sequence[RunId]) -> list[RunId]:
        """See `Endings.ended_among`. Some ids are repeated, so that servers see few different statements."""
        asked = list(run_ids) + list(run_ids[-1:]) * ((1 << max(0, len(run_ids) - 1).bit_length()) - len(run_ids))
        statement = f"SELECT id FROM tokimori_history WHERE id IN ({', '.join(['%s'] * len(asked))})"
        return [RunId(str(row[0])) for row in await self._select(statement, *asked)] if asked else []

    def expect(self, run_ids: Sequence[RunId], on_ends: Callable[[Sequence[RunId]], None]) -> bool:
        """See `Endings.expect`. No other program sends notices of ends."""
        return False

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> Run:
        await self._cancel_run(run_id, reason, now, unbegun)
        self.send_notice()
        return await self.get_run(run_id)

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """See `Runs.hold_run`. The rows are checked again under the locks; a loser reads again."""
        while may_hold(run := await self.get_run(run_id)):
            await self._leave_line(run_id, None, RunState.HELD, reason, None, None, None)
            self.send_notice()
        return run

    async def resume_run(self, run_id: RunId, details: tuple[Details, Details] | None = None) -> Run:
        run = await self.get_run(run_id)
        if may_resume(run):
            before, after = map(encode_details, details or (run.details, run.details))
            await self._change(RESUME, after, run_id, before)
            self.send_notice()
        return await self.get_run(run_id)

    async def hasten_run(self, run: Run, due: Moment, nominal: Moment) -> None:
        await self._leave_line(run.id, run.due, RunState.WAITING, None, nominal, due, due)
        self.send_notice()

    async def ended_since(self, place: EndPlace, limit: int) -> Ends:
        statement, values = page(_ENDS, (place.written, place.tie if len(place.tie) == len(FIRST_ID) else FIRST_ID))
        found = [rows.ended_of(row) for row in await self._select(statement, *values, limit)]
        return Ends(found=found, rest=EndPlace(found[-1].written, found[-1].id) if len(found) == limit else None)

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        statement = f"SELECT {rows.ATTEMPT} FROM tokimori_attempts WHERE run_id = %s ORDER BY number"
        return [rows.attempt_of(row) for row in await self._select(statement, run_id)]

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        statement = f"SELECT {rows.OUTPUT} FROM tokimori_outputs WHERE run_id = %s AND attempt = %s"
        row = await self._row(statement, run_id, attempt)
        return None if row is None else rows.output_of(row)

    async def outputs_with(self, text: bytes, attempts: Mapping[RunId, int]) -> list[RunId]:
        """See `Runs.outputs_with`. The server searches, because it would send up to 128 KiB of each output."""
        ids, has = ", ".join(["%s"] * len(attempts)) or "NULL", self._has_bytes
        statement = f"SELECT run_id, attempt FROM tokimori_outputs WHERE run_id IN ({ids}) AND attempt > 0"
        statement += f" AND ({has.format('head')} OR {has.format('tail')})"
        found = await self._select(statement, *attempts, text, text)
        return [run_id for run_id, attempt in found if attempts.get(run_id) == attempt]

    async def tallies(self, job_ids: Sequence[JobId], since: RunId) -> list[Tally]:
        statement = " UNION ALL ".join([TALLY.format(job="%s", since="%s", oldest="min(id)")] * len(job_ids))
        values = [value for job_id in job_ids for value in (job_id, since)]
        return tallies_of(await self._select(statement, *values)) if job_ids else []

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        return daily_counts(await self._select(COUNTS, *4 * (job_id,)))

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        statement, values = page(self._sources[kind], after or ())
        return [value_of(kind, row) for row in await self._select(statement, *values, limit)]

    async def get_document(self, kind: str, name: str) -> Document:
        return existing(await self._document(kind, name), no_document(kind, name))

    async def _document(self, kind: str, name: str) -> Document | None:
        statement = f"SELECT {rows.DOCUMENT} FROM tokimori_documents WHERE kind = %s AND name = %s"
        row = await self._row(statement, kind, name)
        return None if row is None else rows.document_of(row)

    async def list_documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        """See `Documents.list_documents`. One bound on each side, for an index; names are not as long as `last`."""
        last = prefix + "\U0010ffff" * LONGEST_NAME
        comparison, first = (">", after) if after >= prefix else (">=", prefix)
        statement = f"""SELECT {rows.DOCUMENT} FROM tokimori_documents
            WHERE kind = %s AND name {comparison} %s AND name <= %s ORDER BY name LIMIT %s"""
        return [rows.document_of(row) for row in await self._select(statement, kind, first, last, limit)]

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """See `Documents.put_document`. If one statement does not write, another one finds out why."""
        kind, name, text, version = rows.document_row(document)
        if replaces is None:
            statement = f"INSERT INTO tokimori_documents ({rows.DOCUMENT}) VALUES (%s, %s, %s, %s) {self._if_new}"
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
        self.send_notice()

    async def list_pauses(self) -> list[Pause]:
        """See `Pausing.list_pauses`. The row without a queue, which MariaDB locks, is left out."""
        statement = f"SELECT {rows.PAUSE} FROM tokimori_pauses WHERE queue <> '' ORDER BY queue"
        return [rows.pause_of(row) for row in await self._select(statement)]

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        return [rows.node_of(row) for row in await self._select(self._nodes, limit, limit)]


T = TypeVar("T", Job, Due)


async def readable(page: Callable[[Job | None], Awaitable[list[T]]], limit: int) -> list[T]:
    """Return the first `limit` jobs that this program can read; `page` gives up to `limit` of those after a job.

    Unreadable ones do not count: however many are in front, the others are found.
    """
    found: list[T] = []
    after: Job | None = None
    while len(found) < limit:
        rows = await page(after)
        found += [row for row in rows if is_readable(_job(row))]
        if len(rows) < limit:
            break
        after = _job(rows[-1])
    return found[:limit]


def _job(row: Job | Due) -> Job:
    return row.job if isinstance(row, Due) else row


Select = tuple[str, str | None, str]
"""A table, an index of it, and the condition; without an index it walks the primary key."""
RUNNING = "tokimori_runs_owned"
"""Index of running runs, which are then sorted."""
STATE_LIVE, OF_JOB_LIVE = "tokimori_runs_state_live", "tokimori_runs_job_live"
_OF_A_JOB = STANDING_STILL | {RunState.RUNNING, RunState.SUCCEEDED}
"""States of the selects that together find all runs of a job: the one of succeeded runs finds all ended ones."""
NOT_RUNNING = "state <> 'running' AND created >= 0"
"""Condition of indexes without running runs. Statements of nodes do not have it, so their plans stay."""


def listed(wanted: RunFilter, job: str, before: str, *, apart: bool = True) -> Iterator[Select]:
    """Yield the selects of a list; `job` and `before` stand for the values of the filter.

    No index by state has the states of all runs: running ones are few and have owners, succeeded ones are many.
    `apart`: indexes of waiting runs are by state.
    """
    terms = [f"job_id = {job}"] * (wanted.job_id is not None) + [f"id < {before}"] * (wanted.before is not None)
    by_job = wanted.job_id is not None
    states = wanted.states or (_OF_A_JOB if by_job else frozenset())
    together = [] if apart else sorted(states & STANDING_STILL)
    for group in filter(None, [together, *([state] for state in sorted(states.difference(together)))]):
        table, index, of_index = _place(group[0], by_job=by_job)
        words = " OR ".join(f"{_form(state, by_job=by_job)} = '{state}'" for state in group)
        condition = f"({words})" if wanted.states or group[0] not in ENDS else "true"
        yield f"tokimori_{table}", index, " AND ".join([condition, of_index, *terms])
    for table in () if states else ("runs", "history"):
        yield f"tokimori_{table}", None, " AND ".join(terms) or "true"


def _form(state: RunState, *, by_job: bool) -> str:
    """Return the form of a state that only its own index has, so that no other index can serve."""
    if state in {RunState.RUNNING, *ENDS}:
        return "state"
    return "trim(state)" if by_job else "lower(state)"


def _place(state: RunState, *, by_job: bool) -> Select:
    match state:
        case RunState.RUNNING:
            return "runs", RUNNING, "true"
        case RunState.SUCCEEDED:
            return "history", "tokimori_history_job" if by_job else None, "true"
        case _ if state in ENDS:
            return "history", f"tokimori_history_{'job' if by_job else 'state'}_ends", "state <> 'succeeded'"
        case _:
            return "runs", OF_JOB_LIVE if by_job else STATE_LIVE, NOT_RUNNING
