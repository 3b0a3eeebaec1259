"""A busy node while its store is away: it asks again now and then, and not at each end of a run."""

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import tokimori
from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program, stop
from tests.servers import postgres

RUNS, AWAY = 60, 5.0
LINES = 12
"""So many lines in these seconds say enough."""


@pytest.fixture(params=["sqlite", "postgres"])
def away(request: pytest.FixtureRequest, program: Program) -> Iterator[Callable[[], None]]:
    """Takes the store away for some seconds, and gives it back."""
    if request.param == "sqlite":

        def locked() -> None:
            with closing(sqlite3.connect(program.database, timeout=10, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(AWAY)

        yield locked
        return
    server = postgres.Server()
    program.environment["TOKIMORI_STORE"] = server.make("away")

    def stopped() -> None:
        server.stop(signal.SIGQUIT)
        time.sleep(AWAY)
        server.start()

    yield stopped
    server.remove()


def test_a_busy_node_asks_a_store_that_is_away_now_and_then(
    program: Program, away: Callable[[], None], tmp_path: Path
) -> None:
    """However many runs end meanwhile: the log has a few lines, and all of them have succeeded when it is back."""
    log = tmp_path / "node.log"
    program.environment |= {"TOKIMORI_LOG_FILE": str(log), "TOKIMORI_NODE_CONCURRENCY": str(RUNS)}
    node = program.serve()
    try:
        with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
            client.jobs.add("naps", max_running=0, command=f"sleep $((3 + $$ % {AWAY:.0f})).$(($$ % 10))")
            runs = [client.jobs.trigger("naps").id for _ in range(RUNS)]
            until(lambda: len(client.runs.list(state="running", limit=RUNS)) > RUNS / 2)
            before = len(log.read_text().splitlines())
            away()
            told = log.read_text().splitlines()[before:]
            ended = [client.runs.wait(run) for run in runs]
        assert {(run.state, run.attempt, run.lost, run.failures) for run in ended} == {("succeeded", 1, 0, 0)}
        assert len(told) <= LINES, told
    finally:
        assert stop(node) == 0
