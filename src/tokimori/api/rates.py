"""Rates of clients: a bucket for each token, and for each address without one.

A client is known by the token or address that let it in, never by its claim: so nobody uses up another's requests by
naming his token. All senders with the node's secret are one client.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from tokimori.api.answers import refusal
from tokimori.clock import Clock
from tokimori.model.rate import Bucket, Rate
from tokimori.service.access import Access

MOST_CLIENTS: Final = 10_000
"""Tokens, and addresses, that are remembered. The one that has asked least lately is forgotten first."""
_NANOSECONDS: Final = 10**9
_HOST_BITS: Final = 64
"""The bits of an IPv6 address that one machine chooses as it likes."""


class Rates:
    """Limits of requests a client. Addresses and tokens are counted apart, so that many addresses displace no token."""

    def __init__(self, rate: Rate, clock: Clock, most: int = MOST_CLIENTS) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = _Buckets(rate, most)
        self._addresses = _Buckets(rate, most)

    def refusal(self, scope: Scope, access: Access | None) -> Response | None:
        """Count a request with this access; return an answer if it is one too many."""
        now = int(self._clock.monotonic() * _NANOSECONDS)
        if access is None:
            wait = self._addresses.take(client_of(scope), now)
        else:
            wait = self._tokens.take("" if access.is_owner else access.author or "", now)
        return self._refused(-(-wait // _NANOSECONDS)) if wait else None

    def _refused(self, seconds: int) -> Response:
        each = self._rate.period // _NANOSECONDS
        response = refusal(
            429,
            "too_many_requests",
            f"{self._rate.limit} requests in {each} s are all that one client may send: ask again in {seconds} s",
            allowed="what `http.rate` of the node says, for each token, and for each address of who has none",
        )
        response.headers["retry-after"] = str(seconds)
        return response


class _Buckets:
    """Token buckets of a bounded number of clients."""

    def __init__(self, rate: Rate, most: int) -> None:
        self._rate = rate
        self._most = most
        self._found: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, client: str, now: int) -> int:
        """Take a token from the client's bucket; return the wait in nanoseconds if there is none."""
        bucket, wait = self._found.get(client, Bucket()).take(self._rate, now)
        self._found[client] = bucket
        self._found.move_to_end(client)
        if len(self._found) > self._most:
            self._found.popitem(last=False)
        return wait


def client_of(scope: Scope) -> str:
    """Return the client of an address: of IPv6 the network, as a machine has as many addresses there as it likes."""
    host: str = scope["client"][0] if scope.get("client") else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    return str(address.ipv4_mapped or int(address) >> _HOST_BITS)
