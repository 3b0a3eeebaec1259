"""Programs that share semaphores: real processes, killed and frozen."""

import json
import signal
import sys
import time
from pathlib import Path

import pytest

import tokimori
from tests.integration.locks.conftest import Programs, most_at_once
from tests.programs.forked import PROGRAM
from tokimori.executors.keeper.kernel import see

TAKE_OVER = 10.0
"""Seconds within which a dead holder's units come back."""
SLACK = 3.0
"""Seconds that a busy machine may add to it."""

HOLDER = """
import sys, time
import tokimori

with tokimori.open() as client, client.mutex("table") as held:
    with client.mutex("table"):
        print(held.token, flush=True)
        time.sleep(float(sys.argv[1]))
    print(held.lost, flush=True)
"""

CLAIMER = """
import os, time
from tokimori import perfectsched

with perfectsched.open(os.environ["TOKIMORI_STORE"]) as schedules:
    try:
        schedules.add("slot", "type", cron="* * * * *", next_time=time.time() - 90)
    except perfectsched.AlreadyExistsError:
        schedules.poll()
        print("ready", flush=True)
    while (task := schedules.poll(alive_time=600, wait=5)) is None:
        pass
    print(task.key, flush=True)
    time.sleep(600)
"""


def test_programs_exclude_each_other(programs: Programs) -> None:
    """Of several that want a mutex one at a time has it, and each gets it."""
    started = [programs.lock("table", programs.note("sleep 0.2")) for _ in range(4)]
    assert [program.wait(60) for program in started] == [0, 0, 0, 0]
    assert most_at_once(programs.lines()) == 1
    assert programs.semaphore("table")["used"] == 0


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_fifty_programs_and_three_units(programs: Programs) -> None:
    """Never more than three of them are within, nor always only one, and all fifty have their turn."""
    programs.tokimori("db", "status")
    started = [programs.lock("api", programs.note("sleep 0.3"), "--limit", "3") for _ in range(50)]
    said = [program.communicate(timeout=500)[1] for program in started]
    failed = [text for program, text in zip(started, said, strict=True) if program.returncode]
    assert failed == []
    assert 1 < most_at_once(programs.lines()) <= 3
    assert len(programs.lines()) == 100
    found = programs.semaphore("api")
    assert (found["limit"], found["used"], found["waiting"], found["holders"]) == (3, 0, 0, [])


def test_a_killed_holder_is_followed_within_ten_seconds(programs: Programs) -> None:
    """Where only programs are left: its command ends with it, and then the next one has the unit."""
    holder = programs.lock("table", programs.note("sleep 600"))
    command = int(programs.await_line(0)[1])
    waiting = programs.lock("table", programs.note("true"))
    programs.until(lambda: programs.semaphore("table")["waiting"] == 1)
    holder.kill()
    killed = time.monotonic()
    programs.until(lambda: see(command) is None, 3.0)
    assert len(programs.lines()) == 1
    programs.await_line(1)
    assert time.monotonic() - killed < TAKE_OVER + SLACK
    assert waiting.wait(20) == 0


@pytest.mark.prove
def test_a_frozen_holder_leaves_no_command(programs: Programs) -> None:
    """Its command is gone before the next one has the unit; woken, it says that it has lost it."""
    holder = programs.lock("table", f"trap '' TERM; {programs.note('sleep 600')}")
    command = int(programs.await_line(0)[1])
    waiting = programs.lock("table", f"kill -0 {command} && echo alive >> {programs.lines_file}; {programs.note(':')}")
    programs.until(lambda: programs.semaphore("table")["waiting"] == 1)
    programs.freeze(holder)
    frozen = time.monotonic()
    programs.await_line(2)
    assert time.monotonic() - frozen < TAKE_OVER + SLACK
    assert see(command) is None
    assert [sign for sign, *_ in programs.lines()] == ["+", "+", "-"]
    holder.send_signal(signal.SIGCONT)
    _, said = holder.communicate(timeout=20)
    assert (holder.returncode, "were lost" in said) == (4, True), said
    assert waiting.wait(20) == 0


@pytest.mark.prove
def test_programs_are_served_in_order(programs: Programs) -> None:
    """Who stood in line first has it first."""
    programs.lock("table", programs.note(f"while [ ! -e {programs.home}/go ]; do sleep 0.05; done", "first"))
    programs.await_line(0)
    waiting = []
    for number in range(1, 5):
        waiting.append(programs.lock("table", programs.note(":", str(number))))
        programs.until(lambda number=number: programs.semaphore("table")["waiting"] == number)  # type: ignore[misc]
    (programs.home / "go").touch()
    assert [program.wait(30) for program in waiting] == [0] * 4
    assert [word for sign, word in programs.lines() if sign == "+"] == ["first", "1", "2", "3", "4"]


@pytest.mark.prove
def test_a_python_program_holds_a_mutex(programs: Programs) -> None:
    """As a block of code; `lock list` shows its process, and killed it is followed within ten seconds."""
    holder = programs.start(sys.executable, "-c", HOLDER, "600")
    assert holder.stdout is not None
    token = int(holder.stdout.readline())
    (shown,) = programs.semaphore("table")["holders"]
    assert (shown["pid"], shown["token"], shown["run_id"]) == (holder.pid, token, None)
    late = programs.tokimori("--json", "lock", "table", "--wait", "0.2", "--", "true")
    assert (late.returncode, json.loads(late.stderr)["error"]["code"]) == (4, "not_granted")
    holder.kill()
    killed = time.monotonic()
    following = programs.start(sys.executable, "-c", HOLDER, "0")
    said, _ = following.communicate(timeout=30)
    assert time.monotonic() - killed < TAKE_OVER + SLACK
    assert said.split() == [str(token + 1), "False"]


@pytest.mark.prove
def test_a_frozen_python_program_learns_that_it_lost(programs: Programs) -> None:
    """Its block goes on, for code can't be stopped; the flag says so, and its end is an error."""
    holder = programs.start(sys.executable, "-c", HOLDER, "1")
    assert holder.stdout is not None
    token = int(holder.stdout.readline())
    programs.freeze(holder)
    following = programs.start(sys.executable, "-c", HOLDER, "0")
    said, _ = following.communicate(timeout=30)
    assert said.split() == [str(token + 1), "False"]
    holder.send_signal(signal.SIGCONT)
    said, error = holder.communicate(timeout=20)
    assert (holder.returncode, "PermitLost" in error) == (1, True)


def test_a_program_and_a_run_share_a_semaphore(programs: Programs, tmp_path: Path) -> None:
    """What the program holds no run gets; a run's own command enters what its run holds."""
    go = tmp_path / "go"
    holder = programs.lock("table", programs.note(f"while [ ! -e {go} ]; do sleep 0.05; done", "program"))
    programs.await_line(0)
    places = " ".join(f"{name}='{value}'" for name, value in programs.environment.items() if "TOKIMORI" in name)
    inner = f"env {places} {PROGRAM} lock table --wait 30 -- sh -c '{programs.note(':', 'inner')}'"
    with tokimori.open(programs.environment["TOKIMORI_STORE"]) as client:
        client.jobs.add("job", command=programs.note(inner, "run"), semaphores=["table"])
        client.jobs.trigger("job")
    node = programs.start(str(PROGRAM), "serve", "--no-http")
    programs.until(lambda: programs.semaphore("table")["waiting"] == 1)
    assert [" ".join(line) for line in programs.lines()] == ["+ program"]
    go.touch()
    programs.until(lambda: len(programs.lines()) == 6)
    told = [" ".join(line) for line in programs.lines()]
    assert told == ["+ program", "- program", "+ run", "+ inner", "- inner", "- run"]
    assert holder.wait(20) == 0
    node.send_signal(signal.SIGTERM)
    node.communicate(timeout=60)


@pytest.mark.prove
def test_a_frozen_perfectsched_worker_is_followed_within_ten_seconds(programs: Programs) -> None:
    """Where only workers are left another one has the slot then, at the latest about 9 s after the last beat."""
    frozen = programs.start(sys.executable, "-c", CLAIMER)
    assert frozen.stdout is not None
    assert frozen.stdout.readline() == "slot\n"
    other = programs.start(sys.executable, "-c", CLAIMER)
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    time.sleep(3)
    programs.freeze(frozen)
    began = time.monotonic()
    assert other.stdout.readline() == "slot\n"
    assert time.monotonic() - began < TAKE_OVER
