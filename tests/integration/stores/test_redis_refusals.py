"""What a Redis store says when it can't be used: what is wrong, and what to do."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, Worker, add_job, add_runs
from tests.integration.stores.conftest import free_port
from tests.servers.redis import DURABLE, Server
from tokimori.clock import SystemClock
from tokimori.errors import SchemaMismatch, StoreError, StoreUnavailable
from tokimori.model.ids import JobId
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict
from tokimori.stores.open import open_store
from tokimori.stores.redis import connections

KEYS = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
NAMES = "-addext subjectAltName=IP:127.0.0.1"


class Guarded:
    """A server on the network, without and with TLS, whose default user has the password tiger."""

    def __init__(self, folder: Path) -> None:
        self.certificate, key = folder / "cert.pem", folder / "key.pem"
        command = f"{KEYS} {NAMES} -keyout {key} -out {self.certificate}"
        subprocess.run(command.split(), check=True, capture_output=True)
        key.chmod(0o644)
        self.tls_port = free_port()
        tls = {
            "tls-port": str(self.tls_port),
            "tls-cert-file": str(self.certificate),
            "tls-key-file": str(key),
            "tls-auth-clients": "no",
        }
        self.server = Server(DURABLE | {"requirepass": "tiger"} | tls, port=free_port())

    def url(self, scheme: str = "redis", user: str = ":tiger@", query: str = "") -> str:
        """A URL over TCP."""
        port = self.server.port if scheme == "redis" else self.tls_port
        return f"{scheme}://{user}127.0.0.1:{port}{query}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One such server for all tests here."""
    folder = tmp_path_factory.mktemp("redis")
    for parent in (folder, *folder.parents):
        if parent.name.startswith(("redis", "popen", "gw", "pytest")):  # the server runs as its own user
            parent.chmod(0o755)
    guarded = Guarded(folder)
    yield guarded
    guarded.server.remove()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.remove()


async def refusal(url: str) -> StoreError:
    """The error with which a store can't be opened, or gets no keys."""
    store = open_store(url, SystemClock())
    with pytest.raises(StoreError) as refused:
        await store.open()
        await store.migrate()
    await store.close()
    assert "tiger" not in str(refused.value)
    return refused.value


async def opened(url: str) -> Store:
    """An open store with its schema."""
    store = open_store(url, SystemClock())
    await store.open()
    await store.migrate()
    return store


async def test_a_server_that_is_not_there() -> None:
    """Where nobody listens, or no host has that name, trying again can help."""
    for place in (f"redis://:tiger@127.0.0.1:{free_port()}", "redis://:tiger@no-such-host.invalid", "redis+unix:///no"):
        error = await refusal(place)
        assert isinstance(error, StoreUnavailable)
        assert "can't be reached" in error.message


async def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and is silent is given up after the patience."""
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = await refusal(f"redis://:tiger@127.0.0.1:{silent.getsockname()[1]}")
    assert isinstance(error, StoreUnavailable)
    assert "does not answer" in error.message


@pytest.mark.parametrize(
    ("terms", "advice"),
    [
        ({"user": ":lion@"}, "check user and password in the URL"),
        ({"user": "nobody:tiger@"}, "check user and password in the URL"),
        ({"user": ""}, "put user and password into the URL"),
        ({"query": "/5000"}, "has no database of that number"),
        ({"scheme": "rediss"}, "check ssl_ca_certs in the URL"),
        ({"scheme": "rediss", "query": "?ssl_ca_certs=/no/such"}, "a file that the URL names with ssl_ is not there"),
    ],
)
async def test_what_only_a_person_can_mend(guarded: Guarded, terms: dict[str, str], advice: str) -> None:
    """A wrong password, or none, a database that is not there and an unknown certificate are named, with the remedy."""
    error = await refusal(guarded.url(**terms))
    assert not isinstance(error, StoreUnavailable)
    assert advice in error.message


async def test_tls_on_one_side_only(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who speaks TLS to a port without it, or none to a port with it, is told so."""
    here, there = guarded.server.port, guarded.tls_port
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    assert "perhaps it speaks no TLS" in (await refusal(f"rediss://:tiger@127.0.0.1:{here}")).message
    assert "whether it wants TLS" in (await refusal(f"redis://:tiger@127.0.0.1:{there}")).message


async def test_a_store_behind_tls_and_a_password(guarded: Guarded) -> None:
    """With the server's certificate and a password the store works as any other."""
    store = await opened(guarded.url("rediss", query=f"/7?ssl_ca_certs={guarded.certificate}"))
    job = await add_job(store, "over-tls")
    assert await store.get_job(job.id) == job
    assert store.faults() == ()
    await store.close()


async def test_a_user_with_rights_on_our_keys_alone_is_enough(guarded: Guarded) -> None:
    """A user of the server's ACL needs our keys, our channel, and no command of an administrator but INFO."""
    rights = ["~{tokimori}:*", "&{tokimori}:*", "+@all", "-@admin", "-@dangerous", "+info"]
    guarded.server.command("ACL", "SETUSER", "ann", "on", ">tiger", *rights)
    store = await opened(guarded.url(user="ann:tiger@", query="/8"))
    job = await add_job(store, "by-ann")
    assert await store.get_job(job.id) == job
    (told,) = store.faults()
    assert "does not tell its appendfsync" in told
    await store.close()
    error = await refusal(guarded.url(user="ann:tiger@", query="/8?namespace=other"))
    assert "gives the user too few rights" in error.message


async def test_a_server_that_is_too_old() -> None:
    """A server from before the commands that the scripts use is refused by its version."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while words := await reader.read(1000):
            text = b"redis_version:6.0.16\r\n" if b"INFO" in words else b""
            writer.write(b"$%d\r\n%s\r\n" % (len(text), text) if text else b"+OK\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as old:
        error = await refusal(f"redis://127.0.0.1:{old.sockets[0].getsockname()[1]}")
    assert "is Redis 6.0.16: 6.2 or newer is needed" in error.message


async def test_a_replica(server: Server) -> None:
    """A read-only replica is opened, says what it is, and takes nothing."""
    follower = Server()
    follower.command("REPLICAOF", "127.0.0.1", str(free_port()))
    store = open_store(follower.url(), SystemClock())
    await store.open()
    (told,) = store.faults()
    assert "is a replica" in told
    with pytest.raises(StoreUnavailable, match="is a read-only replica: name the primary"):
        await store.migrate()
    await store.close()
    follower.remove()


async def test_a_server_without_memory_takes_nothing_half(server: Server) -> None:
    """Where maxmemory is used up each call is refused whole, and once there is room work goes on."""
    store = await opened(server.url())
    worker, job = await Worker.join(store), await add_job(store)
    runs = await add_runs(store, job, 4)
    claimed = await worker.claim(2)
    before = await store.list_runs(RunFilter())
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    settle, work = worker.settle(claimed[0]), (worker.claim(), worker.tick())
    for call in (add_job(store, "another"), add_runs(store, job, 1), Worker.join(store), settle, *work):
        with pytest.raises(StoreUnavailable, match="has no memory left: raise its maxmemory"):
            await call
    assert (await store.list_jobs(), await store.list_runs(RunFilter())) == ([job], before)
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert [await worker.settle(each) for each in claimed] == [Verdict.APPLIED] * 2
    assert {each.run.id for each in await worker.claim()} == {run.id for run in runs[2:]}
    await store.close()


async def test_missing_keys(server: Server) -> None:
    """A store without schema says which command makes it, whatever it is asked."""
    store = open_store(server.url(), SystemClock())
    await store.open()
    for call in (store.get_job(JobId("any")), store.survey(NOW), add_job(store)):
        with pytest.raises(SchemaMismatch, match="run `tokimori db migrate`"):
            await call
    await store.close()


async def test_a_newer_schema(server: Server) -> None:
    """A schema that shuts this version out is refused, and left as it is; one that does not is used."""
    store = await opened(server.url())
    for oldest, too_new in ((1, False), (99, True)):
        server.command("HSET", "{tokimori}:schema", "version", "99", "oldest", str(oldest))
        assert (await store.schema()).too_new is too_new
    with pytest.raises(SchemaMismatch, match="number 99, which nodes since number 99 can use"):
        await store.migrate()
    await store.close()


async def test_keys_of_a_trial_version(server: Server) -> None:
    """Keys whose layout no release had are not taken for an empty store."""
    store = await opened(server.url())
    server.command("DEL", "{tokimori}:schema")
    server.command("HSET", "{tokimori}:schema", "10", "1893456000000000")
    with pytest.raises(SchemaMismatch, match="of a trial version: delete them"):
        await store.migrate()
    await store.close()


async def test_migrating_again_changes_nothing(server: Server) -> None:
    """Neither the number of a store that has this schema, nor that of a newer one that lets this version work."""
    store = await opened(server.url())
    made = await store.schema()
    assert await store.migrate() == made
    server.command("HSET", "{tokimori}:schema", "version", "99", "oldest", "1")
    newer = await store.migrate()
    assert (newer.version, newer.oldest, newer.pending) == (99, 1, ())
    await store.close()


async def test_many_nodes_migrate_at_once(server: Server) -> None:
    """Of several nodes that start on an empty database, all find the schema made."""
    stores = [open_store(server.url(), SystemClock()) for _ in range(6)]
    for store in stores:
        await store.open()
    found = await asyncio.gather(*(store.migrate() for store in stores))
    assert {status.pending for status in found} == {()}
    for store in stores:
        await store.close()


async def test_work_goes_on_after_connections_were_killed(server: Server) -> None:
    """A connection that the server ended costs one call at most; the next one has another connection."""
    store = await opened(server.url())
    job = await add_job(store)
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    try:
        await store.get_job(job.id)
    except StoreUnavailable as error:
        assert "tried again" not in error.message
    assert await store.get_job(job.id) == job
    await store.close()


async def test_scripts_that_the_server_forgot_are_sent_again(server: Server) -> None:
    """A server that knows no script any more is given it with the call."""
    store = await opened(server.url())
    job = await add_job(store)
    server.command("SCRIPT", "FLUSH")
    assert await store.get_job(job.id) == job
    await store.close()


async def test_two_namespaces_never_see_each_other(server: Server) -> None:
    """What one installation keeps, claims or forgets is nothing to another in the same database."""
    stores = [await opened(f"{server.url()}&namespace={name}") for name in ("a", "ab")]
    workers = [await Worker.join(store) for store in stores]
    for number, (store, worker) in enumerate(zip(stores, workers, strict=True)):
        await add_runs(store, await add_job(store, f"job{number}"), 1)
        assert [node.id for node in await store.list_nodes()] == [worker.id]
        assert (await worker.tick()).peers == ()
    for number, (store, worker) in enumerate(zip(stores, workers, strict=True)):
        assert [job.id for job in await store.list_jobs()] == [f"job{number}"]
        assert [each.run.job_id for each in await worker.claim()] == [f"job{number}"]
        await store.close()


async def test_a_server_of_a_cluster(server: Server) -> None:
    """On a server that has all slots of a cluster the store works; on one that lacks ours it says so."""
    member = Server(DURABLE | {"cluster-enabled": "yes"}, port=free_port())
    assert "is part of a cluster that is down" in (await refusal(member.url())).message
    member.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    for _ in range(200):
        if "cluster_state:ok" in member.command("CLUSTER", "INFO"):
            break
        await asyncio.sleep(0.05)
    store = await opened(member.url())
    worker = await Worker.join(store)
    await add_runs(store, await add_job(store), 2)
    for claimed in await worker.claim():
        await worker.settle(claimed)
    keys = [word for word in member.command("KEYS", "*").split("\r\n") if word.startswith("{")]
    assert len({member.command("CLUSTER", "KEYSLOT", key) for key in keys}) == 1
    await store.close()
    member.remove()
