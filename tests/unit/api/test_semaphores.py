"""`/api/v2/semaphores`"""

from tests.unit.api.asgi import Asker

SEMAPHORES = "/api/v2/semaphores"


async def test_the_life_of_a_semaphore(door: Asker) -> None:
    """Made, shown, given another limit, listed and deleted."""
    made = await door.post(f"{SEMAPHORES}/api", {"limit": 5}, method="PUT")
    plain = {"name": "api", "limit": 5, "used": 0, "waiting": 0, "holders": []}
    assert (made.status, made.json) == (200, {**plain, "rate": None, "taken": None, "goes_on": None})
    paced = await door.post(f"{SEMAPHORES}/api", {"rate": "3/1m"}, method="PUT")
    assert (paced.json["limit"], paced.json["rate"], paced.json["taken"]) == (5, "3/m", 0)
    assert (await door.post(f"{SEMAPHORES}/api", {"limit": 2}, method="PUT")).json["limit"] == 2
    assert (await door.get(f"{SEMAPHORES}/api")).json["limit"] == 2
    await door.post(f"{SEMAPHORES}/b", {"limit": 1}, method="PUT")
    assert [each["name"] for each in (await door.get(SEMAPHORES)).json] == ["api", "b"]
    page = await door.get(f"{SEMAPHORES}?limit=1")
    assert ([each["name"] for each in page.json], page.headers["link"]) == (
        ["api"],
        f'<{SEMAPHORES}?limit=1&after=api>; rel="next"',
    )
    assert (await door.post(f"{SEMAPHORES}/api", method="DELETE")).json == {"name": "api", "deleted": True}
    assert (await door.get(f"{SEMAPHORES}/api")).status == 404


async def test_bad_semaphores_are_refused(door: Asker) -> None:
    """With field, value and what is allowed."""
    low = await door.post(f"{SEMAPHORES}/api", {"limit": 0}, method="PUT")
    assert (low.status, low.error["field"], low.error["value"]) == (422, "limit", 0)
    missing = await door.post(f"{SEMAPHORES}/api", {}, method="PUT")
    assert (missing.status, missing.error["code"]) == (422, "invalid_input")
    unknown = await door.post(f"{SEMAPHORES}/api", {"limit": 1, "units": 2}, method="PUT")
    assert (unknown.status, unknown.error["field"]) == (422, "units")
    name = await door.post(f"{SEMAPHORES}/a%20b", {"limit": 1}, method="PUT")
    assert (name.status, name.error["field"]) == (422, "semaphore")
