"""What functions print and log, however their program does it, is the output of their run."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.integration.apps.test_hostile_apps import Node
from tokimori.apps.app import App
from tokimori.executors.functions import wire

APP = """
import logging, os, subprocess, sys, threading, time
import tokimori

app = tokimori.App("jobs")
log = logging.getLogger("mine")

@app.job
def logs(number: int) -> None:
    log.warning("logged %s", number)

@app.job
async def logs_async(number: int) -> None:
    log.warning("logged %s", number)

@app.job
def in_a_thread(number: int) -> None:
    def act() -> None:
        print("printed")
        log.warning("logged")
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()

@app.job
def by_a_child(number: int) -> None:
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"])
    if number > 2:
        time.sleep(1.5)
        subprocess.run("echo anew > /dev/stdout", shell=True)

@app.job
def puts_away(number: int) -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w")
    sys.stdout.close()

@app.job
def much(number: int) -> None:
    subprocess.run(["head", "-c", "3000000", "/dev/zero"])

@app.job
def waits(number: int) -> None:
    if number == 1:
        time.sleep(1)
        return
    def act() -> None:
        print("from", end=" ")
        print("a thread")
        os.write(1, b"from a descriptor\\n")
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    time.sleep(2)
"""

CONFIGURED = {
    "basicConfig": "import logging; logging.basicConfig(level='INFO')",
    "a handler": "import logging; logging.getLogger('mine').addHandler(logging.StreamHandler())",
    "the first stream": """
import logging, sys
logging.getLogger("mine").addHandler(logging.StreamHandler(sys.__stderr__))
""",
    "dictConfig": """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "formatters": {"plain": {"format": "%(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "plain"}},
    "root": {"handlers": ["out"], "level": "INFO"},
})
""",
    "its own stream": "import io, sys; sys.stderr = io.TextIOWrapper(sys.stdout.buffer, write_through=True)",
    "detached": """
import io, sys
sys.stderr = io.TextIOWrapper(
    sys.stderr.detach(), errors=sys.stdout.errors, line_buffering=sys.stdout.line_buffering
)
""",
    "other encoding": "import sys; sys.stdout.reconfigure(encoding='utf-8', line_buffering=True)",
    "nothing": "",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with the apps of a folder."""
    found = Node(tmp_path)
    yield found
    found.end()


@pytest.mark.parametrize("source", CONFIGURED.values(), ids=CONFIGURED.keys())
def test_logging_that_was_configured_at_import_reaches_the_run(node: Node, source: str) -> None:
    """Of sync and async functions alike; the log of the process has none of it."""
    node.begin(source + "\n" + APP)
    for job in ("logs", "logs_async"):
        assert b"logged 1" in node.ended(job, 1).head
    assert node.leave() == 0
    assert "logged" not in node.printed()


def test_what_no_function_claims_is_of_the_only_run(node: Node) -> None:
    """Lines of its threads, of its children, and of whatever writes to descriptor 1."""
    node.begin(APP)
    said = node.ended("in_a_thread", 1).head
    assert said.startswith(b"printed\n")
    assert said.endswith(b"mine: logged\n")
    assert node.ended("by_a_child", 1).head == b"written\nechoed\n"
    assert node.ended("much", 1).size == 3_000_000
    assert node.ended("by_a_child", 3).head == b"written\nechoed\nanew\n"
    assert node.ended("by_a_child", 2).head == b"written\nechoed\n"
    assert node.leave() == 0
    assert node.printed() == ""


def test_streams_that_a_function_puts_away_are_back_for_the_next_run(node: Node) -> None:
    """A run that replaces or closes them costs no later one its output, or its life."""
    node.begin(APP)
    for number in (1, 2):
        node.ended("puts_away", number)
        assert node.ended("in_a_thread", 1).head.startswith(b"printed\n")
    assert node.leave() == 0


def test_of_several_runs_the_log_names_all(node: Node) -> None:
    """Whole lines, each behind the runs of which one has written it; none of these gets it."""
    node.begin(APP)
    node.begin_run("waits", 1)
    node.begin_run("waits", 2)
    ends = [node.heard(wire.FunctionEnded) for _ in range(2)]
    assert [each.head for each in ends] == [b"", b""]
    assert node.leave() == 0
    for line in ("from a thread", "from a descriptor"):
        assert f"(of one of the runs waits r, waits r) {line}\n" in node.printed()


def test_a_program_keeps_its_own_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Under `app.running()` the run has what its function prints and logs, and so has the program, as ever."""
    monkeypatch.setenv("TOKIMORI_STATE_DIR", str(tmp_path / "state"))
    app, log = App("here", url=f"sqlite://{tmp_path / 't.db'}"), logging.getLogger("of a program")
    handler = logging.StreamHandler(sys.stderr)
    log.addHandler(handler)

    @app.job
    def speak() -> None:
        print("printed")
        log.warning("logged")
        print("complained", file=sys.stderr)

    streams = sys.stdout, sys.stderr
    with app.running():
        run = speak.enqueue().id
        until(lambda: str(app.client.runs.get(run).state) == "succeeded")
        threading.Thread(target=print, args=("of the program",)).start()
        kept = app.client.runs.output(run)
    assert kept is not None
    assert kept.head == b"printed\nlogged\ncomplained\n"
    assert (sys.stdout, sys.stderr, handler.stream) == (*streams, streams[1])
    app.client.close()
    log.removeHandler(handler)
    said = capfd.readouterr()
    assert "printed\n" in said.out
    assert "of the program\n" in said.out
    assert "logged\ncomplained\n" in said.err
    assert os.fstat(1)
