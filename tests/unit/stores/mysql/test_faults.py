"""What the URL of a MariaDB or MySQL store says."""

import ssl

import pytest

from tokimori.errors import InvalidInput
from tokimori.stores.mysql.address import SslMode, address_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("mysql://ann:tiger@db.example:3307/jobs", "mysql://ann@db.example:3307/jobs"),
        ("mariadb://db.example/jobs?ssl_mode=required", "mariadb://db.example:3306/jobs"),
        ("mariadb://ann:tiger@/jobs?unix_socket=/run/mysqld/s", "mariadb://ann@/run/mysqld/s/jobs"),
        ("mariadb://ann:ti%40ger@[::1]/jobs", "mariadb://ann@::1:3306/jobs"),
    ],
)
def test_people_are_shown_no_password(url: str, name: str) -> None:
    """The name of a store says user, place and database, and never the password."""
    address = address_of(url)
    assert address.name == name
    assert "tiger" not in repr(address) and "ti@ger" not in repr(address)


def test_what_is_encoded_in_the_url_is_decoded() -> None:
    """User, password and database may hold any character."""
    address = address_of("mysql://a%2Fb:p%C3%A4%40:@host/j%2Fobs")
    assert (address.user, address.password, address.database) == ("a/b", "pä@:", "j/obs")


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        ("", SslMode.DISABLED),
        ("?ssl_mode=required", SslMode.REQUIRED),
        ("?ssl_mode=VERIFY_CA", SslMode.VERIFY_CA),
        ("?ssl_ca=/ca.pem", SslMode.VERIFY_IDENTITY),
        ("?ssl_ca=/ca.pem&ssl_mode=required", SslMode.REQUIRED),
    ],
)
def test_who_names_an_authority_wants_proof(query: str, mode: SslMode) -> None:
    """Without words there is no TLS; with an authority's certificate the server's name is checked too."""
    assert address_of(f"mysql://host/jobs{query}").ssl_mode is mode


@pytest.mark.parametrize(
    ("mode", "hostname", "verify"),
    [
        ("required", False, ssl.CERT_NONE),
        ("verify_ca", False, ssl.CERT_REQUIRED),
        ("verify_identity", True, ssl.CERT_REQUIRED),
    ],
)
def test_each_mode_checks_what_it_says(mode: str, hostname: bool, verify: ssl.VerifyMode) -> None:
    """Encryption alone believes whoever answers, the other modes do not."""
    context = address_of(f"mysql://host/jobs?ssl_mode={mode}").tls()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (hostname, verify)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("mysql://ann:tiger@h/jobs?colour=red", "no setting 'colour'"),
        ("mysql://ann:tiger@h/jobs?ssl_mode=perhaps", "ssl_mode can be disabled, required"),
        ("mysql://ann:tiger@h:many/jobs", "can't be read"),
        ("mysql://ann:tiger@h/jobs?ssl_mode", "can't be read"),
        ("mysql://ann:tiger@h/", "names no database"),
        ("mysql://ann:tiger@/jobs", "either a host or a unix_socket"),
        ("mysql://ann:tiger@h/jobs?unix_socket=/s", "either a host or a unix_socket"),
    ],
)
def test_other_urls_are_refused(url: str, fault: str) -> None:
    """What can't be understood is refused, with what is allowed and without the password."""
    with pytest.raises(InvalidInput, match=fault) as refused:
        address_of(url)
    assert refused.value.field == "store"
    assert "tiger" not in str(refused.value)
