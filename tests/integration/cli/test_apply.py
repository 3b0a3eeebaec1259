"""`tokimori apply`, and the way back from `tokimori export`."""

import json
import subprocess
from pathlib import Path

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM

FIRST = """
set = "prod"
[[jobs]]
id = "nightly"
schedule = "0 3 * * *"
command = "make report"
env = { A = "1", DB_PASSWORD = "hush" }
[[jobs]]
id = "old"
noop = true
"""
SECOND = FIRST.replace('A = "1"', 'A = "2"').replace('"old"', '"new"').replace("hush", "hush2")
DIFF = """\
set prod
+ new
    noop: true
~ nightly
    env.A: "1" → "2"
    env.DB_PASSWORD: "***" → "***"
- old
"""


def piped(program: Program, text: str, *arguments: str) -> str:
    """What it prints that reads this text from standard input."""
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=program.home,
        env=program.environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(program: Program, text: str, name: str = "jobs.toml") -> Path:
    file = program.home / name
    file.write_text(text)
    return file


def test_a_diff_then_the_change(program: Program) -> None:
    """A dry run makes not even the store; then the same lines come before the change, without values of secrets."""
    write(program, FIRST)
    assert program("apply", "jobs.toml", "--dry-run").endswith("dry run: would add 2, would change 0, would delete 0\n")
    assert not program.database.exists()
    program("apply", "jobs.toml")
    write(program, SECOND)
    before = program.contents()
    dry = program("apply", "jobs.toml", "--prune", "--dry-run")
    assert (dry, program.contents()) == (f"{DIFF}dry run: would add 1, would change 1, would delete 1\n", before)
    assert program("apply", "jobs.toml", "--prune") == f"{DIFF}1 added, 1 changed, 1 removed\n"
    assert [(job["id"], job["set"]) for job in program.json("job", "list")] == [("new", "prod"), ("nightly", "prod")]
    assert "set:" in program("job", "show", "nightly")


def test_what_export_writes_changes_nothing(program: Program) -> None:
    """Through a pipe, as TOML and as JSON; what was added by hand becomes one of the set."""
    program("job", "add", "by-hand", "--schedule", "every 90 seconds", "--", "ls", "")
    exported = program("export", "toml")
    assert piped(program, exported, "apply", "-", "--set", "all").endswith("0 added, 0 changed, 0 removed, 1 adopted\n")
    program("job", "add", "other", "--noop")
    for form in ("toml", "json"):
        exported = program("export", form, "--set", "all")
        assert "other" not in exported
        found = json.loads(piped(program, exported, "apply", "-", "--prune", "--json"))
        assert found.pop("unchanged") == ["by-hand"]
        kinds = [found, *(found.pop(kind) for kind in ("calendars", "queues", "semaphores"))]
        assert [{name: value for name, value in each.items() if value} for each in kinds] == [
            {"set": "all"},
            {},
            {},
            {},
        ]


def test_an_invalid_file_changes_nothing(program: Program) -> None:
    """Not even what another file says; the error names file, path, value and what is allowed, found here or there."""
    write(program, FIRST)
    program("apply", "jobs.toml")
    before = program.contents()
    write(program, SECOND)
    write(program, "set: prod\njobs:\n  - {id: bad, noop: true, retry: {attempts: 0}}\n", "bad.yaml")
    error = program.error("apply", "jobs.toml", "bad.yaml")
    assert (error["field"], error["value"], error["allowed"]) == ("jobs[0].retry.attempts", 0, "a whole number >= 1")
    assert error["message"].startswith("bad.yaml: jobs[0] of bad: retry.attempts: 0 is not allowed")
    write(program, '{"jobs": [{"id": "bad", "noop": true, "calendars": ["none"]}]}', "bad.json")
    error = program.error("apply", "jobs.toml", "bad.json")
    assert (error["field"], error["value"]) == ("jobs[0].calendars", "none")
    assert error["message"].startswith("bad.json: jobs[0] of bad: ")
    assert program.contents() == before


def test_what_is_somebody_elses_is_refused(program: Program) -> None:
    """As a conflict, after the diff; files must agree on one set, and name each job once."""
    write(program, FIRST)
    program("apply", "jobs.toml")
    write(program, FIRST.replace("prod", "staging"), "theirs.toml")
    ended = program.run("apply", "theirs.toml")
    assert ended.returncode == 4
    assert "! nightly: it is of the set prod" in ended.stdout
    assert "--take-over" in ended.stderr
    assert program("apply", "theirs.toml", "--take-over").endswith("0 added, 0 changed, 0 removed, 2 adopted\n")
    assert program.error("apply", "jobs.toml", "theirs.toml")["field"] == "set"
    assert program.error("apply", "jobs.toml", "--set", "other")["field"] == "set"
    assert program.error("apply", "jobs.toml", "jobs.toml")["field"] == "jobs[0].id"
    write(program, FIRST.replace('set = "prod"', ""), "unnamed.toml")
    assert "--set NAME" in program.error("apply", "unnamed.toml")["message"]


RESOURCES = """\
set = "prod"

[calendars.holidays]
dates = ["12-25"]

[semaphores.printer]
limit = 2

[queues.mail]
paused = true
reason = "moving"

[[jobs]]
id = "nightly"
schedule = "0 3 * * *"
time_zone = "UTC"
queue = "mail"
calendars = ["holidays"]
semaphores = ["printer:2"]
noop = true
"""
SHOWN = """\
set prod
+ calendar holidays
    dates: ["12-25"]
+ semaphore printer
    limit: 2
+ queue mail
    paused: true
    reason: "moving"
+ nightly
"""


def test_what_jobs_need_is_declared_with_them(program: Program) -> None:
    """It is shown before the jobs, is written by export as it was read, and goes with the set."""
    write(program, RESOURCES)
    told = program("apply", "jobs.toml")
    assert told.startswith(SHOWN)
    assert told.endswith("4 added, 0 changed, 0 removed\n")
    (job,) = program.json("export", "json")["jobs"]
    assert (job["calendars"], program.json("queue", "list")[0]["pauses"][0]["reason"]) == (["holidays"], "moving")
    exported = program("export", "toml", "--set", "prod")
    assert exported.partition("[[jobs]]")[0] == RESOURCES.partition("[[jobs]]")[0]
    assert piped(program, exported, "apply", "-", "--prune").endswith("0 added, 0 changed, 0 removed, 4 unchanged\n")
    program("lock", "set", "printer", "--limit", "3")
    ended = program.run("apply", "jobs.toml")
    assert (ended.returncode, "! semaphore printer: it was changed by hand since (limit)" in ended.stdout) == (4, True)
    assert program.error("apply", "jobs.toml", "jobs.toml")["field"] == "jobs[0].id"
    write(program, 'set = "prod"\n')
    assert program("apply", "jobs.toml", "--prune", "--take-over").endswith(
        "- calendar holidays\n- semaphore printer\n- queue mail\n- nightly\n0 added, 0 changed, 4 removed\n"
    )
    assert program.json("calendar", "list") == program.json("lock", "list") == program.json("queue", "list") == []
