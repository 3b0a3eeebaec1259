"""The program at a terminal: what it shows, and what somebody types."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM

LONGEST = 60.0
"""Seconds that the program may take."""


class Session:
    """A program that runs at a terminal of this size."""

    def __init__(
        self,
        program: Program,
        *arguments: str,
        columns: int = 80,
        more: Mapping[str, str] | None = None,
        patience: float = LONGEST,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        environment = {**program.environment, "TERM": "xterm", **(more or {})}
        command = ["env", "--default-signal=INT", str(PROGRAM), *arguments]  # a shell's background job ignores it
        self.process = subprocess.Popen(
            command,
            cwd=program.home,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        self._deadline = time.monotonic() + patience

    def until(self, text: str) -> str:
        """All that was shown, once this text is there."""
        while text not in self.shown:
            assert self._read(), f"it ended without {text!r}: {self.shown}"
        return self.shown

    def type(self, text: str) -> None:
        """What somebody types."""
        os.write(self._ours, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size; the kernel tells the program."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def interrupt(self) -> None:
        """Send what a terminal does at Ctrl-C, as people do: again where nothing comes of it.

        Python does not see one that comes between its last look for signals and the read that waits.
        """
        for _ in range(3):
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
                return

    def end(self) -> tuple[int, str]:
        """Its exit code, and all that was shown."""
        while self._read():
            pass
        code = self.process.wait(timeout=LONGEST)
        os.close(self._ours)
        return code, self.shown

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0, self._deadline - time.monotonic()))
        if not ready:
            self.process.kill()
            raise AssertionError(f"it takes too long; so far: {self.shown}")
        piece = b""
        with contextlib.suppress(OSError):  # Linux says so that nobody writes any more
            piece = os.read(self._ours, 65_536)
        self.shown += piece.decode().replace("\r\n", "\n")
        return bool(piece)


def at_a_terminal(
    program: Program, *arguments: str, typed: str = "", columns: int = 80, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """How the program ends and what it shows, where this is typed at once."""
    session = Session(program, *arguments, columns=columns, more=more)
    if typed:
        session.type(typed)
    return session.end()
