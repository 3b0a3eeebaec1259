"""An app whose functions are witnessed: plain ones, one with a limit, and one that is never begun again."""

import os
import time
from pathlib import Path

import tokimori
from tests.cluster.witness import attest

FOLDER = "WITNESS_FOLDER"
app = tokimori.App("witnessed")


def _work(job: str, seconds: float, *limits: str) -> None:
    task = tokimori.current_task()
    with attest(Path(os.environ[FOLDER]), job, task.run_id, task.attempt, limits):
        time.sleep(seconds)


@app.job("* * * * * *", max_running=0, retry={"lost_attempts": 1_000})
def crunch() -> None:
    """Take a moment."""
    _work("crunch", 0.2)


@app.job("* * * * * *", max_running=2, on_overlap="queue", max_waiting=20, retry={"lost_attempts": 1_000})
def paint() -> None:
    """Hold one of two places."""
    _work("paint", 1.1, "paint=2")


@app.job("*/2 * * * * *", max_running=0, retry={"lost_attempts": 0})
def charge() -> None:
    """Take long enough to be hit by what happens to its process."""
    _work("charge", 3.0)


@app.job("*/20 * * * * *", timeout=2, timeout_grace=1, max_running=0, retry={"lost_attempts": 1_000})
def stuck() -> None:
    """Hold its thread far beyond its time-out, so that its process has to be ended beside what else runs there."""
    _work("stuck", 12.0)
