"""A throwaway MariaDB server: a folder under /tmp, a Unix socket, no network; gone when its process is."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from tests.servers.template import Template

PACKAGES = "mariadb-server"
INSTALL = f"apt-get install {PACKAGES}"
ACCOUNT = "mysql"
"""The server refuses to run as root: then it runs as its Debian user."""
_PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec"
_SETTINGS = {
    "skip-networking": "1",
    "max-connections": "300",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "64M",
    "innodb-buffer-pool-dump-at-shutdown": "0",
    "character-set-server": "latin1",  # whatever a server's own default is
    "log-warnings": "0",
    "max-allowed-packet": "16M",
}
_HASTY = {"innodb-flush-log-at-trx-commit": "0", "innodb-doublewrite": "0", "innodb-flush-method": "nosync"}
"""Nothing is written durably: a test's server is thrown away, never restored."""


def program(name: str) -> str | None:
    """Where a program of the server is; None where it is not installed."""
    return shutil.which(name, path=_PLACES)


def is_there() -> bool:
    """Whether the server can be started."""
    return program("mariadbd") is not None and program("mariadb-install-db") is not None


class Server:
    """A running server. `durable`: as in production, each commit on the disk; tests do without."""

    def __init__(self, *, durable: bool = False, settings: dict[str, str] | None = None) -> None:
        if not is_there():
            sys.exit(f"The tests need a MariaDB server: {INSTALL}")
        self.folder, self._as_account = _folder()
        self.account = self.folder.owner()
        self._settings = _SETTINGS | ({} if durable else _HASTY) | (settings or {})
        if template.cache_info().currsize:
            template().copy(self._as_account, self.folder / "data")
        else:
            subprocess.run(_install(self.folder, self._as_account), check=True, capture_output=True, cwd=self.folder)
        self.start()

    @property
    def socket(self) -> Path:
        """Where the server listens."""
        return self.folder / "socket"

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        places = [f"--datadir={self.folder}/data", f"--socket={self.socket}", f"--pid-file={self.folder}/pid"]
        # A server that starts removes all temporary tables of its `tmpdir`: those of another one there, which crashes.
        places.append(f"--tmpdir={self.folder}")
        command = [program("mariadbd") or "", "--no-defaults", *places, *settings]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*self._as_account, *command], stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 60
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.05)

    def _answers(self) -> bool:
        return self.socket.exists() and self._client("SELECT 1", "").returncode == 0

    def _client(self, text: str, database: str) -> subprocess.CompletedProcess[str]:
        words = [f"--socket={self.socket}", "--user=root", "--batch", "--skip-column-names", f"--execute={text}"]
        command = [program("mariadb") or "", "--no-defaults", *words, *([database] if database else [])]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def sql(self, text: str, database: str = "") -> str:
        """What the server answers to statements of its superuser."""
        done = self._client(text, database)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def url(self, database: str) -> str:
        """The URL of a database."""
        return f"mariadb://root@/{database}?unix_socket={self.socket}"

    def make(self, database: str) -> str:
        """Make an empty database; its URL."""
        self.sql(f"CREATE DATABASE {database}")
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database."""
        self.sql(f"DROP DATABASE IF EXISTS {database}")

    def end_sessions(self, most: int) -> None:
        """End some sessions of others, at random."""
        found = self.sql(
            "SELECT id FROM information_schema.processlist WHERE db IS NOT NULL AND id <> connection_id() "
            f"ORDER BY rand() LIMIT {most}"
        ).split()
        for session in found:
            self._client(f"KILL {session}", "")

    def stop(self, signal: int = 9) -> None:
        """Stop at once (SIGKILL)."""
        self.process.send_signal(signal)
        self.process.wait()

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder() -> tuple[Path, list[str]]:
    """A new folder of the server's account, and words that let a program run as that one."""
    folder, words = Path(tempfile.mkdtemp(prefix="tokimori-my-", dir="/tmp")), ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
        words += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return folder, words


def _install(folder: Path, as_account: list[str]) -> list[str]:
    """A command that makes the data of a server."""
    words = [f"--datadir={folder}/data", f"--tmpdir={folder}", "--skip-test-db", "--skip-name-resolve"]
    return [
        *as_account,
        program("mariadb-install-db") or "",
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        *words,
    ]


@cache
def template() -> Template:
    """Data for all servers of this process and of those that it forks."""
    folder, as_account = _folder()
    return Template(folder, _install(folder, as_account))


@cache
def server() -> Server:
    """This process's server, started by the first test that needs it."""
    return Server()


def remove_server() -> None:
    """Remove this process's server, if there is one."""
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()


class Loans:
    """Databases lent to tests, each standing for a folder: emptied when they come back, so that tables stay."""

    def __init__(self) -> None:
        self._lent: dict[Path, str] = {}
        self._free: list[str] = []

    def url_of(self, folder: Path) -> str:
        """The URL of the database that stands for a folder."""
        if folder not in self._lent:
            self._lent[folder] = self._free.pop() if self._free else self._another()
        return server().url(self._lent[folder])

    def _another(self) -> str:
        name = f"t{len(self._lent) + len(self._free)}"
        server().make(name)
        return name

    def give_back(self, folder: Path) -> None:
        """Empty the folder's database for the next test."""
        import pymysql

        name, place = self._lent.pop(folder), str(server().socket)
        with (
            pymysql.connect(
                unix_socket=place, user="root", database=name, autocommit=True, ssl_disabled=True
            ) as session,
            session.cursor() as cursor,
        ):
            cursor.execute(_EMPTY)
        self._free.append(name)


_EMPTY = """
BEGIN NOT ATOMIC
    FOR found IN (
        SELECT table_name AS name FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name NOT LIKE '%schema_migrations')
    DO EXECUTE IMMEDIATE CONCAT('DELETE FROM ', found.name); END FOR;
END
"""
loans = Loans()
