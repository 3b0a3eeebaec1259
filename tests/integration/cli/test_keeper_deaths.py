"""A job whose command kills its keeper, and its neighbours, on a real node."""

import signal
import time

from tests.integration.cli.conftest import Program, stop

KILLS = "sleep 0.3; kill -9 $(cut -d' ' -f6 /proc/$$/stat)"
"""The keeper leads the session."""


def test_a_run_that_kills_its_keeper_fails_and_its_neighbours_live_on(program: Program) -> None:
    """It is lost as often as its budget allows, the log names it, and its neighbours lose three attempts at most.

    These count for nothing: the neighbours still have their whole budget.
    """
    log = program.home / "node.log"
    program.environment |= {"TOKIMORI_LOG_FILE": str(log)}
    node = program.serve()
    for job, command in (("good", "exec sleep 1000"), ("fine", "exec sleep 1000"), ("bad", KILLS)):
        program("job", "add", job, "--command", f"echo >>{program.home}/{job}; {command}")
    beside = [program.json("job", "trigger", job)["id"] for job in ("good", "fine")]
    while not all((program.home / job).exists() for job in ("good", "fine")):
        time.sleep(0.02)
    run = program.json("job", "trigger", "bad", "--wait", code=1)
    assert (run["state"], run["lost"]) == ("failed", 4)
    assert run["error"].startswith("its keeper died (pid ")
    time.sleep(1)
    begun = [(program.home / job).read_text().count("\n") for job in ("bad", "good", "fine")]
    assert begun == [4, 4, 4]
    assert [(found["state"], found["lost"]) for found in (program.json("run", "show", run) for run in beside)] == [
        ("running", 0)
    ] * 2
    assert f"lost with it: run {run['id']} of bad" in log.read_text()
    assert "only job bad ran when keeper" in log.read_text()
    node.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert stop(node) == 0
