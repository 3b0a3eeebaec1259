"""A worker whose settings a function of its program gives."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tokimori.apps.worker import Worker
from tokimori.errors import InvalidConfig, Refused

WORKS = """
def settings():
    said = (HOME / "settings").read_text()
    return {"node.labels": {"said": said}, "app.processes": 1, "log.file": None} if said else {"nothing": 1}

if __name__ == "__main__":
    sys.exit(tokimori.Worker(app, config=settings).run())
"""


def labels(program: AppProgram) -> list[Any]:
    """What the nodes that live carry."""
    return sorted(each["labels"]["said"] for each in program.json("node", "list") if each["state"] == "alive")


@pytest.mark.prove
def test_settings_are_asked_for_at_the_start_and_with_each_signal(program: AppProgram) -> None:
    """A node with the new ones takes over while the one before ends its run; bad ones and a dead node end nothing."""
    program.app.write_text(program.app.read_text() + WORKS)
    (program.home / "settings").write_text("one")
    with (program.home / "stderr").open("w") as told:
        worker = subprocess.Popen(
            [sys.executable, "jobs.py"],
            cwd=program.home,
            env=program.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=told,
        )
    try:
        assert worker.stdout is not None
        assert "runs jobs" in worker.stdout.readline()
        assert labels(program) == ["one"]
        run = program.json("job", "trigger", "sleeps", "--payload", '{"seconds": 8}')["id"]
        until(lambda: program.json("run", "show", run)["state"] == "running")
        (program.home / "settings").write_text("two")
        worker.send_signal(signal.SIGHUP)
        until(lambda: labels(program) == ["one", "two"])
        assert program.outcome("double", '{"number": 21}')["result"] == "42"
        until(lambda: labels(program) == ["two"])
        shown = program.json("run", "show", run)
        assert (shown["state"], len(shown["attempts"])) == ("succeeded", 1)
        (program.home / "settings").write_text("")
        worker.send_signal(signal.SIGUSR1)
        until(lambda: "keeps its previous settings" in (program.home / "stderr").read_text())
        assert program.outcome("double", '{"number": 4}')["result"] == "8"
        assert stop(worker) == 0
        assert labels(program) == []
    finally:
        worker.kill()


@pytest.mark.parametrize(
    ("said", "named"),
    [({"app.proceses": 2}, "app.proceses"), ({"app.processes": 0}, "app.processes"), ({"app.load": "x:y"}, "app")],
)
def test_settings_that_are_none_are_refused_at_once(said: dict[str, object], named: str) -> None:
    """Before anything is started, by their names."""
    with pytest.raises(InvalidConfig, match=named):
        Worker("jobs:app", config=lambda: said).run()


def test_an_app_must_be_found_by_worker_processes() -> None:
    """One that is no name of the program that runs is refused."""
    with pytest.raises(Refused, match="must be called from the module that defines"):
        Worker(object()).run()  # type: ignore[arg-type]
