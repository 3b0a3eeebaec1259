"""Worker processes as their node knows them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tests.simulation.virtual_time import let_pass, run_virtually
from tokimori.executors.functions import wire
from tokimori.executors.functions.process import AppSettings, WorkerProcess
from tokimori.executors.functions.processes import LAST_WORDS, Processes
from tokimori.executors.keeper import wire as keeper_wire
from tokimori.executors.keeper_post import KeeperPost

EXIT = keeper_wire.Ended(1, 0.0, 0, keeper_wire.Cause.EXIT, "", 0, "", "")
LAST_WORD = wire.Ended(number=1, began=0, at=0, end=wire.SUCCEEDED)
CELL = 7
"""Of a suspect: there nobody is replaced."""


class OpenLine:
    """A line on which a process may still be heard."""

    def is_closing(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False


@pytest.mark.parametrize("line_ends", [True, False])
def test_a_process_that_exits_is_heard_to_the_end(line_ends: bool, tmp_path: Path) -> None:
    """Its keeper may tell so first: what it said last counts, but who holds its line holds up nobody."""
    told: list[str] = []

    def died(_processes: Sequence[WorkerProcess], _how: str, unasked: bool) -> None:
        told.append(f"died, {unasked}")

    async def scenario() -> None:
        app = AppSettings(app="a", secret="s", state_dir=tmp_path, runs_dir=tmp_path, environ={})
        pool = Processes(app, heard=lambda _, said: told.append(type(said).__name__), ready=lambda: None, died=died)
        process = pool._processes[1] = WorkerProcess(1, CELL, 1, 1)
        process.connect(cast(asyncio.WriteTransport, OpenLine()), 7)
        pool._told(cast(KeeperPost, None), EXIT)
        assert (told, process.has_room) == ([], False)
        pool._hear(1, LAST_WORD)
        if line_ends:
            pool._cut_off(1)
        else:
            await let_pass(LAST_WORDS)
        assert told == ["Ended", "died, True"]

    run_virtually(scenario())
