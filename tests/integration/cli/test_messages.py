"""Messages of commands, word by word: what happened, to what, why, and the next command."""

import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.cli.terminal import Session, at_a_terminal
from tests.integration.cli.test_terminal import editor
from tests.programs.forked import PROGRAM

FAULTS = [
    (
        ("job", "add", "j", "--noop", "--retention", "-1"),
        2,
        "error: retention: '-1' is not a duration\n"
        "allowed: a duration such as P7D, 12h or P1Y2M10DT2H30M; PT0S keeps nothing\n",
    ),
    (
        ("task", "get", "long"),
        3,
        "error: There is no task 'long'. Run `tokimori task build long` to build it from its source.\n"
        "See `tokimori task list`. A job that is no task is shown by `tokimori job list`.\n",
    ),
    (
        ("job", "add", "j", "--noop", "--schedule", "*/*/* 25:61 (*)"),
        2,
        "error: minute: '61' is not allowed in '*/*/* 25:61 (*)'\nallowed: 0-59 or *\n",
    ),
    (
        ("job", "add", "j", "--noop", "--schedule", "*/*/* 25:01 (*)"),
        2,
        "error: hour: '25' is not allowed in '*/*/* 25:01 (*)'\nallowed: 0-23 or *\n",
    ),
    (
        ("job", "add", "j", "--noop", "--schedule", "*/*/* 1:01 (8)"),
        2,
        "error: day of week: '8' is not allowed in '*/*/* 1:01 (8)'\nallowed: 1 (Monday) to 7 (Sunday) or *\n",
    ),
    (
        ("job", "add", "j", "--noop", "--schedule", "*/2/30 1:1 (*)"),
        2,
        "error: day of month: '*/2/30 1:1 (*)' never comes\nallowed: 1-31 or *, and a day that the month has\n",
    ),
    (
        ("task", "list", "--store", "postgresql://u@127.0.0.1:1/t"),
        2,
        "error: store postgresql://u@127.0.0.1:1/t can't be reached (Connect call failed ('127.0.0.1', 1)): check that "
        "the server runs and that host and port are right. Nothing was changed.\n",
    ),
    (
        ("task", "build", "x"),
        2,
        "error: There is no workspace here. Run `tokimori init` to make one, or name another's tokimori.toml by -c.\n"
        "allowed: a folder\n",
    ),
    (
        ("node", "drain", "zzz"),
        3,
        "error: no node that is alive has an id that begins with 'zzz'\nSee `tokimori node list`.\n",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "said"), FAULTS)
def test_a_fault_is_told_so(program: Program, arguments: tuple[str, ...], code: int, said: str) -> None:
    """Plainly, with the next command."""
    program("db", "migrate")
    ended = program.run(*arguments)
    assert (ended.returncode, ended.stderr) == (code, said)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (
            "from tokimori import every\n\ndef schedule(): return every().day.at('25:00')\n",
            "line 3: '25:00' is not a time of day. Allowed: 00:00 to 23:59, or 1:00AM to 12:59PM.",
        ),
        (
            "def schedule():\n    return 'every now and then'\n",
            "line 2: 'every now and then' is not an interval. Allowed: every N seconds, minutes, hours, days or weeks, "
            "N is 1 or more; or every 90s, every 1h30m.",
        ),
        (
            "schedule = '5 5'\n",
            "line 1: '5 5' has 2 fields. Allowed: 5 fields; 6 with seconds first; 7 with a year last.",
        ),
    ],
)
def test_a_schedule_in_code_is_refused_with_its_line(program: Program, schedule: str, said: str) -> None:
    """And its file, as it is seen from here."""
    program("init")
    (program.home / "tasks/hello/schedule.py").write_text(schedule)
    ended = program.run("task", "build", "hello")
    assert (ended.returncode, ended.stderr) == (2, f"error: tasks/hello/schedule.py {said}\n")


def test_what_is_missing_of_a_workspace_is_named(program: Program) -> None:
    """A folder of tasks that went; and a build by the beginning of no digest."""
    program("init")
    program("task", "build", "hello")
    ended = program.run("task", "rollback", "hello", "zzz")
    said = "error: No build of hello starts with 'zzz'.\nSee `tokimori task builds hello`.\n"
    assert (ended.returncode, ended.stderr) == (3, said)
    (program.home / "tasks").rename(program.home / "gone")
    ended = program.run("task", "build", "hello")
    said = "error: tasks/ is missing: create it, or set `tasks_dir` to another folder.\nallowed: a folder\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_whoever_asked_for_a_run_is_named(program: Program) -> None:
    """By the name of his account; `--json` has it, too."""
    program("job", "add", "j", "--noop")
    run = program.json("job", "trigger", "j")
    assert f"requested by {run['requested_by']}" in program("run", "list")


def test_no_next_moment_has_passed(program: Program) -> None:
    """A job that no node has looked at for long shows the moment after now; one with none left is due now."""
    program("job", "add", "often", "--noop", "--schedule", "every second")
    program("job", "add", "once", "--noop", "--schedule", "at 2099-01-01T00:00:00Z")
    with sqlite3.connect(program.database) as store:
        store.execute("UPDATE tokimori_jobs SET next_due = 1000000, fired_through = 999999")
        store.execute("UPDATE tokimori_jobs SET definition = replace(definition, '2099-', '2009-') WHERE id = 'once'")
    rows = {line.split()[0]: line for line in program("job", "list").splitlines()}
    assert "1970" not in rows["often"]
    assert "due now" in rows["once"]
    assert program("job", "list", "--sort", "next").splitlines()[2].startswith("once")


def test_a_no_has_one_code_and_a_word(program: Program) -> None:
    """Whatever was asked; Ctrl-C at a question has the code of Ctrl-C."""
    program("job", "add", "j", "--noop")
    change = 'echo \'owner = "ada"\' >> "$1"'
    before = program.contents()
    for arguments in (
        ("job", "delete", "j*"),
        ("job", "delete", "--all"),
        ("job", "modify", "j"),
        ("job", "edit", "j"),
    ):
        code, shown = at_a_terminal(program, *arguments, typed="n\n", more=editor(program, change))
        assert (code, "Nothing was changed." in shown) == (1, True), shown
    session = Session(program, "job", "delete", "j*")
    session.until("[y/N]")
    session.interrupt()
    code, shown = session.end()
    assert (code, "Nothing was changed." in shown) == (130, True)
    assert program.contents() == before


def test_a_text_that_is_left_wrong_is_a_failure(program: Program) -> None:
    """Somebody gives up: the exit code says so, and the text is kept."""
    program("job", "add", "j", "--noop")
    wrong = "sed -i 's/noop = true/nope = true/' \"$1\""
    code, shown = at_a_terminal(program, "job", "modify", "j", more=editor(program, wrong, "true"), columns=200)
    assert (code, "The text is still wrong. It is in " in shown, "Nothing was changed." in shown) == (2, True, True)
    kept = Path(shown.partition("It is in ")[2].split()[0].rstrip("."))
    assert "nope = true" in kept.read_text()
    kept.unlink()


@pytest.mark.prove
def test_plain_is_text_alone(program: Program) -> None:
    """No sequence of a terminal reaches it, of no command: neither bold nor colours, nor a bar."""
    program("job", "add", "j", "--noop", "--schedule", "@daily")
    program("job", "trigger", "j")
    for arguments in (
        ("job", "list"),
        ("run", "list"),
        ("queue", "list"),
        ("verify",),
        ("node", "list"),
        ("doctor",),
        ("token", "list"),
    ):
        _, shown = at_a_terminal(program, *arguments, "--plain", columns=60)
        assert "\x1b" not in shown, shown


def test_many_faults_are_whole_in_a_pipe(program: Program) -> None:
    """A terminal gets the first ones, and how many more there are."""
    file = program.home / "bad"
    file.write_text("".join(f"no line of a crontab {number} {'x' * 300}\n" for number in range(60)))
    assert len(program.run("job", "import", "crontab", str(file)).stderr.splitlines()) == 61
    code, shown = at_a_terminal(program, "job", "import", "crontab", str(file))
    assert (code, "… and 40 more faults" in shown) == (2, True)


def test_a_task_that_is_built_anew_beside_its_old_run_says_so(served: Program) -> None:
    """And so does whoever deletes it; with --now the run is cancelled."""
    folder = served.home / "ws"
    folder.mkdir()
    served("init", str(folder))
    (folder / "tasks/hello/function.py").write_text("import time\ndef function(): time.sleep(60)\n")
    (folder / "tasks/hello/schedule.py").unlink()
    of = ("-c", str(folder / "tokimori.toml"))
    served("task", "build", "hello", *of)
    run = served.json("job", "trigger", "hello")["id"]
    deadline = time.monotonic() + 30
    while served.json("run", "show", run)["state"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    told = f"run {run} of the deleted hello still runs"
    assert told in served.run("task", "delete", "hello", *of).stderr
    built = served.run("task", "build", "hello", *of)
    assert f"{told}; the new one may run beside it: `tokimori run cancel {run}` ends it" in built.stderr
    served("run", "cancel", run)


@pytest.mark.prove
def test_a_log_opens_in_any_editor(program: Program) -> None:
    """In vim, nano, code, or that of $EDITOR: of the node, of a run, and the text of a job."""
    program("job", "add", "j", "--noop")
    run = program.json("job", "trigger", "j")["id"]
    log = program.home / "state/logs/node.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    for name in ("vim", "nano", "code"):
        (program.home / name).write_text(f'#!/bin/sh\necho "{name} opens $1"; cat "$1" >/dev/null\n')
        (program.home / name).chmod(0o700)
    path = {"PATH": f"{program.home}:{os.environ['PATH']}"}
    for name in ("vim", "nano", "code"):
        for arguments in (("system", "logs"), ("run", "logs", run), ("job", "logs", "j"), ("job", "edit", "j")):
            _, shown = at_a_terminal(program, *arguments, f"--{name}", more=path, columns=200)
            assert f"{name} opens /" in shown, (arguments, shown)


@pytest.mark.parametrize("words", [("job", "list"), ("job", "list", "--json"), ("--help",), ("config", "show")])
def test_a_full_disk_is_no_bug(program: Program, words: tuple[str, ...]) -> None:
    """What is printed can't be written there, and it is told so."""
    program("job", "add", "j", "--noop")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=program.environment, check=False
        )
    assert ended.returncode == 2
    assert "what is printed can't be written: No space left on device" in ended.stderr
    assert "bug" not in ended.stderr
