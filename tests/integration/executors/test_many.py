"""Hundreds of commands at once."""

import threading
from pathlib import Path

import pytest

from tests.integration.executors.workshop import (
    BOTH_WAYS,
    Workshop,
    a_task,
    children_of,
    descriptors,
    keeper_of,
    shell,
    told,
    until,
)
from tokimori.model.outcome import Succeeded
from tokimori.ports.executor import Ended, Started

pytestmark = pytest.mark.parametrize("workshop", BOTH_WAYS, indirect=True)


async def test_hundreds_at_once_need_no_thread_each(workshop: Workshop, tmp_path: Path) -> None:
    """300 commands run side by side without one more thread here or in the keeper, and each ends by itself."""
    gate = tmp_path / "gate"
    gate.touch()
    runs = [f"run-{number}" for number in range(300)]
    threads = set(threading.enumerate())
    command = shell(f"echo $TOKIMORI_RUN_ID; while [ -e {gate} ]; do sleep 1; done")
    workshop.executor.start([a_task(run, command) for run in runs])
    for run in runs:
        await workshop.next(Started, run)
    assert not any(workshop.all(Ended, run) for run in runs)
    keeper = keeper_of(workshop.all(Started, runs[0])[0].pid)
    assert len(children_of(keeper)) == 300
    assert set(threading.enumerate()) <= threads
    assert f"Threads:\t{1 if workshop.pidfd else 2}\n" in told(keeper, "status")
    gate.unlink()
    for run in runs:
        ended = await workshop.next(Ended, run)
        assert ended.outcome == Succeeded(0)
        assert ended.output is not None
        assert ended.output.head == f"{run}\n".encode()
    await until(lambda: len(children_of(keeper)) == 0)


async def test_many_short_ones_leave_nothing_open(workshop: Workshop) -> None:
    """After 200 commands one after the other, the keeper has no descriptor more than after the first."""
    workshop.start("anchor", shell("exec sleep 1000"))
    keeper = keeper_of((await workshop.next(Started, "anchor")).pid)

    async def open_files() -> int:
        await workshop.run(shell("echo hi"))
        return descriptors(keeper)

    before = await open_files()
    for _ in range(10):
        runs = [f"batch-{len(workshop.reports)}-{number}" for number in range(20)]
        workshop.executor.start([a_task(run, shell("echo hi")) for run in runs])
        for run in runs:
            assert (await workshop.next(Ended, run)).outcome == Succeeded(0)
    assert await open_files() == before
