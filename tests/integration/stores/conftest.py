"""A PostgreSQL server on the network, which asks for passwords, and scenes of two nodes."""

import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.stores.actors import Worker
from tests.contract.stores.conftest import STORES, forget
from tests.integration.stores.scenes import Scene, server_of
from tests.servers.postgres import Server

HBA = """
local all all trust
hostssl all stern 127.0.0.1/32 trust
host all ann,nobody 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class Networked:
    """A server with the user ann, whose password is tiger, and her database jobs."""

    server: Server
    port: int

    def url(self, *, user: str = "ann", password: str = "tiger", database: str = "jobs", query: str = "") -> str:  # noqa: S107
        """A URL over TCP."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}{query}"


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def networked() -> Iterator[Networked]:
    """One server for all tests here."""
    port = free_port()
    server = Server(settings={"listen_addresses": "127.0.0.1"}, port=port)
    Path(server.folder, "data", "pg_hba.conf").write_text(HBA)
    server.sql("CREATE USER ann PASSWORD 'tiger'")
    server.sql("CREATE USER stern")
    server.sql("CREATE DATABASE jobs OWNER ann")
    server.sql("CREATE DATABASE barred")
    server.sql("SELECT pg_reload_conf()")
    yield Networked(server, port)
    server.remove()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    """The server that the name of the tests' file says."""
    return "postgres" if "postgres" in request.path.name else "mariadb"


@pytest.fixture
async def scene(tmp_path: Path, server: str) -> AsyncIterator[Scene]:
    """An open, empty store, and two nodes."""
    store = STORES[server](tmp_path)
    await store.open()
    await store.migrate()
    yield Scene(store, server_of(store), await Worker.join(store), await Worker.join(store))
    await store.close()
    forget(server, tmp_path)
