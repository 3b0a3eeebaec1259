"""What ended commands have left behind: it is ended in steps, so that nobody else waits for it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.integration.executors.workshop import alive
from tokimori.executors.keeper.stragglers import LATER, SOON, Stragglers

MARKS = {b"TOKIMORI_RUN_ID=run", b"TOKIMORI_TOKEN=7"}
Leave = Callable[..., list[int]]


@pytest.fixture
def leave() -> Iterator[Leave]:
    """Start so many processes with these variables; their pids."""
    with ExitStack() as ends:

        def start(count: int, **env: str) -> list[int]:
            found = [subprocess.Popen(["/bin/sleep", "1000"], env=env, process_group=0) for _ in range(count)]
            for each in found:
                ends.callback(each.wait)
                ends.callback(each.kill)
            return [each.pid for each in found]

        yield start


def test_thousands_are_looked_at_in_steps_and_once(leave: Leave) -> None:
    """What others' commands left is looked at a little in each step, and only once: who ends waits little for it."""
    strangers = leave(40)
    stragglers = Stragglers(None, os.getsid(0))
    assert [stragglers.end(strangers, MARKS, set()) for _ in range(3)] == [SOON, 0.0, 0.0]
    assert all(alive(pid) for pid in strangers)


def test_its_own_are_killed(leave: Leave) -> None:
    """What carries the marks of the command that has ended is killed; who it started is looked for in the next step."""
    (own,) = leave(1, TOKIMORI_RUN_ID="run", TOKIMORI_TOKEN="7")
    (other,) = leave(1, TOKIMORI_RUN_ID="run", TOKIMORI_TOKEN="8")
    (member,) = leave(1, TOKIMORI_RUN_ID="run", TOKIMORI_TOKEN="7")
    stragglers = Stragglers(None, os.getsid(0))
    found = [own, other, member]
    assert stragglers.end(found, MARKS, {member}) == LATER
    with suppress(ChildProcessError):  # who dies at once is collected by the step that killed it
        os.waitid(os.P_PID, own, os.WEXITED | os.WNOWAIT)
    assert stragglers.end(found, MARKS, {member}) == 0.0
    assert [alive(pid) for pid in found] == [False, True, True]
    os.kill(other, signal.SIGKILL)
