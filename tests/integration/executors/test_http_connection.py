"""What a connection to a service reads."""

import asyncio
import shutil
import ssl
from pathlib import Path
from time import monotonic

import pytest

from tests.integration.http.test_tls import made
from tokimori.executors.http.session import TargetConnection
from tokimori.turns import TurnsOfReaders

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
SENT = [bytes([65 + number % 26]) * (100 + number) for number in range(200)]


class Read(TargetConnection):
    """A connection that keeps what it reads."""

    def __init__(self) -> None:
        super().__init__(TurnsOfReaders(0.01, monotonic), asyncio.get_running_loop())
        self.found = b""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Called in its turn."""
        self.found += data

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by asyncio."""
        self.ended.set()


async def test_of_many_records_of_tls_none_is_lost(tmp_path: Path) -> None:
    """However a service cuts its answer into records, it is read whole and in order."""
    certificate, key = made(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in SENT:
            writer.write(piece)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        trusted = ssl.create_default_context(cafile=certificate)
        _, read = await asyncio.get_running_loop().create_connection(Read, "127.0.0.1", port, ssl=trusted)
        await asyncio.wait_for(read.ended.wait(), 10)
    assert read.found == b"".join(SENT)
