"""The README, taken at its word: every command in it, in its order, in a fresh folder beside a node at work."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

import tokimori
from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM, ROOT, Started
from tokimori.client.client import Client

README = (ROOT / "README.md").read_text()
CRONTAB = "17 3 * * * root echo from the crontab\n"
CRONJOBS = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: from-kubernetes}
spec:
  schedule: "0 5 * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: one, image: debian, command: [echo, from a cluster]}]
"""
ELSEWHERE = re.compile(r"(make|export|tokimori serve|tokimori worker|tokimori job trigger weekly)\b")
"""What other tests start: the targets of make, a node, a store on a server."""
NOT_YET = {"tokimori job resolve nightly-report": "the job 'nightly-report' is enabled, not parked"}
"""What the README says is for later, and what it answers before."""


class Block(NamedTuple):
    """A block of the README: its language and its lines."""

    language: str
    text: str


def blocks() -> list[Block]:
    """All of them, in order."""
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)]


def commands(text: str) -> Iterator[str]:
    """What is typed at a prompt, without the comments."""
    for line in text.splitlines():
        if line.startswith("$ "):
            yield line[2:].partition("  #")[0].strip()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One in a folder with the files that the README names."""
    program = Program(tmp_path)
    (tmp_path / "etc" / "cron.d").mkdir(parents=True)
    for name in ("crontab", "cron.d/one"):
        (tmp_path / "etc" / name).write_text(CRONTAB)
    (tmp_path / "cronjobs.yaml").write_text(CRONJOBS)
    (tmp_path / "reports.toml").write_text(next(text for language, text in blocks() if language == "toml"))
    program.environment["PATH"] = f"{PROGRAM.parent}{os.pathsep}{program.environment['PATH']}"
    return program


def type_in(program: Program, command: str, client: Client) -> None:
    """Carry out one command of the README, as its reader would: with the id of a run for `RUN`."""
    if "RUN" in command:
        later = {"at": "2099-01-01T00:00:00Z"} if " hold " in command or " resume " in command else {}
        run = client.jobs.trigger("nightly-report", "the one of the README" if later else None, **later)  # type: ignore[arg-type]
        command = command.replace("RUN", run.id)
    done = subprocess.run(
        ["sh", "-c", command.replace("/etc/", f"{program.home}/etc/")],
        cwd=program.home,
        env=program.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = NOT_YET.get(command)
    assert done.returncode == (0 if expected is None else 2), (command, done.stdout, done.stderr)
    assert expected is None or expected in done.stderr
    assert "Traceback" not in done.stderr


def carry_out(text: str, client: Client, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block of Python, with the names that it takes for granted."""
    for name, value in program.environment.items():
        monkeypatch.setenv(name, value)
    connection = sqlite3.connect(program.database, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER)")
    loaded: list[int] = []

    def load(*, fence: int) -> None:
        loaded.append(fence)

    with closing(connection):
        exec(text, {"client": client, "load": load, "connection": connection})  # noqa: S102  our own README
    assert ("load(" in text) == bool(loaded)


@pytest.mark.timeout(180)
def test_every_command_does_what_it_says(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """None fails, but where it says that something has to happen first."""
    node = program.serve()
    typed = 0
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        for language, text in blocks():
            if language == "python":
                carry_out(text, client, program, monkeypatch)
            for command in commands(text) if language == "console" else ():
                if not ELSEWHERE.match(command):
                    type_in(program, command, client)
                    typed += 1
    assert typed > 30
    assert stop(node) == 0


@pytest.mark.parametrize("last_line", ["", "app.run()\n", "tokimori.Worker(app, config=dict).run()\n"])
def test_the_function_of_the_readme_runs(program: Program, last_line: str) -> None:
    """Its file, its worker and its trigger, as they stand there; and the file as a program, which ends as is said."""
    block = next(text for language, text in blocks() if language == "python")
    (program.home / "reports.py").write_text(block + last_line)
    typed = [
        command for _, text in blocks() for command in commands(text) if "worker" in command or "weekly -" in command
    ]
    node: Started | subprocess.Popen[str]
    if last_line:
        assert last_line.strip().replace("=dict", "=f") in README
        command, environment = [sys.executable, "reports.py"], {**program.environment, "TOKIMORI_HTTP_PORT": "0"}
        node = subprocess.Popen(command, cwd=program.home, env=environment, stdout=subprocess.DEVNULL, text=True)
    else:
        node = program.start(*typed[0].split()[1:])
    try:
        until(lambda: program.run("job", "show", "weekly").returncode == 0 and program.json("node", "list"))
        assert typed[1].startswith("tokimori job trigger weekly --payload")
        run = program.json("job", "trigger", "weekly", "--wait", "--payload", '{"region": "north"}')
        assert program("run", "logs", run["id"]) == "a report of north\n"
    finally:
        assert stop(node) == 0


def test_every_target_of_make_is_there() -> None:
    """What the README has its reader make can be made."""
    makefile = (ROOT / "Makefile").read_text()
    wanted = {command.split()[1] for _, text in blocks() for command in commands(text) if command.startswith("make ")}
    assert wanted >= {"run", "test", "prove"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in wanted)
