import pytest

from tokimori.errors import Refused
from tokimori.node.http_door import check_open


@pytest.mark.parametrize("interface", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_the_loopback_may_be_open(interface: str) -> None:
    """A user who is not root may open the API to this machine."""
    check_open(interface, user=1000)


@pytest.mark.parametrize(
    ("interface", "user"),
    [("127.0.0.1", 0), ("0.0.0.0", 1000), ("::", 1000), ("192.0.2.1", 1000)],  # noqa: S104
)
def test_root_and_other_machines_may_not(interface: str, user: int) -> None:
    """Root never, and nobody where other machines reach it; the error says how to mend it."""
    with pytest.raises(Refused) as refused:
        check_open(interface, user)
    assert refused.value.field == "http.v1_open"
    assert "remove `v1_open`" in refused.value.message
