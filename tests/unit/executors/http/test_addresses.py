"""Which addresses requests may go to."""

import pytest

from tokimori.executors.http.addresses import may_be_asked, networks_of

PRIVATE = (
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::1",
    "2001:db8::1",
    "fec0::1",
    "::127.0.0.1",
    "::10.0.0.1",
    "168.63.129.16",
    "::ffff:168.63.129.16",
)
PUBLIC = ("1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101")


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused(address: str) -> None:
    """No way to write an address of this machine, of its network or of a cloud's own services gets through."""
    assert not may_be_asked(address, ())


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_may_be_asked(address: str) -> None:
    """Public addresses need no permission, however they are written."""
    assert may_be_asked(address, ())


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.2.0.1", False), ("169.254.169.254", False), ("::1", True)],
)
def test_a_permission_is_for_its_networks_alone(address: str, allowed: bool) -> None:
    """Who allows one private network has not allowed the others."""
    assert may_be_asked(address, networks_of(["10.1.0.0/16", "::1"])) is allowed
