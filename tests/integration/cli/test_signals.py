"""What a running node does when the operating system, or a person, sends it a signal."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM


def test_no_signal_kills_a_node(program: Program) -> None:
    """HUP, USR1 and USR2 are logged, and work goes on; a log file that was moved is made anew."""
    log = program.home / "node.log"
    program.environment |= {"TOKIMORI_LOG_FILE": str(log)}
    node = program.serve()
    program("job", "add", "j", "--noop")
    for number, words in ((signal.SIGHUP, "HUP changes nothing"), (signal.SIGUSR1, "USR1 changes nothing")):
        node.send_signal(number)
        wait_for(words, log)
    log.rename(program.home / "old.log")
    node.send_signal(signal.SIGUSR2)
    wait_for("the log goes on", log)
    assert program.json("job", "trigger", "j", "--wait")["state"] == "succeeded"
    assert stop(node) == 0


def wait_for(words: str, log: Path) -> None:
    """Wait until the node has logged so."""
    end = time.monotonic() + 10
    while not (log.exists() and words in log.read_text()):
        assert time.monotonic() < end, words
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_asked_to_stop_lets_its_runs_end(program: Program, number: signal.Signals) -> None:
    """What runs is finished; then the node ends, as one that was asked to."""
    node = program.serve()
    program("job", "add", "j", "--command", "sleep 1")
    run = program.json("job", "trigger", "j")
    while program.json("run", "show", run["id"])["state"] != "running":
        time.sleep(0.02)
    node.send_signal(number)
    node.communicate(timeout=30)
    assert node.returncode == 0
    assert program.json("run", "show", run["id"])["state"] == "succeeded"


def test_a_node_whose_output_goes_nowhere_works_all_the_same(program: Program) -> None:
    """Its disk is full when it starts: it runs what is due, and lets its runs end when it is asked to stop."""
    program("job", "add", "j", "--command", "sleep 0.5")
    with Path("/dev/full").open("w") as full:
        node = subprocess.Popen(
            [PROGRAM, "serve", "-p", "0"], stdout=full, stderr=full, cwd=program.home, env=program.environment
        )
    try:
        assert program.run("job", "trigger", "j", "--wait").returncode == 0
        run = program.json("job", "trigger", "j")
        while program.json("run", "show", run["id"])["state"] != "running":
            time.sleep(0.02)
        node.send_signal(signal.SIGTERM)
        node.wait(30)
        assert program.json("run", "show", run["id"])["state"] == "succeeded"
    finally:
        node.kill()
        node.wait()
