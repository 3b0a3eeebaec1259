"""Readiness of a node, reported to its starter as systemd expects (sd_notify(3))."""

import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = b"READY=1"
ALIVE: Final = b"WATCHDOG=1"


class Starter:
    """Starter of this process that wants to be notified."""

    def __init__(self, address: str | None, every: float | None = None) -> None:
        self._address = address
        self._every = every
        """Seconds between two signs of life, if it wants any: half of those after which it would end this process."""

    def tell_ready(self) -> None:
        """Report readiness to the starter, if it still exists."""
        self._tell(READY)

    def keep_telling(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        """Report regularly that the loop is alive, if the starter requests it; `call_later` is the loop's."""
        if self._every is not None:
            self._tell(ALIVE)
            call_later(self._every, partial(self.keep_telling, call_later))

    def _tell(self, said: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)  # a starter that is stuck must not hold the loop
            sender.sendto(said, _path(self._address))


def starter_of(environ: MutableMapping[str, str]) -> Starter:
    """Remove and return the starter in the environment: children of this process have nothing to report to it."""
    address, micros = environ.pop(VARIABLE, None), environ.pop("WATCHDOG_USEC", "")
    is_ours = environ.pop("WATCHDOG_PID", None) in (None, str(os.getpid()))
    wants = is_ours and micros.isdecimal() and int(micros) > 0
    return Starter(address, int(micros) / 2_000_000 if wants else None)


class Listener:
    """Receiver of reports by a process that is being started."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(f"\0tokimori-{os.urandom(16).hex()}")  # the name can't be guessed, and no file is left behind
        self.address = self._socket.getsockname().decode().replace("\0", "@")

    def hears_ready(self, within: float) -> bool:
        """Return whether it reports within so many seconds that it is ready."""
        self._socket.settimeout(within)
        try:
            return READY in self._socket.recv(4096).splitlines()
        except (TimeoutError, BlockingIOError):
            return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _path(address: str) -> str:
    """Return the path. An address that begins with @ is no file, but a name of the kernel (unix(7))."""
    return f"\0{address[1:]}" if address.startswith("@") else address
