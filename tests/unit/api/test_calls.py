"""The paths of the Python client."""

from typing import Any

import pytest

from tests.unit.api.asgi import Asker

TWO_CENTURIES = ["j", "1800-01-01T00:00:00Z", "2000-01-01T00:00:00Z"]
TWO_MILLENNIA = ["j", "1000-01-01T00:00:00Z", "3000-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("method", "args", "field", "allowed"),
    [
        ("jobs.backfill", TWO_CENTURIES, "to", "a range of at most 10000; ask for the next ones then"),
        ("jobs.cancel_backfill", TWO_CENTURIES, "to", "a range of at most 10000; ask for the next ones then"),
        ("jobs.backfill", TWO_MILLENNIA, "to", "a range of at most 200 years; ask for the next ones then"),
        ("jobs.next", ["j", 1_001], "n", "1..1000"),
        ("jobs.shown", ["j", 1_001], "n", "1..1000"),
        ("jobs.explain", ["j", 1_001], "n", "1..1000"),
        ("schedules.explain", ["* * * * *", "UTC", 1_001], "n", "1..1000"),
    ],
)
async def test_the_client_has_the_bounds_of_the_door(
    door: Asker, method: str, args: list[Any], field: str, allowed: str
) -> None:
    """What a path of its own refuses is refused to the Python client too: it is the same node that reckons."""
    await door.post("/api/v2/jobs", {"id": "j", "noop": True, "schedule": "0 0 * * *"})
    for author in (None, "ann"):
        answer = await door.post(f"/api/v2/calls/{method}", {"args": args, "author": author})
        assert (answer.status, answer.error["field"], answer.error["allowed"]) == (422, field, allowed)
