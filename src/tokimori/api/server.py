"""The server: uvicorn in our own loop, without its signal handlers and its clock that ticks ten times a second."""

import errno
import logging
import socket
from collections.abc import Sequence
from ssl import SSLContext

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.lifespan.off import LifespanOff

from tokimori.api.acceptor import Acceptor, StandIn
from tokimori.api.connections import Connections, Limits
from tokimori.api.http_connection import HttpConnection
from tokimori.errors import InvalidInput, Refused

log = logging.getLogger(__name__)

NEXT_PORTS = 100
"""How many ports are tried after one that is taken."""
STOP_GRACE = 5
"""Seconds for requests that are still being answered when the door closes."""
_BACKLOG = 256
"""Connections that wait in the kernel. After an attack they are dead, and still have to be taken one by one."""


class HttpDoor:
    """A server for an ASGI application, from `start` to `stop`.

    Without TLS (`tls`) it listens beyond the loopback only if `insecure` allows it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        interface: str,
        port: int,
        port_fixed: bool,
        insecure: bool = False,
        tls: SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._interface = interface
        self._insecure = insecure
        self.tls = tls
        self._wanted = port
        self._port_fixed = port_fixed
        self._sockets: Sequence[socket.socket] = ()
        self._acceptors: Sequence[Acceptor] = ()
        self._stand_in: StandIn | None = None
        self.connections = Connections(limits or Limits())
        self._server = Server(
            Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,  # uvicorn's comes from its ticking loop; ours from `Finished`
                timeout_graceful_shutdown=STOP_GRACE,
            )
        )

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Return the address for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._interface, self._interface)  # noqa: S104 compared
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"

    async def start(self) -> None:
        """Begin to listen. Raises `InvalidInput`; `Refused` for a port in use, or if others reach it without TLS."""
        self._sockets = listening_sockets(self._interface, self._wanted, port_fixed=self._port_fixed)
        if self.tls is None and not all(_is_of_the_loopback(each.getsockname()[0]) for each in self._sockets):
            self._go_beyond_the_machine()
        self._server.config.load()
        self._server.lifespan = LifespanOff(self._server.config)
        self._server.servers = []  # uvicorn's own would take any number of connections
        if self.tls is None:
            self._stand_in = StandIn(self._sockets)
            self._stand_in.start()
        self._acceptors = [Acceptor(each, self.connections, self._connection, self.tls) for each in self._sockets]

    def _connection(self) -> HttpConnection:
        return HttpConnection(self.connections, self._server.config, self._server.server_state)

    def _go_beyond_the_machine(self) -> None:
        if not self._insecure:
            _close(self._sockets)
            raise _not_without_tls(self._interface)
        log.warning(
            "listening on %s port %d without TLS: anyone who can read the network traffic learns the secret, and can"
            " then run commands here",
            self._interface,
            self.port,
        )

    async def stop(self) -> None:
        """Accept no more requests, answer those that came, and close."""
        for acceptor in self._acceptors:
            acceptor.close()
        if self._stand_in is not None:
            await self._stand_in.stop()
        await self._server.shutdown(list(self._sockets))
        self.connections.close()


def listening_sockets(interface: str, port: int, *, port_fixed: bool) -> Sequence[socket.socket]:
    """Return sockets on all addresses of the interface, at this port or, unless it is fixed, the next free."""
    addresses = _addresses(interface)
    last = port if port_fixed or port == 0 else min(port + NEXT_PORTS, 65535)
    for candidate in range(port, last + 1):
        try:
            return _listen(addresses, candidate)
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise _refused(interface, candidate, fault) from None
    ports = f"{port}" if last == port else f"{port} to {last}"
    raise Refused(
        f"http.port: {ports} on {interface} is taken by another program",
        field="http.port",
        value=port,
        allowed="a free port; 0 chooses one",
    )


def _addresses(interface: str) -> Sequence[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(interface, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInput(
            f"http.interface: {interface!r} has no address",
            field="http.interface",
            value=interface,
            allowed="an address of this machine, such as 127.0.0.1 or 0.0.0.0",
        ) from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _listen(addresses: Sequence[tuple[socket.AddressFamily, str]], port: int) -> Sequence[socket.socket]:
    """Return a socket on each address that this machine has. `localhost` may mean ::1 even without IPv6."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in addresses:
        try:
            sockets.append(_listening_socket(family, address, port))
            port = sockets[0].getsockname()[1]
        except OSError as fault:
            if fault.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(sockets)
                raise
            missing = fault
    if missing is not None and not sockets:
        raise missing
    return sockets


def _close(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _listening_socket(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    """Return a socket that listens at once. Two that are only bound could share a port, and one would fail too late."""
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY: 40 ms
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        made.listen(_BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _refused(interface: str, port: int, fault: OSError) -> Refused:
    return Refused(
        f"http: can't listen on {interface} port {port}: {fault.strerror}",
        field="http.port" if fault.errno == errno.EACCES else "http.interface",
        value=port if fault.errno == errno.EACCES else interface,
        allowed="a port above 1023" if fault.errno == errno.EACCES else "an address of this machine",
    )


def _not_without_tls(interface: str) -> Refused:
    return Refused(
        f"http.interface: other machines reach {interface}, and there is no TLS: whoever reads along would learn the"
        " secret and tokens. `tokimori serve --tls-cert FILE --tls-key FILE` (http.tls_cert, http.tls_key) encrypts;"
        " `--insecure` (http.insecure = true) listens there all the same",
        field="http.interface",
        value=interface,
        allowed="an address of the loopback, such as 127.0.0.1 or localhost; any address with TLS or --insecure",
    )


def is_loopback(interface: str) -> bool:
    """Return whether only this machine reaches the interface. Raises `InvalidInput` for one that has no address."""
    return all(_is_of_the_loopback(address) for _, address in _addresses(interface))


def _is_of_the_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")
