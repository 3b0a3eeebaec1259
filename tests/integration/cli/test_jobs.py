"""`tokimori job …`, whole."""

import json
import os
import pty
import subprocess
import sys

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM


def test_a_job_from_add_to_delete(program: Program) -> None:
    """Added, shown, changed, paused, resumed and deleted; each says what it did."""
    printed = program(
        "job", "add", "nightly", "--schedule", "0 3 * * *", "--timezone", "Europe/Paris", "--command", "a"
    )
    assert printed.startswith("added nightly: enabled, next 20")
    shown = program.json("job", "show", "nightly")
    assert (shown["command"], shown["time_zone"], shown["state"]) == ("a", "Europe/Paris", "enabled")
    assert len(shown["next_times"]) == 5
    assert "Europe/Paris" in program("job", "show", "nightly")

    changed = program.json("job", "update", "nightly", "--owner", "ada", "--env", "A=1", "--", "make", "-C", "x")
    assert (changed["owner"], changed["command"], changed["env"]) == ("ada", ["make", "-C", "x"], {"A": "1"})
    changed = program.json("job", "update", "nightly", "--unset", "owner", "--unset", "time_zone")
    assert (changed["owner"], changed["time_zone"], changed["version"]) == (None, "UTC", 3)

    paused = program.json("job", "pause", "nightly", "--reason", "release")
    assert (paused["state"], paused["reason"], paused["next_due"]) == ("paused", "release", None)
    assert "release" in program("job", "show", "nightly")
    assert program("job", "resume", "nightly").startswith("resumed nightly: enabled")
    assert program.json("job", "disable", "nightly")["state"] == "paused"
    assert program.json("job", "enable", "nightly")["state"] == "enabled"

    assert program("job", "delete", "nightly") == "deleted nightly\n"
    assert program.json("job", "list") == []
    assert program("job", "list").split() == ["ID", "STATE", "SCHEDULE", "NEXT", "COMMAND"]


def test_next_moments_of_one_job_of_all_and_of_a_text(program: Program) -> None:
    """In the job's zone as text, in UTC as JSON."""
    program("job", "add", "a", "--schedule", "0 3 * * *", "--timezone", "Asia/Tokyo", "--noop")
    program("job", "add", "b", "--schedule", "0 4 * * *", "--timezone", "Asia/Tokyo", "--noop")
    after = ("--after", "2030-01-01T00:00:00Z")
    assert program("job", "next", "a", "-n", "1", *after) == "2030-01-02 03:00:00+09:00\n"
    assert program.json("job", "next", "a", "-n", "1", *after) == [{"job_id": "a", "time": "2030-01-01T18:00:00Z"}]
    together = program.json("job", "next", "-n", "3", *after)
    assert [row["job_id"] for row in together] == ["a", "b", "a"]
    text = program("job", "next", "--schedule", "30 2 * * *", "--timezone", "Europe/Paris", "-n", "1", *after)
    assert text == "2030-01-01 02:30:00+01:00\n"


def test_a_job_after_others_says_after_which(program: Program) -> None:
    """In place of a next moment, each of them once."""
    for name in ("a", "b"):
        program("job", "add", name, "--noop")
    program("job", "add", "c", "--noop", "--after", "a", "--after", "b")
    assert [line.split()[-4:-1] for line in program("job", "list").splitlines()[3:]] == [["after", "a,", "b"]]


def test_runs_are_listed_with_who_asked_and_why_they_wait(program: Program) -> None:
    """A held run tells its reason, and each its nominal time."""
    program("job", "add", "j", "--noop", "--timezone", "Asia/Tokyo")
    run = program.json("job", "trigger", "j", "--at", "2035-01-01T00:00:00Z")
    program("run", "hold", run["id"], "--reason", "look at it")
    head, line = program("run", "list").splitlines()
    assert head.split() == ["ID", "JOB", "STATE", "BY", "NOMINAL", "DUE", "STARTED", "ENDED", "EXIT", "REASON"]
    assert f" held requested by {run['requested_by']} 2035-01-01 09:00:00+09:00 " in " ".join(line.split())
    assert line.endswith("look at it")
    program("job", "delete", "j")
    assert "j (deleted)" in program("run", "list")


def test_a_trigger_asks_once_for_each_key(program: Program) -> None:
    """The same key is the same run, and without a node it stays ready."""
    program("job", "add", "j", "--noop")
    first, again = (program.json("job", "trigger", "j", "--key", "k") for _ in range(2))
    assert (first.pop("became"), again.pop("became")) == ("made", "known")
    assert first == again
    assert first["state"] == "ready"
    assert [run["id"] for run in program.json("run", "list")] == [first["id"]]


def test_what_was_missed_in_a_pause_is_listed(program: Program) -> None:
    """Skips are printed as text and as JSON, empty lists too."""
    program("job", "add", "j", "--schedule", "every 1 second", "--noop")
    assert program.json("job", "skips", "j") == []
    assert program("job", "skips", "j").split() == ["FIRST", "LAST", "COUNT", "REASON"]


def test_the_module_is_the_program(program: Program) -> None:
    """`python -m tokimori` does the same."""
    program("db", "migrate")
    ended = subprocess.run(
        [sys.executable, "-m", "tokimori", "job", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=program.environment,
        cwd=program.home,
    )
    assert ended.stdout == "[]\n"


def test_the_store_may_be_named_anywhere(program: Program) -> None:
    """`--store` beats the environment wherever it stands."""
    other = f"sqlite://{program.home}/other.db"
    program("db", "migrate")
    program("--store", other, "job", "add", "x", "--noop")
    program("job", "--store", other, "add", "y", "--noop")
    program("job", "add", "z", "--noop", "--store", other)
    assert [job["id"] for job in program.json("job", "list", "--store", other)] == ["x", "y", "z"]
    assert program.json("job", "list") == []


def test_the_graph_of_jobs(program: Program) -> None:
    """A tree, DOT or JSON, of all jobs or of one; `job show` names parents and children."""
    program("db", "migrate")
    assert program("job", "graph") == ""
    program("job", "add", "load", "--noop")
    program("job", "add", "check", "--noop", "--after", "load=always")
    program("job", "add", "report", "--noop", "--after", "load", "--after", "check", "--join", "all")
    program("job", "add", "alone", "--noop")
    assert program("job", "graph").splitlines() == [
        "load",
        "├─ check on always",
        "│  └─ report on success (all of 2)",
        "└─ report on success (all of 2)",
    ]
    assert program("job", "graph", "alone") == "alone\n"
    assert '"load" -> "check" [label="on always"];' in program("job", "graph", "check", "--dot")
    assert [edge["child"] for edge in program.json("job", "graph", "report")] == ["report", "check", "report"]
    assert program.error("job", "graph", "nobody", code=3)["code"] == "not_found"
    shown = program("job", "show", "check")
    assert [line.split(":")[1].strip() for line in shown.splitlines() if line.startswith(("parent", "child"))] == [
        "load on always",
        "report on success (all of 2)",
    ]
    assert [edge["parent"] for edge in program.json("job", "show", "report")["edges"]] == ["check", "load"]


def test_a_paused_job_has_no_next_moment(program: Program) -> None:
    """Where it is shown, as where it is listed: what would start it is said instead."""
    program("job", "add", "report", "--noop", "--schedule", "0 3 * * *")
    program("job", "pause", "report", "--reason", "repairs")
    shown = program("job", "show", "report")
    assert "(repairs): `tokimori job resume report` enables it" in shown
    assert not [line for line in shown.splitlines() if line.startswith("next")]
    assert program.json("job", "show", "report")["next_times"] == []
    program("job", "resume", "report")
    assert len(program.json("job", "show", "report")["next_times"]) == 5


def test_the_reason_of_a_pause_that_stays_is_told(program: Program) -> None:
    """Who pauses a paused job for another reason learns which one stands, and how another is given."""
    program("job", "add", "report", "--noop")
    program("job", "pause", "report", "--reason", "repairs")
    assert program.run("job", "pause", "report", "--reason", "repairs").stderr == ""
    told = program.run("job", "pause", "report", "--reason", "holidays")
    assert (told.returncode, told.stdout) == (0, "paused report: paused\n")
    assert "paused before, for this reason, which stays: repairs; `tokimori job resume report` first" in told.stderr


def test_a_timeout_without_waiting_is_refused(program: Program) -> None:
    """It would mean nothing, and somebody meant something; no run is made."""
    program("job", "add", "report", "--noop")
    fault = program.error("job", "trigger", "report", "--timeout", "5")
    assert (fault["field"], fault["allowed"]) == ("timeout", "--wait beside it")
    assert program.json("run", "list") == []


def test_all_jobs_are_deleted_when_somebody_says_so(program: Program) -> None:
    """Where nobody can be asked only with --yes; a preview shows which; at a terminal the answer counts."""
    program("job", "add", "a", "--noop")
    program("job", "add", "b", "--noop", "--after", "a")
    assert program("job", "delete", "--all", "--dry-run") == "a\nb\nwould delete 2 jobs\n"
    assert program.error("job", "delete", "--all")["field"] == "all"
    assert program.error("job", "delete", "--all", "a")["field"] == "all"
    refused = program.error("job", "delete", "a", "--yes")
    assert (refused["field"], refused["message"]) == ("all", "--yes goes only with --all or a pattern")
    assert program.error("job", "delete")["field"] == "id"
    assert answered(program, "n") == (1, "2 jobs: a, b")
    assert len(program.json("job", "list")) == 2
    assert answered(program, "y") == (0, "2 jobs: a, b")
    assert program.json("job", "list") == []
    program("job", "add", "c", "--noop")
    assert json.loads(program.run("--json", "job", "delete", "--all", "--yes").stdout) == {"deleted": ["c"], "kept": {}}
    assert program("job", "delete", "--all", "--yes") == "deleted 0 jobs\n"


def answered(program: Program, answer: str) -> tuple[int, str]:
    """How `job delete --all` ends at a terminal at which somebody answers so, and its first line."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    ended = subprocess.run(
        [PROGRAM, "job", "delete", "--all"],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
        cwd=program.home,
        env=program.environment,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    return ended.returncode, ended.stderr.splitlines()[0]
