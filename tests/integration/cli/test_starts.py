"""The program as its users start it: in a process of its own, that has loaded nothing before."""

import os
import subprocess

import pytest

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM

NOUNS = [
    "--version",
    "job list",
    "job next --schedule @daily -n 1",
    "schedule explain @daily",
    "calendar list",
    "queue list",
    "run list",
    "lock list",
    "export toml",
    "node list",
    "db status",
    "config check",
    "job show missing",
    "job lisst",
    "--json run show missing",
]


@pytest.mark.parametrize(
    "line", [pytest.param(noun, marks=pytest.mark.prove if n % 3 else ()) for n, noun in enumerate(NOUNS)]
)
def test_a_fork_answers_as_a_process_of_its_own(program: Program, line: str) -> None:
    """What the other tests fork prints and ends as what users start, for every noun."""
    program("db", "migrate")
    started = subprocess.run(
        [str(PROGRAM), *line.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=program.home,
        env=program.environment,
    )
    forked = program.run(*line.split())
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert (started.returncode == 0) == ("miss" not in line and "lisst" not in line), started.stderr


def test_a_fork_has_its_folder_and_its_environment(program: Program) -> None:
    """Nothing of the process that was forked is left: neither its folder nor its variables."""
    program("job", "add", "here", "--command", "true", "--schedule", "@daily")
    assert program.database.exists()
    program.environment["TOKIMORI_STORE"] = f"sqlite://{program.home}/other.db"
    program("db", "migrate")
    assert "here" not in program("job", "list")
    assert os.environ.get("TOKIMORI_STORE") is None
