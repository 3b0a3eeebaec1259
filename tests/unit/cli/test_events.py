"""`tokimori events` on a store."""

import pytest

from tests.unit.cli.conftest import Called
from tokimori.service.events import events


def test_who_is_not_told_of_all_learns_where_to_go_on(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice says from where on there may be more; where that was all, nothing is said."""
    called("job", "add", "a", "--noop")
    run = called.json("job", "trigger", "a")["id"]
    called("run", "cancel", run)
    assert [each["run_id"] for each in called.json("events")] == [run]
    assert called.told == ""
    monkeypatch.setattr(events, "MOST_PAGES", 1)
    assert called.json("events") == []
    rest = called.told.partition("--after ")[2].partition("`")[0]
    assert [each["run_id"] for each in called.json("events", "--after", rest)] == [run]
