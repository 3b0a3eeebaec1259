"""`/api/v2/queues`"""

from tests.unit.api.asgi import Asker


async def test_a_queue_is_paused_and_resumed(door: Asker) -> None:
    """With reason and author; its jobs and runs tell of it."""
    await door.post("/api/v2/jobs", {"id": "job", "noop": True, "queue": "mail"})
    paused = await door.post("/api/v2/queues/mail/pause", {"reason": "repairs"})
    pause = {"queue": "mail", "since": "2030-01-01T00:00:00Z", "reason": "repairs", "by": "ada"}
    assert (paused.status, paused.json) == (200, pause)
    assert (await door.get("/api/v2/pauses")).json == [pause]
    assert (await door.get("/api/v2/queues")).json == [
        {"name": "mail", "jobs": 1, "pauses": [pause], "rate": None, "taken": None}
    ]
    assert (await door.get("/api/v2/jobs/job")).json["pauses"] == [pause]
    run = (await door.post("/api/v2/jobs/job/trigger", {})).json
    (paused_queue, *_) = (await door.get(f"/api/v2/runs/{run['id']}")).json["why"]
    assert (paused_queue["cause"], paused_queue["mend"]) == (
        "queue paused",
        "`tokimori queue resume mail` ends that",
    )
    for resumed in (True, False):
        answer = await door.post("/api/v2/queues/mail/resume", {})
        assert answer.json == {"queue": "mail", "resumed": resumed}
    why = (await door.get(f"/api/v2/runs/{run['id']}")).json["why"]
    assert [reason["cause"] for reason in why] == ["no node"]


async def test_a_queue_gets_a_rate(door: Asker) -> None:
    """It is shown, listed, taken away, and refused with field, value and what is allowed."""
    await door.post("/api/v2/jobs", {"id": "job", "noop": True, "queue": "mail"})
    made = await door.post("/api/v2/queues/mail", {"rate": "100/1m"}, method="PUT")
    assert (made.status, made.json["rate"], made.json["taken"]) == (200, "100/m", 0)
    assert [each["rate"] for each in (await door.get("/api/v2/queues")).json] == ["100/m"]
    bad = await door.post("/api/v2/queues/mail", {"rate": "many"}, method="PUT")
    assert (bad.status, bad.error["field"], bad.error["value"]) == (422, "rate", "many")
    assert (await door.get("/api/v2/semaphores")).json == []
    assert (await door.post("/api/v2/queues/mail", {"rate": "none"}, method="PUT")).json["rate"] is None


async def test_a_list_of_queues_has_pages(door: Asker) -> None:
    """A `Link` names the next page, and the last one has none; one queue is shown by itself."""
    for queue in ("a", "b", "c"):
        await door.post("/api/v2/jobs", {"id": f"job-{queue}", "noop": True, "queue": queue})
    first = await door.get("/api/v2/queues?limit=2")
    assert [each["name"] for each in first.json] == ["a", "b"]
    assert first.headers["link"] == '</api/v2/queues?limit=2&after=b>; rel="next"'
    last = await door.get("/api/v2/queues?limit=2&after=b")
    assert ([each["name"] for each in last.json], "link" in last.headers) == (["c"], False)
    assert (await door.get("/api/v2/queues/b")).json == {
        "name": "b",
        "jobs": 1,
        "pauses": [],
        "rate": None,
        "taken": None,
    }
    assert (await door.get("/api/v2/queues?after=a%20b")).error["field"] == "after"


async def test_everything_is_paused_and_resumed(door: Asker) -> None:
    """Its pause has an asterisk in place of a queue."""
    pause = (await door.post("/api/v2/pause", {"now": True})).json
    assert (pause["queue"], pause["reason"]) == ("*", None)
    assert (await door.get("/api/v2/pauses")).json == [pause]
    assert (await door.post("/api/v2/resume", {})).json == {"queue": "*", "resumed": True}


async def test_bad_requests_are_refused(door: Asker) -> None:
    """A name that no queue can have, and a field that nobody knows."""
    bad = await door.post("/api/v2/queues/a,b/pause", {})
    assert (bad.status, bad.error["field"], bad.error["value"]) == (422, "queue", "a,b")
    assert (await door.post("/api/v2/queues/mail/pause", {"when": 1})).status == 422
    assert (await door.get("/api/v2/pauses")).json == []
