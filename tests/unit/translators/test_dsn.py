"""DSNs of Perl's DBI as URLs."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.translators.dsn import url_of_dsn


@pytest.mark.parametrize(
    ("dsn", "user", "password", "url"),
    [
        ("dbi:mysql:database=koyomi;host=127.0.0.1;port=3306", "root", "", "mysql://root@127.0.0.1:3306/koyomi"),
        ("DBI:mysql:koyomi", "ann", "p:w@/", "mysql://ann:p%3Aw%40%2F@localhost/koyomi"),
        ("dbi:mysql:dbname=k;mysql_socket=/run/m.sock", None, None, "mysql:///k?unix_socket=%2Frun%2Fm.sock"),
        ("dbi:MariaDB:database=k;host=db", "a", "b", "mysql://a:b@db/k"),
        ("dbi:Pg:dbname=k;host=db;port=5433", "a", None, "postgresql://a@db:5433/k"),
        ("dbi:SQLite:dbname=/var/k.db", None, None, "/var/k.db"),
        ("dbi:SQLite:k.db", None, None, "k.db"),
    ],
)
def test_a_dsn_becomes_a_url(dsn: str, user: str | None, password: str | None, url: str) -> None:
    """Database, place and account are kept."""
    assert url_of_dsn(dsn, user=user, password=password) == url


@pytest.mark.parametrize("dsn", ["", "mysql://x", "dbi:mysql", "dbi:mysql:host=x", "dbi:Oracle:x", "dbi::x"])
def test_what_is_none_is_refused(dsn: str) -> None:
    """The field is named, and no password is repeated."""
    with pytest.raises(InvalidInput) as caught:
        url_of_dsn(dsn, user="ann", password="secret")
    assert caught.value.field == "datasource.connector.dsn"
    assert "secret" not in caught.value.message
