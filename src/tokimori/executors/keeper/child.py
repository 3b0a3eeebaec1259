"""Processes of attempts: spawning, state, and the times of the next checks."""

import errno
import os
import resource
import signal
import subprocess
from math import inf
from typing import NamedTuple

from . import other_user
from .kernel import Spent, boottime, is_short, peak, see, send
from .output import Output
from .surroundings import Begun, Surroundings
from .wire import EndCause, Start

CANNOT_EXECUTE = 126
NOT_FOUND = 127
"""The exit codes with which a shell reports the same (POSIX, 2.8.2)."""

CHECK_EVERY = 0.1
"""Seconds between two looks at what a command with limits uses."""
_GIVE_UP = 5.0
"""Seconds after which a killed group that does not vanish (stuck in the kernel) is no longer waited for."""


class Refusal(NamedTuple):
    """Reason why no process was spawned."""

    exit_code: int | None
    error: str
    cause: EndCause = EndCause.NOT_STARTED


class Child:
    """A spawned process, leader of a group of its own in the keeper's session. Times are seconds since boot.

    `status` is None until the leader has exited; `refusal`: why it never began. The `…_at` are moments, `inf` for
    never: of the time-out, the KILL after a TERM, the next check of what it uses, the next report on growing output,
    and the next look at processes that an exited leader left. `excess` says by what it was above a limit.
    """

    __slots__ = (
        "cause",
        "check_at",
        "complaints",
        "ended",
        "excess",
        "giving_up_at",
        "kill_at",
        "look_at",
        "order",
        "output",
        "pid",
        "pidfd",
        "pipe",
        "refusal",
        "report_at",
        "reported_at",
        "spent",
        "started",
        "status",
        "swept",
        "timeout_at",
    )

    def __init__(self, order: Start, begun: Begun, pipe: int | None, started: float, out: Output) -> None:
        self.order = order
        self.pid = begun.pid
        self.pipe = pipe
        self.complaints = begun.complaints
        self.refusal: Refusal | None = None
        self.pidfd: int | None = None
        self.output = out
        self.spent = Spent(peak())
        self.started = started
        self.ended = started
        self.status: int | None = None
        self.cause = EndCause.EXIT
        self.timeout_at = inf if order.timeout is None else started + order.timeout
        self.kill_at = inf
        self.check_at = inf if order.max_cpu is None and order.max_memory is None else started + CHECK_EVERY
        self.excess = ""
        self.report_at = inf
        self.reported_at = started
        self.look_at = inf
        self.giving_up_at = inf
        self.swept = False

    def wake_at(self) -> float:
        """Return the moment at which the next thing is due."""
        if self.status is not None:
            return self.look_at
        return min(self.timeout_at, self.kill_at, self.report_at, self.check_at)

    def has_exited(self) -> bool:
        """Return if the leader is an uncollected zombie."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def terminate(self, cause: EndCause, now: float, grace: float) -> None:
        """Send TERM to the group and its leader, once. The first cause counts, and the earliest KILL."""
        self.kill_at = min(self.kill_at, now + grace)
        if self.cause is EndCause.EXIT:
            self.cause = cause
            self.timeout_at = self.check_at = inf
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped process could not receive it

    def kill(self, now: float) -> None:
        """Send KILL to the group. Only while a member is an uncollected child: later the number may be a stranger's."""
        self.kill_at = inf
        self.giving_up_at = min(self.giving_up_at, now + _GIVE_UP)
        send(-self.pid, signal.SIGKILL)
        if self.status is None:
            send(self.pid, signal.SIGKILL)  # it may have gone over to another group

    def _signal(self, number: int) -> None:
        """Send a signal to the group, and to a leader that has joined another one; a leader gets it once."""
        send(-self.pid, number)
        seen = see(self.pid) if self.status is None else None
        if seen is not None and seen.group != self.pid:
            send(self.pid, number)

    def collect(self) -> None:
        """Take the exit status of a leader that has exited, and why it never began, if it says so."""
        _, status, usage = os.wait4(self.pid, 0)
        self.spent.add(usage)
        self.status = os.waitstatus_to_exitcode(status)
        if self.complaints is not None:
            fault = other_user.complaint(self.order, self.complaints)
            self.complaints = None
            if fault is not None and self.cause is EndCause.EXIT:
                self.refusal = refusal_of(self.order, fault)

    def close_pipe(self) -> None:
        """Stop reading; a process that still writes gets SIGPIPE."""
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None


def spawn(order: Start, around: Surroundings) -> Child | Refusal:
    """Start a process: stdout and stderr in one pipe, a group of its own, never `preexec_fn` (so that vfork is used).

    It gets no session of its own: if the kernel schedules by session (sched_autogroup, sched(7)), a child that calls
    setsid starts behind all others, and the keeper waits for its exec. It does not wait for that of another user's
    command (`other_user`).
    """
    started = boottime()
    opened: list[int] = []
    reading = writing = None
    try:
        if not order.foreground:
            reading, writing = os.pipe2(os.O_CLOEXEC)
            opened += [reading, writing]
        stdin = around.stdin if order.foreground else around.null
        if order.stdin is not None:
            stdin = _file_of(order.stdin)
            opened.append(stdin)
        begun = _begun(order, around, stdin, writing)
        if reading is not None:
            opened.remove(reading)
    except (OSError, ValueError, MemoryError, subprocess.SubprocessError) as fault:
        return refusal_of(order, fault)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if reading is not None:
        os.set_blocking(reading, False)
    return Child(order, begun, reading, started, Output(around.runs, order.log, around.limit, order.hidden))


def _begun(order: Start, around: Surroundings, stdin: int, output: int | None) -> Begun:
    if order.account is not None:
        return other_user.begin(order, around, stdin, output)
    pid = _popen(order, around, stdin, output)
    _restore_limit(pid, around.descriptors)
    return Begun(pid)


def _popen(order: Start, around: Surroundings, stdin: int, output: int | None) -> int:
    popen = subprocess.Popen(
        order.argv,
        stdin=stdin,
        stdout=output,
        stderr=output,
        cwd=order.cwd,
        env=order.env,
        process_group=0,
        umask=around.umask,
    )
    popen.returncode = 0  # it is collected here, and by its pid alone
    return popen.pid


def _restore_limit(pid: int, descriptors: tuple[int, int]) -> None:
    """Give the child the node's limit, as the keeper's is higher."""
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, descriptors)
    except (PermissionError, ProcessLookupError):
        pass


def _file_of(text: str) -> int:
    """Return an unnamed file in memory that holds the text, open at its beginning: no pipe has to be written."""
    file = os.memfd_create("stdin", os.MFD_CLOEXEC)
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def refusal_of(order: Start, fault: Exception) -> Refusal:
    """Return why a process could not be spawned, with the exit code that a shell would give."""
    if is_short(fault):
        words = os.strerror(fault.errno) if isinstance(fault, OSError) and fault.errno else "no memory"
        return Refusal(None, f"{order.argv[0]!r} could not be started: {words}", EndCause.SHORT)
    if not isinstance(fault, OSError):
        return Refusal(None, f"it could not be started: {fault}")
    reason = os.strerror(fault.errno) if fault.errno else str(fault)
    if order.account is not None and fault.filename == order.cwd and fault.errno in (errno.EPERM, errno.EINVAL):
        return Refusal(None, f"this node can't run a command as uid {order.account[0]}: {reason}")
    if fault.filename == order.cwd and order.cwd != order.argv[0]:
        return Refusal(None, f"cwd {order.cwd!r}: {reason}")
    match fault.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return Refusal(NOT_FOUND, f"{order.argv[0]!r}: program not found: {reason}")
        case errno.EACCES | errno.EPERM | errno.ENOEXEC | errno.EISDIR:
            return Refusal(CANNOT_EXECUTE, f"{order.argv[0]!r} can't be executed: {reason}")
        case _:
            return Refusal(None, f"{order.argv[0]!r} could not be started: {reason}")
