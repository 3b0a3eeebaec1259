"""Noticing what another process writes to the file, with the system's help and without it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stores.actors import add_job
from tests.contract.stores.conftest import STORES
from tokimori.ports.store import Store
from tokimori.stores.sqlite.watch import Inotify

SOON = 3.0
"""Seconds: less than the longest time between looks, far more than noticing takes."""
QUIET = 0.5


@pytest.fixture(params=["told by the system", "looking by itself"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    """A store on a file."""
    if request.param == "looking by itself":
        monkeypatch.setattr(Inotify, "open", lambda: None)
    store = STORES["sqlite"](tmp_path)
    await store.open()
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
def another(store: Store, tmp_path: Path) -> sqlite3.Connection:
    """Another program's connection to the same file."""
    (file,) = tmp_path.glob("*.db")
    return sqlite3.connect(file, isolation_level=None)


async def watched(store: Store) -> asyncio.Event:
    """Set when something is noticed; what the store itself did before no longer counts."""
    noticed = asyncio.Event()
    store.watch(noticed.set)
    await asyncio.sleep(QUIET)
    noticed.clear()
    return noticed


async def test_every_commit_of_others_is_noticed(store: Store, another: sqlite3.Connection) -> None:
    """One commit after the other, of another program, is noticed soon."""
    noticed = await watched(store)
    for number in range(4):
        another.execute(f"CREATE TABLE other_{number} (a)")
        await asyncio.wait_for(noticed.wait(), SOON)
        await asyncio.sleep(QUIET / 2 * (number % 2))
        noticed.clear()
    another.close()


async def test_a_commit_long_after_its_writes_is_noticed(store: Store, another: sqlite3.Connection) -> None:
    """What another program has written to the log is noticed when it is committed, and not before."""
    noticed = await watched(store)
    another.execute("PRAGMA cache_size = 1")
    another.execute("BEGIN IMMEDIATE")
    another.execute("CREATE TABLE other (a)")
    another.execute(FILL)
    await asyncio.sleep(QUIET)
    assert not noticed.is_set()
    another.execute("COMMIT")
    await asyncio.wait_for(noticed.wait(), SOON)
    another.close()


FILL = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
INSERT INTO other SELECT randomblob(4000) FROM n
"""


async def test_a_log_that_begins_anew_is_watched(store: Store, another: sqlite3.Connection) -> None:
    """A checkpoint that empties the log ends nothing: what is written after it is noticed, too."""
    noticed = await watched(store)
    assert another.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    await asyncio.sleep(QUIET)
    noticed.clear()
    another.execute("CREATE TABLE other (a)")
    await asyncio.wait_for(noticed.wait(), SOON)
    another.close()


async def test_a_file_of_two_names_is_locked_and_watched_as_one(tmp_path: Path) -> None:
    """Who opens the store by a link holds the same lock as who opens the file, and notices what that one writes."""
    real, link = tmp_path / "real", tmp_path / "link"
    for folder in (real, link):
        folder.mkdir()
    (link / "tokimori.db").symlink_to(real / "tokimori.db")
    stores = [STORES["sqlite"](folder) for folder in (real, link)]
    for store in stores:
        await store.open()
        await store.migrate()
    noticed = await watched(stores[1])
    await add_job(stores[0])
    await asyncio.wait_for(noticed.wait(), SOON)
    assert not (link / "tokimori.db-lock").exists()
    for store in stores:
        await store.close()
