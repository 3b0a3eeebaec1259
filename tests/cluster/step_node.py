"""A node as `family_node`, whose successes have their run's id as result: `python -m tests.cluster.step_node`."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

from tests.cluster import family_node
from tokimori.executors.executors import NoopExecutor
from tokimori.model.outcome import Failed, Outcome, Released, Succeeded, spawns_of
from tokimori.ports.executor import AttemptTask, Ended

SPAWNED, FANNED = 5, 4_000


def _start(executor: NoopExecutor, tasks: Sequence[AttemptTask]) -> None:
    """Every task ends at once: most succeed, some fail or are released. Those of the job `spawn` wait for others."""
    now = executor._clock.now()
    for task in tasks:
        chance = os.urandom(1)[0] % 20
        succeeded: Outcome = Succeeded(None, json.dumps(task.run_id))
        if task.job_id == "spawn":
            succeeded = spawns_of([("second", None)] * SPAWNED)
        if task.job_id == "fan":
            succeeded = spawns_of([("second", json.dumps(number)) for number in range(FANNED)])
        outcome = Failed("no") if chance == 0 else Released("later") if chance == 1 else succeeded
        executor._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=now, started=now))


if __name__ == "__main__":
    family_node._start = _start
    sys.exit(asyncio.run(family_node.live()))
