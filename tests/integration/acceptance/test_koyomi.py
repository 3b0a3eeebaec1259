"""The page of Koyomi and what its program does, by the real program: docs/coming-from/settings-of-others.md."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.cli.terminal import Session, at_a_terminal
from tests.servers import postgres

PATIENCE = 240
"""Seconds, on a machine that is busy with much else."""
SETTINGS = """
time_zone = "Asia/Tokyo" # Local time zone is used when not specified
debug_mode = false
[log]
debug   = false           # Enable debug log
console = true            # Output to stderr
file    = true            # Output to log file
file_path = "log/koyomi.log"
[worker]
interval_minutes = 1
minimum_interval_seconds = 30
[schedule]
update_interval_seconds = 120
[job]
lock_ttl_seconds = 25
[datasource.module]
job       = "Teng"
semaphore = "Teng"
[datasource.connector]
dsn      = "{dsn}"
user     = "{user}"
password = ""
"""


class Koyomi:
    """A home with the settings of Koyomi, at which somebody types commands."""

    def __init__(self, program: Program, dsn: str, user: str) -> None:
        self.program = program
        self.workers: list[Session] = []
        del program.environment["TOKIMORI_STORE"]
        (program.home / "log").mkdir()
        (program.home / "config").mkdir()
        self.settings(dsn, user, lock_ttl=25)

    def settings(self, dsn: str, user: str, *, lock_ttl: int) -> None:
        """Write Koyomi's file of settings."""
        text = SETTINGS.format(dsn=dsn, user=user).replace("log/koyomi.log", str(self.program.home / "log/koyomi.log"))
        text = text.replace("ttl_seconds = 25", f"ttl_seconds = {lock_ttl}")
        (self.program.home / "config" / "default.toml").write_text(text)

    def type(self, *words: str, typed: str = "", code: int = 0, editor: str = "false") -> str:
        """What a command shows at a terminal; it has to end with this exit code."""
        ended, shown = at_a_terminal(self.program, *words, typed=typed, columns=160, more={"EDITOR": editor})
        assert ended == code, shown
        return shown

    def editor(self, text: str, then: str | None = None) -> str:
        """An editor that writes this text, and the second time another one."""
        script, count = self.program.home / "editor", self.program.home / "editor.n"
        count.unlink(missing_ok=True)
        for number, each in enumerate((text, then or text), 1):
            (self.program.home / f"text.{number}").write_text(each)
        steps = (f"echo >> {count}", f'cp "$1" {script}.seen', f'cat {script.parent}/text.$(wc -l < {count}) > "$1"')
        script.write_text("\n".join(["#!/bin/sh", *steps, ""]))
        script.chmod(0o700)
        return str(script)

    def start_worker(self) -> None:
        """`koyomi` in the foreground, until it works."""
        worker = Session(self.program, "serve", "--no-http", patience=PATIENCE)
        self.workers.append(worker)
        worker.until(" runs jobs on ")

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        """The runs of a job."""
        found: list[dict[str, Any]] = self.program.json("run", "list", "--job", job_id)
        return found

    def until_ended(self, job_id: str) -> list[dict[str, Any]]:
        """The runs of the job, once one of them has ended."""
        end = time.monotonic() + PATIENCE
        while True:
            found = self.runs(job_id)
            if any(run["ended"] for run in found):
                return found
            assert time.monotonic() < end, found
            time.sleep(1)


@pytest.fixture(params=["sqlite", "postgres"])
def koyomi(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Koyomi]:
    """A home without anything; what is left of workers is ended."""
    program, name = Program(tmp_path), f"koyomi_{os.getpid()}"
    if request.param == "postgres":
        if postgres.programs() is None:
            pytest.fail(f"PostgreSQL is not installed: {postgres.INSTALL}")
        server = postgres.server()
        server.make(name)
        found = Koyomi(program, f"dbi:Pg:dbname={name};host={server.folder};port={server.port}", postgres.ACCOUNT)
    else:
        found = Koyomi(program, f"dbi:SQLite:dbname={tmp_path}/koyomi.db", "")
    yield found
    for worker in found.workers:
        worker.process.kill()  # which does nothing to one that has ended
        worker.process.wait()
    if request.param == "postgres":
        postgres.server().drop(name)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_the_page_of_koyomi(koyomi: Koyomi) -> None:
    """Its settings come in, two workers share one datastore, and a job is added, changed and deleted as there."""
    _configure(koyomi)
    # Set up the datastore, launch workers
    assert re.search(r"pending: +nothing", koyomi.type("db", "migrate"))
    for _ in range(2):
        koyomi.start_worker()
    _walk_beside_workers(koyomi)
    # TERM ends the workers
    for worker in koyomi.workers:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.end()[0] == 0
    assert "ERROR" not in (koyomi.program.home / "log" / "koyomi.log").read_text()


def _configure(koyomi: Koyomi) -> None:
    """Each key became a setting, or it is told why not; what contradicts itself is refused."""
    theirs, ours = "config/default.toml", koyomi.program.home / "config" / "tokimori.toml"
    shown = koyomi.type("config", "import", theirs, "--to", str(ours))
    assert [key for key in ("time_zone", "debug_mode", "job.lock_ttl_seconds") if key not in shown] == []
    bad = koyomi.program.home / "bad.toml"
    bad.write_text("[job]\nlock_ttl_seconds = 30\n")
    assert "job.lock_ttl_seconds: 30 is not less than" in koyomi.type("config", "import", str(bad), code=2)
    koyomi.program.environment["TOKIMORI_CONFIG_PATH"] = str(ours)
    assert "the settings are fine" in koyomi.type("config", "check")
    assert "Asia/Tokyo" in koyomi.type("config", "show")


def _walk_beside_workers(koyomi: Koyomi) -> None:
    # add: cancelled by anything but y, refused with a bad time, and saved
    every = 'id = "hello"\ndescription = "greets"\ncommand = "echo hello; echo oops >&2"\n'
    rows = 'schedule = "*/*/* *:* (*); */*/* *:* (*); 2015/*/* 9:05 (7)"\n'
    shown = koyomi.type("job", "add", "-e", typed="n\n", code=1, editor=koyomi.editor(every + rows))
    assert "Nothing was changed" in shown
    editor = koyomi.editor(every + rows.replace("9:05", "25:05"), every + rows)
    shown = koyomi.type("job", "add", "-e", typed="y\n", editor=editor)
    assert ("25" in shown, "Add this job? [y/N]" in shown, "added hello" in shown) == (True, True, True)
    assert "#! " in (koyomi.program.home / "editor.seen").read_text()
    koyomi.program("job", "add", "bad", "--schedule", "*/*/* *:* (*)", "--command", "echo why >&2; exit 3")

    # list
    shown = koyomi.type("job", "list")
    assert "*/*/* *:* (*); */*/* *:* (*); 2015/*/* 9:05 (7)" in shown
    assert "echo hello" in shown

    # two workers at the same minute, two rows that match: one run, and who has run it
    nodes = {node["id"]: node for node in koyomi.program.json("node", "list")}
    assert {node["pid"] for node in nodes.values()} >= {worker.process.pid for worker in koyomi.workers}
    runs = koyomi.until_ended("hello")
    assert len({run["nominal"] for run in runs}) == len(runs)
    run = next(run for run in runs if run["ended"])
    assert (run["state"], run["nominal"][-3:]) == ("succeeded", "00Z")
    assert nodes[run["node_id"]]["host"] == os.uname().nodename
    assert {"hello", "oops"} <= set(koyomi.type("job", "logs", "hello").split())
    [failed, *_] = koyomi.until_ended("bad")
    assert (failed["state"], failed["exit_code"]) == ("failed", 3)
    assert "why" in koyomi.type("job", "logs", "bad")

    # modify: the diff is shown, and nothing saved without a y
    changed = koyomi.editor(every.replace("hello;", "bye;") + 'schedule = "*/*/* 23:59 (*)"\n')
    shown = koyomi.type("job", "modify", "hello", typed="\n", code=1, editor=changed)
    assert ("+command = " in shown, "Nothing was changed" in shown) == (True, True)
    koyomi.type(
        "job", "modify", "hello", typed="y\n", editor=koyomi.editor((koyomi.program.home / "text.1").read_text())
    )
    assert koyomi.program.json("job", "show", "hello")["schedule"] == "*/*/* 23:59 (*)"
    assert "there is no job" in koyomi.type("job", "modify", "99", code=3)

    # delete
    koyomi.type("job", "delete", "hello")
    koyomi.type("job", "delete", "bad")
    assert koyomi.program.json("job", "list") == []
