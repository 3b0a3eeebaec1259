"""Which addresses requests may go to."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from tokimori.executors.http.addresses import REGISTRIES, Block, is_public, may_be_asked, networks_of

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
    "192.0.0.192",
    "192.0.0.8",
    "192.0.0.170",
    "192.88.99.1",
    "::ffff:192.0.0.192",
    "::ffff:0:10.0.0.1",
    "::1.1.1.1",
    "64:ff9b::c000:c0",
    "64:ff9b:1::1.1.1.1",
    "64:ff9b:1:ffff:ffff:ffff:1.1.1.1",
    "2002:c000:c0::1",
    "2001:0:a00:1::f5ff:fffe",
    "2001:0:101:101::f5ff:fffe",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:10.0.0.1",
    "100::1",
    "100:0:0:1::1",
    "2001:2::1",
    "2001:10::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
)
PUBLIC = ("1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1")


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


@pytest.mark.parametrize("block", REGISTRIES, ids=lambda block: str(block.network))
def test_a_block_begins_and_ends_where_the_registry_says(block: Block) -> None:
    """Its first and last address are as it is, and those around it as what they are in."""
    first, last = int(block.network[0]), int(block.network[-1])
    kind = IPv4Address if block.network.version == 4 else IPv6Address
    for number in (first - 1, first, last, last + 1):
        if 0 <= number < 1 << kind(0).max_prefixlen:
            assert is_public(kind(number)) is expected(kind(number))


@given(sampled_from(REGISTRIES), integers(min_value=-2, max_value=2), integers(min_value=0, max_value=1))
def test_whatever_stands_for_an_address_is_judged_as_it(block: Block, off: int, end: int) -> None:
    """An IPv4 address is refused in every way in which IPv6 can write it, and asked in none that is not public."""
    number = int(block.network[-end]) + off
    if block.network.version == 6 or not 0 <= number < 1 << 32:
        return
    bare = IPv4Address(number)
    public = expected(bare)
    assert may_be_asked(str(bare), ()) is public
    for text in (f"::ffff:{bare}", f"64:ff9b::{bare}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"):
        assert may_be_asked(text, ()) is public
    assert may_be_asked(f"2606:4700::5efe:{bare}", ()) is public
    for text in (f"::{bare}", f"::ffff:0:{bare}", f"64:ff9b:1::{bare}"):
        assert not may_be_asked(text, ())
    client = f"{number >> 16 ^ 0xFFFF:x}:{number & 0xFFFF ^ 0xFFFF:x}"
    assert may_be_asked(f"2001:0:101:101::{client}", ()) is public
    assert may_be_asked(f"2001:0:{number >> 16:x}:{number & 0xFFFF:x}::fefe:fefe", ()) is public


NOT_PUBLIC = networks_of((
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", "::/3", "2001::/23", "2001:db8::/32",
    "3fff::/20", "4000::/2", "8000::/1",
))  # fmt: skip
PUBLIC_WITHIN = networks_of((
    "192.0.0.9/32", "192.0.0.10/32", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
    "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28",
))  # fmt: skip


def expected(address: IPv4Address | IPv6Address) -> bool:
    """If it is public by a list that was written by itself."""
    within = any(address in network for network in PUBLIC_WITHIN)
    return within or not any(address in network for network in NOT_PUBLIC)
