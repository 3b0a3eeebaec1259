"""`/api/v2/calendars`"""

from tests.unit.api.asgi import Asker

CALENDARS = "/api/v2/calendars"


async def test_the_life_of_a_calendar(door: Asker) -> None:
    """Added, shown with its jobs, changed, listed, refused while a job names it, and deleted."""
    fields = {"dates": ["12-25"], "weekdays": ["sat"]}
    added = await door.post(CALENDARS, {"name": "de", **fields})
    assert (added.status, added.headers["location"]) == (201, f"{CALENDARS}/de")
    assert added.json == {"name": "de", "description": None, **fields}
    job = {"id": "job", "noop": True, "schedule": "@daily", "calendars": ["de"], "shift": "next"}
    shown = await door.post("/api/v2/jobs", job)
    assert (shown.json["calendars"], shown.json["shift"]) == (["de"], "next")
    changed = await door.post(f"{CALENDARS}/de", {"dates": None}, method="PATCH")
    assert changed.json["dates"] == []
    assert (await door.get(f"{CALENDARS}/de")).json["jobs"] == ["job"]
    assert [each["name"] for each in (await door.get(CALENDARS)).json] == ["de"]
    refused = await door.post(f"{CALENDARS}/de", method="DELETE")
    assert (refused.status, refused.error["code"]) == (409, "refused")
    await door.post("/api/v2/jobs/job", method="DELETE")
    assert (await door.post(f"{CALENDARS}/de", method="DELETE")).json == {"name": "de", "deleted": True}
    assert (await door.get(f"{CALENDARS}/de")).status == 404


async def test_bad_calendars_are_refused(door: Asker) -> None:
    """With field, value and what is allowed."""
    nameless = await door.post(CALENDARS, {"dates": []})
    assert (nameless.status, nameless.error["field"]) == (422, "name")
    bad = await door.post(CALENDARS, {"name": "de", "dates": ["2026-02-30"]})
    assert (bad.status, bad.error["field"], bad.error["value"]) == (422, "dates", "2026-02-30")
    assert "12-25" in bad.error["allowed"]


async def test_explanations_know_calendars(door: Asker) -> None:
    """Named once or several times, with a shift."""
    await door.post(CALENDARS, {"name": "a", "weekdays": ["sat"]})
    await door.post(CALENDARS, {"name": "b", "weekdays": ["sun"]})
    query = "text=0+9+*+*+6&time_zone=UTC&n=1&after=2026-11-21T00:00:00Z&calendars=a&calendars=b&shift=next"
    answer = await door.get(f"/api/v2/schedules/explain?{query}")
    assert [each["time"] for each in answer.json["moments"]] == ["2026-11-23T09:00:00Z"]
