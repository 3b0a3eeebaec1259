"""Rows of a file that somebody brings: each of every table is as programs write it, or refused in words."""

import asyncio
import inspect
import pkgutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

import tokimori.service
from tests.contract.stores.conftest import StoppedClock
from tests.contract.stores.filled import fill
from tokimori.client import snapshot
from tokimori.errors import StoreError
from tokimori.service.documents import DocumentKind
from tokimori.stores.sqlite.store import SqliteStore
from tokimori.stores.urls import Namespace

DOCUMENTS = {"calendar": str, "calendar-like": str, "Rule": int}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with something of everything in it."""

    async def made(file: Path) -> Path:
        store = SqliteStore(str(file), StoppedClock())
        await store.open()
        await store.migrate()
        await fill(store)
        await store.close()
        return file

    return asyncio.run(made(tmp_path_factory.mktemp("filled") / "t.db"))


def checked(database: Path, change: str = "") -> None:
    """Make the change in a copy, and check all rows of it."""
    with closing(sqlite3.connect(database)) as whole, closing(sqlite3.connect(":memory:")) as db:
        whole.backup(db)
        db.executescript(change)
        snapshot._check_all(db, Namespace(), DOCUMENTS)


def test_what_programs_write_is_taken(database: Path) -> None:
    """Rows of every kind, in every state."""
    checked(database)


RUN = "INSERT INTO tokimori_runs (id, job_id, incarnation, origin, nominal, due, state, priority, rank, created)"
UUID = "00000000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("change", "field", "value", "allowed"),
    [
        ("UPDATE tokimori_runs SET state = 'odd'", "runs.state", "'odd'", "waiting"),
        ("UPDATE tokimori_runs SET state = 'failed'", "runs.state", "'failed'", "waiting"),
        ("UPDATE tokimori_history SET state = 'ready'", "history.state", "'ready'", "succeeded"),
        ("UPDATE tokimori_runs SET due = 'soon'", "runs.due", "'soon'", "whole number"),
        ("UPDATE tokimori_runs SET due = 9e18", "runs.due", "9000000000000000000", "years 1 to 9999"),
        ("UPDATE tokimori_history SET started = 1.5", "history.started", "1.5", "whole number or nothing"),
        ("UPDATE tokimori_runs SET lane = 'x' WHERE lane IS NOT NULL", "runs.lane", "'x'", "QUEUE|HANDLER|LABELS"),
        (f"{RUN} VALUES ('r1', 'j', 1, 'm:1', 0, 0, 'held', 0, 0, 0)", "runs.id", "'r1'", "a UUID"),
        (f"{RUN} VALUES ('{UUID}', 'j', 1, 'x', 0, 0, 'held', 0, 0, 0)", "runs.origin", "'x'", "s:, b:, c: or m:"),
        (f"{RUN} VALUES ('{UUID}', '-', 1, 'm:1', 0, 0, 'held', 0, 0, 0)", "runs.job_id", "'-'", "A-Z"),
        (f"{RUN} VALUES ('{UUID}', 'j', 1, 'm:1', 0, 0, 'held', 101, 0, 0)", "runs.priority", "101", "-100 to 100"),
        ("UPDATE tokimori_runs SET blocked_on = 'me'", "runs.blocked_on", "'me'", "semaphore:NAME"),
        ("UPDATE tokimori_runs SET payload = CAST(x'ff' AS TEXT)", "runs.payload", r"b'\xff'", "a text"),
        ("UPDATE tokimori_runs SET payload = 'a' || char(0)", "runs.payload", r"'a\x00'", "without NUL"),
        ("UPDATE tokimori_jobs SET state = 'odd'", "jobs.state", "'odd'", "enabled"),
        ("UPDATE tokimori_jobs SET definition = '{}'", "jobs.definition", "'{}'", "a definition"),
        ("UPDATE tokimori_jobs SET days_off = '['", "jobs.days_off", "'['", "days off"),
        ("UPDATE tokimori_jobs SET semaphores = '[1]'", "jobs.semaphores", "'[1]'", "[[name, weight]"),
        ("UPDATE tokimori_deleted_jobs SET job_id = ''", "deleted_jobs.job_id", "''", "A-Z"),
        ("UPDATE tokimori_attempts SET outcome = 'odd'", "attempts.outcome", "'odd'", "timed out"),
        ("UPDATE tokimori_attempts SET token = -1", "attempts.token", "-1", "from 0"),
        ("UPDATE tokimori_outputs SET head = 'text'", "outputs.head", "'text'", "bytes"),
        ("UPDATE tokimori_skips SET reason = 'odd'", "skips.reason", "'odd'", "misfire"),
        ("UPDATE OR IGNORE tokimori_counts SET outcome = 'odd'", "counts.outcome", "'odd'", "succeeded"),
        ("UPDATE tokimori_nodes SET state = 'odd'", "nodes.state", "'odd'", "alive"),
        ("UPDATE tokimori_nodes SET labels = '{\"a\": 1}'", "nodes.labels", "'{\"a\": 1}'", "object of texts"),
        ("UPDATE tokimori_edges SET \"on\" = 'odd'", "edges.on", "'odd'", "failure"),
        ("UPDATE tokimori_semaphores SET \"limit\" = 'x'", "semaphores.limit", "'x'", "whole number"),
        ("UPDATE tokimori_pauses SET since = 'x'", "pauses.since", "'x'", "whole number"),
        ("UPDATE tokimori_arrivals SET latest = 'x'", "arrivals.latest", "'x'", "whole number"),
        ("UPDATE tokimori_family SET version = 'x'", "family.version", "'x'", "whole number"),
        ("INSERT INTO tokimori_moves VALUES (1, '', 0, 'x', '[]', NULL, 0, NULL)", "moves.forced_lane", "'x'", "QUEUE"),
        ("INSERT INTO tokimori_moves VALUES (1, '', 0, NULL, '[1]', NULL, 0, NULL)", "moves.names", "'[1]'", "texts"),
        ("INSERT INTO tokimori_requests VALUES ('x', 'x', 0)", "requests.run_id", "'x'", "a UUID"),
        ("INSERT INTO tokimori_tokens VALUES (1, -1)", "tokens.newest", "-1", "from 0"),
        ("INSERT INTO tokimori_permits VALUES ('x', 's', 'n', NULL, -1, 0, NULL, 0)", "permits.weight", "-1", "from 0"),
        ("UPDATE tokimori_documents SET kind = 'odd' WHERE kind = 'Rule'", "documents.kind", "'odd'", "calendar"),
        ("UPDATE tokimori_documents SET text = 'odd' WHERE kind = 'Rule'", "documents.text", "'odd'", "a Rule that"),
        ("UPDATE tokimori_documents SET version = 'odd'", "documents.version", "'odd'", "whole number"),
    ],
)
def test_a_row_that_no_program_writes_is_refused(
    database: Path, change: str, field: str, value: str, allowed: str
) -> None:
    """The error names its table, its row, the field, the value and what is allowed."""
    with pytest.raises(StoreError) as refused:
        checked(database, change)
    assert (refused.value.field, refused.value.value) == (f"tokimori_{field}", value)
    assert allowed in str(refused.value.allowed)
    table, _, column = field.partition(".")
    assert f"tokimori_{table}, row " in refused.value.message and f": {column} is " in refused.value.message


def kinds() -> Iterator[str]:
    """The words of all kinds of documents that services keep."""
    for each in pkgutil.walk_packages(tokimori.service.__path__, "tokimori.service."):
        for _, kind in inspect.getmembers(import_module(each.name), lambda it: isinstance(it, DocumentKind)):
            yield kind.word


def test_every_kind_of_document_is_known() -> None:
    """A kind that a restore did not know would be refused."""
    assert set(kinds()) <= snapshot._document_forms().keys()
