"""What the URL of a Redis store says."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.stores.redis.address import RedisAddress, address_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://ann:tiger@db.example:6380/2", "redis://ann@db.example:6380/2"),
        ("redis://:tiger@db.example", "redis://db.example:6379/0"),
        ("valkey://", "valkey://127.0.0.1:6379/0"),
        ("rediss://ann:tiger@[::1]/1?ssl_ca_certs=/ca.pem", "rediss://ann@::1:6379/1"),
        ("redis+unix://ann:tiger@/run/redis.sock?db=3", "redis+unix://ann@/run/redis.sock?db=3"),
    ],
)
def test_people_are_shown_no_password(url: str, name: str) -> None:
    """The name of a store says user, place and database, and never the password."""
    address = address_of(url)
    assert address.name == name
    assert "tiger" not in repr(address)


def test_user_and_password_may_hold_any_character() -> None:
    """What the URL writes with per cents is read."""
    address = address_of("redis://an%3An:ti%40g%2Fer@h")
    assert (address.user, address.password) == ("an:n", "ti@g/er")


def test_a_socket_has_a_path_and_a_database() -> None:
    """A Unix socket is named by its path, with the number of the database as a setting."""
    address = address_of("valkey+unix:///run/a%20b.sock?db=3&namespace=x")
    assert (address.path, address.db, address.prefix) == ("/run/a b.sock", 3, "{tokimori.x}:")


@pytest.mark.parametrize(("scheme", "tls"), [("redis", None), ("valkey", None), ("rediss", {}), ("valkeys", {})])
def test_the_scheme_says_whether_there_is_tls(scheme: str, tls: dict[str, str] | None) -> None:
    """An s after the name asks for TLS."""
    assert address_of(f"{scheme}://h").tls == tls


def test_a_namespace_begins_every_key() -> None:
    """Two installations have prefixes of which neither begins the other, each with braces for one slot of a cluster."""
    prefixes = {address_of(f"redis://h{query}").prefix for query in ("", "?namespace=a", "?namespace=a.b")}
    assert prefixes == {"{tokimori}:", "{tokimori.a}:", "{tokimori.a.b}:"}


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("redis://ann:tiger@h?colour=red", "no setting 'colour'"),
        ("redis://ann:tiger@h?ssl_ca_certs=/ca.pem", "no setting 'ssl_ca_certs'"),
        ("redis://ann:tiger@h/0?db=1", "no setting 'db'"),
        ("redis://ann:tiger@h/jobs", "the database is a number"),
        ("redis+unix:///s?db=-1&namespace=tiger", "the database is a number"),
        ("redis+unix://ann:tiger@h/s", "absolute path"),
        ("redis://ann:tiger@h:many", "can't be read"),
        ("redis://ann:tiger@h?namespace=a}b", "a namespace is"),
        ("redis://ann:tiger@h?namespace", "can't be read"),
    ],
)
def test_other_urls_are_refused(url: str, fault: str) -> None:
    """What can't be meant is refused with what is allowed, and without the password."""
    with pytest.raises(InvalidInput, match=fault) as refused:
        address_of(url)
    assert "allowed: redis://" in refused.value.message
    assert "tiger" not in refused.value.message


def test_an_address_is_a_value() -> None:
    """Equal URLs name equal addresses."""
    assert address_of("redis://h") == RedisAddress(name="redis://h:6379/0", prefix="{tokimori}:", host="h")
