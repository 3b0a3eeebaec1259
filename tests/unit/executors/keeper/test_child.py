"""Why nothing was spawned."""

import errno
import os
import subprocess

import pytest

from tokimori.executors.keeper.child import Refusal, refusal_of
from tokimori.executors.keeper.wire import EndCause, Start


def an_order(account: tuple[int, int, list[int]] | None = None) -> Start:
    """An order to run `prog` in /work."""
    return Start(1, ["prog"], {}, "/work", "log", account, None, None, 1.0, False)


def a_fault(number: int, file: str = "prog") -> OSError:
    """What Popen raises."""
    return OSError(number, "", file)


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        (a_fault(errno.ENOENT), Refusal(127, "'prog': program not found: No such file or directory")),
        (a_fault(errno.ENOTDIR), Refusal(127, "'prog': program not found: Not a directory")),
        (a_fault(errno.EACCES), Refusal(126, "'prog' can't be executed: Permission denied")),
        (a_fault(errno.ENOEXEC), Refusal(126, "'prog' can't be executed: Exec format error")),
        (a_fault(errno.EACCES, "/work"), Refusal(None, "cwd '/work': Permission denied")),
        (a_fault(errno.ELOOP), Refusal(None, "'prog' could not be started: Too many levels of symbolic links")),
        (ValueError("embedded null byte"), Refusal(None, "it could not be started: embedded null byte")),
        (subprocess.SubprocessError("odd"), Refusal(None, "it could not be started: odd")),
    ],
)
def test_refusals(fault: Exception, refusal: Refusal) -> None:
    """Each fault becomes a sentence that names what is at fault, with a shell's exit code where a shell has one."""
    assert refusal_of(an_order(), fault) == refusal


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("file", ["prog", "/work"])
def test_a_machine_that_is_short_of_something(number: int, file: str) -> None:
    """Is no fault of the command's: whatever was being opened or begun."""
    refusal = refusal_of(an_order((1, 1, [])), a_fault(number, file))
    assert refusal == Refusal(None, f"'prog' could not be started: {os.strerror(number)}", EndCause.SHORT)
    assert refusal_of(an_order(), MemoryError()).cause is EndCause.SHORT


def test_a_user_that_can_not_be_changed_to() -> None:
    """Where even root may not become a user (some containers), the sentence says so instead of blaming the folder."""
    refusal = refusal_of(an_order((1000, 1000, [])), a_fault(errno.EPERM, "/work"))
    assert refusal == Refusal(None, "this node can't run a command as uid 1000: Operation not permitted")
