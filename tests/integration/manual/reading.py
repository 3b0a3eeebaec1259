"""A page of the manual, carried out as a reader would: files are written, commands typed, and what they print compared.

A block of `console` is typed where a line begins with `$ `; the lines below it are what it prints. Its title is a
machine, if there are several. Any other block with a title is a file of this name, and a block of `python` without one
is a program. Blocks of `sh`, `py` and `text` are only read.
"""

import getpass
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests.programs.forked import BARE, PROGRAM, ROOT

PATIENCE = 60.0
LASTING = re.compile(r"(tokimori (serve|worker)|uvicorn)\b(?!.*--help)")
"""Commands that go on until they are stopped."""
READING = re.compile(r"\b(list|show|logs|status|next|why|curl|alarms|cat|ping)\b")
"""Commands that a reader types again if the answer is not there yet."""
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0[0-9a-f]{3}…"), "ID"),
    (re.compile(rf"\b{re.escape(socket.gethostname())}\b"), "web-1"),
    (re.compile(rf"\bby {getpass.getuser()}\b"), "by ann"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs each time: times, ids, the name of the machine, the width of columns."""


class Block(NamedTuple):
    """A block of a page: its language, its title or nothing, and its lines."""

    language: str
    title: str
    text: str


class Typed(NamedTuple):
    """A command, the lines that it has to print, and its exit code."""

    command: str
    printed: str
    code: int


def blocks(page: Path) -> list[Block]:
    """All of a page, in order. One in a list would be missed, so there is none."""
    text = page.read_text()
    assert not re.search(r"^ +```(console|python)", text, re.MULTILINE), page
    found = re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


def typed(text: str) -> Iterator[Typed]:
    """Yield what is typed at the prompts of a block, without the comments."""
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = each.splitlines()
        while lines[0].endswith("\\") or (len(lines) > 1 and lines[1].startswith("> ")):
            lines[:2] = [lines[0] + "\n" + lines[1].removeprefix("> ")]
        command, _, comment = lines[0].partition("  #")
        code = re.search(r"exit code (\d)", comment)
        yield Typed(command.strip(), "\n".join(lines[1:]).strip(), int(code[1]) if code else 0)


def pattern(printed: str) -> re.Pattern[str]:
    """Return what output has to look like: `…` is anything, on a line of its own any lines."""
    told = re.escape(same(printed).strip().removesuffix("\n…"))
    return re.compile(re.sub(r"(?<![^\n])…\\\n", r"(?:.*\\n)*?", told).replace("…", "[^\\n]*"))


def same(text: str) -> str:
    """Return a text without what differs each time."""
    for what, word in CHANGING:
        text = what.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Reader:
    """Somebody who types what a page says, in a fresh folder for each machine."""

    def __init__(self, home: Path, known: Mapping[str, str], program: Path = PROGRAM) -> None:
        """Take what stands on the page for what is elsewhere here (addresses), and the program of a venv."""
        self.home = home
        place = {"/srv/tokimori.db": f"{home}/web-1/.state/tokimori.db"}
        self.known = {**known, **place, **{port: str(free_port()) for port in ("8000", "8001", "8080")}}
        self.program = program
        self.exported: dict[str, dict[str, str]] = {}
        self.started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _log in reversed(self.started):
            self._stop(process)
        for note in self.home.glob("*/.state/node.pid"):  # a page that was not read to its end leaves a node behind
            self._run("tokimori system stop --now", note.parents[1])

    def read(self, page: Path) -> int:
        """Carry a page out, and return how many commands were typed."""
        count = 0
        found = blocks(page)
        for block in found:
            self._machine(block.title if block.language == "console" else "")
        for block in found:
            if block.language == "console":
                for each in typed(block.text):
                    self.type_in(each, self._machine(block.title))
                    count += 1
            elif block.title:
                self._write(block)
            elif block.language == "python":
                (self._machine("") / "snippet.py").write_text(self._here(block.text))
                self.type_in(Typed("python snippet.py", "", 0), self._machine(""))
                count += 1
        return count

    def type_in(self, each: Typed, machine: Path) -> None:
        """Type one command, and see what it prints."""
        command, wanted = self._here(each.command), pattern(self._here(each.printed))
        if command == "stop":
            return self._stop(self.started.pop()[0])
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.exported.setdefault(machine.name, {})[name] = value.strip("'\"")
            return None
        if LASTING.match(command):
            return self._start(command, wanted, machine)
        until = time.monotonic() + PATIENCE
        while True:
            done = self._run(command, machine)
            output = same(done.stdout)
            assert "Traceback" not in output or "Traceback" in each.printed, (command, output)
            if done.returncode == each.code and (not each.printed or wanted.search(output)):
                return None
            again = READING.search(command) and time.monotonic() < until
            assert again, f"{command}\nexit code {done.returncode}\n{done.stdout}\nnot:\n{each.printed}"
            time.sleep(0.5)

    def _run(self, command: str, machine: Path) -> "subprocess.CompletedProcess[str]":
        """Carry out a command, with the newest run for `RUN`."""
        if re.search(r"\bRUN\b", command):
            newest = self._run("tokimori run list -o ids | head -n 1", machine).stdout.strip()
            command = re.sub(r"\bRUN\b", newest, command)
        return subprocess.run(
            ["sh", "-c", command],
            cwd=machine,
            env=self._environment(machine),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )

    def _start(self, command: str, wanted: re.Pattern[str], machine: Path) -> None:
        """Start what goes on, and wait until it has printed what stands on the page."""
        log = machine / f".typed-{len(self.started)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=machine,
                env=self._environment(machine),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.started.append((process, log))
        until = time.monotonic() + PATIENCE
        while not wanted.search(same(log.read_text())):
            assert process.poll() is None, f"{command} has ended:\n{log.read_text()}"
            assert time.monotonic() < until, f"{command} does not print {wanted.pattern}:\n{log.read_text()}"
            time.sleep(0.05)

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """Press Ctrl-C."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # it waits for a run; who is in a hurry presses it again
            process.send_signal(signal.SIGINT)
            process.wait(30)
        finally:
            process.kill()
            process.wait()

    def _write(self, block: Block) -> None:
        """Write a file, on every machine that there is."""
        for machine in self.home.iterdir():
            path = machine / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._here(block.text))

    def _machine(self, title: str) -> Path:
        """Return the home of the machine on which a block is typed."""
        place = self.home / (title or "web-1").split()[0]
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _environment(self, machine: Path) -> dict[str, str]:
        """Return the environment of a fresh machine: this program, and no settings of anybody else's."""
        path = f"{self.program.parent}{os.pathsep}{BARE['PATH']}"
        port = self.known["8000"] if machine.name == "web-1" else "0"
        fresh = {"PATH": path, "HOME": str(machine), "SHELL": "/bin/bash", "TOKIMORI_STATE_DIR": f"{machine}/.state"}
        return {**BARE, **fresh, "TOKIMORI_HTTP_PORT": port, **self.exported.get(machine.name, {})}

    def _here(self, text: str) -> str:
        """Return a text with the addresses of here."""
        for there, here in self.known.items():
            text = re.sub(rf"(?<!\d){re.escape(there)}(?!\d)", here, text)
        return text


MANUAL = ROOT / "docs"
