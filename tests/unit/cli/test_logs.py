"""What runs have written, as it comes."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.unit.service.world import ON_DEMAND, World
from tokimori.cli.logs import Printer
from tokimori.model.transitions import RunState


def test_a_run_that_is_kept_no_longer_ends_no_following(capsys: pytest.CaptureFixture[str]) -> None:
    """Its job may keep few runs: one that was listed, or had not ended, is gone at the next look."""

    async def act() -> None:
        world = World()
        await world.add(ON_DEMAND, "j")
        run = replace(await world.trigger("j"), state=RunState.RUNNING, attempt=1)
        printer = Printer(World().service)
        await printer.print([run])
        await printer.go_on([])
        await printer.go_on([])

    asyncio.run(act())
    assert capsys.readouterr().out == ""
