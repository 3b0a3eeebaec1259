"""Apps that misbehave while they are imported: their worker process says what is wrong, or works all the same."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.laws import one_in
from tests.programs.forked import BARE
from tokimori.clock import Moment, SystemClock
from tokimori.executors.functions import wire
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import AppSettings

APP = """
import asyncio, os, sys, time
import tokimori

app = tokimori.App("jobs")

@app.job()
def double(number: int) -> int:
    print("doubling")
    return number * 2

class Odd(BaseException):
    pass

@app.job()
async def odd(number: int) -> None:
    raise [Odd, GeneratorExit, SystemExit, KeyboardInterrupt, asyncio.CancelledError][number]

@app.job()
def fills(number: int) -> None:
    print("kept")
    raise ValueError("and told")

@app.job()
async def stops_the_loop(number: int) -> None:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    asyncio.get_running_loop().stop()

@app.job()
def has_a_child(number: int) -> int:
    return os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "for n in 0 1 2; do test -e /proc/$$/fd/$n || exit 1; done")

@app.job()
def closes_all(number: int) -> None:
    os.closerange(0, 100)

@app.job()
async def ends_every_task(number: int) -> None:
    for each in asyncio.all_tasks():
        each.cancel()
"""


class Node:
    """What a worker process has of its node: the socket that it connects to. It runs the app in this folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._listening = socket.socket(socket.AF_UNIX)
        with wire.by_descriptor(home / "line") as path:
            self._listening.bind(path)
        self._listening.listen()
        self._listening.settimeout(60)
        self._frames: wire.Frames[Any] = wire.Frames(wire.FromWorker)
        self.line: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, source: str) -> Any:
        """Start a process for an app; what it says first."""
        (self.home / "jobs.py").write_text(source)
        told = {"address": str(self.home / "line"), "number": 1, "app": "jobs:app", "concurrency": 2}
        told |= {"runs_dir": str(self.home / "runs")}
        with (self.home / "printed").open("wb") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tokimori.apps.worker_process", json.dumps(told)],
                cwd=self.home,
                env={**BARE, "HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.line, _ = self._listening.accept()
        self.line.settimeout(60)
        return self.heard(wire.Hello, wire.Unloadable)

    def heard(self, *kinds: type) -> Any:
        """The next thing of this kind that it says."""
        assert self.line is not None
        while said := self.line.recv(2**20):
            for message in self._frames.feed(said):
                if isinstance(message, kinds):
                    return message
        raise EOFError(self.printed())

    def printed(self) -> str:
        """What the process has written outside of its runs."""
        return (self.home / "printed").read_text(errors="replace")

    def begin_run(self, job: str, number: int) -> None:
        """Have a run begin, with this number as its payload."""
        assert self.line is not None
        begin = wire.Begin(
            number=number,
            handler=f"jobs.{job}",
            run_id="r",
            job_id=job,
            attempt=number,
            token=1,
            scheduled_at=Moment(0),
            due_at=Moment(0),
            payload=str(number),
        )
        self.line.sendall(wire.frame([begin]))

    def ended(self, job: str, number: int) -> wire.FunctionEnded:
        """How a run ends."""
        self.begin_run(job, number)
        ended: wire.FunctionEnded = self.heard(wire.FunctionEnded)
        return ended

    def leave(self) -> int:
        """Have it leave; its exit code."""
        assert self.line is not None and self.process is not None
        self.line.sendall(wire.frame([wire.Leave()]))
        return self.process.wait(60)

    def end(self) -> None:
        """Leave nothing of it."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for each in (self.line, self._listening):
            if each is not None:
                each.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """One, and nothing of its process afterwards."""
    node = Node(tmp_path)
    yield node
    node.end()


WORKS = {
    "closes what is open": "import os; os.closerange(0, 21)",
    "forks and goes on in both": "import os; os.fork()",
    "begins a thread": "import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()",
    "prints much": "print('x' * 2**24)",
    "goes elsewhere": "import os; os.chdir('/'); os.umask(0o777)",
    "speaks another language": "import locale, os; os.environ.clear(); locale.setlocale(locale.LC_ALL, 'C')",
    "heeds no signal": "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 10, 12, 13, 15, 17)]",
    "takes asyncio apart": "import asyncio; asyncio.run = asyncio.sleep = asyncio.create_task = None",
    "has no output": "import sys; sys.stdout = sys.stderr = None",
    "recurses": "import sys; sys.setrecursionlimit(10**6)",
    "traces": "import gc, sys; gc.disable(); sys.settrace(lambda *_: None)",
    "ends with a fault": "import atexit, os; atexit.register(os.abort)",
}


@pytest.mark.parametrize("kind", one_in(4, list(WORKS)))
def test_an_app_that_misbehaves_works(node: Node, kind: str) -> None:
    """Whatever it does to its own process while it is imported: its functions run, and it leaves when it is told to."""
    hello = node.begin(WORKS[kind] + APP)
    assert isinstance(hello, wire.Hello), hello
    for number in (1, 2):
        ended = node.ended("double", number)
        assert (ended.end, ended.text, ended.head) == (wire.SUCCEEDED, str(2 * number), b"doubling\n"), node.printed()
    assert node.leave() == 0


def test_children_of_an_app_that_closed_its_files_have_standard_streams(node: Node) -> None:
    """Else the first file that one opens would get what it prints."""
    node.begin(WORKS["closes what is open"] + APP)
    assert node.ended("has_a_child", 1).text == "0"


FAILS = {
    "ends the program": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "is interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises what is no error": ("class Odd(BaseException): pass\nraise Odd", "jobs.Odd"),
    "raises what has no words": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
        "jobs.Mute: <exception str() failed>",
    ),
    "says too much": ("raise ValueError('x' * 2**27)", "ValueError: xxx"),
    "calls itself for ever": ("def again(): again()\nagain()", "RecursionError: maximum recursion depth"),
    "has a thread that stays": (
        "import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start(); raise ValueError('no')",
        "ValueError: no",
    ),
    "takes all memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29)); kept = [bytearray(2**30)]",
        "MemoryError",
    ),
}


@pytest.mark.parametrize("kind", one_in(3, list(FAILS)))
def test_an_app_that_cannot_be_imported_says_why(node: Node, kind: str) -> None:
    """In one message of bounded length; and whatever it has begun, its process ends."""
    source, why = FAILS[kind]
    said = node.begin(source + "\n" + APP)
    assert isinstance(said, wire.Unloadable), said
    assert said.message.startswith(f"app: 'jobs:app' can't be loaded: {why}")
    assert len(said.message) < 20_000
    assert node.line is not None and node.process is not None
    node.line.close()
    assert node.process.wait(60) == 1


def test_an_exception_that_is_no_error_ends_its_run_alone(node: Node) -> None:
    """A coroutine that raises one has failed, as any function: asyncio keeps it, and nobody would have heard."""
    node.begin(APP)
    said = [node.ended("odd", number) for number in range(5)]
    assert {each.end for each in said} == {wire.FAILED}
    names = ["Odd", "GeneratorExit", "SystemExit", "KeyboardInterrupt", "CancelledError"]
    assert [each.text for each in said] == names
    assert node.ended("double", 2).text == "4"


def test_output_that_cannot_be_written_holds_up_nobody(node: Node) -> None:
    """Where the disk is full, say: the run ends as it would, and the administrator reads why there is no file."""
    (node.home / "runs").write_text("no folder")
    node.begin(APP)
    said = node.ended("fills", 1)
    assert (said.end, said.text, said.head[:5]) == (wire.FAILED, "ValueError: and told", b"kept\n")
    assert node.ended("double", 2).text == "4"
    assert (
        "tokimori output r/1.log: Not a directory; the output file of this attempt stays incomplete" in node.printed()
    )


@pytest.mark.parametrize("job", ["stops_the_loop", "ends_every_task"])
def test_a_process_that_is_of_no_use_any_more_ends(node: Node, job: str) -> None:
    """At once, whatever is left in it: its node starts another one, and only what ran in it is lost."""
    node.begin(APP)
    node.begin_run(job, 1)
    assert node.process is not None
    assert node.process.wait(60) == 1


def test_a_process_that_closes_all_its_files_leaves_the_line(node: Node) -> None:
    """Its loop may never wake again: by the end of the line its node knows, and kills it."""
    node.begin(APP)
    node.begin_run("closes_all", 1)
    with pytest.raises((EOFError, ConnectionResetError)):
        node.heard(wire.FunctionEnded)


async def test_who_waits_for_a_slow_import_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that starts with an app whose import hangs would be silent for ever."""
    (tmp_path / "jobs.py").write_text("import time; time.sleep(1)" + APP)
    monkeypatch.setattr("tokimori.executors.functions.processes.SLOW_IMPORT", 0.2)
    monkeypatch.chdir(tmp_path)
    app = AppSettings(
        app="jobs:app",
        secret="line",
        state_dir=tmp_path / "state",
        runs_dir=tmp_path / "runs",
        environ=BARE,
        processes=1,
    )
    functions = FunctionExecutor(SystemClock(), app)
    try:
        hello = await functions.load()
    finally:
        await functions.close()
    assert hello is not None and hello.app == "jobs"
    assert "the app 'jobs:app' is still being imported, or in its on_start: the node waits" in caplog.text
