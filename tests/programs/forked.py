"""The program, forked from a process that has loaded it: a start takes a few milliseconds instead of half a second.

Everything else is as in a process of its own: arguments, environment, folder, output, exit code. `test_starts.py`
starts every noun for real too, and compares.
"""

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, NoReturn, TextIO

from tokimori import cli

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("tokimori")
BARE = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
"""The environment of programs that are tested: of this process only by what they are started, and which package it is:
a copy without one of its guards, for one.
"""
LOADED = (
    *(f"tokimori.cli.{each.name}" for each in pkgutil.iter_modules(cli.__path__)),
    *(f"tokimori.stores.{kind}.store" for kind in ("sqlite", "postgres", "mysql", "redis")),
    *("tokimori.stores.sqlite.migrations", "tokimori.stores.postgres.migrations", "tokimori.config.contexts"),
    *("tokimori.client.over_http", "tokimori.foreign.kala.stored_jobs", "tokimori.metrics"),
    *("tokimori.node.background", "tokimori.node.checkup", "tokimori.node.systemd"),
    *("tokimori.node.http_door", "tokimori.node.wiring", "tokimori.translators.entries"),
    *("click.shell_completion", "encodings.idna", "importlib.metadata", "importlib.readers", "zipfile"),
    *("importlib.resources.readers", "opentelemetry.trace"),
)
"""What commands and nodes load."""


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    """What `subprocess.run` answers for the program, however it ends. Raises `subprocess.TimeoutExpired`."""
    ours, theirs = socket.socketpair()
    outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(ours)
        for descriptor in outputs:
            stack.callback(os.close, descriptor)
        with theirs:
            _starter().start([arguments, str(cwd), dict(env)], [theirs.fileno(), *outputs])
        code = _await(ours, arguments, timeout)
        printed = [os.pread(each, os.fstat(each).st_size, 0).decode() for each in outputs]
    return subprocess.CompletedProcess([str(PROGRAM), *arguments], code, *printed)


class Started:
    """The program at work, to be used as a `subprocess.Popen[str]` is.

    `stdout` is `PIPE`, `DEVNULL` or a file; `stderr` is `None` (this process's own), `DEVNULL` or a file.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int | IO[str],
        stderr: int | IO[str] | None = None,
    ) -> None:
        self.stdout: TextIO | None = None
        self.returncode: int | None = None
        connection, theirs = socket.socketpair()
        self._answers = connection.makefile("r")
        with contextlib.ExitStack() as stack, connection:
            stack.enter_context(theirs)
            outputs = [self._output(stack, stdout), self._output(stack, 2 if stderr is None else stderr)]
            _starter().start([arguments, str(cwd), dict(env)], [theirs.fileno(), *outputs])
        self.pid = int(self._answers.readline())

    def _output(self, stack: contextlib.ExitStack, wanted: int | IO[str]) -> int:
        """A descriptor for what it prints."""
        if wanted == subprocess.PIPE:
            ours, theirs = os.pipe()
            self.stdout = os.fdopen(ours)
        elif wanted == subprocess.DEVNULL:
            theirs = os.open(os.devnull, os.O_WRONLY)
        else:
            return wanted if isinstance(wanted, int) else wanted.fileno()
        stack.callback(os.close, theirs)
        return theirs

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            ready, _, _ = select.select([self._answers], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(str(PROGRAM), timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> None:
        """Wait until it has ended; what it still printed is thrown away."""
        self.wait(timeout)
        if self.stdout is not None:
            self.stdout.close()

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _await(connection: socket.socket, arguments: Sequence[str], timeout: float) -> int:
    """The exit code; a program that takes longer is killed."""
    answers = connection.makefile("r")
    pid = int(answers.readline())
    ready, _, _ = select.select([connection], [], [], timeout)
    if not ready:
        os.kill(pid, 9)
    code = int(answers.readline())
    if not ready:
        raise subprocess.TimeoutExpired([str(PROGRAM), *arguments], timeout)
    return code


class _Starter:
    """The process that has loaded the program; it ends when its socket closes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=BARE,
            )

    def start(self, order: object, descriptors: list[int]) -> None:
        """Start the program; it answers on the first of these descriptors."""
        with self._lock:
            socket.send_fds(self._orders, [json.dumps(order).encode()], descriptors)


@cache
def _starter() -> _Starter:
    return _Starter()


def load() -> None:
    """Begin to load the program, once for this process and those that it forks."""
    _starter()


def _serve(orders: socket.socket) -> None:
    """Start what is ordered, and tell each one's pid and exit code, until nobody is left who orders."""
    ended, end = os.pipe()
    for descriptor in (ended, end):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    answers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1 << 12)
            _tell_ends(answers)
        if orders.fileno() not in ready:
            continue
        text, descriptors, _, _ = socket.recv_fds(orders, 1 << 20, 3)
        if not text:
            return
        order: tuple[list[str], str, dict[str, str]] = json.loads(text)
        answer, stdout, stderr = descriptors
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(*order, stdout, stderr)
        os.close(stdout)
        os.close(stderr)
        answers[pid] = answer
        _tell(answer, pid)


def _tell_ends(answers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            answer = answers.pop(pid)
            _tell(answer, os.waitstatus_to_exitcode(status))
            os.close(answer)


def _tell(answer: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever asked has gone
        os.write(answer, f"{number}\n".encode())


def _become(arguments: list[str], cwd: str, env: dict[str, str], stdout: int, stderr: int) -> NoReturn:
    """Be the program."""
    os.chdir(cwd)
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
    time.tzset()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, 1 << 10)
    sys.argv = [str(PROGRAM), *arguments]
    try:
        import_module("tokimori.cli.main").main()
    except SystemExit as end:
        _exit(end.code)
    finally:
        traceback.print_exc()
        os._exit(1)


def _rehearse() -> None:
    """List the jobs of a store that is thrown away: what commands look up once is known to all that are forked."""
    from tokimori.cli.main import main

    environment, stdout = dict(os.environ), os.dup(1)
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        os.environ.update(HOME=folder, TOKIMORI_STATE_DIR=folder, TOKIMORI_STORE=f"sqlite://{folder}/t.db")
        os.dup2(nowhere.fileno(), 1)
        with contextlib.suppress(SystemExit):
            main(["job", "add", "a", "--schedule", "every 1h", "--command", "true"])
        sys.stdout.flush()
    os.dup2(stdout, 1)
    os.close(stdout)
    os.environ.clear()
    os.environ.update(environment)


def _exit(code: object) -> NoReturn:
    """End as Python does, but leave the memory to the system: to tidy it up costs more than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    for name in LOADED:
        import_module(name)
    import_module("tests.programs.compiled").compile_at_once()
    _rehearse()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _serve(connection)
