"""What `tokimori lock` does with its command: its streams, its signals, its end."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.locks.conftest import Programs
from tests.programs.forked import PROGRAM
from tokimori.executors.keeper.kernel import see


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """On SQLite: nothing here is the store's."""
    found = Programs(tmp_path, f"sqlite://{tmp_path}/t.db")
    yield found
    found.close()


def test_the_command_has_our_streams_and_we_have_its_exit_code(programs: Programs) -> None:
    """It reads what we were given, writes where we write, stands where we stand, and its exit code is ours."""
    shell = "cat; pwd; echo $HOME $TOKIMORI_LOCK $TOKIMORI_LOCK_TOKEN; echo wrong >&2; exit 7"
    line = [str(PROGRAM), "lock", "table", "--", "sh", "-c", shell]
    ended = subprocess.run(
        line, input="hello\n", capture_output=True, text=True, check=False, cwd="/", env=programs.environment
    )
    assert (ended.returncode, ended.stderr) == (7, "wrong\n")
    assert ended.stdout == f"hello\n/\n{programs.home} table 1\n"


def test_what_can_not_be_run_ends_as_in_a_shell(programs: Programs) -> None:
    """127 for no such program, 126 for one that can't be executed, 128 and more for what a signal ended."""
    missing = programs.tokimori("lock", "table", "--", "no-such-program")
    assert (missing.returncode, "program not found" in missing.stderr) == (127, True)
    assert programs.tokimori("lock", "table", "--", "/etc/passwd").returncode == 126
    killed = programs.tokimori("lock", "table", "--", "sh", "-c", "kill -KILL $$")
    assert killed.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(programs: Programs, number: signal.Signals) -> None:
    """The command does with it what it wants, and the unit is free afterwards."""
    name = number.name.removeprefix("SIG")
    shell = f"trap 'echo heard; exit 9' {name}; echo + >> {programs.lines_file}; while :; do sleep 0.05; done"
    program = programs.lock("table", shell)
    programs.await_line(0)
    program.send_signal(number)
    said, _ = program.communicate(timeout=20)
    assert (program.returncode, said) == (9, "heard\n")
    assert programs.semaphore("table")["used"] == 0


def test_who_is_interrupted_while_it_waits_leaves_the_line(programs: Programs) -> None:
    """It ends as by the signal, and runs nothing."""
    programs.lock("table", programs.note("sleep 600"))
    programs.await_line(0)
    waiting = programs.lock("table", programs.note(":"))
    programs.until(lambda: programs.semaphore("table")["waiting"] == 1)
    waiting.send_signal(signal.SIGINT)
    _, error = waiting.communicate(timeout=20)
    assert (waiting.returncode, error) == (128 + signal.SIGINT, "")
    assert programs.semaphore("table")["waiting"] == 0
    assert len(programs.lines()) == 1


def test_a_killed_lock_leaves_nothing_of_its_command(programs: Programs) -> None:
    """Not even what ignores TERM, nor what the command has started in the background."""
    shell = f"trap '' TERM; sleep 600 & echo $! $$ >> {programs.lines_file}; wait"
    program = programs.lock("table", shell)
    pids = [int(word) for word in programs.await_line(0)]
    program.kill()
    programs.until(lambda: all(see(pid) is None for pid in pids), 5.0)


def test_a_lock_whose_keeper_is_killed_leaves_nothing_either(programs: Programs) -> None:
    """It says so, and gives the unit back when nothing is left of the command."""
    shell = f"trap '' TERM; env -i sleep 600 & echo $PPID $! $$ >> {programs.lines_file}; exec env -i sleep 600"
    program = programs.lock("table", shell)
    keeper, *pids = [int(word) for word in programs.await_line(0)]
    os.kill(keeper, signal.SIGKILL)
    _, error = program.communicate(timeout=20)
    assert (program.returncode, "keeper" in error) == (2, True)
    assert [see(pid) for pid in pids] == [None, None]
    assert programs.semaphore("table")["used"] == 0


def test_what_the_command_leaves_behind_is_ended(programs: Programs) -> None:
    """The unit is given back when nothing of it is left."""
    shell = f"sleep 600 & echo $! >> {programs.lines_file}"
    assert programs.tokimori("lock", "table", "--", "sh", "-c", shell).returncode == 0
    (pid,) = programs.await_line(0)
    assert see(int(pid)) is None


def test_a_mutex_that_is_taken_is_waited_for_so_long(programs: Programs) -> None:
    """Not to be had in time: exit code 4, and nothing was run."""
    programs.lock("table", programs.note("sleep 600"))
    programs.await_line(0)
    began = time.monotonic()
    ended = programs.tokimori("--json", "lock", "table", "--wait", "0.5", "--", "touch", "never")
    assert ended.returncode == 4
    error = json.loads(ended.stderr)["error"]
    assert (error["code"], error["field"], error["value"]) == ("not_granted", "wait", 0.5)
    assert time.monotonic() - began > 0.5
    assert not (programs.home / "never").exists()


def test_semaphores_are_made_listed_and_deleted(programs: Programs) -> None:
    """By `lock set`, `lock list` and `lock delete`; a word before `--` is a name, whatever it is."""
    assert programs.tokimori("lock", "set", "api", "--limit", "5").stdout == "api: limit 5\n"
    assert programs.tokimori("lock", "list", "--limit", "2", "--", "true").returncode == 0
    program = programs.lock("api", programs.note("sleep 600"), "--weight", "2")
    programs.await_line(0)
    shown = programs.tokimori("lock", "list").stdout.splitlines()
    heads = ["NAME", "LIMIT", "USED", "RATE", "TAKEN", "WAITING", "HOLDER", "UNITS", "TOKEN", "SINCE"]
    assert shown[0].split() == heads
    assert shown[1].split()[:4] == ["api", "5", "2", "0"]
    assert f"pid {program.pid} on " in shown[1]
    assert shown[2].split()[:4] == ["list", "2", "0", "0"]
    found = programs.semaphore("api")
    assert [(each["pid"], each["weight"], each["run_id"]) for each in found["holders"]] == [(program.pid, 2, None)]
    refused = programs.tokimori("lock", "delete", "api")
    assert (refused.returncode, "held" in refused.stderr) == (2, True)
    program.send_signal(signal.SIGTERM)
    program.wait(20)
    assert programs.tokimori("lock", "delete", "api").stdout == "deleted api\n"
    assert programs.tokimori("lock", "delete", "api").returncode == 3


def test_a_program_is_no_node_that_runs_jobs(programs: Programs) -> None:
    """`node list` calls it a program as long as it lives."""
    program = programs.lock("table", programs.note("sleep 600"))
    programs.await_line(0)
    (shown,) = json.loads(programs.tokimori("--json", "node", "list").stdout)
    assert (shown["kind"], shown["pid"], shown["state"], shown["concurrency"]) == ("program", program.pid, "alive", 0)
    program.send_signal(signal.SIGTERM)
    program.wait(20)
    assert json.loads(programs.tokimori("--json", "node", "list").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["lock", "a b", "--", "true"], "semaphore"),
        (["lock", "a", "--weight", "0", "--", "true"], "weight"),
        (["lock", "a", "--weight", "2", "--", "true"], "weight"),
        (["lock", "a", "--limit", "0", "--", "true"], "limit"),
        (["lock", "a", "--wait", "-1", "--", "true"], "wait"),
        (["lock", "a", "--"], "command"),
        (["lock", "set", "a", "--limit", "0"], "limit"),
        (["lock", "set", "a b", "--limit", "1"], "semaphore"),
    ],
)
def test_bad_input_is_refused(programs: Programs, arguments: list[str], field: str) -> None:
    """Exit code 2, the field, and what is allowed; nothing runs."""
    ended = programs.tokimori("--json", *arguments)
    assert ended.returncode == 2, ended.stderr
    error = json.loads(ended.stderr)["error"]
    assert error["field"] == field
    assert error["allowed"]


def test_a_mistyped_line_names_no_hidden_command(programs: Programs) -> None:
    """What is typed after `lock` is a semaphore: the error points at the help that says so."""
    told = programs.tokimori("lock", "table", "chair", "--", "true")
    assert told.returncode == 2
    assert "Try `tokimori lock --help`." in told.stderr and "lock run" not in told.stderr
