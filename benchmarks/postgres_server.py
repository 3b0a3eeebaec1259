"""One throwaway PostgreSQL server for all contenders of a round, with fsync and synchronous commits."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

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


class Spent(NamedTuple):
    """What a server has spent since it started: seconds of CPU of all its processes, bytes of write-ahead log."""

    cpu: float
    wal: float


def spent(url: str) -> Spent:
    """Up to now, by the server of this URL."""
    folder, wal = asyncio.run(_folder_and_log(url))
    first = int(Path(folder, "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return Spent(_cpu(first, ended=True) + sum(_cpu(int(child)) for child in children), wal)


async def _folder_and_log(url: str) -> tuple[str, float]:
    session = await asyncpg.connect(url)
    folder = await session.fetchval("SHOW data_directory")
    wal = await session.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
    await session.close()
    return folder, float(wal)


def _cpu(process: int, *, ended: bool = False) -> float:
    """Seconds of CPU of a process; `ended`: with those of its children that have ended. 0 when it is gone itself."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15] if ended else fields[11:13])) / os.sysconf("SC_CLK_TCK")
