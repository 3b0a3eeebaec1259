"""A keeper as the engine starts it."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.executors.workshop import children_of
from tokimori.errors import Refused
from tokimori.executors.keeper.wire import Notice
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings


async def test_a_keeper_that_does_not_start_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that can't note its groups ends at once: who started it is refused, and standard error says why."""
    (tmp_path / "state").write_text("no folder")
    heard: list[Notice] = []
    settings = KeeperSettings(state_dir=tmp_path / "state", runs_dir=tmp_path / "runs", output_limit=1000, pidfd=True)
    with pytest.raises(Refused, match="the keeper did not start; standard error says why"):
        await KeeperProcess.start(settings, heard.append, lambda: None)
    assert heard == []
    assert f"tokimori keeper: [Errno 17] File exists: '{tmp_path}/state'" in capfd.readouterr().err


async def test_a_keeper_that_starts_too_slowly_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its standard error has no reason: the refusal says how long was waited, and leaves no process."""
    monkeypatch.setattr("tokimori.executors.keeper_process.START_WITHIN", 0.0)
    before = children_of(os.getpid())
    settings = KeeperSettings(state_dir=tmp_path / "state", runs_dir=tmp_path / "runs", output_limit=1000, pidfd=True)
    with pytest.raises(Refused, match="did not start within 0 s"):
        await KeeperProcess.start(settings, lambda _: None, lambda: None)
    assert children_of(os.getpid()) == before


@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path, steps: int) -> None:
    """Whoever closes while a keeper starts cancels that, at whatever step it is: the keeper goes, too."""
    before = children_of(os.getpid())
    settings = KeeperSettings(state_dir=tmp_path / "state", runs_dir=tmp_path / "runs", output_limit=1000, pidfd=True)
    start = asyncio.create_task(KeeperProcess.start(settings, lambda _: None, lambda: None))
    for _ in range(steps):
        await asyncio.sleep(0)
    assert children_of(os.getpid()) != before
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert children_of(os.getpid()) == before
