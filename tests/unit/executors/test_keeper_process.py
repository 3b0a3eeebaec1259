"""A keeper as its node sees it."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_process import KeeperChannel, KeeperProcess


def channel() -> KeeperChannel:
    """One that nobody listens to."""
    return KeeperChannel(lambda _: None, lambda: None)


def test_a_keeper_that_is_killed_twice_is_buried() -> None:
    """What it has left ends with it, though it was dead when it was killed again."""
    script = "sleep 60 & echo $!; exec sleep 60"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    keeper = KeeperProcess(cast(Any, process), channel())
    keeper.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    keeper.kill()
    assert keeper._bury() == -signal.SIGKILL
    stat = Path(f"/proc/{left}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    process.stdout.close()


def test_a_machine_that_was_suspended_has_asked_nothing() -> None:
    """A keeper that owes three answers is silent for the time of three beats at most, whatever the clock says."""
    asked = channel()
    asked.unanswered, asked.asked_at = 3, boottime() - 3600
    with subprocess.Popen(["true"]) as process:
        keeper = KeeperProcess(process, asked)
    assert keeper.silent_for() == 6
    asked.unanswered = 2
    assert keeper.silent_for() == 0
