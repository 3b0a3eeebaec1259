"""A node with few file descriptors beside clients that open connections and ask half."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import aiohttp
import pytest

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM
from tokimori.api.connections import MOST_CONNECTIONS

ROOT = Path(__file__).parents[3]
FEW = 1024
CLIENTS, EACH = 5, 1000
SECONDS = 25.0
MOST_ON_TIME, ALL_ON_TIME, BACK_WITHIN = 0.1, 1.0, 5.0
"""Seconds that half of the runs and any of them may be late, and in which the door is back."""
BEFORE_OTHERS = ("nice", "-n", "-10")
"""Of the node and its attackers alike: other proofs take the processor at the same time. Only root is given it."""
REPORT = """echo '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE" """


@contextmanager
def node(program: Program, log: Path) -> Iterator[tuple[int, int]]:
    """A node that may open few files: its pid and port."""
    with log.open("w") as written:
        process = subprocess.Popen(
            [*BEFORE_OTHERS, "sh", "-c", f'ulimit -n {FEW}; exec "$@"', "sh", str(PROGRAM), "serve"],
            cwd=program.home,
            env=program.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=written,
        )
        try:
            assert process.stdout is not None
            found = (re.search(r"page is at http://[^:]+:(\d+)/", line) for line in iter(process.stdout.readline, ""))
            port = next(int(match[1]) for match in found if match is not None)
            yield process.pid, port
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.communicate()


@contextmanager
def clients(port: int) -> Iterator[None]:
    """All of them, each in a process of its own: one may not open 5,000 files either."""
    command = [sys.executable, "-m", "tests.integration.http.half_open", str(port), str(EACH), str(4 * SECONDS)]
    started = [
        subprocess.Popen([*BEFORE_OTHERS, "sh", "-c", 'ulimit -n 4096; exec "$@"', "sh", *command], cwd=ROOT)
        for _ in range(CLIENTS)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


async def healthy(port: int) -> bool:
    """Whether the door answers within a second."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session,
            session.get(f"http://127.0.0.1:{port}/healthz") as answer,
        ):
            return answer.status == 200
    except (OSError, TimeoutError, aiohttp.ClientError):
        return False


def seconds_late(run: dict[str, Any]) -> float:
    """From when it was due to when it started."""
    due, started = (datetime.fromisoformat(run[name]) for name in ("due", "started"))
    return (started - due).total_seconds()


@pytest.mark.prove
def test_half_open_connections_delay_nothing(tmp_path: Path) -> None:
    """5,000 half-sent requests beside `ulimit -n 1024`: runs are on time, the door is back in 5 s, the log is short."""
    program, log = Program(tmp_path), tmp_path / "log"
    with node(program, log) as (pid, port):
        program("job", "add", "often", "--command", REPORT, "--schedule", "every 1 second", "--max-running", "0")
        with clients(port):
            sleep(SECONDS / 2)
            open_files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            sleep(SECONDS / 2)
        ended = monotonic()
        while not asyncio.run(healthy(port)):
            assert monotonic() - ended < BACK_WITHIN
        runs = [run for run in json.loads(program("--json", "run", "list", "-n", "1000")) if run["started"]]
    assert MOST_CONNECTIONS <= open_files < FEW
    assert len(runs) >= SECONDS - 2
    assert {run["state"] for run in runs} <= {"succeeded", "running"}
    late = [seconds_late(run) for run in runs]
    assert median(late) < MOST_ON_TIME
    assert max(late) < ALL_ON_TIME
    nominal = sorted(datetime.fromisoformat(run["nominal"]) for run in runs)
    assert [(later - sooner).total_seconds() for sooner, later in pairwise(nominal)] == [1.0] * (len(runs) - 1)
    told = log.read_text()
    assert told.count("connections open") == 1
    assert len(told.splitlines()) < 100
