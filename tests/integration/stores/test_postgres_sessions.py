"""Which session of the pool carries out what."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.stores.conftest import Networked
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.connections import PostgresConnections

ONE = "SELECT pg_backend_pid(), pg_sleep(0.05), 1"
OTHER = "SELECT pg_backend_pid(), pg_sleep(0.05), 2"
THIRD = "SELECT pg_backend_pid(), pg_sleep(0.05), 3"


@pytest.fixture
async def sessions(networked: Networked) -> AsyncIterator[PostgresConnections]:
    """At most two."""
    sessions = PostgresConnections(address_of(networked.url()), 2)
    yield sessions
    await sessions.close()


async def carried_out(sessions: PostgresConnections, *statements: str) -> list[int]:
    """The server's processes that carried out these statements, asked for together."""
    return [rows[0][0] for rows in await asyncio.gather(*map(sessions.rows, statements))]


async def test_a_statement_goes_where_its_plan_is(sessions: PostgresConnections) -> None:
    """Whatever order they are asked for in, each of two statements is carried out by the session that did it first."""
    one, other = await carried_out(sessions, ONE, OTHER)
    assert one != other
    assert await carried_out(sessions, OTHER, ONE) == [other, one]
    assert [await carried_out(sessions, each) for each in (ONE, OTHER, ONE)] == [[one], [other], [one]]


async def test_no_statement_waits_for_its_session(sessions: PostgresConnections) -> None:
    """A statement whose session is in use, and one that no session knows, take another that is free."""
    one, other = await carried_out(sessions, ONE, OTHER)
    assert sorted(await carried_out(sessions, ONE, ONE)) == sorted([one, other])
    assert sorted(await carried_out(sessions, THIRD, ONE)) == sorted([one, other])
