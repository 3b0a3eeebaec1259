"""`tokimori job backfill`, beside a node."""

import signal
import subprocess
import time

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM

RANGE = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:09:00Z")


def runs_of(program: Program, job: str) -> list[str]:
    """The nominal times of the job's backfilled runs."""
    return sorted(run["nominal"] for run in program.json("run", "list", "--job", job) if run["origin"].startswith("b:"))


def test_a_dry_run_shows_every_occurrence(program: Program) -> None:
    """One line for each, in the job's zone, with what is done about it; nothing is made."""
    program("job", "add", "m", "--schedule", "*/5 * * * *", "--timezone", "Europe/Paris", "--command", "true")
    assert program("job", "backfill", "m", *RANGE, "--dry-run").splitlines()[1:] == [
        "2026-01-01 01:00:00+01:00  to be made",
        "2026-01-01 01:05:00+01:00  to be made",
        "would make 2 runs; 0 of 2 made: none yet; 0 left out",
    ]
    assert runs_of(program, "m") == []
    assert program.error("job", "backfill", "m", *RANGE, "--cancel", "--dry-run")["field"] == "cancel"
    assert program.error("job", "backfill", "m", "--from", "2999-01-01T00:00:00Z")["field"] == "to"
    assert program.error("job", "backfill", "none", *RANGE, code=3)["code"] == "not_found"


def test_an_interrupted_backfill_goes_on(served: Program) -> None:
    """A paced backfill that is interrupted, and asked for again, makes every occurrence once."""
    served("job", "add", "paced", "--schedule", "* * * * *", "--max-running", "0", "--command", "sleep 0.3")
    words = ["job", "backfill", "paced", *RANGE, "--max-running", "2"]
    first = subprocess.Popen(
        ["env", "--default-signal=INT", str(PROGRAM), *words],  # a shell's background job ignores it
        cwd=served.home,
        env=served.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stderr is not None
    assert first.stderr.readline().startswith("2 of 10 made: ")  # ready, or running already
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert first.returncode != 0
    assert 2 <= len(runs_of(served, "paced")) < 10
    ended = served.run(*words, "--wait")
    assert (ended.returncode, ended.stdout) == (0, "10 of 10 made: 10 succeeded; 0 left out\n")
    assert runs_of(served, "paced") == [f"2026-01-01T00:0{n}:00Z" for n in range(10)]


def test_a_cancelled_backfill_stops_whoever_makes_it(served: Program) -> None:
    """The command that makes it ends with exit code 1, what ran is ended, and the rest is never made."""
    served("job", "add", "long", "--schedule", "* * 1 1 *", "--max-running", "0", "--command", "sleep 60")
    maker = subprocess.Popen(
        [str(PROGRAM), "job", "backfill", "long", *RANGE, "--max-running", "3"],
        cwd=served.home,
        env=served.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert maker.stderr is not None
    maker.stderr.readline()
    time.sleep(1)
    served("job", "backfill", "long", *RANGE, "--cancel")
    _, told = maker.communicate(timeout=30)
    assert (maker.returncode, told.splitlines()[-1]) == (1, "somebody cancelled this backfill: no more runs are made")
    done = served.json("job", "backfill", "long", *RANGE, "--dry-run")
    assert done["missing"]
