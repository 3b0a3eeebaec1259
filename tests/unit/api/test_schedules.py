"""`/api/v2/schedules`"""

from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import door_of
from tests.unit.schedules.texts import anchors, edges, texts, zones
from tests.unit.service.world import World
from tokimori.clock import Moment, format_moment, parse_moment

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


@settings(deadline=None, max_examples=examples(100))
@given(texts, st.one_of(edges, edges, anchors), zones, st.integers(1, 30))
async def test_no_moment_is_beyond_the_door(text: str, after: Moment, zone: str, n: int) -> None:
    """Whatever is explained from whatever moment of the years 1 to 9999 is answered, or refused with a reason."""
    door = door_of(World())
    query = {"text": text, "time_zone": zone, "after": format_moment(after), "n": str(n)}
    answer = await door.get(f"{EXPLAIN}?{urlencode(query)}")
    if answer.status != 200:
        assert answer.status == 422 and answer.error["message"]
        return
    times = [parse_moment(moment["time"]) for moment in answer.json["moments"]]
    assert times == sorted(set(times)) and all(time > after for time in times)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("every 10 minutes", "9999-12-30T00:00:00Z"),
        ("every 10 minutes", "0001-01-01T00:00:00Z"),
        ("* * * * *", "9999-12-31T23:59:59.999999Z"),
        ("R/0001-01-01T00:00:00Z/P1D", "0001-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
async def test_the_edges_of_time_are_answered(door: Asker, text: str, after: str, zone: str) -> None:
    """The first and the last day of time are answered; an interval begins in neither, and the refusal says so."""
    answer = await door.get(f"{EXPLAIN}?{urlencode({'text': text, 'after': after, 'time_zone': zone, 'n': '20'})}")
    assert answer.status == 200 or (answer.status, answer.error["allowed"]) == (422, "years 1 to 9998")


async def test_moments_have_a_bound(door: Asker) -> None:
    """Nobody has ten thousand moments computed by a node, which has runs to start."""
    answer = await door.get("/api/v2/schedules/explain?text=@daily&n=10000")
    assert answer.status == 422
    assert (answer.error["field"], answer.error["value"], answer.error["allowed"]) == ("n", "10000", "1..1000")
