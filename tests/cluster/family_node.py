"""A node whose runs end in every way, and whose commits are slow on MariaDB: `python -m tests.cluster.family_node`.

PostgreSQL has a setting for slow commits. All else is as with `tokimori serve`, its settings come from the environment.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tokimori.cli.output import announce
from tokimori.clock import SystemClock
from tokimori.config.settings import load_settings
from tokimori.executors.executors import NoopExecutor
from tokimori.logs.setup import start_logging
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded
from tokimori.node.wiring import serve
from tokimori.ports.executor import AttemptTask, Ended
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import Answer

OUTCOMES: Sequence[Outcome] = (*[Succeeded()] * 7, Failed("no"), Cancelled("enough"), Released("later"))


def _start(executor: NoopExecutor, tasks: Sequence[AttemptTask]) -> None:
    """Every task ends at once, by chance."""
    now = executor._clock.now()
    for task in tasks:
        outcome = OUTCOMES[os.urandom(1)[0] % len(OUTCOMES)]
        executor._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now))


_commit = Transaction.commit


async def _commit_slowly(transaction: Transaction, *statements: str) -> list[Answer]:
    return (await _commit(transaction, *statements, "DO SLEEP(0.005)"))[:-1]


async def live() -> int:
    """Take part."""
    NoopExecutor.start = _start  # type: ignore[method-assign,assignment]
    Transaction.commit = _commit_slowly  # type: ignore[method-assign,assignment]
    settings = load_settings({"http.enabled": False}, os.environ, cwd=Path.cwd()).settings
    log = start_logging(level=settings.log.level, format=settings.log.format, file=None)
    try:
        return await serve(settings, announce, SystemClock())
    finally:
        log.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(live()))
