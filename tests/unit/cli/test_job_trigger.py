"""Waits of a terminal for the end of a run."""

import pytest

from tests.unit.service.world import World
from tokimori.cli import job_trigger
from tokimori.errors import Refused
from tokimori.model.outcome import RetryIn


@pytest.mark.parametrize(("pause", "told"), [(3600.0, 0), (0.0, 1)])
async def test_a_short_retry_is_not_said(
    pause: float, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that waits for its next attempt is said once, if it still does at the next look, and not before."""
    monkeypatch.setattr(job_trigger, "LOOK", pause)
    world = World()
    await world.add({"command": "true"}, "mail")
    run = await world.trigger("mail")
    await world.work(RetryIn(60))
    with pytest.raises(Refused):
        await job_trigger.end_of(world.service, run.id, 0.2)
    assert capsys.readouterr().err.count("it is not due until") == told
