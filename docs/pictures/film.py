"""A film of a terminal: the commands of the first minutes, typed in a fresh folder; `make film` writes it anew.

`first-minutes.cast` is an asciicast (version 2) for `asciinema play`; `first-minutes.svg` is the same for the manual.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

FILM = (
    "tokimori serve",
    'tokimori job add nightly-report --schedule "0 3 * * *" --timezone Europe/Paris --command "echo a report"',
    "tokimori job trigger nightly-report --wait",
    "tokimori job logs nightly-report",
    "tokimori job next nightly-report -n 3",
    "tokimori job why nightly-report",
    "tokimori backup before.db",
)
"""What is typed. The first command goes on in the background, as in another terminal."""
WIDTH, HEIGHT = 112, 30
_ASSETS = Path(__file__).parents[1] / "assets"
_KEY, _REST, _LEAST = 0.04, 1.2, 0.3
"""Seconds: for each key that is typed, behind each command, and before its answer at least."""
_SECRET = re.compile(r"secret=[\w-]+")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
_LINE, _LETTER, _MARGIN = 19, 8, 16
"""Pixels."""


class Shown(NamedTuple):
    """A text that came up, so many seconds after the film began."""

    at: float
    text: str


def recorded(folder: Path, program: str) -> list[Shown]:
    """Type the film in this folder; all that a terminal shows of it."""
    said = {"HOME": str(folder), "PATH": f"{Path(program).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    said |= {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT), "TZ": "Europe/Paris"}
    said |= {"TOKIMORI_STATE_DIR": str(folder / "state"), "TOKIMORI_HTTP_PORT": "0"}
    shown, at, running = list[Shown](), 0.5, list["subprocess.Popen[bytes]"]()
    try:
        for number, command in enumerate(FILM):
            shown += _typed(command, at)
            at = shown[-1].at + _LEAST
            answer = _answer(command, folder, said, running if number == 0 else None)
            shown.append(Shown(at, _as_elsewhere(answer, folder)))
            at += _REST
    finally:
        for each in running:
            each.send_signal(signal.SIGTERM)
            each.wait(30)
    return [*shown, Shown(at + _REST, "$ ")]


def _as_elsewhere(answer: str, folder: Path) -> str:
    """Return an answer without the secret and the names of this machine."""
    answer = re.sub(r":\d{4,5}/", ":8000/", _SECRET.sub("secret=…", answer))
    return answer.replace(str(folder), "/home/ann").replace(f" on {socket.gethostname()}.", " on web-1.")


def _typed(command: str, at: float) -> Iterator[Shown]:
    yield Shown(at, "\x1b[1m$ ")
    for number, letter in enumerate(command, 1):
        yield Shown(at + number * _KEY, letter)
    yield Shown(at + (len(command) + 1) * _KEY, "\x1b[0m\r\n")


def _answer(command: str, folder: Path, said: dict[str, str], running: "list[subprocess.Popen[bytes]] | None") -> str:
    """Return what a terminal shows of a command, of one that goes on what it shows until it is at work."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"],
        cwd=folder,
        env=said,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL if running is not None else theirs,
        start_new_session=True,
    )
    os.close(theirs)
    if running is not None:
        running.append(process)
    text, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                text += os.read(ours, 65_536)
            except OSError:  # all that had the terminal open have ended
                break
        elif running is not None and b"runs jobs" in text and b"http" in text:
            break
    if running is None:
        process.wait(30)
        os.close(ours)
    return text.decode()


def cast_of(shown: Sequence[Shown]) -> str:
    """Return the film as an asciicast."""
    head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "Tokimori: the first minutes"}
    rows = [json.dumps([round(each.at, 3), "o", each.text], ensure_ascii=False) for each in shown]
    return "\n".join([json.dumps(head), *rows]) + "\n"


def picture_of(shown: Sequence[Shown]) -> str:
    """Return the film as a picture whose lines come up one after the other; who wants no motion sees all of them."""
    lines: list[Shown] = []
    line, began = "", 0.0
    for each in shown:
        for part in _ESCAPE.sub("", each.text).splitlines(keepends=True):
            began = began if line else each.at
            line += part.rstrip("\n")
            if part.endswith("\n"):
                lines.append(Shown(began, line))
                line = ""
    width, height = WIDTH * _LETTER + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    rows = (
        f'<text class="{"typed" if each.text.startswith("$ ") else "told"}" x="{_MARGIN}" '
        f'y="{_MARGIN + (number + 1) * _LINE - 5}" style="animation-delay:{each.at:.2f}s">'
        f"{escape(each.text[:WIDTH])}</text>"
        for number, each in enumerate(lines)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'role="img" aria-label="A terminal: a node is started, a job added, run, and asked about">',
            "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre;opacity:0;"
            "animation:come 1ms forwards}.typed{fill:#fff}.told{fill:#b9c4d0}@keyframes come{to{opacity:1}}"
            "@media (prefers-reduced-motion:reduce){text{animation:none;opacity:1}}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#16202b"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def main(target: Path = _ASSETS) -> None:
    """Write the film anew."""
    program = shutil.which("tokimori", path=str(Path(sys.executable).parent)) or "tokimori"
    with tempfile.TemporaryDirectory() as folder:
        shown = recorded(Path(folder), program)
    (target / "first-minutes.cast").write_text(cast_of(shown))
    (target / "first-minutes.svg").write_text(picture_of(shown))


if __name__ == "__main__":
    main()
