"""Start of a worker process: its keeper's order, and its own settings."""

import json
import os
import sys
from pathlib import Path

from tokimori.executors.functions.process import AppSettings
from tokimori.executors.keeper.wire import Start
from tokimori.executors.keeper_process import KeeperSettings

OUTPUT_LIMIT = 2**20
"""Bytes of what a worker process itself writes, outside of its runs, that are kept in a file."""


def keeper_of(app: AppSettings) -> KeeperSettings:
    """Return the settings of the keepers that start worker processes."""
    keepers = app.state_dir / "keepers"
    return KeeperSettings(state_dir=keepers, runs_dir=app.runs_dir, output_limit=OUTPUT_LIMIT, pidfd=True)


def start_of(app: AppSettings, number: int, address: Path) -> Start:
    """Return the order to start one; it comes to the socket at `address` and says its number."""
    told = {
        "address": str(address),
        "number": number,
        "app": app.app,
        "concurrency": app.concurrency,
        "include": app.include,
        "require": app.require,
        "stored": app.stored,
        "runs_dir": str(app.runs_dir.absolute()),
    }
    return Start(
        number=number,
        argv=[sys.executable, "-P", "-m", "tokimori.apps.worker_process", json.dumps(told)],
        env=dict(app.environ),
        cwd=str(Path.cwd()),
        log=f"workers/{os.getpid()}-{number}.log",
        account=None,
        stdin=None,
        timeout=None,
        grace=0.0,
        lease_bound=False,
    )
