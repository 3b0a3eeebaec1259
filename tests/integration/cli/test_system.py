"""A node in the background, as people start, watch and stop it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM
from tokimori.errors import Refused
from tokimori.executors.keeper.kernel import boot_identity, environment, everything
from tokimori.node.background import Note, look, write_note

START = ("system", "start", "--timeout", "50")


class Machine(Program):
    """A program whose node in the background ends with the test."""

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def pid(self) -> int:
        return int((self.state / "node.pid").read_text().splitlines()[0])

    def shown(self) -> str:
        """What `system status` prints where no node runs."""
        ended = self.run("system", "status")
        assert (ended.returncode, ended.stderr) == (3, "")
        return ended.stdout

    def end(self) -> None:
        """Kill what is left."""
        if (self.state / "node.pid").exists() and (process := look(self.pid)) and "python" in process.program:
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.environment["TOKIMORI_HTTP_PORT"] = "0"
    yield made
    made.end()


def until(holds: Callable[[], object]) -> None:
    """Wait until it holds."""
    end = time.monotonic() + 50
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def begun(machine: Machine, *command: str) -> str:
    """The id of a run of the command, which runs by now."""
    machine("job", "add", "j", "--", *command)
    run: str = machine.json("job", "trigger", "j")["id"]
    until(lambda: machine.json("run", "show", run)["state"] == "running")
    return run


def test_a_node_in_the_background(machine: Machine) -> None:
    """It is ready when it is said to be; it is found, seen and heard; told to stop, it says for which run it waits."""
    assert "never started" in machine.shown()
    started = machine.json(*START)
    assert (started["ready"], started["pid"]) == ("ready", machine.pid)
    shown = {each["name"]: each for each in machine.json("system", "status")}
    assert (shown["scheduler"]["status"], shown["bus"]["address"]) == ("online", started["address"])
    assert machine.json(*START)["pid"] == started["pid"]
    assert machine.json("doctor")["level"] != "fail"
    log = Path(started["log"])
    assert log == machine.state / "logs" / "node.log"
    logged = [line.split(" ", 3)[1:] for line in machine("system", "logs").splitlines()]
    happened = [" ".join(words[2:]) for words in logged if words[0] == "INFO"]
    assert [
        line.partition(" ")[2].partition(" ")[2].split(",")[0] for line in happened if line.startswith("Node ")
    ] == [
        "starts",
        f"runs jobs on {socket.gethostname()}.",
    ]
    assert "The node is ready." in happened
    run = begun(machine, "sh", "-c", "echo working; sleep 5; echo done")
    told = machine("system", "stop")
    assert f"it waits for 1 run: run {run} of j" in told
    assert "or `tokimori system stop --now`, releases them; any node may start them" in told
    assert told.splitlines()[-1] == "the node has stopped"
    assert re.search(r" stopped at \d\d:\d\d:\d\d$", machine.shown().rstrip())
    assert machine.json("run", "show", run)["state"] == "succeeded"
    assert not (machine.state / "node.pid").exists()
    lines = machine("logs", "--job", "j").splitlines()
    assert lines == [f"j {run} | working", f"j {run} | done"]
    assert "no node was started" in machine("system", "stop")


def test_a_node_that_is_told_twice(machine: Machine) -> None:
    """What it has is handed back at once, unpenalised, and the next node takes it."""
    machine(*START)
    run = begun(machine, "sleep", "60")
    machine("system", "stop", "--now")
    shown = machine.json("run", "show", run)
    assert shown["state"] in {"ready", "waiting"}
    assert shown["failures"] == 0


def test_a_stale_note(machine: Machine) -> None:
    """A node that was killed is not taken for a living one: everybody says so, and another one starts."""
    machine(*START)
    first = machine.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: look(first) is None)
    assert "has ended without a word" in machine.shown()
    assert any(each["check"] == "service" and each["level"] == "warn" for each in doctor(machine))
    ended = machine.run(*START)
    assert ended.returncode == 0
    assert "has ended without a word" in ended.stderr
    assert machine.pid != first
    os.kill(machine.pid, signal.SIGKILL)
    until(lambda: look(machine.pid) is None)
    assert f"pid {machine.pid}, has ended without a word" in machine("system", "stop")
    assert not (machine.state / "node.pid").exists()


def doctor(machine: Machine) -> list[dict[str, str]]:
    """What it finds, however bad."""
    found: list[dict[str, str]] = json.loads(machine.run("--json", "doctor").stdout)["findings"]
    return found


def test_a_pid_that_another_program_has(machine: Machine) -> None:
    """It is left alone, with its name, and the note goes: no signal is sent to anybody."""
    machine("db", "migrate")
    machine.state.mkdir(mode=0o700, exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        write_note(machine.state, Note(pid=stranger.pid, began=1, boot=boot_identity(), log="/l"))
        assert "belongs to another program now (python" in machine.shown()
        told = machine("system", "stop", "--now")
        assert f"its pid {stranger.pid} belongs to another program now" in told
        assert stranger.poll() is None
        stranger.kill()
    assert not (machine.state / "node.pid").exists()


def test_a_full_disk_for_logs(machine: Machine) -> None:
    """Runs go on where the log takes nothing, and it is said once; with room again, it is said how much is missing."""
    disk = machine.home / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    log = disk / "node.log" if mounted.returncode == 0 else Path("/dev/full")
    machine.environment |= {"TOKIMORI_LOG_FILE": str(log), "TOKIMORI_LOG_LEVEL": "debug"}
    try:
        if mounted.returncode == 0:
            (disk / "ballast").write_bytes(b"x" * 12_288)
            log.write_bytes(b"x" * 4096)
        machine(*START)
        machine("job", "add", "j", "--noop")
        assert machine.json("job", "trigger", "j", "--wait")["state"] == "succeeded"
        told = (machine.state / "start.log").read_text()
        assert told.count(f"log.file: {log} can't be written (No space left on device)") == 1
        if mounted.returncode == 0:
            (disk / "ballast").unlink()
            os.kill(machine.pid, signal.SIGUSR1)  # which it logs
            until(lambda: "messages were not written to this file: No space left on device" in log.read_text())
        machine("system", "stop")
    finally:
        machine.end()
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(disk)], check=False)


@pytest.mark.parametrize(("file", "told"), [("node.pid", "its note"), ("start.log", "start.log")])
def test_a_node_that_can_not_be_noted(machine: Machine, file: str, told: str) -> None:
    """It is ended again, and it is said why: nobody would find it, and the next start would begin another one."""
    machine("db", "migrate")
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / file).mkdir()
    ended = machine.run(*START)
    (machine.state / file).rmdir()
    assert ended.returncode == Refused.exit_code
    assert f"{told} can't be written" in ended.stderr
    assert not [each for each in machine.state.iterdir() if "node.pid" in each.name]
    ours = f"HOME={machine.home}".encode()
    assert not [each for each in everything() if ours in environment(each.pid)]


def test_a_node_that_ends_at_once(machine: Machine) -> None:
    """What it said is shown, its exit code is that of the command, and no note is left."""
    machine.environment["TOKIMORI_TARGETS_PRIVATE_ADDRESSES"] = "nonsense"
    assert "nonsense" in machine.run(*START).stderr
    del machine.environment["TOKIMORI_TARGETS_PRIVATE_ADDRESSES"]
    ended = machine.run(*START, "--", "--app", "missing:app")
    assert ended.returncode == 2
    assert "missing" in ended.stderr
    assert not (machine.state / "node.pid").exists()


@pytest.mark.prove
def test_a_node_that_is_started_again(machine: Machine) -> None:
    """It keeps the arguments that it was given, and Ctrl-C while it drains hands back what it has."""
    machine(*START, "--", "--no-http")
    first = machine.pid
    machine("system", "restart")
    assert machine.pid != first
    assert machine.json("system", "status")[0]["address"] is None
    begun(machine, "sleep", "60")
    command = ["env", "--default-signal=INT", str(PROGRAM), "system", "stop"]  # a shell's background job ignores it
    stopping = subprocess.Popen(command, cwd=machine.home, env=machine.environment, stdout=subprocess.PIPE, text=True)
    assert stopping.stdout is not None
    until(lambda: "it waits for 1 run" in str(stopping.stdout and stopping.stdout.readline()))
    stopping.send_signal(signal.SIGINT)
    rest, _ = stopping.communicate(timeout=50)
    assert stopping.returncode == 0
    assert "releases its runs now; any node may start them" in rest


def test_a_unit_is_made_and_removed(machine: Machine) -> None:
    """Only the file that was made is removed, after a question; one that somebody changed, or made, is left alone."""
    unit = machine.home / ".config/systemd/user/tokimori.service"
    ended = machine.run("system", "install")
    assert "the unit does not have TOKIMORI_HTTP_PORT, TOKIMORI_STORE" in ended.stderr
    assert "systemctl --user enable --now tokimori" in ended.stdout
    shown = machine.run("system", "install", "--system", "--print")
    assert "say it in the configuration file or /etc/tokimori/environment" in shown.stderr
    assert "EnvironmentFile=-/etc/tokimori/environment" in shown.stdout
    for name in ("TOKIMORI_HTTP_PORT", "TOKIMORI_STORE"):
        del machine.environment[name]
    assert f'"TOKIMORI_STATE_DIR={machine.state}"' in unit.read_text()
    machine("system", "install")
    beside = unit.with_name("other.service")
    beside.write_text("[Unit]\n")
    text = unit.read_text()
    unit.write_text(f"{text}# mine\n")
    for command in ("install", "uninstall"):
        assert "was changed since" in machine.error("system", command)["message"]
    assert "was not made by" in machine.error("system", "uninstall", "--name", "other", "--yes")["message"]
    unit.write_text(text)
    wants = unit.parent / "default.target.wants"
    wants.mkdir()
    (wants / unit.name).symlink_to(unit)
    assert "disable --now tokimori" in machine.error("system", "uninstall", "--yes")["message"]
    (wants / unit.name).unlink()
    assert unit.exists()
    said = machine("system", "uninstall", "--yes")
    assert f"the state folder {machine.state}," in said
    assert "the store sqlite://" in said
    assert sorted(each.name for each in unit.parent.iterdir()) == ["default.target.wants", "other.service"]
    assert machine.error("system", "uninstall", code=3)["field"] == "name"
    assert machine.error("system", "install", "--name", "../x")["field"] == "name"
