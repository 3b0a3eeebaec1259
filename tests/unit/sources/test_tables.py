"""Tables of other schedulers, read page by page."""

import sqlite3
from pathlib import Path

import pytest

from tokimori.errors import InvalidInput, StoreError
from tokimori.sources.tables import PAGE, Owned, belonging, check_table, check_there, opened, pages

OWNED = Owned("times", "job_id", "id")


def database(folder: Path, *statements: str) -> str:
    """The path of a new database."""
    path = folder / "s.db"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return str(path)


def contents_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def numbers(table: str, columns: str, most: int, values: str) -> str:
    """A statement that fills a table; `n` counts from 1."""
    return (
        f"INSERT INTO {table} ({columns}) WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < "
        f"{most}) SELECT {values} FROM c"
    )


async def test_all_rows_come_in_pages(tmp_path: Path) -> None:
    """Each row comes once, in the order of its key, and no page is longer than a thousand."""
    most = 2 * PAGE + 1
    source = database(tmp_path, "CREATE TABLE t (id TEXT)", numbers("t", "id", most, "printf('%05d', n)"))
    async with opened(source) as tables:
        found = [[row["id"] for row in page] async for page in pages(tables, "t")]
    assert list(map(len, found)) == [PAGE, PAGE, 1]
    assert [key for page in found for key in page] == [f"{n:05}" for n in range(1, most + 1)]


async def test_urls_of_sqlalchemy_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes and a file that is here are relative, and a driver behind the scheme says nothing."""
    name = Path(database(tmp_path, "CREATE TABLE t (id TEXT)")).name
    monkeypatch.chdir(tmp_path)
    for source in (f"sqlite:///{name}", f"sqlite:///{tmp_path}/{name}", f"sqlite+pysqlite:///{name}"):
        async with opened(source) as tables:
            assert await tables.names() == {"t"}


async def test_a_page_of_exactly_a_thousand_is_the_last(tmp_path: Path) -> None:
    """Nothing comes twice where the rows fill their pages."""
    source = database(tmp_path, "CREATE TABLE t (id INTEGER)", numbers("t", "id", PAGE, "n"))
    async with opened(source) as tables:
        assert [len(page) async for page in pages(tables, "t")] == [PAGE]


async def test_rows_without_a_key_do_not_go_round_for_ever(tmp_path: Path) -> None:
    """SQLite keeps NULL as a key: a few such rows come, and over a thousand are refused."""
    source = database(tmp_path, "CREATE TABLE t (id TEXT PRIMARY KEY)", numbers("t", "id", PAGE + 1, "NULL"))
    async with opened(source) as tables:
        with pytest.raises(StoreError, match="a thousand rows of t have no id"):
            [page async for page in pages(tables, "t")]


async def test_what_belongs_to_a_row_has_a_bound(tmp_path: Path) -> None:
    """Of one owner so many rows are kept as are asked for, and those of others all the same."""
    source = database(
        tmp_path,
        "CREATE TABLE times (id INTEGER PRIMARY KEY, job_id INTEGER)",
        numbers("times", "job_id", 3 * PAGE, "1"),
        numbers("times", "job_id", 2, "2"),
        numbers("times", "job_id", 2, "3"),
    )
    async with opened(source) as tables:
        rows = await belonging(tables, OWNED, [1, 2], most=5)
        assert [row["job_id"] for row in rows] == [1] * 5 + [2] * 2
        assert await belonging(tables, OWNED, [], most=5) == []


async def test_a_source_is_opened_for_reading(tmp_path: Path) -> None:
    """Whatever is asked, nothing is written."""
    source = database(tmp_path, "CREATE TABLE t (id INTEGER)", "PRAGMA journal_mode=WAL")
    before = contents_of(tmp_path)
    async with opened(f"sqlite://{source}") as tables:
        assert await tables.names() == {"t"}
        with pytest.raises(StoreError):
            await tables.page('t"; DELETE FROM t; --', "id", None)
    assert contents_of(tmp_path) == before


async def test_missing_tables_are_named(tmp_path: Path) -> None:
    """And those that are there, so that a wrong database is noticed."""
    source = database(tmp_path, "CREATE TABLE users (id INTEGER)")
    async with opened(source) as tables:
        with pytest.raises(StoreError, match="has no table jobs, job_times: it has users") as caught:
            await check_there(tables, ("jobs", "job_times"))
    assert caught.value.allowed == "a database with jobs, job_times"


async def test_a_text_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    """It is for the translator to refuse it, with the row that has it."""
    source = database(tmp_path, "CREATE TABLE t (id INTEGER, x TEXT)", "INSERT INTO t VALUES (1, CAST(x'ff' AS TEXT))")
    async with opened(source) as tables:
        assert [row["x"] async for page in pages(tables, "t") for row in page] == ["\udcff"]


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a;b", "1a", "ä", "x" * 80, "a`"])
def test_a_name_that_is_none_of_a_table_is_refused(name: str) -> None:
    """Names go into statements as they are."""
    with pytest.raises(InvalidInput):
        check_table(name)


@pytest.mark.parametrize("source", ["http://x/y", "redis://x", "sqlite://[", "memory:"])
async def test_a_source_that_is_no_database_is_refused(source: str) -> None:
    """What can be read is told."""
    with pytest.raises((InvalidInput, StoreError)):
        async with opened(source):
            pass
