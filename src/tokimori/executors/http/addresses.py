"""Addresses to which requests may be sent. Pure."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tokimori.executors.http.special_addresses import is_public

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
