import pytest

from tests.unit.api.asgi import Asker
from tests.unit.service.world import World
from tokimori.model.outcome import Failed, RetryIn, Succeeded
from tokimori.model.run import Output

RUNS = "/api/v2/runs"
NOBODY = "01a1fe76-c901-7d5c-b9f7-4e869d9c8e52"


@pytest.fixture
async def job(world: World) -> str:
    return (await world.add({"noop": True, "retry": {"attempts": 2}}, "a")).id


async def test_trigger_and_show(world: World, door: Asker, job: str) -> None:
    """A run that was asked for is found with all its attempts: host, process, node, start and end."""
    added = await door.post(RUNS, {"job_id": job, "payload": "p"})
    assert (added.status, added.headers["location"]) == (201, f"{RUNS}/{added.json['id']}")
    await world.work(Failed(error="no luck", exit_code=3), Succeeded())
    run = (await door.get(added.headers["location"])).json
    assert (run["state"], run["payload"]) == ("succeeded", "p")
    first, second = run["attempts"]
    assert (first["outcome"], first["exit_code"], first["error"]) == ("failed", 3, "no luck")
    assert (second["outcome"], second["host"], second["node_id"]) == ("succeeded", "h", "node")
    assert second["started"] == second["ended"] == "2030-01-01T00:00:00Z"


async def test_attempts_have_pages(world: World, door: Asker) -> None:
    """The newest hundred are shown, with how many earlier ones there are; `before` asks for those."""
    await world.add({"noop": True, "retry": {"asked_retries": 1_000, "asked_delay": 0}}, "again")
    path = (await door.post(RUNS, {"job_id": "again"})).headers["location"]
    await world.work(*[RetryIn(0)] * 104, Succeeded())
    newest = (await door.get(path)).json
    assert [attempt["number"] for attempt in newest["attempts"]] == list(range(6, 106))
    assert newest["attempts_left_out"] == 5
    earlier = (await door.get(f"{path}?before=6")).json
    assert [attempt["number"] for attempt in earlier["attempts"]] == [1, 2, 3, 4, 5]
    assert "attempts_left_out" not in earlier or earlier["attempts_left_out"] == 0
    for wrong in ("x", "-1", "1.5"):
        answer = await door.get(f"{path}?before={wrong}")
        assert (answer.status, answer.error["field"]) == (422, "before")


async def test_list_by_pages_and_filters(world: World, door: Asker, job: str) -> None:
    """Runs are listed newest first, by job and state, a page at a time."""
    for _ in range(5):
        world.pass_seconds(1)
        await door.post(RUNS, {"job_id": job})
    await world.work(Succeeded())
    path, found = f"{RUNS}?limit=2&job_id={job}", []
    while path:
        answer = await door.get(path)
        found += [run["id"] for run in answer.json]
        path = answer.headers.get("link", "<>").partition(">")[0][1:]
    assert len(found) == 5
    assert found == sorted(found, reverse=True)
    ended = (await door.get(f"{RUNS}?state=succeeded&state=failed")).json
    assert [run["state"] for run in ended] == ["succeeded"]
    assert (await door.get(f"{RUNS}?job_id=b")).json == []


async def test_some_members_alone(world: World, door: Asker, job: str) -> None:
    """Those of the names are there, in that order, on the next page, too; a wrong name is refused with one like it."""
    for _ in range(2):
        world.pass_seconds(1)
        await door.post(RUNS, {"job_id": job})
    path, pages = f"{RUNS}?fields=state&fields=job_id&fields=attempts&limit=1", []
    while path:
        answer = await door.get(path)
        pages += [list(run.items()) for run in answer.json]
        path = answer.headers.get("link", "<>").partition(">")[0][1:]
    assert pages == [[("state", "ready"), ("job_id", "a")]] * 2
    jobs = await door.get("/api/v2/jobs?fields=id&fields=schedule")
    assert jobs.json == [{"id": "a", "schedule": None}]
    for path, hint in ((f"{RUNS}?fields=stat", "did you mean state?"), ("/api/v2/jobs?fields=ownr", "owner?")):
        refused = await door.get(path)
        assert (refused.status, refused.error["field"]) == (422, "fields")
        assert hint in refused.error["message"]


async def test_a_link_keeps_the_filters(world: World, door: Asker) -> None:
    """The next page is of the same search, and the last one names none."""
    for number in range(6):
        world.pass_seconds(1)
        await world.add({"noop": True, "owner": "ada" if number % 2 else "bob", "labels": {"eu": "yes"}}, f"a{number}")
        await door.post(RUNS, {"job_id": f"a{number}"})
    path, pages = f"{RUNS}?owner=ada&job_prefix=a&label=eu%3Dyes&since=2030-01-01T00:00:00Z&limit=2", []
    while path:
        answer = await door.get(path)
        pages.append([run["job_id"] for run in answer.json])
        path = answer.headers.get("link", "<>").partition(">")[0][1:]
    assert pages == [["a5", "a3"], ["a1"]]
    assert (await door.get(f"{RUNS}?until=2030-01-01T00:00:00Z")).json == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=soon", "since"),
        ("label=%3Dx", "label"),
        ("job_prefix=-", "job_prefix"),
        ("state=done", "state"),
        ("before=x", "before"),
        ("job_id=-", "job_id"),
        ("limit=9999", "limit"),
        ("x=1", "x"),
    ],
)
async def test_bad_queries(door: Asker, query: str, field: str) -> None:
    """A parameter that is unknown or not allowed is named, with what is."""
    answer = await door.get(f"{RUNS}?{query}")
    assert (answer.status, answer.error["field"]) == (422, field)
    assert answer.error["allowed"]


async def test_output(world: World, door: Asker, job: str) -> None:
    """What an attempt wrote is shown, and null where nothing is known."""
    run = (await door.post(RUNS, {"job_id": job})).json
    assert (await door.get(f"{RUNS}/{run['id']}/output")).json is None
    await world.work(Succeeded())
    await world.store.save_outputs([Output(run_id=run["id"], attempt=1, size=7, head=b"hello\n\xff")])
    output = (await door.get(f"{RUNS}/{run['id']}/output?attempt=1")).json
    assert (output["attempt"], output["size"], output["head"]) == (1, 7, "hello\n\ufffd")
    assert (await door.get(f"{RUNS}/{run['id']}/output?attempt=x")).error["field"] == "attempt"


async def test_cancel(door: Asker, job: str) -> None:
    """A run that has not started ends at once; cancelling it again changes nothing."""
    run = (await door.post(RUNS, {"job_id": job})).json
    for _ in range(2):
        answer = await door.post(f"{RUNS}/{run['id']}/cancel", {"reason": "no more"})
        assert (answer.status, answer.json["state"]) == (200, "cancelled")


async def test_the_runs_of_a_job_are_cancelled_some_at_a_time(
    door: Asker, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer says where the next request goes on; the last one that there are no more."""
    monkeypatch.setattr("tokimori.service.jobs.requesting.MOST_CANCELLED", 2)
    for _ in range(3):
        await door.post(RUNS, {"job_id": job})
    first = (await door.post(f"/api/v2/jobs/{job}/cancel", {"reason": "no more"})).json
    assert first == {"job_id": job, "cancelled": 2, "next": first["next"]}
    second = (await door.post(f"/api/v2/jobs/{job}/cancel", {"before": first["next"]})).json
    assert second == {"job_id": job, "cancelled": 1, "next": None}
    assert (await door.post(f"/api/v2/jobs/{job}/cancel", {"before": "x"})).error["field"] == "before"


@pytest.mark.parametrize(
    ("body", "field"), [({}, "job_id"), ({"job_id": 1}, "job_id"), ({"job_id": "a", "job": 1}, "job")]
)
async def test_bad_requests(door: Asker, job: str, body: object, field: str) -> None:
    """A request that does not say a job, or more than is known, is refused by field."""
    answer = await door.post(RUNS, body)
    assert (answer.status, answer.error["field"]) == (422, field)


@pytest.mark.parametrize(("run", "status"), [(NOBODY, 404), ("x", 422)])
async def test_unknown_run(door: Asker, run: str, status: int) -> None:
    """A run that does not exist is 404, what is no run's id is bad input."""
    assert (await door.get(f"{RUNS}/{run}")).status == status
    assert (await door.get(f"{RUNS}/{run}/output")).status == status
    assert (await door.post(f"{RUNS}/{run}/cancel")).status == status


async def test_hold_and_resume(world: World, door: Asker, job: str) -> None:
    """A run that waits is held with a reason until it is resumed; what holds already, or has ended, says what it is."""
    later = {"job_id": job, "at": "2030-01-01T01:00:00Z"}
    run = (await door.post(RUNS, later)).json["id"]
    held = (await door.post(f"{RUNS}/{run}/hold", {"reason": "not now"})).json
    assert (held["state"], held["error"]) == ("held", "not now")
    assert (await door.post(f"{RUNS}/{run}/hold", {"why": "x"})).error["field"] == "why"
    assert (await door.post(f"{RUNS}/{run}/resume")).json["state"] in {"waiting", "ready"}
    assert (await door.post(f"{RUNS}/{run}/resume", {"reason": "x"})).error["field"] == "reason"
    await door.post(f"{RUNS}/{run}/cancel", {})
    assert (await door.post(f"{RUNS}/{run}/hold", {"reason": "late"})).status == 409
    for verb in ("hold", "resume"):
        assert (await door.post(f"{RUNS}/{NOBODY}/{verb}", {"reason": "x"} if verb == "hold" else None)).status == 404


async def test_a_cause_with_a_slash_is_muted_and_unmuted_by_its_text(door: Asker) -> None:
    """A text that begins or ends with a slash, or has one within, is the cause, as its id would be."""
    for cause in ("failed: disk sda/b is full", "/x", "a/mute", "https://a/…"):
        path = f"/api/v2/failures/{cause}"  # as a server hands it on, which has read `%2F`
        assert (await door.post(f"{path}/mute", {})).json["cause"] == cause
        assert (await door.post(f"{path}/unmute", {})).json["cause"] == cause
