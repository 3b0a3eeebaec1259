"""What the kernel is asked to do with this process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tokimori.executors.keeper.kernel import use_batch_scheduling, waits_for_disk

PROGRAM = """
import os, sys
from tokimori.executors.keeper.kernel import use_batch_scheduling
os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0))
use_batch_scheduling()
print(os.sched_getscheduler(0))
"""


@pytest.mark.parametrize(("before", "after"), [(os.SCHED_OTHER, os.SCHED_BATCH), (os.SCHED_IDLE, os.SCHED_IDLE)])
def test_a_process_that_preempts_nobody_keeps_what_somebody_has_set(before: int, after: int) -> None:
    """Who has started it with another policy has a reason."""
    said = subprocess.check_output([sys.executable, "-c", PROGRAM, str(before)], text=True)
    assert int(said) == after


def test_where_a_sandbox_forbids_it_the_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would only be a little faster."""

    def forbidden(*_: object) -> None:
        raise PermissionError

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    use_batch_scheduling()
    assert os.sched_getscheduler(0) == before


UNINTERRUPTED = """
import os, sys
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""


def test_who_waits_for_a_disk_is_told_from_who_is_stopped(tmp_path: Path) -> None:
    """A process waits as uninterruptedly for a child that opens a pipe nobody writes to; a sleeping one does not."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        subprocess.Popen([sys.executable, "-c", UNINTERRUPTED, pipe]) as waiting,
        subprocess.Popen(["sleep", "60"]) as sleeping,
    ):
        until = time.monotonic() + 30
        while not waits_for_disk(waiting.pid) and time.monotonic() < until:
            os.sched_yield()
        found = waits_for_disk(waiting.pid), waits_for_disk(sleeping.pid)
        sleeping.kill()
        os.close(os.open(pipe, os.O_WRONLY))
    assert (*found, waits_for_disk(waiting.pid)) == (True, False, False)
