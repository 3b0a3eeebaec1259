"""What is read for a connection that TLS guards."""

import ssl
import threading

import pytest

from tests.integration.stores.conftest import free_port
from tokimori.errors import StoreError
from tokimori.stores.mysql import address as mysql
from tokimori.stores.mysql import sessions
from tokimori.stores.redis import address as redis
from tokimori.stores.redis import connections


@pytest.mark.parametrize("scheme", ["rediss", "mariadb"])
async def test_the_certificates_of_the_system_are_read_beside_the_loop(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 25 ms of a processor for each connection; a node that finds its server again opens many."""
    made, threads = ssl.create_default_context, list[threading.Thread]()

    def context(cafile: str | None = None) -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return made(cafile=cafile)

    port = free_port()
    monkeypatch.setattr(ssl, "create_default_context", context)
    with pytest.raises(StoreError):
        if scheme == "rediss":
            await connections.connect(redis.address_of(f"rediss://127.0.0.1:{port}"))
        else:
            await sessions.connect(mysql.address_of(f"mariadb://u:p@127.0.0.1:{port}/d?ssl_mode=verify_identity"))
    assert threads and threading.main_thread() not in threads
