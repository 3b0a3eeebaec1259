"""Sessions of PostgreSQL that nobody gets leave no socket behind."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from tests.servers import postgres
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.connections import connect


async def test_a_session_whose_beginning_is_cut_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is cancelled while the session is made ready for him leaves nothing to the garbage collector."""
    begun, seen = asyncio.Event(), list[asyncpg.Connection]()

    async def never(session: asyncpg.Connection, *_: object, **__: object) -> None:
        seen.append(session)
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncpg.Connection, "set_type_codec", never)
    try:
        connecting = asyncio.create_task(connect(address_of(postgres.loans.url_of(tmp_path))))
        await begun.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert [session.is_closed() for session in seen] == [True]
    finally:
        postgres.loans.give_back(tmp_path)
