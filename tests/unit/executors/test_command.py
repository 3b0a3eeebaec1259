"""What the engine's side of commands does without a keeper."""

from pathlib import Path

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.executors.test_old_output import a_file
from tokimori.clock import DAY, Moment, SystemClock
from tokimori.executors import command, keeper_post
from tokimori.executors.command import CommandExecutor


async def test_old_output_goes_however_much_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it: where there are many jobs it is hours until old output is looked for again."""
    for module in (command, keeper_post):
        monkeypatch.setattr(module, "MOST", 3)
    runs, old = tmp_path / "runs", Moment(NEW_YEAR - DAY)
    runs.mkdir()
    for _ in range(7):
        a_file(runs, old, old)
    executor = CommandExecutor(SystemClock(), runs_dir=runs, state_dir=tmp_path / "state")
    executor.forget(NEW_YEAR)
    assert executor._forgetting is not None
    await executor._forgetting
    assert list(runs.iterdir()) == []
