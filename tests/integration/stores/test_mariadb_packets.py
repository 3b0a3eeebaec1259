"""What is longer than the server takes at once."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job
from tests.servers.mariadb import Server
from tokimori.clock import SystemClock
from tokimori.errors import StoreRefused, StoreUnavailable
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.ports.working import Verdict
from tokimori.stores.mysql import address
from tokimori.stores.mysql.sessions import connect
from tokimori.stores.mysql.statements import sql
from tokimori.stores.open import open_store

T = TypeVar("T")

DEFAULT, SMALL = 16 * 2**20, 2**20


@pytest.fixture(scope="module", params=[DEFAULT, SMALL])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that takes so many bytes at once."""
    server = Server(settings={"max-allowed-packet": str(request.param)})
    yield server
    server.remove()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    """An open, empty store there."""
    store = open_store(server.make("packets"), SystemClock())
    await store.open()
    await store.migrate()
    yield store
    await store.close()
    server.drop("packets")


@pytest.mark.holds_its_loop("a node's engine settles 4 MB at once, this all 50 MB")
@pytest.mark.parametrize(
    ("number", "size"),
    [
        pytest.param(20, 900_000, marks=pytest.mark.prove),
        (40, 40_000),
        pytest.param(150, 40_000, marks=pytest.mark.prove),
        pytest.param(500, 40_000, marks=pytest.mark.prove),
    ],
)
async def test_large_runs_go_their_way_together(store: Store, number: int, size: int) -> None:
    """Many large payloads and results are added, claimed and settled in one batch each, whatever the server takes."""
    worker, job = await Worker.join(store), await add_job(store)
    payload = '"' + "ä" * (size // 2) + '"'
    requests = [a_request(job, payload=payload) for _ in range(number)]
    await patiently(lambda: store.import_rows(Kind.RUNS, requests))
    claimed = await patiently(lambda: worker.claim(number))
    assert [each.run.payload for each in claimed] == [payload] * number
    changes = [replace(worker.change(each), result='"' + "x" * 65_536 + '"') for each in claimed]
    tries = 0

    async def settle() -> list[Verdict]:
        nonlocal tries
        tries += 1
        return await store.settle(changes, worker.id, NOW)

    verdicts = await patiently(settle)
    done_before = tries > 1 and verdicts == [Verdict.ALREADY_APPLIED] * number  # by a try whose answer was lost
    assert done_before or verdicts == [Verdict.APPLIED] * number
    assert (await store.get_run(claimed[-1].run.id)).payload == payload


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer. The server ends a transaction that says nothing for 3 s, as one that writes 30 MB may be.

    Nothing of it stays then, and it is tried again, as nodes do: on a busy machine many times.
    """
    for _ in range(19):
        with suppress(StoreUnavailable):
            return await ask()
    return await ask()


@pytest.mark.holds_its_loop("a value of 16 MB goes to the server in one write; no door takes more than 1 MB")
async def test_one_value_above_the_server_is_named(server: Server, store: Store) -> None:
    """A run that the server can't take is refused with the field, its size and the server's setting."""
    most = int(server.sql("SELECT @@max_allowed_packet"))
    job = await add_job(store)
    with pytest.raises(StoreRefused, match=rf"payload of {most} bytes.*max_allowed_packet = {most}") as refused:
        await patiently(lambda: store.add_run(a_request(job, payload="x" * most), NOW))
    assert (refused.value.field, refused.value.value) == ("payload", most)
    request = a_request(job, payload="x" * (most - 10_000))
    run = await patiently(lambda: store.add_run(request, NOW))
    assert len((await store.get_run(run.id)).payload or "") == most - 10_000


async def test_every_character_reaches_the_server(server: Server) -> None:
    """What ends a text, a statement or a line elsewhere is a character like others, the zero byte too."""
    text = "".join(map(chr, range(256))) + "\\'\\\\';; -- \u2028\U0010ffff"
    session = await connect(address.address_of(server.make("characters")))
    (answer,) = await session.ask(sql("SELECT %s, CHAR_LENGTH(%s)", text, text))
    assert answer.rows == [(text, len(text))]
    await session.close()
    server.drop("characters")
