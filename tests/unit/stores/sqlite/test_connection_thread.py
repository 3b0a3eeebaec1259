"""Group commit: many callers, one transaction, and none pays for another's fault."""

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Event, get_ident

import pytest

from tokimori.errors import Conflict, StoreError, StoreReplaced, StoreUnavailable
from tokimori.stores.sqlite import connection_thread
from tokimori.stores.sqlite.connection_thread import ConnectionThread, Work


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[ConnectionThread]:
    """A writing connection to a file with one table."""
    thread = ConnectionThread(str(tmp_path / "a.db"), begin="BEGIN IMMEDIATE", lock=nullcontext)
    await thread.open()
    await thread.run(lambda db: db.execute("CREATE TABLE a (x)").fetchall())
    yield thread
    await thread.close()


PROGRAM = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
found = [db.execute(each).fetchall() for each in sys.argv[2:]]
print(found[-1], flush=True)
os._exit(0)
"""
"""It ends without a checkpoint: what it has written is in the log alone."""


async def elsewhere(file: Path, *statements: str) -> str:
    """What the last of these statements answers in another program."""
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(file), *statements, stdout=PIPE)
    out, _ = await program.communicate()
    return out.decode().strip()


def put(number: int) -> Callable[[sqlite3.Connection], int]:
    """Work that writes one row, and answers with its number."""

    def work(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO a VALUES (?)", (number,))
        return number

    return work


def kept(db: sqlite3.Connection) -> list[int]:
    """The rows there are, in the order in which they were written."""
    return [number for (number,) in db.execute("SELECT x FROM a ORDER BY rowid")]


async def keep_busy(thread: ConnectionThread) -> tuple[Event, asyncio.Future[object]]:
    """The thread is at work in a group of its own, until the event is set."""
    loop, begun, go = asyncio.get_running_loop(), asyncio.Event(), Event()

    def work(_db: sqlite3.Connection) -> object:
        loop.call_soon_threadsafe(begun.set)
        return go.wait()

    busy = asyncio.ensure_future(thread.run(work))
    await begun.wait()
    return go, busy


async def together(
    thread: ConnectionThread, work: Sequence[Work[object]], first: frozenset[int] = frozenset()
) -> list[object]:
    """Ask for all of this while the thread is busy, so that it finds all of it at one time; the answers."""
    go, busy = await keep_busy(thread)
    asked = [asyncio.ensure_future(thread.run(each, first=n in first)) for n, each in enumerate(work)]
    await asyncio.sleep(0)
    go.set()
    await busy
    return await asyncio.gather(*asked, return_exceptions=True)


async def commits(thread: ConnectionThread) -> list[str]:
    """A list that grows with each commit from now on."""
    seen: list[str] = []

    def note(statement: str) -> None:
        if statement == "COMMIT":
            seen.append(statement)

    await thread.run(lambda db: db.set_trace_callback(note))
    seen.clear()
    return seen


async def test_what_is_asked_at_one_time_is_one_transaction(thread: ConnectionThread) -> None:
    """A hundred callers share one commit, and each gets its own answer."""
    committed = await commits(thread)
    assert await together(thread, [put(n) for n in range(100)]) == list(range(100))
    assert len(committed) == 2
    assert await thread.run(kept) == list(range(100))


async def test_a_group_ends_in_time(thread: ConnectionThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a group has taken its time, what is left is the next group's."""
    committed = await commits(thread)
    monkeypatch.setattr(connection_thread, "GROUP_SECONDS", 0)
    assert await together(thread, [put(n) for n in range(5)]) == list(range(5))
    assert len(committed) == 6


async def test_one_that_fails_takes_no_other_with_it(thread: ConnectionThread) -> None:
    """What a failing request wrote is undone; the others of its group are kept."""

    def fail(db: sqlite3.Connection) -> None:
        put(99)(db)
        raise Conflict("no")

    first, second, third = await together(thread, [put(1), fail, put(2)])
    assert (first, third) == (1, 2)
    assert isinstance(second, Conflict)
    assert await thread.run(kept) == [1, 2]


async def test_a_drivers_error_never_reaches_the_caller(thread: ConnectionThread) -> None:
    """A statement that fails is told as an error of ours, and its request is undone."""

    def fail(db: sqlite3.Connection) -> None:
        put(99)(db)
        db.execute("SELECT nonsense")

    with pytest.raises(StoreError, match="nonsense"):
        await thread.run(fail)
    assert await thread.run(kept) == []


async def test_a_bug_reaches_its_caller(thread: ConnectionThread) -> None:
    """An error that nobody foresaw goes to whoever asked, and the thread lives on."""
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda _db: 1 // 0)
    assert await thread.run(kept) == []


async def test_beats_go_first(thread: ConnectionThread) -> None:
    """Of what is asked at one time, what must go first does."""
    await together(thread, [put(n) for n in range(4)], first=frozenset({3}))
    assert await thread.run(kept) == [3, 0, 1, 2]


async def test_whoever_stops_waiting_harms_nobody(thread: ConnectionThread) -> None:
    """A caller that was cancelled leaves its work done, and the others answered."""
    go, busy = await keep_busy(thread)
    gone, stays = (asyncio.ensure_future(thread.run(put(n))) for n in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    busy.cancel()
    go.set()
    assert await stays == 2
    assert gone.cancelled()
    assert await thread.run(kept) == [1, 2]


async def test_a_transaction_that_ended_early_is_told_to_all(thread: ConnectionThread) -> None:
    """When SQLite itself undoes a transaction, its callers hear so, nothing of theirs is kept, and others go on."""

    def end_it(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    first, second, third = await together(thread, [put(1), end_it, put(2)])
    assert "disk I/O error" in str(first)
    assert "disk I/O error" in str(second)
    assert third == 2
    assert await thread.run(kept) == [2]


async def test_closing_finishes_what_was_asked(tmp_path: Path) -> None:
    """What was asked before the close is carried out, in one thread that is not the loop's."""
    thread = ConnectionThread(str(tmp_path / "a.db"), begin="BEGIN IMMEDIATE", lock=nullcontext)
    await thread.open()
    asked = [asyncio.ensure_future(thread.run(lambda _db: get_ident())) for _ in range(3)]
    await asyncio.sleep(0)
    await thread.close()
    (ident,) = {await each for each in asked}
    assert ident != get_ident()


async def test_a_database_that_others_hold_is_unavailable(tmp_path: Path) -> None:
    """While another program holds the database, callers hear that they may ask again."""
    thread = ConnectionThread(str(tmp_path / "a.db"), begin="BEGIN IMMEDIATE", lock=nullcontext)
    await thread.open()
    await thread.run(lambda db: db.execute("PRAGMA busy_timeout = 1").fetchall())
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another program"):
        await thread.run(lambda _db: None)
    other.close()
    await thread.run(lambda _db: None)
    await thread.close()


@pytest.mark.parametrize("replaced", [False, True], ids=["moved away", "replaced"])
async def test_a_file_that_others_would_not_find_is_not_written(
    thread: ConnectionThread, tmp_path: Path, replaced: bool
) -> None:
    """While another file, or none, is where the opened one was, nothing is done; when it is back, all is as before."""
    file, away = tmp_path / "a.db", tmp_path / "away.db"
    await thread.run(put(1))
    file.rename(away)
    if replaced:
        file.touch()
    with pytest.raises(StoreUnavailable, match="was moved, removed or replaced while it was in use"):
        await thread.run(put(2))
    assert (tmp_path / "a.db-wal").stat().st_size == 0  # all of it is in the file that was moved, nothing in the other
    away.rename(file)
    await thread.run(put(3))
    assert await thread.run(kept) == [1, 3]


async def test_a_log_that_can_not_be_put_away_hides_no_lost_file(thread: ConnectionThread, tmp_path: Path) -> None:
    """A full disk is told of later: a node ends only where it hears that its file is not there."""

    def refuse(action: int, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK

    await thread.run(lambda db: db.set_authorizer(refuse))
    (tmp_path / "a.db").rename(tmp_path / "away.db")
    with pytest.raises(StoreReplaced):
        await thread.run(put(1))


async def test_a_link_to_the_file_is_another_place(thread: ConnectionThread, tmp_path: Path) -> None:
    """Who opens the file by a link that stands in its place now has another log, where it is: two would spoil it."""
    file, away = tmp_path / "a.db", tmp_path / "away.db"
    file.rename(away)
    file.symlink_to(away)
    with pytest.raises(StoreUnavailable):
        await thread.run(put(1))


async def test_what_a_new_file_was_given_stays_in_it(thread: ConnectionThread, tmp_path: Path) -> None:
    """Who works on a file put in the place of the opened one writes to the same log, and nobody takes it from there."""
    file, away = tmp_path / "a.db", tmp_path / "away.db"
    await thread.run(put(1))
    file.rename(away)
    with pytest.raises(StoreUnavailable):
        await thread.run(put(2))
    await elsewhere(file, "PRAGMA journal_mode = WAL", "CREATE TABLE a (x)", "INSERT INTO a VALUES (4)")
    with pytest.raises(StoreUnavailable):
        await thread.run(put(3))
    assert await elsewhere(file, "SELECT x FROM a") == "[(4,)]"
    assert await elsewhere(away, "SELECT x FROM a") == "[(1,)]"


async def test_reads_that_were_answered_do_not_stop_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many short reads there were: SQLite's steps are counted through them all."""
    monkeypatch.setattr(connection_thread, "_STEPS", 10)
    reader = ConnectionThread(str(tmp_path / "a.db"), begin="BEGIN", lock=nullcontext, longest=60)
    await reader.open()
    for _ in range(50):
        assert await reader.run(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
    await reader.close()


async def test_a_read_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    """Its group goes on and is answered, in one transaction."""
    reader = ConnectionThread(str(tmp_path / "a.db"), begin="BEGIN", lock=nullcontext, longest=60)
    await reader.open()
    answers = await together(reader, [lambda db: db.execute("SELECT 1").fetchone(), kept, lambda _: 3])
    assert answers[::2] == [(1,), 3]
    assert isinstance(answers[1], StoreError)
    await reader.close()
