"""Debian's Firefox, asked by Marionette: Playwright's own is another one. Tests that want it are skipped without it."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def program() -> str | None:
    """Where it is."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One window of a browser at work."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._number = line, 0
        self._told()  # who it is
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"pageLoadStrategy": "normal"}})

    def _told(self) -> Any:
        length = b""
        while (byte := self._line.recv(1)) != b":":
            assert byte, "Firefox has gone"
            length += byte
        text = b""
        while len(text) < int(length):
            text += self._line.recv(int(length) - len(text))
        return json.loads(text)

    def ask(self, command: str, **terms: object) -> Any:
        """What it answers."""
        self._number += 1
        text = json.dumps([0, self._number, command, terms])
        self._line.sendall(f"{len(text.encode())}:{text}".encode())
        _, _, fault, value = self._told()
        assert fault is None, fault
        return value

    def show(self, address: str) -> None:
        """Go there, and wait until it is loaded."""
        self.ask("WebDriver:Navigate", url=address)

    def run(self, script: str) -> Any:
        """What a script returns; one that waits returns a promise."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=[], newSandbox=False)["value"]


@contextmanager
def firefox(home: Path, path: str) -> Iterator[Firefox]:
    """One with a profile of its own, without a screen."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
    started = [path, "--headless", "--no-remote", "--marionette", "--profile", str(home)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(started, env={"HOME": str(home), "MOZ_HEADLESS": "1"}, **quiet) as process:  # type: ignore[call-overload]
        try:
            for _ in range(300):
                try:
                    line = socket.create_connection(("127.0.0.1", port), timeout=60)
                    break
                except OSError:
                    time.sleep(0.1)
            with line:
                yield Firefox(line)
        finally:
            process.terminate()
