"""Sources of Kala's jobs: its API, Redis, a table. Everything is only read."""

import asyncio
import http.client
from typing import Any
from urllib.parse import urlsplit

from tokimori.errors import InvalidInput, StoreError, StoreUnavailable
from tokimori.sources.tables import check_there, opened, pages

PATIENCE = 30.0
"""Seconds to wait for an answer."""
MOST_BYTES = 1 << 28
_HASH = "kala:jobs"
_PATH = "/api/v1/job/"
_AT_ONCE = 500
_ALLOWED = "http://HOST:PORT of a running Kala, redis://HOST:PORT/NUMBER, or postgresql:// or mysql:// of its database"


async def jobs_at_node(url: str) -> bytes:
    """Return a running Kala's answer to `GET /api/v1/job/`. Raises `InvalidInput`, and `StoreUnavailable`."""
    return await asyncio.to_thread(_jobs_at_node, url)


def _jobs_at_node(url: str) -> bytes:
    try:
        parts = urlsplit(url)
        name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        kind = http.client.HTTPSConnection if parts.scheme.lower() == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
        path = parts.path.rstrip("/")
        path = f"{path}/" if path.endswith("/job") else f"{path}{_PATH}"
        connection.request("GET", path)
        answer = connection.getresponse()
        data = answer.read(MOST_BYTES + 1)
    except ValueError as fault:
        raise InvalidInput(f"source: it is no address: {fault}", field="source", allowed=_ALLOWED) from None
    except (OSError, http.client.HTTPException) as fault:
        message = f"source {name} can't be asked: {fault or type(fault).__name__}"
        raise StoreUnavailable(message, field="source", value=name, allowed=_ALLOWED) from None
    connection.close()
    if answer.status != http.client.OK or len(data) > MOST_BYTES:
        message = f"source {name} answered {path} with {answer.status} and {len(data)} bytes"
        raise StoreError(message, field="source", value=name, allowed="Kala's API, which answers 200")
    return data


async def jobs_in_redis(url: str, most: int) -> list[tuple[str, bytes]]:
    """Return the members of the hash `kala:jobs`, by id. Raises `InvalidInput`, `StoreError` and `StoreUnavailable`."""
    from tokimori.stores.redis.address import address_of  # noqa: PLC0415  few imports need it

    address = address_of(url)
    try:
        from redis.asyncio import Redis  # noqa: PLC0415
        from redis.exceptions import RedisError  # noqa: PLC0415
    except ModuleNotFoundError:
        message = "source: Redis needs the package redis: pip install 'tokimori[redis]'"
        raise StoreError(message, field="source", value="redis") from None
    place: dict[str, Any] = {"host": address.host, "port": address.port}
    if address.path is not None:
        place = {"unix_socket_path": address.path}
    elif address.tls is not None:
        place |= {"ssl": True, **address.tls}
    server = Redis(
        db=address.db,
        username=address.user,
        password=address.password,
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        **place,
    )
    kept: dict[bytes, bytes] = {}
    try:
        async for name, value in server.hscan_iter(_HASH, count=_AT_ONCE):
            kept[name] = value
            if len(kept) > most:
                message = f"source {address.name} has more than {most} jobs"
                raise InvalidInput(message, field="source", value=address.name, allowed=f"at most {most}")
    except (RedisError, OSError) as fault:
        message = f"source {address.name} can't be read: {fault}"
        raise StoreUnavailable(message, field="source", value=address.name, allowed=_ALLOWED) from None
    finally:
        await server.aclose()
    return [(name.decode("utf-8", "replace"), value) for name, value in sorted(kept.items())]


async def jobs_in_tables(url: str) -> list[bytes]:
    """Return the texts of the table `jobs` of Kala's PostgreSQL or MySQL. Raises `InvalidInput` and `StoreError`."""
    key = "job" if url.lower().startswith("postgres") else "id"
    async with opened(url) as tables:
        await check_there(tables, ("jobs",))
        rows = [row async for page in pages(tables, "jobs", key) for row in page]
    texts = (row.get("job") for row in rows)
    return [text if isinstance(text, bytes) else text.encode() for text in texts if isinstance(text, str | bytes)]
