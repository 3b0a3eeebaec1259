"""`tokimori run …` and what needs a node, whole."""

import json
import os
import pty
import signal
import subprocess
import time
from datetime import timedelta

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM


def test_the_log_of_a_job_is_that_of_its_newest_begun_run(served: Program) -> None:
    """A run that waits has written nothing, and hides no log: each run of a chain asks for the next."""
    served("job", "add", "chain", "--", "echo", "link")
    run = served.json("job", "trigger", "chain", "--wait", "--timeout", "30")
    served("job", "trigger", "chain", "--at", "2h")
    shown = served.run("job", "logs", "chain")
    assert (shown.stdout, shown.stderr) == ("link\n", f"run {run['id']} succeeded\n")
    with tokimori.open(served.environment["TOKIMORI_STORE"]) as client:
        client.jobs.trigger_many("chain", [{"at": timedelta(hours=2)}] * 100)
    shown = served.run("job", "logs", "chain")
    assert (shown.stdout, shown.stderr) == ("link\n", f"run {run['id']} succeeded\n")


def test_a_triggered_run_is_waited_for_and_shown(served: Program) -> None:
    """Exit code 0 for success, 1 for failure; host, pid, node, start and end of every attempt."""
    served("job", "add", "fine", "--timezone", "Asia/Tokyo", "--", "sh", "-c", "echo out; echo err >&2")
    run = served.json("job", "trigger", "fine", "--wait", "--timeout", "30")
    assert (run["state"], run["exit_code"]) == ("succeeded", 0)
    shown = served.json("run", "show", run["id"])
    (attempt,) = shown["attempts"]
    (node,) = served.json("node", "list")
    assert (attempt["host"], attempt["node_id"], node["state"]) == (node["host"], node["id"], "alive")
    assert attempt["pid"] > 0
    assert attempt["started"] <= attempt["ended"]
    text = served("run", "show", run["id"])
    assert "+09:00" in text
    assert str(attempt["pid"]) in text
    assert served("run", "logs", run["id"]) == "out\nerr\n"
    assert served.json("run", "logs", run["id"])["head"] == "out\nerr\n"
    assert node["id"] in served("node", "list")


def test_every_attempt_of_a_failure_is_shown(served: Program) -> None:
    """`trigger --wait` and `logs -f` end with exit code 1, and each attempt's output can be read."""
    served("job", "add", "bad", "--attempts", "2", "--command", "echo try $TOKIMORI_ATTEMPT; exit 3")
    printed = served("job", "trigger", "bad", "--wait", code=1)
    assert "failed" in printed
    (run,) = served.json("run", "list", "--job", "bad", "--state", "failed")
    attempts = served.json("run", "show", run["id"])["attempts"]
    assert [(each["number"], each["outcome"], each["exit_code"]) for each in attempts] == [
        (1, "failed", 3),
        (2, "failed", 3),
    ]
    assert served("run", "logs", run["id"], "--attempt", "1") == "try 1\n"
    assert served("run", "logs", run["id"]) == "try 2\n"
    assert served("run", "logs", "-f", run["id"], "--attempt", "2", code=1) == "try 2\n"
    assert served.json("run", "logs", "-f", run["id"], code=1)["head"] == "try 2\n"
    for follow in ((), ("-f",)):
        assert served.error("run", "logs", *follow, run["id"], "--attempt", "3", code=3)["field"] == "attempt"


def test_following_prints_output_as_it_grows(served: Program) -> None:
    """The first line is there before the run has ended, and following ends with the run."""
    gate = served.home / "gate"
    served("job", "add", "slow", "--command", f"echo begin; until [ -e {gate} ]; do sleep 0.05; done; echo end")
    run = served.json("job", "trigger", "slow")
    with subprocess.Popen(
        [str(PROGRAM), "run", "logs", "-f", run["id"]], env=served.environment, text=True, stdout=subprocess.PIPE
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "begin\n"
        assert served.json("run", "show", run["id"])["state"] == "running"
        gate.touch()
        assert follower.stdout.read() == "end\n"
    assert follower.returncode == 0


def test_following_goes_on_with_the_next_attempt(served: Program) -> None:
    """The output of a retry is printed from its beginning, though the attempt before it wrote more; nothing twice."""
    gate = served.home / "gate-to-the-retry"
    first = f"echo a longer first try; until [ -e {gate} ]; do sleep 0.05; done; exit 3"
    second = "[ $TOKIMORI_ATTEMPT = 2 ] && { echo 2; sleep 1; echo 3; exit 3; }"
    served("job", "add", "worse", "--attempts", "2", "--command", f"{second}; {first}")
    run = served.json("job", "trigger", "worse")
    with subprocess.Popen(
        [str(PROGRAM), "run", "logs", "-f", run["id"]], env=served.environment, text=True, stdout=subprocess.PIPE
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "a longer first try\n"
        gate.touch()
        assert follower.stdout.read() == "2\n3\n"
    assert follower.returncode == 1


def test_a_running_run_is_cancelled_by_its_node(served: Program) -> None:
    """The order is given at once, and carried out."""
    served("job", "add", "long", "--command", "sleep 600")
    run = served.json("job", "trigger", "long")
    while served.json("run", "show", run["id"])["state"] != "running":
        time.sleep(0.05)
    assert "its node was told to end it" in served("run", "cancel", run["id"], "--reason", "enough")
    deadline = time.monotonic() + 20
    while (shown := served.json("run", "show", run["id"]))["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (shown["state"], shown["error"]) == ("cancelled", "enough")
    assert "cancel asked for: enough" in served("run", "show", run["id"])


def test_a_run_that_has_ended_stays_as_it_ended(served: Program) -> None:
    """A cancel that comes too late says so, so that nobody takes it for done."""
    served("job", "add", "quick", "--noop")
    run = served.json("job", "trigger", "quick", "--wait")
    assert "has already ended: succeeded" in served("run", "cancel", run["id"])


def test_a_run_that_waits_is_cancelled_at_once(program: Program) -> None:
    """Without a node, too; the same order again changes nothing."""
    program("job", "add", "j", "--noop")
    run = program.json("job", "trigger", "j")
    assert program("run", "cancel", run["id"]) == f"run {run['id']} cancelled\n"
    assert program.json("run", "cancel", run["id"])["state"] == "cancelled"
    assert "cancelled by hand" in program("run", "show", run["id"])
    assert program("run", "logs", run["id"]) == ""


def test_waiting_without_a_node_says_so(program: Program) -> None:
    """And is refused when its time is up."""
    program("job", "add", "j", "--noop")
    ended = program.run("job", "trigger", "j", "--wait", "--timeout", "0.1")
    assert ended.returncode == 2
    assert "tokimori serve" in ended.stderr


@pytest.mark.parametrize("lines", ["1", "5000"])
def test_a_reader_that_has_had_enough_is_no_bug(lines: str, program: Program) -> None:
    """A closed pipe ends the program quietly, whether it is noticed while printing or at the end."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ended = subprocess.run(
            [str(PROGRAM), "job", "next", "--schedule", "* * * * *", "-n", lines],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            env=program.environment,
        )
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_node_in_the_background(program: Program) -> None:
    """`serve -d` prints its process id when it works, writes its log, and ends on a signal."""
    pid = int(program("serve", "-d", "--no-http"))
    try:
        program("job", "add", "j", "--noop")
        assert json.loads(program("job", "trigger", "j", "--wait", "--json"))["state"] == "succeeded"
        assert (program.home / "state" / "tokimori.log").read_text()
    finally:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while [node["state"] for node in program.json("node", "list")] != ["left"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_run_hands_its_result_on(served: Program) -> None:
    """What a command reports as its result is the payload of its child, which knows its parent run."""
    report = f"{PROGRAM} run report succeeded --result 'forty two'; exit 7"
    served("job", "add", "first", "--command", report)
    served(
        "job", "add", "second", "--after", "first", "--command", 'echo "$TOKIMORI_PAYLOAD of $TOKIMORI_PARENT_RUN_ID"'
    )
    run = served.json("job", "trigger", "first", "--wait")
    assert (run["state"], run["exit_code"], run["result"]) == ("succeeded", 7, "forty two")
    deadline = time.monotonic() + 20
    while not (children := served.json("run", "list", "--job", "second", "--state", "succeeded")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (child,) = children
    assert served("run", "logs", child["id"]) == f"forty two of {run['id']}\n"


def test_a_run_says_that_it_is_to_be_tried_again_or_held(served: Program) -> None:
    """A command may ask for another try at no cost, or for a person, whose word lets it go on."""
    again = f"test $TOKIMORI_ATTEMPT = 1 && {PROGRAM} run report retry --in 0; test $TOKIMORI_ATTEMPT = 2 && "
    again += f"{PROGRAM} run report hold 'look at it'; test $TOKIMORI_ATTEMPT = 3"
    served("job", "add", "unsure", "--command", again)
    run = served.json("job", "trigger", "unsure")
    deadline = time.monotonic() + 30
    while (shown := served.json("run", "show", run["id"]))["state"] != "held":
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
    assert [(each["outcome"], each["error"]) for each in shown["attempts"]] == [("retry", None), ("hold", "look at it")]
    served("run", "resume", run["id"])
    served("run", "logs", "-f", run["id"])
    assert served.json("run", "show", run["id"])["state"] == "succeeded"


def test_a_job_may_demand_a_report(served: Program) -> None:
    """Without automatic completion a silent success is a failure, which parks the job where that is asked for."""
    served("job", "add", "strict", "--no-auto-complete-success", "--on-exhausted", "park", "--command", "true")
    assert "auto complete success: False" in " ".join(served("job", "show", "strict").split())
    assert served.json("job", "show", "strict")["auto_complete_success"] is False
    run = served.json("job", "trigger", "strict", "--wait", code=1)
    assert (run["state"], run["exit_code"]) == ("failed", 0)
    assert run["error"].startswith("it did not say how it ended")
    job = served.json("job", "show", "strict")
    assert (job["state"], job["reason"]) == ("parked", run["error"])
    served("job", "update", "strict", "--command", f"{PROGRAM} run report succeeded")
    served("job", "resolve", "strict")
    assert served.json("job", "trigger", "strict", "--wait")["state"] == "succeeded"
    served("job", "update", "strict", "--auto-complete-success", "--command", "true")
    assert served.json("job", "trigger", "strict", "--wait")["state"] == "succeeded"
    assert served.error("job", "add", "n", "--noop", "--no-auto-complete-success")["field"] == "auto_complete_success"


def test_a_run_that_waits_for_a_parked_job_says_so(served: Program) -> None:
    """Who waits for it is told while it waits, with the command that mends it; so is who asks for the next moments."""
    terms = ("--on-exhausted", "park", "--max-running", "1", "--schedule", "0 0 1 1 *")
    served("job", "add", "breaks", *terms, "--command", "sleep 4; false")
    served("job", "trigger", "breaks")
    waiting = served.run("job", "trigger", "breaks", "--wait", "--timeout", "8")
    assert waiting.returncode == 2
    assert "job breaks is parked" in waiting.stderr and "`tokimori job resolve breaks` enables it" in waiting.stderr
    asked = served.run("job", "next", "breaks")
    assert asked.returncode == 0 and "none of these starts while job breaks is parked" in asked.stderr
    (run,) = [run for run in served.json("run", "list", "--job", "breaks") if run["state"] == "ready"]
    words = "job breaks is parked (exit code 1): `tokimori job resolve breaks` enables it"
    for command in (("run", "show", run["id"]), ("run", "why", run["id"]), ("job", "show", "breaks")):
        assert words in served(*command)
    assert served.json("job", "why", "breaks")["reasons"][0]["cause"] == "parked"
    served("job", "delete", "breaks")


def test_a_cause_that_no_failure_has_says_where_causes_stand(served: Program) -> None:
    """An error as somebody remembers it is no cause: an empty list alone would say that nothing failed."""
    listed = served.run("run", "list", "--cause", "ValueError: boom 7")
    assert (listed.returncode, "`tokimori run failures` shows the causes" in listed.stderr) == (0, True)


def test_who_waits_for_a_run_that_nobody_takes_is_told(served: Program, program: Program) -> None:
    """What it waits for is said once, at once, and the wait goes on: for any node, or for one with its labels."""
    program("job", "add", "j", "--noop")
    served("job", "add", "bound", "--noop", "--label", "gpu=yes")
    for asks, job, told in (
        (program, "j", "none runs: `tokimori serve` starts one"),
        (served, "bound", "the label gpu=yes"),
    ):
        waited = asks.run("job", "trigger", job, "--wait", "--timeout", "2.5")
        assert (waited.returncode, waited.stderr.count(told)) == (2, 1), waited.stderr
        assert "is still ready after 2.5" in waited.stderr
    served("job", "delete", "bound")


def test_a_report_needs_a_run(program: Program) -> None:
    """Outside of a run, and with what no node would understand, a report is refused and nothing is written."""
    assert program.error("run", "report", "succeeded")["field"] == "TOKIMORI_OUTCOME_FILE"
    file = program.home / "outcome"
    program.environment["TOKIMORI_OUTCOME_FILE"] = str(file)
    del program.environment["TOKIMORI_STORE"]
    for arguments in (("retry",), ("retry", "--in", "-1"), ("retry", "--in", "nan"), ("retry", "--at", "tomorrow")):
        program.error("run", "report", *arguments)
    assert program.error("run", "report", "succeeded", "--result", "x" * 70_000)["allowed"] == "at most 65536 bytes"
    assert not file.exists()
    program("run", "report", "failed", "no luck")
    program("run", "report", "succeeded", "--result", "é")
    assert file.read_text() == '{"outcome":"succeeded","result":"é"}\n'
    assert sorted(path.name for path in program.home.iterdir()) == ["outcome"]


def on_a_terminal(program: Program, *arguments: str) -> bytes:
    """What a terminal gets of standard output and standard error."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [str(PROGRAM), *arguments], cwd=program.home, env=program.environment, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:  # Linux says so that nobody writes any more
        pass
    os.close(ours)
    child.wait(timeout=60)
    return written.replace(b"\r\n", b"\n")


def test_what_a_run_wrote_controls_no_terminal(served: Program) -> None:
    """Colours pass, all else is written out, unless --raw asks for it; a pipe gets every byte."""
    served("job", "add", "escapes", "--command", r"printf '\033[31mred\033[2J\n'")
    run_id = served.json("job", "trigger", "escapes", "--wait")["id"]
    raw = b"\x1b[31mred\x1b[2J\n"
    assert served("run", "logs", run_id).encode() == raw
    assert on_a_terminal(served, "run", "logs", run_id) == b"\x1b[31mred\\x1b[2J\n\x1b[0m"
    assert on_a_terminal(served, "run", "logs", "-f", run_id) == b"\x1b[31mred\\x1b[2J\n\x1b[0m"
    assert on_a_terminal(served, "run", "logs", "--raw", run_id) == raw
    assert b"\x1b" not in on_a_terminal(served, "job", "show", "no\x1b[2Jjob")
    assert b"\xc2\x9b" not in on_a_terminal(served, "--json", "job", "show", "no\x9b2Jjob")


def test_warnings_of_settings_control_no_terminal(served: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a variable that nobody knows, and JSON, are shown as what they are."""
    monkeypatch.setitem(served.environment, "TOKIMORI_\x1b[2J\x9b2J", "x")
    for command in (("config", "check"), ("--json", "config", "check")):
        shown = on_a_terminal(served, *command)
        assert b"\x1b" not in shown and b"\xc2\x9b" not in shown
        assert b"[2J" in shown
