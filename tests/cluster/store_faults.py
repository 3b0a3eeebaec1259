"""What can happen to a store while two nodes work on it: each fault alone, on each store that knows it."""

import resource
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from tests.cluster import capped_node
from tests.cluster.fleet import Fleet
from tests.servers import mariadb, postgres, redis
from tests.servers.silent_proxy import SilentProxy
from tokimori.clock import Moment, SystemClock

LATENCY = 0.2
"""Seconds from a request to its answer, on the way alone."""
MOST_SESSIONS = 30
RESERVED = 3
"""Of those PostgreSQL keeps so many for its superuser, and MariaDB one more."""

NO_SESSION = (subprocess.CalledProcessError, RuntimeError)
"""What the clients of PostgreSQL and MariaDB raise where all sessions are taken, their own too."""

Server = postgres.Server | mariadb.Server | redis.Server


@dataclass(frozen=True, slots=True)
class Place:
    """A store, and two nodes to be. `returns`: when whatever was wrong had ended."""

    fleet: Fleet
    url: str
    """Where the nodes find it; the fleet's own is the direct way."""
    server: Server | None
    seconds: float
    """How long a fault lasts."""
    module: str = ""
    """The tests' own node that runs there, if the fault needs one."""
    returns: list[Moment] = field(default_factory=list)

    def over(self) -> None:
        """From now on all is well again."""
        self.returns.append(SystemClock().now())


def kill_server(place: Place) -> None:
    """Stop the server as a power cut does; a second later it is started again."""
    assert place.server is not None
    place.server.stop(signal.SIGKILL)
    time.sleep(1)
    place.server.start()
    place.over()


def cut_sessions(place: Place) -> None:
    """End all sessions twice a second."""
    end = time.monotonic() + place.seconds
    while time.monotonic() < end:
        end_sessions(place.server)
        time.sleep(0.5)
    place.over()


def end_sessions(server: Server | None) -> None:
    """End every session of the nodes."""
    match server:
        case postgres.Server():
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'fleet'")
        case mariadb.Server():
            for session in server.sql("SELECT id FROM information_schema.processlist WHERE user = 'fleet'").split():
                with suppress(RuntimeError):  # it has ended since
                    server.sql(f"KILL {session}")
        case redis.Server():
            server.command("CLIENT", "KILL", "TYPE", "normal")
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
        case None:
            raise AssertionError("a file has no sessions")


def exhaust_sessions(place: Place) -> None:
    """Others hold every session that the server has; those of the nodes are ended."""
    match place.server:
        case redis.Server() as server:
            _refuse_clients(server, place.seconds)
        case postgres.Server() | mariadb.Server() as server:
            _hold_all(server, place.seconds)
        case None:
            raise AssertionError("a file has no sessions")
    place.over()


def _refuse_clients(server: redis.Server, seconds: float) -> None:
    with Redis(unix_socket_path=server.socket, single_connection_client=True) as last:
        last.config_set("maxclients", 1)
        last.client_kill_filter(_type="normal", skipme=True)
        last.client_kill_filter(_type="pubsub", skipme=True)
        time.sleep(seconds)
        last.config_set("maxclients", 10_000)


def _hold_all(server: postgres.Server | mariadb.Server, seconds: float) -> None:
    end = time.monotonic() + seconds
    end_sessions(server)
    holders = [threading.Thread(target=_hold, args=(server, end)) for _ in range(MOST_SESSIONS - RESERVED)]
    for holder in holders:
        holder.start()
    while time.monotonic() < end:
        with suppress(*NO_SESSION):
            end_sessions(server)
        time.sleep(0.3)
    for holder in holders:
        holder.join()


def _hold(server: postgres.Server | mariadb.Server, end: float) -> None:
    while (left := end - time.monotonic()) > 0:
        try:
            server.sql(f"SELECT pg_sleep({left})" if isinstance(server, postgres.Server) else f"SELECT SLEEP({left})")
        except NO_SESSION:
            time.sleep(0.05)  # the nodes still have them all


def storm(place: Place) -> None:
    """Another program writes to the file nearly all the time."""
    end = time.monotonic() + place.seconds
    with closing(sqlite3.connect(place.fleet.file, timeout=10, isolation_level=None)) as other:
        while time.monotonic() < end:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(0.3)
            other.execute("ROLLBACK")
            time.sleep(0.002)
    place.over()


def lock_file(place: Place) -> None:
    """Another program holds the lock of the file all the time."""
    with closing(sqlite3.connect(place.fleet.file, timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(place.seconds)
        other.execute("ROLLBACK")
    place.over()


def fill_disk(place: Place) -> None:
    """No file of the nodes grows any more."""
    for limit in (4096, resource.RLIM_INFINITY):
        for node in place.fleet.nodes:
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        if limit == 4096:
            time.sleep(place.seconds)
    place.over()


A_FEW = 10
"""Of the sixty that are due in that time: what ends leaves a little room."""


def cap_file(place: Place) -> None:
    """The file gets no more pages. What needs none is still written, so that a beat goes through and a run does not."""
    _signal(place.fleet, capped_node.CAP)
    place.fleet.wait_until_all_say(capped_node.CAPPED)
    place.fleet.wait_until_all_say("database or disk is full")
    time.sleep(place.seconds / 2)
    born = _born(place.fleet)
    time.sleep(place.seconds / 2)
    assert _born(place.fleet) - born < A_FEW, "there was still room for runs"
    _signal(place.fleet, capped_node.UNCAP)
    place.over()
    place.fleet.wait_until_all_say(capped_node.FREE)


def _signal(fleet: Fleet, number: int) -> None:
    for node in fleet.nodes:
        node.send_signal(number)


def _born(fleet: Fleet) -> int:
    """How many runs there are, ended or not."""
    with closing(sqlite3.connect(fleet.file)) as connection:
        runs = "SELECT id FROM tokimori_runs UNION ALL SELECT id FROM tokimori_history"
        return int(connection.execute(f"SELECT count(*) FROM ({runs})").fetchone()[0])


def endure(place: Place) -> None:
    """Every request takes `LATENCY` longer, from the beginning to the end."""
    time.sleep(place.seconds)


Fault = Callable[[Place], None]
FAULTS: dict[tuple[str, str], Fault] = {
    ("sqlite", "another program writes all the time"): storm,
    ("sqlite", "locked by another program"): lock_file,
    ("sqlite", "no room on the disk"): fill_disk,
    ("sqlite", "no room in the file"): cap_file,
    ("postgres", "server killed"): kill_server,
    ("postgres", "sessions ended"): cut_sessions,
    ("postgres", "no session to be had"): exhaust_sessions,
    ("postgres", "200 ms away"): endure,
    ("mariadb", "server killed"): kill_server,
    ("mariadb", "sessions ended"): cut_sessions,
    ("mariadb", "no session to be had"): exhaust_sessions,
    ("mariadb", "200 ms away"): endure,
    ("redis", "server killed"): kill_server,
    ("redis", "sessions ended"): cut_sessions,
    ("redis", "no session to be had"): exhaust_sessions,
    ("redis", "200 ms away"): endure,
}


@contextmanager
def place(store: str, fault: Fault, folder: Path, seconds: float) -> Iterator[Place]:
    """A store of this kind, of its own; the nodes come to it from afar where the fault is its distance."""
    server = _server(store)
    proxy = None
    try:
        fleet = Fleet(folder, None if server is None else _url(server))
        url = fleet.url
        if server is not None and fault is endure:
            proxy = SilentProxy(server.folder, _socket(server), latency=LATENCY)
            url = url.replace(str(server.folder), str(proxy.folder))
        yield Place(fleet, url, server, seconds, module=capped_node.__name__ if fault is cap_file else "")
    finally:
        if proxy is not None:
            proxy.remove()
        if server is not None:
            server.remove()


def _server(store: str) -> Server | None:
    match store:
        case "sqlite":
            return None
        case "postgres":
            return postgres.Server(durable=True, settings={"max_connections": str(MOST_SESSIONS)})
        case "mariadb":
            return mariadb.Server(durable=True, settings={"max-connections": str(MOST_SESSIONS - RESERVED)})
        case _:
            return redis.Server()


def _url(server: Server) -> str:
    """Of an empty store of a user who has no more rights than a node needs."""
    match server:
        case postgres.Server():
            url = server.make("fleet")
            server.sql("CREATE ROLE fleet LOGIN; ALTER DATABASE fleet OWNER TO fleet")
            return url.replace(f"//{postgres.ACCOUNT}@", "//fleet@")
        case mariadb.Server():
            url = server.make("fleet")
            server.sql("CREATE USER fleet@localhost; GRANT ALL ON fleet.* TO fleet@localhost")
            return url.replace("//root@", "//fleet@")
        case _:
            return server.url()


def _socket(server: Server) -> str:
    return f".s.PGSQL.{server.port}" if isinstance(server, postgres.Server) else "socket"
