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

def synchronous(client: tokimori.Client) -> tokimori.Run:
    client.jobs.add("a", schedule="0 3 * * *", command="true", timeout=timedelta(minutes=5))
    client.jobs.add("b", comand="true")  # line 7
    client.jobs.update("a", priorty=3)  # line 8
    return client.jobs.trigger("a", payload={"n": 1}, at=datetime(2030, 1, 1, tzinfo=UTC))

async def asynchronous(client: tokimori.AsyncClient) -> tokimori.Run:
    await client.jobs.add("a", noop=True, delay=timedelta(minutes=5))
    await client.jobs.add("b", comand="true")  # line 13
    await client.jobs.trigger("a", debounced=5)  # line 14
    return await client.jobs.trigger("a", payload=[1], at="2030-01-01T00:00:00Z")

tokimori.opne  # line 17
"""
WRONG = [7, 8, 13, 14, 17]


@pytest.mark.prove  # mypy reads the whole package
def test_a_misspelt_keyword_is_an_error_of_types(tmp_path: Path) -> None:
    """In both clients, on the lines where one stands and on no other: everything else is seen and typed."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, str(program)],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=300,
    )
    found = [line.split(":")[1] for line in ended.stdout.splitlines() if ": error:" in line]
    assert [int(number) for number in found] == WRONG, ended.stdout + ended.stderr


class Editor:
    """A language server, as an editor speaks with it."""

    def __init__(self, folder: Path) -> None:
        program = Path(sys.executable).with_name("basedpyright-langserver")
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
    own = {"extraPaths": [str(Path(tokimori.__file__).parents[1])], "venvPath": str(Path(sys.prefix).parent)}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**own, "venv": Path(sys.prefix).name}))
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
