"""`/api/v2/schedules`"""

from urllib.parse import urlencode

import pytest

from tests.unit.api.asgi import Asker

EXPLAIN = "/api/v2/schedules/explain"


async def test_explain(door: Asker) -> None:
    """A text is said in English, with moments and warnings; no job is needed."""
    query = urlencode({"text": "30 2 * * *", "time_zone": "Europe/Berlin", "n": "1", "after": "2026-11-21T00:00:00Z"})
    answer = await door.get(f"{EXPLAIN}?{query}")
    assert (answer.status, answer.json) == (
        200,
        {
            "schedule": "30 2 * * *",
            "time_zone": "Europe/Berlin",
            "sentence": "At 02:30, every day.",
            "moments": [{"time": "2026-11-21T01:30:00Z", "local": "2026-11-21T02:30:00+01:00", "zone": "CET"}],
            "warnings": [
                "02:30 does not exist on 2027-03-28; runs at 03:00",
                "02:30 comes twice on 2027-10-31; runs once, the first time",
            ],
        },
    )


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ({"text": "61 * * * *"}, "minute", "invalid_schedule"),
        ({"text": "0 0 30 2 *"}, "day of month", "invalid_schedule"),
        ({"text": "@daily", "time_zone": "Mars"}, "time_zone", "invalid_input"),
        ({"text": "@daily", "n": "0"}, "n", "invalid_input"),
        ({"text": "@daily", "gap": "jump"}, "gap", "invalid_input"),
        ({"text": "@daily", "after": "soon"}, "after", "invalid_input"),
        ({"text": "@daily", "zone": "UTC"}, "zone", "invalid_input"),
        ({}, "text", "invalid_input"),
    ],
)
async def test_bad_questions_name_the_field(door: Asker, query: dict[str, str], field: str, code: str) -> None:
    """And what is allowed."""
    answer = await door.get(f"{EXPLAIN}?{urlencode(query)}")
    assert (answer.status, answer.error["field"], answer.error["code"]) == (422, field, code)
    assert answer.error["allowed"]


async def test_moments_have_a_bound(door: Asker) -> None:
    """Nobody has ten thousand moments computed by a node, which has runs to start."""
    answer = await door.get("/api/v2/schedules/explain?text=@daily&n=10000")
    assert answer.status == 422
    assert (answer.error["field"], answer.error["value"], answer.error["allowed"]) == ("n", 10_000, "1..1000")
