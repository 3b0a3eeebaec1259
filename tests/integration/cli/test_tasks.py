"""Tasks as code, by the real program: what is refused leaves nothing, and what was built runs without its source."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM

T = TypeVar("T")
PATIENCE = 60
FUNCTION = "def function():\n    print('hello')\n"


class Workspace(Program):
    """A workspace in a folder, with a state of its own on a store that may be another's."""

    def __init__(self, home: Path, database: Path | None = None) -> None:
        super().__init__(home)
        self.tasks = home / "tasks"
        if database is not None:
            self.database = database
            self.environment["TOKIMORI_STORE"] = f"sqlite://{database}"

    def write(self, name: str, function: str = FUNCTION, schedule: str | None = None, **files: str) -> Path:
        """The source of a task."""
        folder = self.tasks / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "function.py").write_text(function)
        if schedule is not None:
            (folder / "schedule.py").write_text(schedule)
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder

    def wait_for_a_run(self, job: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Trigger the job, and wait for that run. What it waits for may be said meanwhile, on a busy machine."""
        ended = self.run("--json", "job", "trigger", job, "--wait", *arguments)
        assert ended.returncode == code, ended.stderr
        run: dict[str, Any] = json.loads(ended.stdout)
        return run

    @contextmanager
    def following(self, name: str) -> "Iterator[Callable[[], str]]":
        """The lines of a task's log, as they come, until Ctrl-C."""
        follow = subprocess.Popen(
            ["env", "--default-signal=INT", str(PROGRAM), "task", "logs", name, "-f"],  # a background job ignores it
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert follow.stdout is not None
        try:
            yield follow.stdout.readline
            follow.send_signal(signal.SIGINT)
            follow.communicate(timeout=PATIENCE)
        finally:
            follow.kill()
            follow.wait()

    def ends(self, job: str, count: int = 1) -> list[dict[str, Any]]:
        """So many runs of a job that have ended, the newest first."""

        def found() -> list[dict[str, Any]] | None:
            runs = [run for run in self.json("run", "list", "--job", job) if run["ended"]]
            return runs if len(runs) >= count else None

        return until(found)


def until(find: Callable[[], T | None]) -> T:
    """What is found at last."""
    end = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A new one, with its example."""
    found = Workspace(folder(tmp_path / "one"))
    found("init")
    return found


@pytest.fixture
def elsewhere(tmp_path: Path, workspace: Workspace) -> Iterator[Workspace]:
    """A node on the same store in another folder, where there is no source."""
    other = Workspace(folder(tmp_path / "two"), workspace.database)
    node = other.serve()
    yield other
    stop(node)


def kept(workspace: Workspace) -> list[tuple[str, str]]:
    """Kinds and names of all documents but those of the audit log."""
    connection = sqlite3.connect(workspace.database)
    try:
        rows = connection.execute("SELECT kind, name FROM tokimori_documents WHERE kind != 'audit'").fetchall()
    finally:
        connection.close()
    return rows


def test_a_workspace_is_made_and_its_example_runs(workspace: Workspace, elsewhere: Workspace) -> None:
    """A second `init` makes nothing; what is built here runs on a node that has never seen the source."""
    assert "everything is there already" in workspace("init")
    assert "created ping" in workspace("task", "create", "ping", "--desc", "pings")
    workspace.write("ping", "import sys\ndef function():\n    print('on', sys.argv[0])\n")
    built = workspace.json("task", "build", "ping")
    assert built["job"]["description"] == "pings"
    workspace.wait_for_a_run("ping")
    [run] = workspace.ends("ping")
    file = elsewhere.home / "state" / "builds" / f"{built['build']}.pyz"
    assert workspace("run", "logs", run["id"]) == f"on {file}\n"
    assert sha256(file.read_bytes()).hexdigest() == built["build"]


def test_a_build_is_the_same_in_every_folder(tmp_path: Path, workspace: Workspace) -> None:
    """The same source in another workspace, at another time and by other hands, has the same digest."""
    workspace.write("a", data__txt="x", b__py="B = 1\n")
    first = workspace.json("task", "build", "a")["build"]
    other = Workspace(folder(tmp_path / "other"))
    other("init")
    place = other.write("a", b__py="B = 1\n")
    (place / "data.txt").write_text("x")
    for file in place.iterdir():
        os.utime(file, (1, 1))
        file.chmod(0o755)
    assert other.json("task", "build", "a")["build"] == first


def test_what_was_built_runs_until_the_next_build(workspace: Workspace, elsewhere: Workspace) -> None:
    """To edit the source changes nothing; a rollback brings the build back, and the schedule that it had."""
    every = "from tokimori import every\ndef schedule(): return every({}).hours\n"
    workspace.write("a", "def function(): print('one')", every.format(1))
    workspace("task", "build", "a")
    workspace.write("a", "def function(): print('two')", every.format(2))

    def wrote() -> str:
        return workspace("run", "logs", workspace.wait_for_a_run("a")["id"])

    assert wrote() == "one\n"
    workspace("task", "build", "a")
    assert wrote() == "two\n"
    rows = workspace.json("task", "builds", "a")
    assert [each["schedule"] for each in rows] == ["every 2 hours", "every hour"]
    assert workspace.json("task", "rollback", "a")["job"]["schedule"] == "every hour"
    assert wrote() == "one\n"
    assert len(list((elsewhere.home / "state" / "builds").glob("*.pyz"))) == 2


def test_a_tampered_build_is_refused_by_every_node(workspace: Workspace, request: pytest.FixtureRequest) -> None:
    """Whoever writes into the store by hand gets nothing run: the run fails and says so, and the task stops."""
    workspace.write("a")
    digest = workspace.json("task", "build", "a")["build"]
    connection = sqlite3.connect(workspace.database)
    with connection:
        changed = connection.execute(
            "UPDATE tokimori_documents SET text = replace(text, substr(text, 1, 40), substr(text, 41, 40)) "
            "WHERE kind = 'build' AND name = ?",
            (f"a@{digest}.0000",),
        )
    connection.close()
    assert changed.rowcount == 1
    elsewhere: Workspace = request.getfixturevalue("elsewhere")  # SQLite has one writer: no node writes before
    workspace.wait_for_a_run("a", code=1)
    [run] = workspace.ends("a")
    assert "is not what was built, and is not run" in run["error"]
    assert workspace.json("task", "get", "a")["job"]["state"] == "parked"
    assert list((elsewhere.home / "state" / "builds").glob("*.pyz")) == []
    workspace("task", "build", "a")
    workspace("task", "resolve", "a")
    workspace.wait_for_a_run("a")


@pytest.mark.parametrize(
    ("name", "files", "field", "match"),
    [
        ("a b", {}, "name", "is not the name of a task"),
        ("../a", {}, "name", "is not the name of a task"),
        ("é", {}, "name", "is not the name of a task"),
        ("missing", {}, "name", "there is no source of 'missing'"),
        ("raises", {"schedule": "def schedule():\n    raise ValueError('no idea')"}, "schedule", "line 2: ValueError"),
        ("wrong", {"schedule": "schedule = 'every now and then'"}, "schedule", "every now and then"),
        ("misspelt", {"function": "def functoin(): ..."}, "function", "it defines no `function`"),
        ("broken", {"function": "def function(:"}, "function", r"function.py:1: "),
        ("odd", {"requirements__txt": "no-such-package-of-ours==1"}, "dependencies", "no-such-package-of-ours"),
        ("option", {"requirements__txt": "--pre"}, "dependencies", "is no dependency"),
    ],
)
def test_what_can_not_be_built_leaves_nothing(
    workspace: Workspace, name: str, files: dict[str, str], field: str, match: str
) -> None:
    """The error names the field; there is no job, no task and no piece of a build."""
    workspace.environment |= {"PIP_NO_INDEX": "1"}
    if files:
        workspace.write(name, **files)
    error = workspace.error("task", "build", name, code=3 if name == "missing" else 2)
    assert error["field"] == field
    assert re.search(match, error["message"]), error
    assert kept(workspace) == []
    assert workspace.json("job", "list") == []


def test_where_there_is_no_workspace_that_is_said(program: Program) -> None:
    """With the command that makes one."""
    for words in (("create", "a"), ("build", "a"), ("run", "a")):
        assert "tokimori init" in program.error("task", *words)["message"]


@pytest.mark.prove
def test_a_hundred_tasks_are_built_at_once(workspace: Workspace) -> None:
    """Each gets its job; built again, nothing of them is another one."""
    script = "# /// script\n# [tool.tokimori]\n# schedule = 'every {} minutes'\n# ///\nprint('hello')\n"
    for number in range(99):
        (workspace.tasks / f"t{number:02}.py").write_text(script.format(number + 2))
    built = workspace("task", "build", "--all").splitlines()
    assert len(built) == 100
    assert all(re.match(r"built (t\d\d|hello): enabled, build [0-9a-f]{12}, next ", line) for line in built)
    digests = {each["name"]: each["build"] for each in workspace.json("task", "list")}
    assert len(digests) == 100
    workspace("task", "build", "--all")
    assert {each["name"]: each["build"] for each in workspace.json("task", "list")} == digests


def test_a_task_is_run_here_and_now(workspace: Workspace) -> None:
    """As a build would be, with its variables and arguments; its exit code is that of the command."""
    workspace.write(
        "a",
        "import os, sys\ndef function():\n    print(os.environ['A'], sys.argv[1:], flush=True)\n    sys.exit(7)\n",
        __env="A=1\n",
    )
    run = [str(PROGRAM), "task", "run", "a", "--", "x", "y"]
    ended = subprocess.run(
        run, check=False, cwd=workspace.home, env=workspace.environment, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "1 ['x', 'y']\n", "")
    (workspace.tasks / "s.sh").write_text("#!/bin/bash\necho ${BASH_VERSION:+bash} $0 $1\nexit 3\n")
    run = [str(PROGRAM), "task", "run", "s", "--", "x"]
    ended = subprocess.run(
        run, check=False, cwd=workspace.home, env=workspace.environment, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (3, "bash s x\n")
    assert kept(workspace) == []


def test_the_log_is_followed(workspace: Workspace, elsewhere: Workspace) -> None:
    """What runs write comes while they run; Ctrl-C ends it, and the last line may be one that was only begun."""
    workspace.write(
        "a", "import time\ndef function():\n    print('begun')\n    time.sleep(1)\n    print('done', end='')\n"
    )
    workspace("task", "build", "a")
    with workspace.following("a") as line:
        assert "schedule: on demand" in line()
        workspace("job", "trigger", "a")
        lines = [line(), line()]
        workspace("task", "disable", "a")
        lines.append(line())
    assert [line.partition("level=")[2] for line in lines] == [
        "INFO msg=begun\n",
        "INFO msg=done\n",
        'INFO msg="task disabled, exiting..."\n',
    ]
    shown = workspace("task", "logs", "a", "--lines", "2").splitlines()
    assert [line.rpartition("msg=")[2] for line in shown] == ["done", '"task disabled, exiting..."']


def test_each_attempt_is_followed(workspace: Workspace, elsewhere: Workspace) -> None:
    """From its first line to its error, which stand where the whole log has them, too."""
    seen = workspace.home / "seen"
    waits = f"    while not os.path.exists({str(seen)!r}):\n        time.sleep(0.05)\n"
    workspace.write("a", f"import os, sys, time\ndef function():\n    print('begun')\n{waits}    sys.exit(7)\n")
    workspace("task", "build", "a")
    workspace("job", "update", "a", "--attempts", "2", "--retry-delay", "0.1")
    with workspace.following("a") as line:
        assert "schedule: on demand" in line()
        workspace("job", "trigger", "a")
        said = [line()]
        seen.touch()
        said = [each.rpartition("msg=")[2] for each in (*said, line(), line(), line())]
    assert said == 2 * ["begun\n", '"[ task error ]: exit code 7"\n']
    assert workspace("task", "logs", "a").endswith(said[-1])


def test_each_line_of_all_attempts_has_its_own_time(workspace: Workspace, elsewhere: Workspace) -> None:
    """In the whole log as in one that is followed, and as `run logs` shows them."""
    workspace.write(
        "a",
        "import os, sys, time\ndef function():\n    print('begun')\n    time.sleep(0.4)\n"
        "    print('done')\n    time.sleep(0.4)\n    sys.exit(os.environ['TOKIMORI_ATTEMPT'] == '1')\n",
    )
    workspace("task", "build", "a")
    workspace("job", "update", "a", "--attempts", "2", "--retry-delay", "0.1")
    with workspace.following("a") as line:
        assert "schedule: on demand" in line()
        run = workspace.wait_for_a_run("a")
        followed = [line() for _ in range(5)]
    lines = [each for each in workspace.json("task", "logs", "a") if each["run_id"]]
    assert [each["message"] for each in lines] == ["begun", "done", "[ task error ]: exit code 1", "begun", "done"]
    at = [datetime.fromisoformat(each["at"]).timestamp() for each in lines]
    spans = [after - before for before, after in pairwise(at)]
    assert all(0.35 < spans[number] < 5 for number in (0, 1, 3)), spans
    assert all(each["exact"] for each in lines)
    assert [each.partition(" ")[0] for each in followed] == [
        each.partition(" ")[0] for each in workspace("task", "logs", "a").splitlines()[-5:]
    ]
    for attempt, own in ((1, lines[:2]), (2, lines[3:])):
        text = workspace("run", "logs", run["id"], "--timestamps", "--attempt", str(attempt)).splitlines()
        assert text == [f"{each['at'][:23]}Z {each['message']}" for each in own]
    with sqlite3.connect(workspace.database) as db:  # as of a program that told no times
        db.execute("UPDATE tokimori_outputs SET times = x''")
    starts = [each["started"] for each in workspace.json("run", "show", run["id"])["attempts"]]
    known = [each for each in workspace.json("task", "logs", "a") if each["message"] == "done"]
    assert [(each["at"], each["exact"]) for each in known] == [(start, False) for start in starts]
    assert "of 4 lines nobody knows" in workspace.run("task", "logs", "a").stderr
    assert workspace("run", "logs", run["id"], "-t").startswith(f"~{starts[1][:23]}Z begun\n")


def test_the_log_is_opened_in_an_editor(workspace: Workspace) -> None:
    """The one of the environment; one that is not there is an error that says where the log is."""
    workspace.write("a")
    workspace("task", "build", "a")
    workspace.environment["EDITOR"] = f"{sys.executable} -c 'import sys; print(open(sys.argv[1]).read())'"
    ended = subprocess.run(
        [str(PROGRAM), "task", "logs", "a", "--editor"],
        check=False,
        cwd=workspace.home,
        env=workspace.environment,
        capture_output=True,
        text=True,
    )
    assert "schedule: on demand" in ended.stdout
    workspace.environment["EDITOR"] = "no-such-editor"
    assert (
        str(workspace.home / "state/logs/tasks/a/a.log") in workspace.error("task", "logs", "a", "--editor")["message"]
    )


def test_a_task_is_built_at_a_node_elsewhere(workspace: Workspace, tmp_path: Path) -> None:
    """Through its door: the source is here, the store is there."""
    other = Workspace(folder(tmp_path / "door"))
    node = subprocess.Popen(
        [str(PROGRAM), "serve"], cwd=other.home, env=other.environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert node.stdout is not None
        assert "runs jobs" in node.stdout.readline()
        address = other("node", "address").strip()
        del workspace.environment["TOKIMORI_STORE"]
        workspace.write("a", "def function(): print('x' * 5)", data__txt="y" * 500_000)
        at_node = ("--server", address)
        built = workspace.json("task", "build", "a", *at_node)
        assert [each["name"] for each in workspace.json("task", "list", *at_node)] == ["a"]
        workspace.wait_for_a_run("a", *at_node)
        assert workspace("task", "logs", "a", *at_node).endswith("msg=xxxxx\n")
        assert other.json("task", "get", "a")["build"] == built["build"]
        workspace("task", "delete", "a", *at_node)
        assert other.json("task", "list") == []
    finally:
        stop(node)


def a_wheel(folder: Path, version: str) -> None:
    """A package `parcel` of one module."""
    with zipfile.ZipFile(folder / f"parcel-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("parcel.py", f"VERSION = '{version}'\n")
        info = f"parcel-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: parcel\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.prove
def test_dependencies_are_those_of_the_build(workspace: Workspace, tmp_path: Path) -> None:
    """A newer version that comes later is not used, and one of the same version with another content is refused."""
    index = folder(tmp_path / "index")
    a_wheel(index, "1.0")
    workspace.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    inline = "# /// script\n# dependencies = ['parcel>=1']\n# ///\n"
    (workspace.tasks / "a.py").write_text(f"{inline}import parcel\nprint(parcel.VERSION)\n")
    built = workspace.json("task", "build", "a")["build"]
    (workspace.tasks / "b.py").write_text(f"{inline}import parcel\nprint(parcel.VERSION, 'too')\n")
    workspace("task", "build", "b")
    a_wheel(index, "2.0")
    node = workspace.serve()
    try:
        wrote = [workspace("run", "logs", workspace.wait_for_a_run(name)["id"]) for name in "ab"]
    finally:
        stop(node)
    assert wrote == ["1.0\n", "1.0 too\n"]
    environments = [each for each in (workspace.home / "state" / "environments").iterdir() if each.is_dir()]
    assert len(environments) == 1
    assert workspace.json("task", "build", "a")["build"] != built
