"""What the SQLite store is as a file: opened by several at once, migrated once, and still there afterwards."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.contract.stores.actors import Worker, add_job, add_runs
from tokimori.clock import Moment, SystemClock
from tokimori.errors import SchemaMismatch
from tokimori.model.lanes import Pause
from tokimori.ports.store import SchemaStatus
from tokimori.stores.sqlite import working
from tokimori.stores.sqlite.connection import known_migrations
from tokimori.stores.sqlite.store import SqliteStore

NEWEST = len(known_migrations())
OLDEST = max(migration.oldest for migration in known_migrations())


async def opened(path: Path) -> SqliteStore:
    """An open store, without its tables."""
    store = SqliteStore(str(path), SystemClock())
    await store.open()
    return store


async def test_opening_makes_no_tables(tmp_path: Path) -> None:
    """A store that was only opened has no schema yet."""
    store = await opened(tmp_path / "a.db")
    status = await store.schema()
    assert (status.version, status.newest, len(status.pending)) == (None, NEWEST, NEWEST)
    await store.close()


async def test_several_migrate_at_once(tmp_path: Path) -> None:
    """Of several that migrate at one time one does it, and all find it done."""
    stores = await asyncio.gather(*(opened(tmp_path / "a.db") for _ in range(4)))
    done = SchemaStatus(version=NEWEST, newest=NEWEST, pending=(), oldest=OLDEST)
    assert await asyncio.gather(*(store.migrate() for store in stores)) == [done] * 4
    for store in stores:
        assert await store.schema() == done
        await store.close()


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """A file that a later version has migrated is not touched."""
    store = await opened(tmp_path / "a.db")
    await store.migrate()
    await store.close()
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute("INSERT INTO tokimori_schema_migrations VALUES (99, '0099_later', 'x', 0, 99)")
    db.close()
    store = await opened(tmp_path / "a.db")
    assert (await store.schema()).version == 99
    with pytest.raises(SchemaMismatch, match="number 99"):
        await store.migrate()
    await store.close()


async def test_what_was_acknowledged_is_there_after_reopening(tmp_path: Path) -> None:
    """A store that is closed and opened again holds what it held; what another one wrote is seen at once."""
    first, second = await opened(tmp_path / "a.db"), await opened(tmp_path / "a.db")
    await first.migrate()
    job = await add_job(first)
    runs = await add_runs(first, job, 2)
    assert await second.get_job(job.id) == job
    await first.close()
    await second.close()
    assert not (tmp_path / "a.db-wal").exists()
    again = await opened(tmp_path / "a.db")
    assert [await again.get_run(run.id) for run in runs] == runs
    await again.close()


async def test_commits_reach_the_disk(tmp_path: Path) -> None:
    """The writing connection waits for the disk at each commit, in a write-ahead log."""
    store = await opened(tmp_path / "a.db")
    settings = [
        await store._write(lambda db, name=name: db.execute(f"PRAGMA {name}").fetchone()[0])  # type: ignore[misc]
        for name in ("journal_mode", "synchronous")
    ]
    assert settings == ["wal", 2]
    await store.close()


async def test_closing_twice_or_unopened_is_harmless(tmp_path: Path) -> None:
    """`close` may be called whatever came of `open`."""
    store = SqliteStore(str(tmp_path / "a.db"), SystemClock())
    await store.close()
    await store.open()
    await store.close()
    await store.close()


async def test_nobody_writes_between_a_methods_reading_and_its_writing(tmp_path: Path) -> None:
    """From its first statement on a writing method has the file to itself, whatever program else uses it."""
    store = await opened(tmp_path / "a.db")
    stranger = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None, check_same_thread=False)

    def work(db: sqlite3.Connection) -> None:
        db.execute("SELECT * FROM sqlite_master").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            stranger.execute("BEGIN IMMEDIATE")

    await store._write(work)
    stranger.close()
    await store.close()


async def test_a_mark_is_another_one_after_each_write(tmp_path: Path) -> None:
    """Of this process or another, and where another file takes the place of the one that is open; reads change none."""
    path = tmp_path / "a.db"
    ours, other = (SqliteStore(str(path), SystemClock()) for _ in range(2))
    await ours.open()
    await ours.migrate()
    await other.open()
    doors = await ours.for_doors()
    marks = [doors.mark()]
    await doors.list_jobs()
    assert doors.mark() == marks[0] is not None
    for writer in (ours, doors, other):
        await writer.add_pause(Pause(queue=f"q{len(marks)}", since=Moment(0)))
        marks.append(doors.mark())
        assert doors.mark() == marks[-1]
    path.rename(tmp_path / "b.db")
    marks.append(doors.mark())
    assert len(set(marks)) == 5
    await other.close()
    await ours.close()


async def test_a_claim_that_has_left_something_wakes_who_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that passed as many runs of a full job as it may tells its node that there is more."""
    monkeypatch.setattr(working, "MOST_EXAMINED", 3)
    store = await opened(tmp_path / "a.db")
    await store.migrate()
    worker = await Worker.join(store)
    await add_runs(store, await add_job(store, max_running=1), 9)
    told: list[bool] = []
    monkeypatch.setattr(store, "send_notice", lambda: told.append(True))
    seen = [(len(await worker.claim(2)), len(told)) for _ in range(2)]
    assert seen == [(1, 1), (0, 1)]
    await store.close()
