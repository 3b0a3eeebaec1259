"""Which URL names which store."""

import sys
from pathlib import Path

import pytest

from tokimori.clock import SystemClock
from tokimori.errors import InvalidInput, StoreError
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.open import ALLOWED, file_of, open_store
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.redis.store import RedisStore
from tokimori.stores.sqlite.store import SqliteStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///var/lib/tokimori.db", "/var/lib/tokimori.db"),
        ("sqlite:///a%20b/c.db", "/a b/c.db"),
        ("SQLite:///c.db", "/c.db"),
    ],
)
def test_an_sqlite_url_names_an_absolute_path(url: str, path: str) -> None:
    """What follows two slashes is the path of the file."""
    assert file_of(url) == path
    assert isinstance(open_store(url, SystemClock()), SqliteStore)


def test_the_path_of_a_file_is_answered_with_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no secret, and the first thing that people try."""
    monkeypatch.chdir(tmp_path)
    for path, url in (("jobs.db", f"sqlite://{tmp_path}/jobs.db"), ("/srv/jobs", "sqlite:///srv/jobs")):
        with pytest.raises(InvalidInput, match=f"is a file, and not the URL of a store; did you mean {url}\\?"):
            open_store(path, SystemClock())


def test_memory_needs_no_more_words() -> None:
    """`memory:` names a store of this process."""
    assert isinstance(open_store("memory:", SystemClock()), MemoryStore)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tokimori.db",
        "/var/lib/tokimori.db",
        "sqlite:tokimori.db",
        "sqlite://tokimori.db",
        "sqlite://host/tokimori.db",
        "sqlite:///",
        "sqlite:///folder/",
        "sqlite:///a.db?mode=ro",
        "sqlite:///a%00b.db",
        "sqlite:///" + "a" * 300,
        "sqlite:///" + "a/" * 3_000 + "b",
        "sqlite",
        "memory:more",
        "postgresql",
        "oracle://scott:tiger@host/db",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    """A URL that names no store is refused, with what is allowed, and without the password that it may hold."""
    with pytest.raises(InvalidInput, match="allowed: sqlite:///absolute/path, postgresql://") as refused:
        open_store(url, SystemClock())
    assert (refused.value.field, refused.value.allowed) == ("store", ALLOWED)
    assert "tiger" not in refused.value.message


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_a_postgresql_url_names_a_server(scheme: str) -> None:
    """Both spellings of the scheme name a PostgreSQL store; nothing is connected yet."""
    assert isinstance(open_store(f"{scheme}://scott:tiger@host/db", SystemClock()), PostgresStore)


@pytest.mark.parametrize(
    ("scheme", "package", "extra"),
    [("postgresql", "asyncpg", "postgres"), ("mysql", "asyncmy", "mysql"), ("redis", "redis", "redis")],
)
def test_a_missing_driver_is_named(scheme: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, the error says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith((f"tokimori.stores.{extra}.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StoreError, match=rf"needs the package {package}: pip install 'tokimori\[{extra}\]'"):
        open_store(f"{scheme}://host/0", SystemClock())


@pytest.mark.parametrize("url", ["redis://host", "rediss://host/1", "Valkey://host", "redis+unix:///run/redis.sock"])
def test_a_redis_url_names_a_server(url: str) -> None:
    """Redis and Valkey, by TCP, TLS or a socket, name a Redis store; nothing is connected yet."""
    assert isinstance(open_store(url, SystemClock()), RedisStore)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "MariaDB"])
def test_a_mariadb_url_names_a_server(scheme: str) -> None:
    """Both names of the scheme name a MariaDB or MySQL store; nothing is connected yet."""
    assert isinstance(open_store(f"{scheme}://scott:tiger@host/db", SystemClock()), MysqlStore)


def test_a_path_that_goes_up_names_the_file_that_sqlite_opens(tmp_path: Path) -> None:
    """Through a link, and through a folder that is not there."""
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    assert file_of(f"sqlite://{tmp_path}/link/../t.db") == str(tmp_path / "far" / "t.db")
    assert file_of(f"sqlite://{tmp_path}/missing/../t.db") == str(tmp_path / "t.db")
