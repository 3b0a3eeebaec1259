"""Processes in which a run does not end: what runs beside it gets time, and only what is left then is lost."""

import asyncio
from collections.abc import Callable
from typing import cast

from tests.simulation.virtual_time import let_pass, run_virtually
from tests.unit.examples import a_task
from tokimori.executors.functions.pool import Drains
from tokimori.executors.functions.process import Assignment, Phase, WorkerProcess
from tokimori.model.ids import RunId, Token
from tokimori.model.target import Function


class Line:
    """What a process is told."""

    def is_closing(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False

    def write(self, _: bytes) -> None:
        """See `asyncio.WriteTransport`."""


def busy(number: int, runs: int = 3) -> WorkerProcess:
    """A process with so many runs."""
    process = WorkerProcess(number, 0, 1, 9)
    process.connect(cast(asyncio.WriteTransport, Line()), 100 + number)
    for n in range(runs):
        task = a_task(Function(name="f"), run_id=RunId(f"r{number}-{n}"), token=Token(1))
        attempt = Assignment(task, n)
        attempt.process = process
        process.attempts[n] = attempt
    return process


def drained(scenario: Callable[[Drains, list[int]], object]) -> None:
    """Run a scenario with drains, and the list of the processes that they have killed."""

    async def run() -> None:
        killed: list[int] = []
        await scenario(Drains(lambda process: killed.append(process.number), lambda: None), killed)  # type: ignore[misc]

    run_virtually(run())


def test_what_runs_beside_gets_its_time() -> None:
    """It takes no more at once, and is killed when the time is over, not before."""

    async def scenario(drains: Drains, killed: list[int]) -> None:
        process = busy(1)
        drains.add(process, process.attempts[0], 30, most=2)
        assert (process.phase, process.has_room, drains.processes) == (Phase.LEAVING, False, [process])
        await let_pass(29)
        assert killed == []
        await let_pass(2)
        assert (killed, process.killed, drains.processes) == ([1], True, [])

    drained(scenario)


def test_nothing_waits_for_what_does_not_end() -> None:
    """A process is killed as soon as nothing else runs in it, however many runs do not end."""

    async def scenario(drains: Drains, killed: list[int]) -> None:
        process = busy(1)
        drains.add(process, process.attempts[0], 30, most=2)
        process.take(1)
        drains.look_at(process)
        assert killed == []
        drains.add(process, process.attempts[2], 30, most=2)
        assert killed == [1]
        await let_pass(60)
        assert killed == [1]

    drained(scenario)


def test_what_has_ended_after_all_costs_nobody_anything() -> None:
    """Its process goes on to leave by itself, and the others to their ends."""

    async def scenario(drains: Drains, killed: list[int]) -> None:
        process = busy(1)
        drains.add(process, process.attempts[0], 30, most=2)
        process.take(0)
        drains.look_at(process)
        await let_pass(60)
        assert (killed, process.blamed, process.phase) == ([], None, Phase.LEAVING)

    drained(scenario)


def test_of_too_many_the_oldest_is_ended() -> None:
    """No more are drained at a time than the pool has."""

    async def scenario(drains: Drains, killed: list[int]) -> None:
        processes = [busy(n) for n in (1, 2, 3)]
        for process in processes:
            drains.add(process, process.attempts[0], 30, most=2)
        assert (killed, drains.processes) == ([1], processes[1:])
        drains.forget(processes[1])
        await let_pass(60)
        assert killed == [1, 3]

    drained(scenario)
