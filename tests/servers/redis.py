"""A throwaway Redis server: a folder under /tmp, a Unix socket, no network unless asked; gone when its process is."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

PACKAGES = "redis-server"
INSTALL = f"apt-get install {PACKAGES}"
ACCOUNT = "redis"
"""Where the tests run as root, the server runs as its Debian user."""
DATABASES = 1024
ROOM = 2**31
"""Bytes that are free, or a server that all tests of a process share is not in memory."""
DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": ""}
"""As in production: what is acknowledged is on the disk."""
FORGETFUL = {"appendonly": "no", "save": ""}
"""Keeps nothing over a restart."""


def program() -> str | None:
    """The server; None where it is not installed."""
    return shutil.which("redis-server")


class Server:
    """A running server. `port`: also on the network, at 127.0.0.1. `place`: where its folder is."""

    def __init__(self, settings: dict[str, str] | None = None, *, port: int = 0, place: str = "/tmp") -> None:
        found = program()
        if found is None:
            sys.exit(f"The tests need a Redis server: {INSTALL}")
        self._program = found
        self.folder = Path(tempfile.mkdtemp(prefix="tokimori-redis-", dir=place))
        self.port = port
        self._settings = {"port": str(port), "databases": str(DATABASES)} | (DURABLE if settings is None else settings)
        self._as_account = ["setpriv", "--pdeathsig", "TERM"]
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as_account += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        self.start()

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return str(self.folder / "socket")

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = {"dir": str(self.folder), "unixsocket": self.socket, "bind": "127.0.0.1", **self._settings}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._as_account, self._program, *words], stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + 30
        while self._reply(b"PING\r\n")[:5] not in (b"+PONG", b"-NOAU"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.01)

    def _reply(self, words: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            try:
                client.connect(self.socket)
                client.sendall(words)
                return client.recv(65536)
            except OSError:
                return b""

    def command(self, *words: str) -> str:
        """What the server answers to one command, of at most 64 KiB."""
        parts = [f"*{len(words)}\r\n", *(f"${len(word.encode())}\r\n{word}\r\n" for word in words)]
        password = self._settings.get("requirepass")
        before = f"AUTH {password}\r\n" if password else ""
        answer = (
            self._reply("".join([before, *parts]).encode())
            .decode(errors="replace")
            .removeprefix("+OK\r\n" if password else "")
        )
        if answer.startswith("-"):
            raise RuntimeError(answer)
        return answer

    def url(self, database: int = 0) -> str:
        """The URL of a database."""
        return f"redis+unix://{self.socket}?db={database}"

    def stop(self, signal: int = 15) -> None:
        """Stop as its administrator would (SIGTERM), or as a power cut does (SIGKILL)."""
        self.process.send_signal(signal)
        self.process.wait()

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        if self.process.poll() is None:
            self.stop(9)
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """This process's server, started by the first test that needs it: in memory, if there is room.

    It answers only after what it has appended to its log is on the disk, which may be a slow one.
    """
    memory = Path("/dev/shm")
    return Server(place=str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else "/tmp")


def remove_server() -> None:
    """Remove this process's server, if there is one."""
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()


class Loans:
    """Databases lent to tests, each standing for a folder: emptied when they come back."""

    def __init__(self) -> None:
        self._lent: dict[Path, int] = {}
        self._free = list(range(DATABASES))

    def url_of(self, folder: Path) -> str:
        """The URL of the database that stands for a folder."""
        if folder not in self._lent:
            self._lent[folder] = self._free.pop()
        return server().url(self._lent[folder])

    def give_back(self, folder: Path) -> None:
        """Empty the folder's database for the next test."""
        number = self._lent.pop(folder)
        server().command("EVAL", "redis.call('SELECT', ARGV[1]) redis.call('FLUSHDB')", "0", str(number))
        self._free.append(number)


loans = Loans()
