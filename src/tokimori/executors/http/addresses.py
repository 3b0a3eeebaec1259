"""Addresses to which requests may be sent, and those that are special. Pure."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""A gateway sends what goes there to the IPv4 address in the last 32 bits (RFC 6052)."""
_COMPATIBLE = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
"""IPv4 addresses as IPv6 wrote them once (RFC 4291 §2.5.5.1), and as translators wrote them (RFC 2765)."""
_ISATAP = frozenset({0x5EFE, 0x0200_5EFE})
"""The first half of the interface's number, before the IPv4 address to which a packet is sent (RFC 5214)."""


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that these texts name; a single address is one too. Raises `ValueError`."""
    return tuple(ip_network(text) for text in texts)


def may_be_asked(address: str, allowed: Iterable[Network]) -> bool:
    """Return whether a request may go to the address: to any public one, and to others only in the allowed networks.

    An IPv4 address within an IPv6 one (a tunnel, say) is checked, too.
    """
    networks = tuple(allowed)
    return all(is_public(each) or any(each in network for network in networks) for each in _meant(address))


def _meant(address: str) -> tuple[Address, ...]:
    """Return the addresses at which a packet to this one may arrive."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return (found,)
    last = IPv4Address(int(found) & 0xFFFFFFFF)
    if found.ipv4_mapped is not None or found in _TRANSLATED:
        return (last,)
    if found.sixtofour is not None:
        return (found, found.sixtofour)
    if found.teredo is not None:
        return (found, *found.teredo)
    written = found.packed[-4:-2] != b"\0\0" and any(found in network for network in _COMPATIBLE)
    if written or int(found) >> 32 & 0xFFFFFFFF in _ISATAP:
        return (found, last)
    return (found,)


class Block(NamedTuple):
    """A block of addresses: since when it has its purpose, and if it is reachable from everywhere."""

    network: IPv4Network | IPv6Network
    since: str
    purpose: str
    reachable: bool = False


def _block(network: str, since: str, purpose: str, *, reachable: bool = False) -> Block:
    return Block(ip_network(network), since, purpose, reachable)


REGISTRIES: Final = (
    _block("0.0.0.0/8", "1981-09", "this network"),
    _block("10.0.0.0/8", "1996-02", "private use"),
    _block("100.64.0.0/10", "2012-04", "shared address space"),
    _block("127.0.0.0/8", "1981-09", "loopback"),
    _block("169.254.0.0/16", "2005-05", "link local"),
    _block("172.16.0.0/12", "1996-02", "private use"),
    _block("192.0.0.0/24", "2010-01", "protocol assignments"),
    _block("192.0.0.9/32", "2015-10", "port control anycast", reachable=True),
    _block("192.0.0.10/32", "2017-02", "TURN anycast", reachable=True),
    _block("192.0.2.0/24", "2010-01", "documentation"),
    _block("192.31.196.0/24", "2014-12", "AS112", reachable=True),
    _block("192.52.193.0/24", "2014-12", "AMT", reachable=True),
    _block("192.88.99.0/24", "2001-06", "6to4 relays, ended 2015-03"),
    _block("192.168.0.0/16", "1996-02", "private use"),
    _block("192.175.48.0/24", "1996-01", "AS112", reachable=True),
    _block("198.18.0.0/15", "1999-03", "benchmarks"),
    _block("198.51.100.0/24", "2010-01", "documentation"),
    _block("203.0.113.0/24", "2010-01", "documentation"),
    _block("240.0.0.0/4", "1989-08", "reserved, and broadcast"),
    _block("::/128", "2006-02", "unspecified"),
    _block("::1/128", "2006-02", "loopback"),
    _block("::ffff:0:0/96", "2006-02", "IPv4-mapped: what it stands for counts"),
    _block("64:ff9b::/96", "2010-10", "NAT64: what it stands for counts"),
    _block("64:ff9b:1::/48", "2017-06", "NAT64 of a network's own"),
    _block("100::/64", "2012-06", "discard"),
    _block("100:0:0:1::/64", "2025-04", "dummy prefix"),
    _block("2001::/23", "2000-09", "protocol assignments"),
    _block("2001::/32", "2006-01", "Teredo: what it stands for counts, too", reachable=True),
    _block("2001:1::1/128", "2015-10", "port control anycast", reachable=True),
    _block("2001:1::2/128", "2017-02", "TURN anycast", reachable=True),
    _block("2001:1::3/128", "2024-04", "DNS-SD anycast", reachable=True),
    _block("2001:3::/32", "2014-12", "AMT", reachable=True),
    _block("2001:4:112::/48", "2014-12", "AS112", reachable=True),
    _block("2001:10::/28", "2007-03", "ORCHID, ended 2014-03"),
    _block("2001:20::/28", "2014-07", "ORCHIDv2", reachable=True),
    _block("2001:30::/28", "2022-12", "drones", reachable=True),
    _block("2001:db8::/32", "2004-07", "documentation"),
    _block("2002::/16", "2001-02", "6to4: what it stands for counts, too", reachable=True),
    _block("2620:4f:8000::/48", "2011-05", "AS112", reachable=True),
    _block("3fff::/20", "2024-07", "documentation"),
    _block("5f00::/16", "2024-04", "segment routing"),
    _block("fc00::/7", "2005-10", "private use"),
    _block("fe80::/10", "2006-02", "link local"),
)
"""Smaller blocks within one of the same kind are left out (192.0.0.0/29, 255.255.255.255/32)."""
_OTHERS: Final = (
    _block("224.0.0.0/4", "1989-08", "multicast"),
    _block("168.63.129.16/32", "2014-12", "public by its number; Azure configures each of its machines from there"),
)
_UNICAST: Final = IPv6Network("2000::/3")
"""All that has been given to anybody; the rest is multicast, site-local, IPv4-compatible, or free."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether the address is reachable from everywhere, by the smallest special block that contains it."""
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    within = [block for block in (*REGISTRIES, *_OTHERS) if address in block.network]
    return max(within, key=lambda block: block.network.prefixlen).reachable if within else True
