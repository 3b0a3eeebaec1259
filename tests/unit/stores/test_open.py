"""Which URL names which store."""

import pytest

from tokimori.clock import SystemClock
from tokimori.errors import InvalidInput
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.open import file_of, open_store
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
        "sqlite",
        "memory:more",
        "oracle://scott:tiger@host/db",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    """A URL that names no store is refused, with what is allowed, and without the password that it may hold."""
    with pytest.raises(InvalidInput, match="allowed: sqlite:///absolute/path or memory:") as refused:
        open_store(url, SystemClock())
    assert (refused.value.field, refused.value.allowed) == ("store", "sqlite:///absolute/path or memory:")
    assert "tiger" not in refused.value.message


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb", "redis", "valkey"])
def test_stores_to_come_are_named_as_such(scheme: str) -> None:
    """A store that a later version will know is refused as not yet there."""
    with pytest.raises(InvalidInput, match=f"{scheme} are not in this version yet"):
        open_store(f"{scheme}://host/db", SystemClock())
