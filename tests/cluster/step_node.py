"""A node as `family_node`, whose successes have their run's id as result: `python -m tests.cluster.step_node`."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

from tests.cluster import family_node
from tokimori.executors.executors import NoopExecutor
from tokimori.model.outcome import Failed, Released, Succeeded
from tokimori.ports.executor import AttemptTask, Ended


def _start(executor: NoopExecutor, tasks: Sequence[AttemptTask]) -> None:
    """Every task ends at once: most succeed, some fail or are released."""
    now = executor._clock.now()
    for task in tasks:
        chance, succeeded = os.urandom(1)[0] % 20, Succeeded(None, json.dumps(task.run_id))
        outcome = Failed("no") if chance == 0 else Released("later") if chance == 1 else succeeded
        executor._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now))


if __name__ == "__main__":
    family_node._start = _start
    sys.exit(asyncio.run(family_node.live()))
