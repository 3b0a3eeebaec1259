"""DSNs of DBI and URLs of Sequel, judged by what our stores read from the URL that is made of them."""

from pathlib import PurePath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidInput
from tokimori.stores.mysql import address as mysql_address
from tokimori.stores.open import file_of
from tokimori.stores.postgres import address as postgres_address
from tokimori.translators.store_urls import StoreUrl, store_url

BASE = PurePath("/srv/app")
_words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
_hosts = st.sampled_from(["db1", "10.0.0.1", "db.example.org"])
_ports = st.integers(1, 65_535)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("dbi:mysql:database=koyomi;host=127.0.0.1;port=3306", "mariadb://127.0.0.1:3306/koyomi"),
        ("dbi:mysql:koyomi", "mariadb://localhost/koyomi"),
        ("dbi:mysql:koyomi:db1:3307", "mariadb://db1:3307/koyomi"),
        ("DBI:MariaDB(RaiseError=1):dbname=k;hostname=[::1]", "mariadb://[::1]/k"),
        ("dbi:mysql:k;mysql_socket=/run/my.sock", "mariadb:///k?unix_socket=%2Frun%2Fmy.sock"),
        ("dbi:mysql:k;host=h;mysql_ssl=1", "mariadb://h/k?ssl_mode=required"),
        ("dbi:mysql:k;host=h;mysql_ssl=0", "mariadb://h/k"),
        ("dbi:mysql:k;host=h;mysql_ssl=1;mysql_ssl_verify_server_cert=1", "mariadb://h/k?ssl_mode=verify_identity"),
        ("dbi:mysql:k;host=h;mysql_ssl=1;mysql_ssl_ca_file=/ca", "mariadb://h/k?ssl_ca=%2Fca"),
        ("dbi:Pg:dbname=jobs;host=db1;port=5433;sslmode=require", "postgresql://db1:5433/jobs?sslmode=require"),
        ("dbi:Pg:dbname=jobs host='db1'", "postgresql://db1/jobs"),
        ("dbi:Pg:db=jobs;host=/run/pg;user=u", "postgresql:///jobs?host=%2Frun%2Fpg&user=u"),
        ("dbi:SQLite:dbname=a.db", "sqlite:///srv/app/a.db"),
        ("dbi:SQLite:/var/a b.db", "sqlite:///var/a%20b.db"),
        ("dbi:SQLite:k.db", "sqlite:///srv/app/k.db"),
        ("dbi:mysql:dbname=k;mysql_socket=/run/m.sock", "mariadb:///k?unix_socket=%2Frun%2Fm.sock"),
        ("dbi:Pg:dbname=k;host=db;port=5433", "postgresql://db:5433/k"),
        ("dbi:SQLite::memory:", "memory:"),
        ("mysql2://root:@localhost/perfectsched_test", "mariadb://root@localhost/perfectsched_test"),
        ("mysql://u:p%40ss@db1:3306/k?socket=/s", "mariadb://u:p%40ss@/k?unix_socket=%2Fs"),
        ("mysql2://u@h/k?ssl_mode=:required", "mariadb://u@h/k?ssl_mode=required"),
        ("postgres://u:p@h:5432/d", "postgresql://u:p@h:5432/d"),
        ("postgres://h/d?user=u&password=p", "postgresql://u:p@h/d"),
        ("sqlite://blog.db", "sqlite:///srv/app/blog.db"),
        ("sqlite:///var/blog.db?timeout=5", "sqlite:///var/blog.db"),
        ("sqlite:/", "memory:"),
    ],
)
def test_a_place_is_the_url_of_a_store(text: str, url: str) -> None:
    """As the drivers of Perl and Ruby would read it."""
    assert store_url(text, BASE, {}) == StoreUrl(url)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "dbi:",
            "dbi:mysql",
            "dbi::x",
            "mysql://x",
            "dbi:mysql:host=x",
            "dbi:Oracle:x",
            "jdbc:mysql://h/d",
            "tinytds://h/d",
            "redis://h/0",
        ),
        *("dbi:mysql:", "dbi:mysql:host=h", "dbi:mysql:a:b:c:d", "dbi:Pg:jobs", "dbi:Pg:service=x;dbname=d"),
        *("mysql2://h/", "mysql2://h:0/d", "mysql2://h:99999/d", "mysql2://[h/d", "postgres://h:x/d"),
        *("dbi:mysql:k;host=a@b", "dbi:mysql:k;host=h;port=-1", "dbi:mysql:k;host=h;mysql_ssl_cipher=x"),
        *("mysql2://h/d?ssl_mode=preferred", "mysql2://h/d?x", "dbi:SQLite:uri=file:x", "sqlite://a%00b"),
    ],
)
def test_what_is_no_place_of_a_store_is_refused(text: str) -> None:
    """With the field and what is allowed, and without the text: it may hold a password."""
    with pytest.raises(InvalidInput) as caught:
        store_url(text, BASE, {"password": "hunter2"}, field="dsn")
    assert caught.value.field == "dsn"
    assert "dbi:Pg:dbname" in (caught.value.allowed or "")
    assert "hunter2" not in caught.value.message


def test_what_is_left_out_is_told() -> None:
    """What tunes a driver has no equal; an account that is said apart counts more than that of the URL."""
    found = store_url("dbi:mysql:k;host=h;mysql_enable_utf8=1", BASE, {"user": "u", "password": "p"})
    assert found == StoreUrl("mariadb://u:p@h/k", ("mysql_enable_utf8",))
    assert found.why.endswith(": mysql_enable_utf8")
    account = {"user": "ann", "password": "p:w@/"}
    assert store_url("DBI:mysql:koyomi", BASE, account).url == "mariadb://ann:p%3Aw%40%2F@localhost/koyomi"
    assert store_url("mysql2://a:b@h/k", BASE, {"user": "u", "password": None}).url == "mariadb://u:b@h/k"


@given(user=_words, password=_words, host=_hosts, port=_ports, database=_words)
def test_mysql_gets_what_was_said(user: str, password: str, host: str, port: int, database: str) -> None:
    """Whatever characters names and passwords have, in a URL and in a DSN."""
    text = f"mysql2://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}/{quote(database, safe='')}"
    found = mysql_address.address_of(store_url(text, BASE, {}).url)
    assert (found.user, found.password, found.host, found.port) == (user, password, host, port)
    assert found.database == database.lstrip("/") or "/" in database
    dsn = store_url(f"dbi:mysql:k;host={host};port={port}", BASE, {"user": user, "password": password})
    found = mysql_address.address_of(dsn.url)
    assert (found.user, found.password, found.database) == (user, password, "k")


@given(
    text=st.text(max_size=60)
    | st.builds("{}{}".format, st.sampled_from(["dbi:mysql:", "dbi:Pg:", "dbi:SQLite:"]), st.text())
    | st.builds("{}://{}".format, st.sampled_from(["mysql2", "postgres", "sqlite"]), st.text())
)
def test_any_text_is_read_or_refused(text: str) -> None:
    """What is made of it is a URL that the store of its kind reads."""
    try:
        url = store_url(text, BASE, {}).url
    except InvalidInput:
        return
    match url.partition(":")[0]:
        case "mariadb":
            assert mysql_address.address_of(url).database
        case "postgresql":
            assert postgres_address.address_of(url).name
        case "sqlite":
            assert file_of(url).startswith("/")
        case kind:
            assert kind == "memory"
