"""A run whose job allows no lost attempt is begun once, whatever processes die around it, on two stores."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.programs.forked import Started
from tests.servers import postgres
from tokimori.model.settle import NEVER_AGAIN

APP = """
import os, time
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])

def begins(name: str) -> None:
    with (HOME / name).open("a") as file:
        file.write("begun\\n")
    while not (HOME / "end").exists():
        time.sleep(0.05)

@app.job(lost_attempts=0, attempts=1)
def charge() -> None:
    begins("charge")

@app.job(lost_attempts=0, attempts=1, on_lost_lease="kill")
def bound() -> None:
    begins("bound")

@app.job(lost_attempts=0, attempts=1)
def other() -> None:
    begins("other")

@app.job()
def last() -> None:
    pass
"""
PAY = "echo begun >> {}; exec sleep 1000"


class Till(AppProgram):
    """The app, and two commands, of which none may begin twice."""

    def __init__(self, home: Path, url: str | None = None, app: str = APP) -> None:
        super().__init__(home)
        self.app.write_text(app)
        if url is not None:
            self.environment["TOKIMORI_STORE"] = url
        self.environment["TOKIMORI_NODE_STOP_GRACE"] = "0.3"
        for name in ("pay", "wire"):
            command = PAY.format(home / name)
            self("job", "add", name, "--lost-attempts", "0", "--timeout-grace", "0.5", "--", "sh", "-c", command)

    def open(self) -> Started:
        """A node with one process for functions."""
        words = ["serve", "--no-http", "--app", "jobs:app", "--processes", "1"]
        node = Started(words, cwd=self.home, env=self.environment, stdout=subprocess.PIPE)
        assert node.stdout is not None
        assert node.stdout.readline()
        return node

    def begin(self, *jobs: str) -> dict[str, str]:
        """The runs of these jobs, which have begun."""
        runs = {job: self.json("job", "trigger", job)["id"] for job in jobs}
        for job in jobs:
            until(lambda job=job: (self.home / job).exists())  # type: ignore[misc]
        return runs

    def failed(self, run: str, why: str, within: float = 30) -> None:
        """It ends as failed, lost by what the reason names, and was begun once."""
        until(lambda: self.seen(run)["state"] not in ("running", "ready"), within)
        found = self.seen(run)
        assert (found["state"], found["attempt"], found["lost"]) == ("failed", 1, 1), found["error"]
        assert why in found["error"]
        assert NEVER_AGAIN in found["error"]

    def seen(self, run: str) -> Any:
        """The run as it is now."""
        return self.json("run", "show", run)

    def begun_once(self) -> None:
        """However many nodes there were."""
        for file in (self.home / name for name in ("charge", "bound", "other", "pay", "wire")):
            assert not file.exists() or file.read_text() == "begun\n", file


def below(pid: int, name: str) -> list[int]:
    """The processes of this name that a process has started, and what it started."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += [child] if Path(f"/proc/{child}/comm").read_text().strip() == name else []
        found += below(child, name)
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def till(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Till]:
    """One on each store."""
    if request.param == "sqlite":
        yield Till(tmp_path)
        return
    yield Till(tmp_path, postgres.server().make("till"))
    postgres.server().drop("till")


def test_processes_that_die_and_new_code_begin_nothing_again(till: Till) -> None:
    """New code lets it run on; with its process, its keeper or its stopping node it ends as lost, and stays so."""
    node = till.open()
    try:
        runs = till.begin("charge", "pay")
        (worker,) = below(node.pid, "tokimori-worker")
        node.send_signal(signal.SIGHUP)
        until(lambda: len(below(node.pid, "tokimori-worker")) == 2)
        assert {till.seen(run)["state"] for run in runs.values()} == {"running"}
        os.kill(worker, signal.SIGKILL)
        till.failed(runs["charge"], "its worker process died")
        bound = till.begin("bound")["bound"]
        for keeper in below(node.pid, "tokimori-keeper"):
            os.kill(keeper, signal.SIGKILL)
        till.failed(runs["pay"], "its keeper died")
        till.failed(bound, "its keeper died")
        runs = till.begin("other", "wire")
    finally:
        assert stop(node) == 0
    for run in runs.values():
        till.failed(run, "its node stopped it")
    _stays(till, till.begun_once)


@pytest.mark.prove
def test_a_node_that_dies_begins_nothing_again(till: Till) -> None:
    """Whoever takes over its runs ends them, and says which node died."""
    node = till.open()
    runs = till.begin("charge", "pay")
    os.kill(node.pid, signal.SIGKILL)
    node.communicate()

    def ended() -> None:
        for run in runs.values():
            till.failed(run, "died", within=40)

    _stays(till, ended)
    till.begun_once()


def _stays(till: Till, holds: Callable[[], object]) -> None:
    """While another node works: one that would begin it again."""
    node = till.open()
    try:
        (till.home / "end").touch()
        till.outcome("last")  # whatever was ready before has begun by now
        holds()
    finally:
        assert stop(node) == 0
