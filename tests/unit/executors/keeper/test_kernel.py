"""What the kernel is asked to do with this process."""

import os

import pytest

from tokimori.executors.keeper.kernel import preempt_nobody


@pytest.mark.parametrize(("before", "after"), [(os.SCHED_OTHER, os.SCHED_BATCH), (os.SCHED_IDLE, os.SCHED_IDLE)])
def test_a_process_that_preempts_nobody_keeps_what_somebody_has_set(before: int, after: int) -> None:
    """Who has started it with another policy has a reason."""
    pid = os.fork()
    if not pid:
        os.sched_setscheduler(0, before, os.sched_param(0))
        preempt_nobody()
        os._exit(os.sched_getscheduler(0))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == after


def test_where_a_sandbox_forbids_it_the_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would only be a little faster."""

    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    preempt_nobody()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
