"""Real programs, started as a user starts them: `tokimori serve`, and what other contenders run."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.in_process_node import store_url

Process = subprocess.Popen[str]

UP_WITHIN = 30.0
"""Seconds that a program may take to say that it is up, and to end."""


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[Process]:
    """The program, in this folder; in the end it is told to stop, and waited for."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"XDG_STATE_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=UP_WITHIN)
        finally:
            process.kill()


@contextmanager
def serving(folder: Path, *options: str, store: str | None = None) -> Iterator[Process]:
    """`tokimori serve` on the store of this folder or another one, ready to work; its door too, if it has one."""
    command = [sys.executable, "-m", "tokimori", "serve", "--store", store or store_url(folder), *options]
    with running(command, folder) as process:
        wait_for_line(process, "runs jobs" if "--no-http" in options else "Its page is at")
        yield process


def wait_for_line(process: Process, words: str) -> None:
    """Read what the program prints, up to a line that holds these words."""
    assert process.stdout is not None
    watchdog = threading.Timer(UP_WITHIN, process.kill)
    watchdog.start()
    said = any(words in line for line in iter(process.stdout.readline, ""))
    watchdog.cancel()
    assert said, f"{process.args!r} did not say {words!r}"
