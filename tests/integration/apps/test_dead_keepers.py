"""The keeper of worker processes killed: what it ran has ended before anything of that begins again."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import lent, stop
from tests.integration.executors.workshop import keeper_of
from tests.programs.forked import Started

APP = """
import os, time
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])

def witness():
    task = tokimori.current_task()
    with (HOME / "witness").open("a", buffering=1) as file:
        end = time.monotonic() + (0.3 if (HOME / "killed").exists() else 12)
        while time.monotonic() < end:
            file.write(f"{task.run_id} {task.attempt} {os.getpid()}\\n")
            time.sleep(0.01)

@app.job(max_running=1, on_lost_lease="kill")
def alone() -> None:
    witness()

@app.job(max_running=2, on_lost_lease="kill")
def pair() -> None:
    if os.fork() == 0:  # which the worker process has begun without any mark of the run
        witness()
        os._exit(0)
    witness()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AppProgram]:
    """One with this app, on a store of its own."""
    program = AppProgram(tmp_path)
    program.app.write_text(APP)
    with lent(program, request.param):
        yield program


@pytest.fixture
def node(program: AppProgram) -> Iterator[Started]:
    """A worker of the app."""
    node = program.work()
    yield node
    stop(node)


@pytest.mark.parametrize(("job", "most"), [pytest.param("alone", 1, marks=pytest.mark.prove), ("pair", 2)])
def test_functions_end_with_their_keeper(program: AppProgram, node: Started, job: str, most: int) -> None:
    """Nothing of an attempt is left when another one begins in its place: no limit is exceeded by processes."""
    runs = [program.json("job", "trigger", job)["id"] for _ in range(most + 1)]
    until(lambda: len(set(seen(program))) == most)
    (program.home / "killed").touch()
    os.kill(keeper_of(worker_in(program)), signal.SIGKILL)
    for run in runs:
        until(lambda run=run: program.json("run", "show", run)["state"] == "succeeded", within=60)  # type: ignore[misc]
    found = seen(program)
    assert {attempt for _, attempt in found} == {"1", "2"}
    spans = {each: (found.index(each), len(found) - found[::-1].index(each)) for each in found}
    together = max(sum(first <= at < end for first, end in spans.values()) for at in range(len(found)))
    assert together == most
    assert node.poll() is None


def seen(program: AppProgram) -> list[tuple[str, str]]:
    """Runs and attempts in the order in which they were at work."""
    file = program.home / "witness"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(words[0], words[1]) for words in map(str.split, lines) if len(words) == 3]


def worker_in(program: AppProgram) -> int:
    """The pid of a process that was seen."""
    return int((program.home / "witness").read_text().split()[2])
