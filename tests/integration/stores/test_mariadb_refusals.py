"""What a MariaDB store says when it can't be used: what is wrong, and what to do."""

import asyncio
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, add_job
from tests.integration.stores.conftest import free_port
from tests.servers import mariadb
from tests.servers.mariadb import Server
from tokimori.clock import SystemClock
from tokimori.errors import SchemaMismatch, StoreError, StoreUnavailable
from tokimori.model.ids import JobId
from tokimori.ports.store import Store
from tokimori.stores.mysql import sessions
from tokimori.stores.mysql.schema import known_migrations, statements
from tokimori.stores.open import open_store

USERS = """
CREATE USER ann@'127.0.0.1' IDENTIFIED BY 'tiger';
CREATE USER stern@'127.0.0.1' IDENTIFIED BY 'tiger' REQUIRE SSL;
CREATE DATABASE jobs; CREATE DATABASE barred; CREATE DATABASE half;
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON jobs.* TO ann@'127.0.0.1', stern@'127.0.0.1';
GRANT SELECT ON half.* TO ann@'127.0.0.1';
"""
STATEMENTS = 23


@dataclass(frozen=True, slots=True)
class Networked:
    """A server with TLS, the user ann, whose password is tiger, and her database jobs. `stern` must use TLS."""

    server: Server
    certificate: Path
    port: int

    def url(self, *, user: str = "ann", password: str = "tiger", database: str = "jobs", query: str = "") -> str:  # noqa: S107
        """A URL over TCP."""
        return f"mariadb://{user}:{password}@127.0.0.1:{self.port}/{database}{query}"


@pytest.fixture(scope="module")
def networked() -> Iterator[Networked]:
    """One server for all tests here."""
    folder, port = Path(tempfile.mkdtemp(prefix="tokimori-tls-", dir="/tmp")), free_port()
    certificate, key = certify(folder)
    tls = {"ssl-cert": str(certificate), "ssl-key": str(key)}
    server = Server(settings={"skip-networking": "0", "bind-address": "127.0.0.1", "port": str(port), **tls})
    server.sql(USERS)
    yield Networked(server, certificate, port)
    server.remove()
    shutil.rmtree(folder)


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, where the server may read it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tokimori -keyout {key} -out {certificate}"
    subprocess.run(
        ["openssl", *words.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )
    key.chmod(0o644)
    folder.chmod(0o755)
    return certificate, key


async def refusal(url: str) -> StoreError:
    """The error with which a store can't be opened, or gets no tables."""
    store = open_store(url, SystemClock())
    with pytest.raises(StoreError) as refused:
        await store.open()
        await store.migrate()
    await store.close()
    assert "tiger" not in str(refused.value)
    return refused.value


async def opened(url: str) -> Store:
    """An open store with its tables."""
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    return store


async def test_a_user_without_special_rights_is_enough(networked: Networked) -> None:
    """Who owns a database's tables makes them and works with them, over TCP and with a password."""
    store = await opened(networked.url())
    job = await add_job(store, "over-tcp")
    assert await store.get_job(job.id) == job
    await store.close()


@pytest.mark.parametrize("query", ["?ssl_mode=required", "?ssl_ca={}", "?ssl_ca={}&ssl_mode=verify_ca"])
@pytest.mark.parametrize("user", ["ann", "stern"])
async def test_tls(networked: Networked, user: str, query: str) -> None:
    """With TLS a user works who has to use it, and the server's certificate is checked where that is asked for."""
    store = await opened(networked.url(user=user, query=query.format(networked.certificate)))
    assert (await store.db.rows("SHOW STATUS LIKE 'Ssl_version'"))[0][1].startswith("TLS")  # type: ignore[attr-defined]
    await store.close()


async def test_an_unreachable_server() -> None:
    """Where nobody listens, trying again can help."""
    error = await refusal(f"mariadb://ann:tiger@127.0.0.1:{free_port()}/jobs")
    assert isinstance(error, StoreUnavailable)
    assert "can't be reached" in error.message
    assert "check that the server runs" in error.message


@pytest.mark.parametrize("place", ["ann:tiger@no-such-host.invalid/jobs", "ann:tiger@/jobs?unix_socket=/no/socket"])
async def test_an_unknown_place(place: str) -> None:
    """A host without address may get one, a socket that is not there may come."""
    error = await refusal(f"mariadb://{place}")
    assert isinstance(error, StoreUnavailable)
    assert "can't be reached" in error.message


async def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and is silent is given up after the patience."""
    monkeypatch.setattr(sessions, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = await refusal(f"mariadb://ann:tiger@127.0.0.1:{silent.getsockname()[1]}/jobs")
    assert isinstance(error, StoreUnavailable)
    assert "does not answer" in error.message


@pytest.mark.parametrize(
    ("terms", "advice"),
    [
        ({"password": "lion"}, "check user and password in the URL"),
        ({"user": "nobody"}, "check user and password in the URL"),
        ({"database": "missing"}, "GRANT it SELECT"),
        ({"database": "barred"}, "GRANT it SELECT"),
        ({"database": "half"}, "GRANT it SELECT"),
        ({"user": "stern"}, "wants TLS from this user (ssl_mode=required)"),
        ({"query": "?ssl_mode=verify_ca"}, "can't prove who it is"),
        ({"query": "?ssl_ca=/no/file.pem"}, "can't read the files of ssl_"),
        ({"query": "?ssl_ca=/etc/hostname"}, "can't read the files of ssl_"),
    ],
)
async def test_what_only_a_person_can_mend(networked: Networked, terms: dict[str, str], advice: str) -> None:
    """A wrong password, a missing database, missing rights and certificates in doubt are named, with the remedy."""
    error = await refusal(networked.url(**terms))
    assert not isinstance(error, StoreUnavailable)
    assert advice in error.message


async def test_a_missing_database() -> None:
    """Who might see every database is told that this one is not there."""
    error = await refusal(mariadb.server().url("missing"))
    assert not isinstance(error, StoreUnavailable)
    assert "make it with CREATE DATABASE" in error.message


async def test_a_server_without_tls() -> None:
    """A server that speaks no TLS is not talked to in plain text where TLS was asked for."""
    mariadb.server().sql("CREATE DATABASE IF NOT EXISTS plain")
    error = await refusal(f"{mariadb.server().url('plain')}&ssl_mode=required")
    assert not isinstance(error, StoreUnavailable)
    assert "speaks no TLS" in error.message


async def test_a_server_that_is_too_old(networked: Networked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without what the statements need is refused with both versions."""
    monkeypatch.setattr(sessions, "OLDEST_MARIADB", (99, 1))
    error = await refusal(networked.url())
    assert not isinstance(error, StoreUnavailable)
    assert "MariaDB 10." in error.message and "older than 99.1: upgrade the server" in error.message


async def test_missing_tables(networked: Networked) -> None:
    """A store without tables says which command makes them."""
    store = open_store(networked.server.make("bare"), SystemClock())
    await store.open()
    with pytest.raises(SchemaMismatch, match="run `tokimori db migrate`"):
        await store.get_job(JobId("any"))
    await store.close()


async def test_a_newer_schema(networked: Networked) -> None:
    """A schema that shuts this version out is refused, and left as it is."""
    store = await opened(networked.server.make("newer"))
    networked.server.sql("INSERT INTO tokimori_schema_migrations VALUES (99, '0099_later', 'x', 0, 99)", "newer")
    assert (await store.schema()).too_new
    with pytest.raises(SchemaMismatch, match="number 99"):
        await store.migrate()
    await store.close()


async def test_a_changed_migration(networked: Networked) -> None:
    """A migration whose text is not the one that was applied is named."""
    store = await opened(networked.server.make("changed"))
    networked.server.sql("UPDATE tokimori_schema_migrations SET checksum = 'x' WHERE version = 1", "changed")
    with pytest.raises(SchemaMismatch, match="0001_tables was changed"):
        await store.schema()
    await store.close()


async def test_many_nodes_migrate_at_once(networked: Networked) -> None:
    """Of several nodes that start on an empty database, one makes the tables and all find them made."""
    url = networked.server.make("crowded")
    stores = [open_store(url, SystemClock()) for _ in range(6)]
    for store in stores:
        await store.open()
    found = await asyncio.gather(*(store.migrate() for store in stores))
    assert {status.pending for status in found} == {()}
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    "done",
    [
        *range(6),
        *range(6, STATEMENTS, 12),
        STATEMENTS,
        *(pytest.param(n, marks=pytest.mark.prove) for n in range(9, STATEMENTS, 3) if n % 12 != 6),
    ],
)
async def test_a_migration_that_was_cut_short_is_finished(networked: Networked, done: int) -> None:
    """Statements commit themselves: whatever a node left half made when it died, the next one makes whole."""
    url = networked.server.make(f"cut{done}")
    store = open_store(url, SystemClock())
    await store.open()
    session = await sessions.connect(store.db._address)  # type: ignore[attr-defined]
    made = list(statements(known_migrations()[0].text))
    assert len(made) == STATEMENTS
    await session.ask(*made[:done])
    await session.close()
    assert (await store.schema()).version is None
    assert (await store.migrate()).pending == ()
    job = await add_job(store, "whole")
    assert await store.list_jobs() == [job]
    await store.close()


async def test_work_goes_on_after_sessions_were_ended(networked: Networked) -> None:
    """A session that the server ended costs one call at most; the next one has another session."""
    store = await opened(networked.server.make("cut"))
    job = await add_job(store, "cut")
    networked.server.end_sessions(100)
    try:
        await store.get_job(job.id)
    except StoreUnavailable as error:
        assert "tried again" not in error.message
    assert await store.get_job(job.id) == job
    await store.close()


async def test_a_caller_that_stops_waiting_leaves_nothing_behind(networked: Networked) -> None:
    """A cancelled call's answer is nobody else's, and what it had locked is free."""
    store = await opened(networked.server.make("cancelled"))
    job = await add_job(store, "cancelled")
    for _ in range(20):
        call = asyncio.ensure_future(store.db.rows("SELECT SLEEP(1), 'other'"))  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        call.cancel()
        assert await store.get_job(job.id) == job
    await store.delete_job(job.id, NOW)
    await store.close()


async def test_what_a_server_can_not_promise_is_said(networked: Networked) -> None:
    """A server that does not write each commit to its disk is named at the start."""
    store = await opened(networked.url())
    assert any("innodb_flush_log_at_trx_commit = 0" in fault for fault in store.faults())
    await store.close()


async def test_large_outputs_go_in_several_packets(networked: Networked) -> None:
    """What is longer than one packet takes is sent as several, and read back whole."""
    store = await opened(networked.server.make("large"))
    texts = [f"{n:05}" + "é" * 200_000 for n in range(40)]
    quoted = [f"SELECT '{text}'" for text in texts]
    answers = await store.db.ask(*quoted)  # type: ignore[attr-defined]
    assert [answer.rows for answer in answers] == [[(text,)] for text in texts]
    await store.close()
