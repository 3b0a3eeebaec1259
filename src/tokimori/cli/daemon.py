"""Going into the background."""

import os
from collections.abc import Callable
from pathlib import Path

from tokimori.cli.output import announce, print_lines, print_notice


def detach(log: Path, work: Callable[[Callable[[str], None]], int]) -> int:
    """Do the work in a new process and session, its output in `log`; this process prints its id when it is ready.

    The work is ready when it tells its first line. Where it ends before, this process shows what it wrote and returns
    its exit code. To be called before there are threads or loops, which a fork would lose.
    """
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    begin = log.stat().st_size if log.exists() else 0
    ready_to_read, ready_to_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ready_to_write)
        return _await_ready(pid, ready_to_read, log, begin)
    os.close(ready_to_read)
    os.setsid()
    _redirect(log)
    return work(_Ready(ready_to_write))


class _Ready:
    """Prints lines into the log; the first one tells the parent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def __call__(self, line: str) -> None:
        announce(line)
        if self._descriptor is not None:
            os.write(self._descriptor, b"!")
            os.close(self._descriptor)
            self._descriptor = None


def _await_ready(pid: int, ready: int, log: Path, begin: int) -> int:
    with os.fdopen(ready, "rb") as pipe:
        if pipe.read(1):
            print_lines(str(pid))
            return 0
    _, status = os.waitpid(pid, 0)
    with log.open("rb") as written:
        written.seek(begin)
        print_notice(written.read().decode(errors="replace").rstrip())
    return os.waitstatus_to_exitcode(status)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
