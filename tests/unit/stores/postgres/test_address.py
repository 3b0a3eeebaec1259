"""What the URL of a PostgreSQL store says."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.connections import channel_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://ann:tiger@db.example:6432/jobs", "postgresql://ann@db.example:6432/jobs"),
        ("postgres://db.example/jobs?sslmode=require", "postgresql://db.example:5432/jobs"),
        ("postgresql://ann@/jobs?host=/run/postgresql", "postgresql://ann@/run/postgresql:5432/jobs"),
        ("postgresql://ann:ti%40ger@[::1]/jobs?password=tiger", "postgresql://ann@::1:5432/jobs"),
    ],
)
def test_people_are_shown_no_password(url: str, name: str) -> None:
    """The name of a store says user, host, port and database, and never the password."""
    address = address_of(url)
    assert address.name == name
    assert not address.pooled


def test_a_pooler_is_announced_by_its_setting() -> None:
    """`statement_cache_size=0` is ours: the driver's URL is without it, the rest stays."""
    address = address_of("postgresql://ann:tiger@h/jobs?statement_cache_size=0&sslmode=require")
    assert (address.pooled, address.dsn) == (True, "postgresql://ann:tiger@h/jobs?sslmode=require")


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("postgresql://ann:tiger@h/jobs?colour=red", "no setting 'colour'"),
        ("postgresql://ann:tiger@h/jobs?statement_cache_size=100", "can only be 0"),
        ("postgresql://ann:tiger@h:many/jobs", "can't be read"),
        ("postgresql://ann:tiger@h/jobs?sslmode", "can't be read"),
    ],
)
def test_other_urls_are_refused(url: str, fault: str) -> None:
    """What can't be understood is refused, with what is allowed and without the password."""
    with pytest.raises(InvalidInput, match=fault) as refused:
        address_of(url)
    assert refused.value.field == "store"
    assert "tiger" not in str(refused.value)


def test_each_namespace_has_its_own_channel() -> None:
    """What wakes the nodes of one installation wakes no others."""
    urls = ("postgresql://h/jobs", "postgresql://h/jobs?namespace=a", "postgresql://h/jobs?namespace=a_b")
    assert [channel_of(address_of(url)) for url in urls] == ["tokimori", "tokimori_a", "tokimori_a_b"]
