"""The page of Keiji, step by step, by the real program at a terminal: docs/coming-from/keiji.md has the same steps."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.programs.forked import BARE, PROGRAM
from tests.servers import postgres

PATIENCE = 240
"""Seconds, on a machine that is busy with much else."""
FUNCTION = '''"""Pings google."""

def function() -> None:
    print("Pinging Google....")
    print("status: ", 200)
'''
WEEKLY = 'from tokimori import on\n\ndef schedule() -> str:\n    return on().friday.at("10:00PM")\n'
EVERY = "from tokimori import every\n\ndef schedule() -> str:\n    return every(2).seconds\n"
RECORD = (
    "ID TaskId Name Description Schedule LastExecutionTime NextExecutionTime LogPath Slug Type Executable IsRunning "
    "IsQueued IsError IsDisabled ErrorTxt"
)


class Terminal:
    """A terminal of 80 columns in the folder of a workspace, at which somebody types commands."""

    def __init__(self, home: Path, store: str | None) -> None:
        self.home = home
        self.state = home / ".local" / "state" / "tokimori"
        self.environment = {
            **BARE,
            "HOME": str(home),
            "TERM": "xterm",
            "COLUMNS": "80",
            "TOKIMORI_STATE_DIR": str(self.state),
            "TOKIMORI_HTTP_PORT": "0",
            **({} if store is None else {"TOKIMORI_STORE": store}),
        }

    def type(self, words: str, code: int = 0) -> str:
        """What a command shows until it ends, which it has to do with this exit code."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(PROGRAM), *words.split()],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.home / "keiji",
            env=self.environment,
            start_new_session=True,
        )
        os.close(theirs)
        shown = b"".join(_read(ours)).decode().replace("\r\n", "\n")
        os.close(ours)
        assert process.wait(PATIENCE) == code, shown
        return shown

    def end_what_is_left(self) -> None:
        """A test that failed leaves a node."""
        for place in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if place.readlink().is_relative_to(self.home):
                    os.kill(int(place.parent.name), signal.SIGKILL)

    def record(self) -> dict[str, str]:
        """The sixteen lines of the task."""
        first, *lines = self.type("task get ping_google --format keiji").splitlines()
        assert (first, " ".join(line.partition(":")[0] for line in lines)) == ("TaskModel:", RECORD)
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def log(self) -> list[str]:
        """The messages of the task's log."""
        lines = self.type("task logs ping_google").splitlines()
        form = r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d level=(?:INFO|ERROR) msg=(.*)"
        found = [re.fullmatch(form, line) for line in lines]
        assert all(found), lines
        return [match[1].strip('"') for match in found if match]

    def until_logged(self, message: str, count: int = 1) -> list[str]:
        """The log, once it has so many of these messages."""
        end = time.monotonic() + PATIENCE
        while (found := self.log()).count(message) < count:
            assert time.monotonic() < end, found
            time.sleep(0.5)
        return found


def _read(ours: int) -> Iterator[bytes]:
    """All that is shown at a terminal, until nobody has it open."""
    while select.select([ours], [], [], PATIENCE)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:
            return
        if not part:
            return
        yield part


@pytest.fixture(params=["sqlite", "postgres"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A home without anything, and whatever is left of a node in it is ended."""
    store = None
    if request.param == "postgres":
        if postgres.programs() is None:
            pytest.fail(f"PostgreSQL is not installed: {postgres.INSTALL}")
        name = f"keiji_{os.getpid()}"
        store = postgres.server().make(name)
    (tmp_path / "keiji").mkdir()
    found = Terminal(tmp_path, store)
    yield found
    found.end_what_is_left()
    if store is not None:
        postgres.server().drop(name)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_the_page_of_keiji(terminal: Terminal) -> None:
    """Its twelve steps work here as there, and what its user sees is in Keiji's words."""
    workspace = terminal.home / "keiji"
    task = workspace / "tasks" / "ping_google"

    # 1: initializing a workspace
    assert "made" in terminal.type("init")
    assert {"tokimori.toml", "tasks"} <= {path.name for path in workspace.iterdir()}
    assert {"builds", "logs"} <= {path.name for path in terminal.state.iterdir()}

    # 2: create a task
    terminal.type("task create ping_google --desc pings_google")
    assert {".env", "function.py", "schedule.py"} <= {path.name for path in task.iterdir()}
    (task / "function.py").write_text(FUNCTION)
    (task / "schedule.py").write_text(WEEKLY)

    # 3: build and save it
    assert "built ping_google: enabled" in terminal.type("task build ping_google")

    # 4: its details
    record = terminal.record()
    assert record["Name"] == record["Slug"] == "ping_google"
    assert record["Description"] == "pings_google"
    assert (record["Schedule"], record["Type"]) == ("day:Friday,time:10:00PM", "DayTime")
    assert [record[name] for name in ("IsRunning", "IsQueued", "IsError", "IsDisabled")] == ["false"] * 4
    assert (record["LastExecutionTime"], record["ErrorTxt"]) == ("N/A", "")

    # 5: start the system
    terminal.type(f"system start --timeout {PATIENCE}")
    assert re.search(r"scheduler +ONLINE", terminal.type("system status"))
    _walk_beside_a_node(terminal, task, record)

    # 11: stop it
    terminal.type(f"system stop --timeout {PATIENCE}")
    terminal.type("system status", code=3)
    assert "ping_google" not in terminal.type("task list")

    # 12: uninstall: all that was made is in two folders
    shutil.rmtree(terminal.state)
    shutil.rmtree(workspace)
    assert [path.name for path in terminal.home.rglob("*") if path.is_file()] == []


def _walk_beside_a_node(terminal: Terminal, task: Path, first: dict[str, str]) -> None:
    # 6: view logs
    [line] = terminal.log()
    assert re.fullmatch(r"Task Next Execution Time: \d{4}-\d\d-\d\d 22:00:00 \+0000 UTC", line)

    # 7: modify, rebuild and restart
    (task / "schedule.py").write_text(EVERY)
    terminal.type("task build ping_google --restart")
    lines = terminal.until_logged("Pinging Google....", 2)
    assert lines[1:4] == ["task ping_google interval: 2", "task terminated, exiting...", "task ping_google interval: 2"]
    assert lines[4:6] == ["Pinging Google....", "status:  200"]
    record = terminal.record()
    assert (record["Schedule"], record["Type"]) == ("units:seconds,interval:2", "HMS")
    assert (record["ID"], record["TaskId"]) == (first["ID"], first["TaskId"])
    assert Path(record["Executable"]).is_file()
    assert [record[name] for name in ("IsRunning", "IsError", "IsDisabled")] == ["true", "false", "false"]

    # 8: disable it
    terminal.type("task disable ping_google")
    assert "task disabled, exiting..." in terminal.log()
    record = terminal.record()
    assert [record[name] for name in ("IsRunning", "IsDisabled")] == ["false", "true"]

    # 9: enable it
    so_far = terminal.log().count("Pinging Google....")
    terminal.type("task enable ping_google")
    terminal.until_logged("Pinging Google....", so_far + 1)

    # "How do I fix errors in a task?"
    (task / "function.py").write_text("def function():\n    raise SystemExit('no such host')\n")
    terminal.type("task build ping_google")
    terminal.until_logged("no such host")
    record = terminal.record()
    assert (record["IsError"], record["IsRunning"]) == ("true", "false")
    assert record["ErrorTxt"] == "exit code 1"
    (task / "function.py").write_text(FUNCTION)
    terminal.type("task build ping_google")
    so_far = terminal.log().count("Pinging Google....")
    terminal.type("task resolve ping_google")
    terminal.until_logged("Pinging Google....", so_far + 1)
    assert terminal.record()["IsError"] == "false"

    # 10: delete it
    terminal.type("task delete ping_google")
    assert (task / "function.py").is_file()
