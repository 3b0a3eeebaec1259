"""What the kernel is asked to do with this process."""

import os
import subprocess
import sys

import pytest

from tokimori.executors.keeper.kernel import preempt_nobody

PROGRAM = """
import os, sys
from tokimori.executors.keeper.kernel import preempt_nobody
os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0))
preempt_nobody()
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
    preempt_nobody()
    assert os.sched_getscheduler(0) == before
