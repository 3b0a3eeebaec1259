"""What a type checker and an editor say of a program that uses the clients."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import tokimori

PROGRAM = """
from datetime import UTC, datetime, timedelta
import tokimori

app = tokimori.App("shop")

@app.job(schedule=tokimori.every(10).minutes)
def tidy(days: int = 3) -> int:
    return days

def synchronous(client: tokimori.Client) -> tokimori.Run:
    client.jobs.add("a", schedule="0 3 * * *", command="true", timeout=timedelta(minutes=5), retry={"attempts": 3})
    client.jobs.add("b", comand="true")  # wrong
    client.jobs.update("a", priorty=3)  # wrong
    for job in client.jobs.list(owner="ada", state=["paused"], label="tier"):
        print(job.owner, job.idd)  # wrong
    client.jobs.list(statee="paused")  # wrong
    found = client.runs.list(state=tokimori.RunState.FAILED, since=datetime(2030, 1, 1, tzinfo=UTC), limit=5)
    print(found[0].id, found[:2], len(found), client.runs.list(before=found.next).next)
    client.runs.list(limit="5")  # wrong
    client.runs.find(state="failed")  # wrong
    client.queues.pause("web", "repairs")
    client.queues.pause(7)  # wrong
    number: int = client.jobs.get("a").id  # wrong
    for event in client.events.follow(state=["failed"]):
        print(event.job_id, number)
    for message in client.channels.subscribe("news", "ann"):
        print(message.data)
    print(client.db.status().version, client.db.now(), client.calendars.add("c", dates=["2030-12-25"]))
    tidy.ask(dayz=3)  # wrong
    return client.runs.wait(client.jobs.trigger("a", payload={"n": 1}, at=datetime(2030, 1, 1, tzinfo=UTC)).id, 5)

async def asynchronous(client: tokimori.AsyncClient) -> tokimori.Run:
    await client.jobs.add("a", noop=True, delay=timedelta(minutes=5))
    await client.jobs.add("b", comand="true")  # wrong
    await client.jobs.trigger("a", debounced=5)  # wrong
    print(client.jobs.get("a").id)  # wrong
    async for event in client.events.follow():
        print(event.event)
    return await client.jobs.trigger("a", payload=[1], at="2030-01-01T00:00:00Z")

tokimori.opne  # wrong
"""
WRONG = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]
MYPY = ("-m", "mypy", "--strict", "--python-executable", sys.executable)


def wrong_lines(folder: Path, checker: str) -> tuple[list[int], str]:
    """The lines of the program that a type checker refuses, and all that it says."""
    (folder / "program.py").write_text(PROGRAM)
    said = {**own_packages(), "typeCheckingMode": "standard", "include": ["program.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(said))
    line = [sys.executable, *MYPY, "program.py"] if checker == "mypy" else [str(beside(checker)), "--outputjson"]
    ended = subprocess.run(line, capture_output=True, check=False, cwd=folder, text=True, timeout=300)
    if checker == "mypy":
        found = {int(each.split(":")[1]) for each in ended.stdout.splitlines() if ": error:" in each}
    else:
        told = json.loads(ended.stdout)["generalDiagnostics"]
        found = {each["range"]["start"]["line"] + 1 for each in told if each["severity"] == "error"}
    return sorted(found), ended.stdout + ended.stderr


def own_packages() -> dict[str, object]:
    """Where pyright finds Tokimori and what it needs."""
    extra = [str(Path(tokimori.__file__).parents[1])]
    return {"extraPaths": extra, "venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}


def beside(program: str) -> Path:
    """The program of this environment."""
    return Path(sys.executable).with_name(program)


@pytest.mark.prove  # each reads the whole package
@pytest.mark.parametrize("checker", ["mypy", "basedpyright", "pyright"])
def test_mistakes_of_a_program_are_errors_of_types(tmp_path: Path, checker: str) -> None:
    """In both clients, on the lines where one stands and on no other: everything else is seen and typed."""
    if checker == "pyright" and not beside(checker).exists():
        pytest.skip(
            "pyright is not installed here: `pip install pyright`, which asks npm once; basedpyright is its kin"
        )
    found, said = wrong_lines(tmp_path, checker)
    assert found == WRONG, said


class Editor:
    """A language server, as an editor speaks with it."""

    def __init__(self, folder: Path) -> None:
        program = beside("basedpyright-langserver")
        self._server = subprocess.Popen(
            [program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, stderr=subprocess.DEVNULL
        )
        self._ids = count(1)

    def tell(self, method: str, params: object, number: int | None = None) -> None:
        """Send a message; one with a number is a request."""
        said = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
        self._send(said)

    def ask(self, method: str, params: object) -> Any:
        """Send a request; its result. What the server asks meanwhile is answered with nothing."""
        number = next(self._ids)
        self.tell(method, params, number)
        while True:
            heard = self._hear()
            if heard.get("id") == number and "method" not in heard:
                return heard["result"]
            if "id" in heard and "method" in heard:
                items = heard["params"].get("items") if isinstance(heard.get("params"), dict) else None
                self._send(
                    {"jsonrpc": "2.0", "id": heard["id"], "result": None if items is None else [None] * len(items)}
                )

    def close(self) -> None:
        """End the server."""
        self._server.kill()
        self._server.communicate()

    def _send(self, said: object) -> None:
        assert self._server.stdin is not None
        body = json.dumps(said).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()

    def _hear(self) -> Any:
        assert self._server.stdout is not None
        size = 0
        while line := self._server.stdout.readline().strip():
            name, _, value = line.partition(b": ")
            size = int(value) if name.lower() == b"content-length" else size
        return json.loads(self._server.stdout.read(size))


@pytest.mark.prove  # the server reads the whole package
@pytest.mark.parametrize(("line", "operation"), [(3, "add"), (4, "trigger")])
def test_an_editor_jumps_to_the_code_that_does_it(tmp_path: Path, line: int, operation: str) -> None:
    """From a call of a client to the method of its part, with no list in between."""
    calls = '    client.jobs.add("a", noop=True)\n    client.jobs.trigger("a")\n'
    text = f"import tokimori\n\ndef f(client: tokimori.Client) -> None:\n{calls}"
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(own_packages()))
    root, uri = tmp_path.as_uri(), (tmp_path / "program.py").as_uri()
    editor = Editor(tmp_path)
    try:
        editor.ask(
            "initialize", {"processId": None, "capabilities": {}, "workspaceFolders": [{"uri": root, "name": "x"}]}
        )
        editor.tell("initialized", {})
        said = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        editor.tell("textDocument/didOpen", {"textDocument": said})
        place = {"line": line, "character": 4 + len("client.jobs.") + 1}
        (found, *_) = editor.ask("textDocument/definition", {"textDocument": {"uri": uri}, "position": place})
    finally:
        editor.close()
    source = Path(unquote(urlsplit(found["uri"]).path))
    assert source.name == "jobs.py"
    assert f"async def {operation}(" in source.read_text().splitlines()[found["range"]["start"]["line"]]
