"""A keeper as the engine starts it."""

from pathlib import Path

import pytest

from tokimori.errors import Refused
from tokimori.executors.keeper.wire import Notice
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings


async def test_a_keeper_that_does_not_start_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that can't note its groups ends at once: who started it is refused, and standard error says why."""
    (tmp_path / "state").write_text("no folder")
    heard: list[Notice] = []
    settings = KeeperSettings(state_dir=tmp_path / "state", runs_dir=tmp_path / "runs", output_limit=1000, pidfd=True)
    with pytest.raises(Refused, match="the keeper did not start"):
        await KeeperProcess.start(settings, heard.append, lambda: None)
    assert heard == []
    assert f"tokimori keeper: [Errno 17] File exists: '{tmp_path}/state'" in capfd.readouterr().err
