"""Throwaway Redis, MariaDB and PostgreSQL servers for contenders, each commit on the disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.comparison import Figures, Round
from benchmarks.rounds import alone, one_round
from tests.servers import mariadb, postgres, redis


class Place(NamedTuple):
    """A contender's own server: the URL of an empty database, and the server's process."""

    url: str
    pid: int


StartServer = Callable[[], AbstractContextManager[Place]]
MeasureThere = Callable[[Place, Path], Figures]
"""Measures one contender once, at that place and in an empty folder."""


@contextmanager
def redis_server() -> Iterator[Place]:
    """Append-only file, flushed before each reply: `appendfsync always`."""
    server = redis.Server(redis.DURABLE)
    try:
        yield Place(server.url(), server.process.pid)
    finally:
        server.remove()


@contextmanager
def mariadb_server(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Place]:
    """The log is flushed at each commit: `innodb_flush_log_at_trx_commit=1`."""
    server = mariadb.Server(durable=True, settings={"innodb-flush-log-at-trx-commit": "1", **settings})
    try:
        yield Place(server.make("contender"), server.process.pid)
    finally:
        server.remove()


@contextmanager
def postgres_server(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Place]:
    """A server of its own, with fsync and synchronous commits."""
    server = postgres.Server(durable=True, settings=dict(settings))
    try:
        yield Place(server.make("contender"), server.process.pid)
    finally:
        server.remove()


def each_on_its_own(start: StartServer, contenders: Mapping[str, MeasureThere]) -> Callable[[int], Round]:
    """Rounds as of `in_turn`; a contender's server is started for it, and removed before the next one's."""
    return partial(_round, start, contenders)


def _round(start: StartServer, contenders: Mapping[str, MeasureThere], number: int) -> Round:
    return one_round(list(contenders), lambda name: _measured(start, contenders[name]), number)


def _measured(start: StartServer, measure: MeasureThere) -> Figures:
    with start() as place:
        return alone(partial(measure, place))
