"""One throwaway PostgreSQL server for all contenders of a round, with fsync and synchronous commits."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import asyncpg

from benchmarks.comparison import Figures, Round
from benchmarks.rounds import alone, one_round
from tests.servers.postgres import Server

DATABASE = "contender"

MeasureThere = Callable[[str, Path], Figures]
"""Measures one contender once, in the empty database of this URL and in an empty folder."""


def on_one_server(contenders: Mapping[str, MeasureThere]) -> Callable[[int], Round]:
    """Rounds as of `in_turn`, each on a new server; a contender's database is dropped before the next one begins."""
    return partial(_round_on_one_server, contenders)


def _round_on_one_server(contenders: Mapping[str, MeasureThere], number: int) -> Round:
    server = Server(durable=True)
    try:
        return one_round(list(contenders), lambda name: _measured(server, contenders[name]), number)
    finally:
        server.remove()


def _measured(server: Server, measure: MeasureThere) -> Figures:
    url = server.make(DATABASE)
    try:
        return alone(partial(measure, url))
    finally:
        server.drop(DATABASE)


def settle_down(url: str) -> None:
    """Before anything is timed: statistics are fresh, and what was written is on the disk. Says if commits are not."""
    asyncio.run(_settle_down(url))


async def _settle_down(url: str) -> None:
    session = await asyncpg.connect(url)
    for setting in ("fsync", "synchronous_commit"):
        assert await session.fetchval(f"SHOW {setting}") == "on", f"{setting} is off: nothing would be durable"
    await session.execute("VACUUM ANALYZE")
    await session.execute("CHECKPOINT")
    await session.close()
