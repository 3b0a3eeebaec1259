"""`tokimori events`, in a process that is killed."""

import json
import subprocess
from typing import Any

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM


def following(program: Program, *arguments: str) -> "subprocess.Popen[str]":
    """The follower, whose lines are read."""
    return subprocess.Popen(
        [str(PROGRAM), "--json", "events", "-f", "--kind", "all", *arguments],
        cwd=program.home,
        env=program.environment,
        text=True,
        stdout=subprocess.PIPE,
    )


def next_of(follower: "subprocess.Popen[str]") -> Any:
    """The next event that it tells."""
    assert follower.stdout is not None
    return json.loads(follower.stdout.readline())


def test_a_follower_that_was_killed_misses_nothing(program: Program) -> None:
    """Who goes on behind the last position that he kept is told of all that happened since, of both kinds."""
    program("job", "add", "report", "--noop")
    first = following(program, "--since", "1m")
    added = next_of(first)
    assert (added["event"], added["job_id"]) == ("job.added", "report")
    first.kill()
    first.communicate()
    program("job", "pause", "report")
    run = program.json("job", "trigger", "report", "--force")["id"]
    program("run", "cancel", run)
    program("job", "delete", "report")
    second = following(program, "--after", added["position"])
    told = dict[str, Any]()
    while "job.deleted" not in told:
        event = next_of(second)
        told[event["event"]] = event
    second.kill()
    second.communicate()
    assert {"job.paused", "audit.jobs.request", "run.cancelled", "job.deleted"} <= told.keys()
    assert told["run.cancelled"]["run_id"] == run
