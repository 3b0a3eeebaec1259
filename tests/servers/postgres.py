"""A throwaway PostgreSQL server: a folder under /tmp, a Unix socket, no network; gone when its process is."""

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
from typing import TYPE_CHECKING

from tests.servers.template import Template

if TYPE_CHECKING:
    import psycopg

PACKAGES = "postgresql pgbouncer"
INSTALL = f"apt-get install {PACKAGES}"
ACCOUNT = "postgres"
"""The server refuses to run as root: then it runs as its Debian user."""
POOLER_PORT = 6432
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
    "log_min_messages": "fatal",
}


def programs() -> Path | None:
    """The folder of the newest installed server; None where there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def pooler_program() -> str | None:
    """PgBouncer; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Server:
    """A running server. `durable`: as in production, with fsync; tests do without."""

    def __init__(self, *, durable: bool = False, port: int = 5432, settings: dict[str, str] | None = None) -> None:
        found = programs()
        if found is None:
            sys.exit(f"The tests need a PostgreSQL server: {INSTALL}")
        self._bin = found
        self.folder, self.as_account = _folder()
        self.port = str(port)
        self._settings = _SETTINGS | {"port": self.port} | ({} if durable else {"fsync": "off"}) | (settings or {})
        if template.cache_info().currsize:
            template().copy(self.as_account, Path(self._data))
        else:
            subprocess.run(
                _install(found, self.folder, self.as_account), check=True, capture_output=True, cwd=self.folder
            )
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self, *, wait: bool = True) -> None:
        """Start, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [self._bin / "postgres", "-D", self._data, "-k", str(self.folder), *settings]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.as_account, *map(str, command)], stdout=log, stderr=log, cwd=self.folder
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + 30
        ready = [str(self._bin / "pg_isready"), "-q", "-h", str(self.folder), "-p", self.port]
        while subprocess.run(ready, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def sql(self, text: str, database: str = "postgres", user: str = ACCOUNT) -> str:
        """What the server answers to statements, of its superuser unless another user is named."""
        there = ["-h", str(self.folder), "-p", self.port, "-U", user, "-d", database]
        psql = [str(self._bin / "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", *there, "-f", "-"]
        return subprocess.run(psql, check=True, capture_output=True, text=True, input=text).stdout

    def url(self, database: str) -> str:
        """The URL of a database."""
        return f"postgresql://{ACCOUNT}@/{database}?host={self.folder}&port={self.port}"

    def make(self, database: str) -> str:
        """Make an empty database; its URL."""
        self.sql(f"CREATE DATABASE {database}")
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever still uses it."""
        self.sql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def stop(self, signal: int = 3) -> None:
        """Stop at once (SIGQUIT).

        While a session of a killed server still lives, the memory that they share keeps a new one from starting.
        """
        pid = self.process.pid
        sessions = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.process.send_signal(signal)
        self.process.wait()
        deadline = time.monotonic() + 10
        while any(map(_lives, sessions)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder() -> tuple[Path, list[str]]:
    """A new folder of the server's account, and words that let a program run as that one."""
    folder, words = Path(tempfile.mkdtemp(prefix="tokimori-pg-", dir="/tmp")), ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
        words += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return folder, words


def _install(programs: Path, folder: Path, as_account: list[str]) -> list[str]:
    """A command that makes the data of a server."""
    words = ["--no-sync", "--auth=trust", f"--username={ACCOUNT}", "--encoding=UTF8", str(folder / "data")]
    return [*as_account, str(programs / "initdb"), *words]


@cache
def template() -> Template:
    """Data for all servers of this process and of those that it forks."""
    found = programs()
    if found is None:
        sys.exit(f"The tests need a PostgreSQL server: {INSTALL}")
    folder, as_account = _folder()
    return Template(folder, _install(found, folder, as_account))


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Pooler:
    """PgBouncer before a server, giving each transaction any of its sessions."""

    def __init__(self, server: Server, database: str) -> None:
        found = pooler_program()
        if found is None:
            sys.exit(f"The tests need PgBouncer: {INSTALL}")
        self._server = server
        self._database = database
        settings = server.folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n{database} = host={server.folder} port={server.port} user={ACCOUNT}\n"
            f"[pgbouncer]\nlisten_port = {POOLER_PORT}\nunix_socket_dir = {server.folder}\nauth_type = any\n"
            f"pool_mode = transaction\ndefault_pool_size = 4\nlogfile = {server.folder}/pgbouncer.log\n"
        )
        self._process = subprocess.Popen(
            [*server.as_account, found, "-q", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._await()

    @property
    def url(self) -> str:
        """The URL of the database behind the pooler."""
        place = f"host={self._server.folder}&port={POOLER_PORT}"
        return f"postgresql://{ACCOUNT}@/{self._database}?{place}&statement_cache_size=0"

    def _await(self) -> None:
        """Its socket is there before it listens: only a connection says that it does."""
        while self._process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self._server.folder / f".s.PGSQL.{POOLER_PORT}")) == 0:
                    return
            time.sleep(0.02)

    def remove(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()
        (self._server.folder / f".s.PGSQL.{POOLER_PORT}").unlink(missing_ok=True)


@cache
def server() -> Server:
    """This process's server, started by the first test that needs it."""
    return Server()


def remove_server() -> None:
    """Remove this process's server, if there is one."""
    loans.close()
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()


class Loans:
    """Databases lent to tests, each standing for a folder: emptied when they come back, so that tables stay."""

    def __init__(self) -> None:
        self._lent: dict[Path, str] = {}
        self._free: list[str] = []
        self._sessions: dict[str, psycopg.Connection] = {}
        """By database, kept: to open one costs as much as to empty a database."""
        self._made = 0

    def url_of(self, folder: Path) -> str:
        """The URL of the database that stands for a folder."""
        if folder not in self._lent:
            self._lent[folder] = self._free.pop() if self._free else self._another()
        return server().url(self._lent[folder])

    def _another(self) -> str:
        self._made += 1
        name = f"t{self._made}"
        server().make(name)
        return name

    def give_back(self, folder: Path) -> None:
        """Empty the folder's database for the next test. A session that a test has cut may still be at work there.

        What the server has learned of the rows goes with them: plans of the next test would differ by who came before.
        """
        import psycopg

        name = self._lent.pop(folder)
        try:
            self._session(name).execute(_END_SESSIONS + _EMPTY)
        except psycopg.OperationalError:  # a test has ended it
            self._sessions.pop(name).close()
            self._session(name).execute(_END_SESSIONS + _EMPTY)
        self._free.append(name)

    def _session(self, name: str) -> "psycopg.Connection":
        import psycopg

        if name not in self._sessions:
            self._sessions[name] = psycopg.connect(server().url(name), autocommit=True)
        return self._sessions[name]

    def close(self) -> None:
        """End the sessions of this process."""
        while self._sessions:
            self._sessions.popitem()[1].close()


_END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
"""
_EMPTY = r"""
DO $$ BEGIN
    EXECUTE (
        SELECT coalesce('TRUNCATE ' || string_agg(relname, ', '), 'SELECT 1') FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            AND relname !~ '(schema_migrations|function_sets)$' AND pg_relation_size(oid) > 0);
END $$;
DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace);
"""
loans = Loans()
