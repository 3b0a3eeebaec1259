import pytest

from tests.unit.api.asgi import Asker
from tests.unit.service.world import World
from tokimori.model.outcome import Failed

JOBS = "/api/v2/jobs"
HELLO = {"id": "hello", "schedule": "0 9 * * 1-5", "command": "echo hello", "owner": "ada"}


async def test_add_and_show(door: Asker) -> None:
    """A job that was added is found where the answer says, as typed, with its next moments."""
    added = await door.post(JOBS, HELLO)
    assert (added.status, added.headers["location"]) == (201, f"{JOBS}/hello")
    shown = (await door.get(f"{JOBS}/hello")).json
    assert {key: shown[key] for key in HELLO} == HELLO
    assert (shown["state"], shown["time_zone"]) == ("enabled", "Europe/Paris")
    assert shown["next_times"][:2] == ["2030-01-01T08:00:00Z", "2030-01-02T08:00:00Z"]


async def test_add_without_id(door: Asker) -> None:
    """A job without an id gets one."""
    added = await door.post(JOBS, {"noop": True})
    assert added.headers["location"] == f"{JOBS}/{added.json['id']}"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedule": "61 * * * *", "noop": True}, "minute"),
        ({"schedule": "* * * * *"}, "command"),
        ({"noop": True, "shedule": "* * * * *"}, "shedule"),
        ({"noop": True, "max_running": "many"}, "max_running"),
        ({"noop": True, "retry": {"attempts": 0}}, "retry.attempts"),
        ({"noop": True, "time_zone": "Mars/Base"}, "time_zone"),
        ({"noop": True, "id": "-x"}, "id"),
        ({"noop": True, "id": 3}, "id"),
    ],
)
async def test_bad_jobs_name_the_field(door: Asker, body: object, field: str) -> None:
    """A job that can't be is refused, naming the field and what is allowed, and nothing is added."""
    answer = await door.post(JOBS, body)
    assert (answer.status, answer.error["field"]) == (422, field)
    assert answer.error["allowed"]
    assert (await door.get(JOBS)).json == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '"x"', "{'a': 1}", '{"a": 1} x', "[" * 100_000, '{"id":"\\ud800"}']
)
async def test_bad_json(door: Asker, text: str) -> None:
    """What is no JSON object is refused, however deep it is nested."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", JOBS, headers=headers, chunks=[text.encode()])
    assert answer.status == 422
    assert answer.error["message"]


@pytest.mark.parametrize("depth", [101, 500, 930])
async def test_no_depth_is_a_bug(door: Asker, depth: int) -> None:
    """JSON that can be read, and uses up the stack of whoever looks at it later, is refused where it comes in."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    body = f'{{"labels": {"[" * (depth - 1)}{"]" * (depth - 1)}}}'.encode()
    answer = await door.ask("POST", JOBS, headers=headers, chunks=[body])
    assert (answer.status, answer.error["message"]) == (422, "the JSON is nested too deeply")
    assert "100" in answer.error["allowed"]


async def test_a_body_that_is_not_utf_8_is_refused(door: Asker) -> None:
    """It is the client's fault, and said so."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", JOBS, headers=headers, chunks=[b'{"id": "\xff"}'])
    assert (answer.status, answer.error["allowed"]) == (422, "JSON in UTF-8")


async def test_taken_id(door: Asker) -> None:
    """A second job with the same id is a conflict."""
    await door.post(JOBS, HELLO)
    answer = await door.post(JOBS, HELLO)
    assert (answer.status, answer.error["code"], answer.error["value"]) == (409, "already_exists", "hello")


async def test_a_list_with_last_runs(world: World, door: Asker) -> None:
    """Each job of a list has as many of its newest runs as are asked for, none unless they are, in one question."""
    for name in ("a", "b", "idle"):
        await world.add({"noop": True}, name)
    runs = [(await world.trigger(name)).id for _ in range(3) for name in ("a", "b")]
    asked = world.count("last_runs")
    listed = (await door.get(f"{JOBS}?last_runs=2")).json
    assert [[run["id"] for run in job["last_runs"]] for job in listed] == [[runs[4], runs[2]], [runs[5], runs[3]], []]
    assert "last_runs" not in (await door.get(JOBS)).json[0]
    assert len(asked) == 1
    error = (await door.get(f"{JOBS}?last_runs=11")).error
    assert (error["field"], error["allowed"]) == ("last_runs", "1..10")


async def test_list_by_pages(door: Asker) -> None:
    """A page that may not be the last names the address of the next, and all pages together are all jobs."""
    for name in "abcde":
        await door.post(JOBS, {"id": name, "noop": True})
    path, found = f"{JOBS}?limit=2", []
    while path:
        answer = await door.get(path)
        found += [job["id"] for job in answer.json]
        path = answer.headers.get("link", "<>").partition(">")[0][1:]
    assert found == list("abcde")


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=x", "limit"), ("after=-", "after"), ("page=2", "page")]
)
async def test_bad_queries(door: Asker, query: str, field: str) -> None:
    """A parameter that is unknown or out of range is named."""
    answer = await door.get(f"{JOBS}?{query}")
    assert (answer.status, answer.error["field"]) == (422, field)


async def test_update(door: Asker) -> None:
    """A patch changes what it names, and a null brings the default back."""
    await door.post(JOBS, HELLO)
    changed = await door.post(f"{JOBS}/hello", {"schedule": "@daily", "owner": None}, method="PATCH")
    assert (changed.status, changed.json["schedule"], changed.json["owner"]) == (200, "@daily", None)
    assert changed.json["command"] == "echo hello"


async def test_pause_and_resume(door: Asker) -> None:
    """A paused job says why and by whom until it is resumed, and can't be triggered."""
    await door.post(JOBS, HELLO)
    paused = (await door.post(f"{JOBS}/hello/pause", {"reason": "tired"})).json
    assert (paused["state"], paused["reason"], paused["by"]) == ("paused", "tired", "ada")
    assert (await door.post(f"{JOBS}/hello/trigger")).status == 409
    assert (await door.post(f"{JOBS}/hello/resume")).json["state"] == "enabled"
    assert (await door.post(f"{JOBS}/hello/resume", {"reason": "x"})).error["field"] == "reason"


async def test_trigger(door: Asker) -> None:
    """A run is found where the answer says; the same key gives the same run."""
    await door.post(JOBS, HELLO)
    terms = {"timeout": "5m", "retry": {"delay": "1m30s"}}
    patched = await door.post(f"{JOBS}/hello", terms, method="PATCH")
    assert (patched.status, patched.json["timeout"], patched.json["retry"]["delay"]) == (200, 300, 90)
    for payload, kept in (({"to": ["ann"]}, '{"to":["ann"]}'), ([1], "[1]")):
        asked = await door.post(f"{JOBS}/hello/trigger", {"payload": payload, "at": "2h"})
        assert (asked.status, asked.json["payload"], asked.json["state"]) == (201, kept, "waiting")
    first = await door.post(f"{JOBS}/hello/trigger", {"key": "k", "payload": "p"})
    assert (first.status, first.headers["location"]) == (201, f"/api/v2/runs/{first.json['id']}")
    again = await door.post(f"{JOBS}/hello/trigger", {"key": "k"})
    assert (again.status, again.json["id"], again.json["payload"]) == (200, first.json["id"], "p")
    assert (first.json["became"], again.json["became"]) == ("made", "known")
    assert (await door.post(f"{JOBS}/hello/trigger", {"keys": "k"})).error["field"] == "keys"


@pytest.mark.parametrize(
    ("terms", "became"),
    [({"debounce": 60}, "debounced"), ({"throttle": 60}, "throttled"), ({"replace": True}, "replaced")],
)
async def test_trigger_under_a_shared_key(door: Asker, terms: dict[str, object], became: str) -> None:
    """The second request is answered by the run of the first one, and the answer says how; so at `/api/v2/runs`."""
    await door.post(JOBS, HELLO)
    first = await door.post(f"{JOBS}/hello/trigger", {"key": "k", **terms})
    again = await door.post(f"{JOBS}/hello/trigger", {"key": "k", "payload": "p", **terms})
    assert (first.status, first.json["became"]) == (201, "made")
    assert (again.status, again.json["id"], again.json["became"]) == (200, first.json["id"], became)
    third = await door.post("/api/v2/runs", {"job_id": "hello", "key": "k", "payload": "q", **terms})
    assert (third.json["id"], third.json["became"]) == (first.json["id"], became)
    shown = (await door.get(f"/api/v2/runs/{first.json['id']}")).json
    assert (shown["payload"], "became" in shown) == (None if became == "throttled" else "q", False)


async def test_a_forced_trigger_of_a_paused_job(door: Asker) -> None:
    """It is refused without force."""
    await door.post(JOBS, HELLO)
    await door.post(f"{JOBS}/hello/pause")
    assert "force" in (await door.post(f"{JOBS}/hello/trigger")).error["allowed"]
    assert (await door.post(f"{JOBS}/hello/trigger", {"force": True})).status == 201


async def test_how_many_may_wait(door: Asker) -> None:
    """Who is one too many is told, and a job shows its bound."""
    added = await door.post(JOBS, {"id": "full", "noop": True, "max_running": 1, "max_waiting": 1})
    assert added.json["max_waiting"] == 1
    answers = [await door.post(f"{JOBS}/full/trigger") for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 409]
    assert (answers[2].error["code"], answers[2].error["field"]) == ("refused", "max_waiting")


async def test_next(door: Asker) -> None:
    """The next moments after any moment can be asked for."""
    await door.post(JOBS, HELLO)
    answer = await door.get(f"{JOBS}/hello/next?n=1&after=2031-01-01T00:00:00Z")
    assert answer.json == [{"job_id": "hello", "time": "2031-01-01T08:00:00Z"}]
    assert (await door.get(f"{JOBS}/hello/next?after=tomorrow")).error["field"] == "after"


async def test_skips(world: World, door: Asker) -> None:
    """What became no run is listed with its reason."""
    await door.post(JOBS, HELLO | {"schedule": "* * * * *", "misfire": "skip"})
    world.pass_seconds(600)
    await world.fire()
    skip = (await door.get(f"{JOBS}/hello/skips")).json[-1]
    assert (skip["reason"], skip["first"]) == ("misfire", "2030-01-01T00:01:00Z")
    assert len((await door.get(f"{JOBS}/hello/skips?limit=1")).json) == 1


async def test_counts(world: World, door: Asker) -> None:
    """What became of a job's occurrences is counted by day and outcome."""
    await door.post(JOBS, HELLO | {"schedule": "* * * * *", "misfire": "skip", "retention": "P7D", "keep_runs": 5})
    world.pass_seconds(600)
    await world.fire()
    shown = (await door.get(f"{JOBS}/hello")).json
    assert (shown["retention"], shown["keep_runs"]) == ("P7D", 5)
    counted = (await door.get(f"{JOBS}/hello/counts")).json
    assert {"day": "2030-01-01", "outcome": "misfire", "count": 8, "pruned": 0, "more": False} in counted


@pytest.mark.parametrize(("field", "value"), [("retention", "soon"), ("keep_runs", -1)])
async def test_bad_retention(door: Asker, field: str, value: object) -> None:
    """A retention that is none is refused with field, value and what is allowed."""
    answer = await door.post(JOBS, HELLO | {field: value})
    assert answer.status == 422
    assert (answer.error["field"], answer.error["value"]) == (field, value)
    assert answer.error["allowed"]


async def test_delete(door: Asker) -> None:
    """A deleted job is gone."""
    await door.post(JOBS, HELLO)
    answer = await door.ask("DELETE", f"{JOBS}/hello", headers=[("host", "localhost")])
    assert answer.json == {"id": "hello", "deleted": True}
    assert (await door.get(f"{JOBS}/hello")).status == 404


@pytest.mark.parametrize("path", ["", "/next", "/skips", "/counts"])
async def test_unknown_job(door: Asker, path: str) -> None:
    """A job that does not exist is 404."""
    answer = await door.get(f"{JOBS}/nobody{path}")
    assert (answer.status, answer.error["code"]) == (404, "not_found")


async def test_backfill(world: World, door: Asker) -> None:
    """A dry run says what would be made and makes nothing; then it is made, once, and cancelled."""
    await door.post(JOBS, {"id": "hourly", "schedule": "0 * * * *", "noop": True})
    path, body = f"{JOBS}/hourly/backfill", {"from": "2029-12-31T22:00:00Z", "to": "2030-01-01T01:00:00Z"}
    dry = (await door.post(path, {**body, "dry_run": True})).json
    moments = ["2029-12-31T22:00:00Z", "2029-12-31T23:00:00Z", "2030-01-01T00:00:00Z"]
    assert (dry["from"], dry["to"], dry["missing"], dry["runs"]) == (body["from"], body["to"], moments, {})
    late = {"nominal": "2030-01-01T01:00:00Z", "reason": "it is still to be fired", "run_id": None, "state": None}
    assert dry["left_out"] == [late]
    assert (await door.get("/api/v2/runs")).json == []
    first = (await door.post(path, {**body, "max_running": 2})).json
    assert (first["missing"], first["active"], first["runs"]) == (moments[2:], 2, {"ready": 2})
    assert (await door.post(path, {**body, "max_running": 2})).json == first
    whole = (await door.post(path, body)).json
    assert (whole["missing"], whole["runs"]) == ([], {"ready": 3})
    assert (await door.post(f"{path}/cancel", body)).json["runs"] == {"cancelled": 3}
    assert (await door.post(path, body)).json["runs"] == {"cancelled": 3}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"from": "today"}, "from"),
        ({"to": "1999-01-01T00:00:00Z"}, "to"),
        ({"from": "0001-01-01T00:00:00Z"}, "to"),
        ({"max_running": -1}, "max_running"),
        ({"first": "2030-01-01T00:00:00Z"}, "first"),
    ],
)
async def test_bad_backfills_name_the_field(door: Asker, change: dict[str, object], field: str) -> None:
    """A range that can't be is refused, and nothing is made."""
    await door.post(JOBS, {"id": "minutely", "schedule": "* * * * *", "noop": True})
    body = {"from": "2029-12-31T22:00:00Z", "to": "2030-01-01T01:00:00Z", **change}
    answer = await door.post(f"{JOBS}/minutely/backfill", body)
    assert (answer.status, answer.error["field"]) == (422, field)
    assert (await door.get("/api/v2/runs")).json == []


async def test_explain(door: Asker) -> None:
    """What the job's own schedule means, as the explanation of a text is shown."""
    await door.post(JOBS, {"id": "nightly", "schedule": "30 2 * * *", "time_zone": "Europe/Paris", "noop": True})
    found = (await door.get(f"{JOBS}/nightly/explain?n=1")).json
    moment = {"time": "2030-01-01T01:30:00Z", "local": "2030-01-01T02:30:00+01:00", "zone": "CET"}
    assert (found["sentence"], found["moments"]) == ("At 02:30, every day.", [moment])
    assert any("does not exist on 2030-03-31" in warning for warning in found["warnings"])
    assert (await door.get(f"{JOBS}/none/explain")).status == 404


async def test_the_graph(door: Asker) -> None:
    """Which jobs run after which is told for all and for one; a shown job has the edges from and to it."""
    for job_id, parents in (("a", []), ("b", [{"job": "a", "on": "always"}]), ("c", [{"job": "b"}]), ("alone", [])):
        assert (await door.post(JOBS, {"id": job_id, "noop": True, "parents": parents})).status == 201
    first = {"parent": "a", "child": "b", "on": "always", "joins": 0, "declared_by": "b"}
    second = {"parent": "b", "child": "c", "on": "success", "joins": 0, "declared_by": "c"}
    assert (await door.get("/api/v2/graph")).json == [first, second]
    assert (await door.get(f"{JOBS}/c/graph")).json == [first, second]
    assert (await door.get(f"{JOBS}/c")).json["edges"] == [second]
    assert (await door.get(f"{JOBS}/alone/graph")).json == []
    assert (await door.get(f"{JOBS}/nobody/graph")).status == 404


async def test_what_runs_is_cancelled_where_that_is_asked_for(door: Asker, world: World) -> None:
    """A pause with `now`, and a deletion with it, cancel what runs; without it they do not."""
    for job_id in ("a", "b"):
        await door.post(JOBS, {"id": job_id, "noop": True})
        await door.post(f"{JOBS}/{job_id}/trigger", {})
    await world.begin(2)
    await door.post(f"{JOBS}/a/pause", {})
    assert [run["cancel"] for run in (await door.get("/api/v2/runs")).json] == [None, None]
    await door.post(f"{JOBS}/a/pause", {"now": True})
    assert (await door.post(f"{JOBS}/b?now=true", method="DELETE")).status == 200
    cancels = {run["job_id"]: run["cancel"] for run in (await door.get("/api/v2/runs")).json}
    assert cancels == {"a": "its job was paused", "b": "its job was deleted"}


async def test_resolve(world: World, door: Asker) -> None:
    """A job that a failure has parked goes on when somebody has mended it; one that works has nothing to resolve."""
    await door.post(JOBS, {"id": "hello", "noop": True, "on_exhausted": "park"})
    assert (await door.post(f"{JOBS}/hello/resolve")).status == 409
    await door.post(f"{JOBS}/hello/trigger")
    await world.work(Failed(error="no luck", exit_code=3))
    parked = (await door.get(f"{JOBS}/hello")).json
    assert (parked["state"], parked["reason"]) == ("parked", "no luck")
    assert (await door.post(f"{JOBS}/hello/resolve", {"x": 1})).error["field"] == "x"
    assert (await door.post(f"{JOBS}/hello/resolve")).json["state"] == "enabled"


@pytest.mark.parametrize("path", ["next", "explain"])
async def test_moments_have_a_bound(door: Asker, path: str) -> None:
    """Nobody has ten thousand moments computed by a node, which has runs to start."""
    await door.post("/api/v2/jobs", {"id": "j", "noop": True, "schedule": "* * * * *"})
    answer = await door.get(f"/api/v2/jobs/j/{path}?n=10000")
    assert answer.status == 422
    assert (answer.error["field"], answer.error["value"], answer.error["allowed"]) == ("n", "10000", "1..1000")
    assert (await door.get(f"/api/v2/jobs/j/{path}?n=1000")).status == 200


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-03T00:00:00Z"),
        ("9999-12-30T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
@pytest.mark.parametrize(
    "terms", [{}, {"calendars": ["c"], "shift": "next"}, {"calendars": ["c"], "shift": "previous"}]
)
async def test_a_backfill_at_the_edges_of_time(door: Asker, start: str, end: str, terms: dict[str, object]) -> None:
    """The years 1 and 9999 are answered, or refused with the field; and so are the moments after them."""
    await door.post("/api/v2/calendars", {"name": "c", "weekdays": ["sat", "sun", "mon"]})
    job = {"id": "j", "noop": True, "schedule": "0 * * * *", "time_zone": "Pacific/Auckland", **terms}
    assert (await door.post("/api/v2/jobs", job)).status == 201
    for more in ({"dry_run": True}, {}):
        answer = await door.post("/api/v2/jobs/j/backfill", {"from": start, "to": end, **more})
        assert answer.status == 200 or (answer.status, answer.error["field"]) == (422, "to")
    assert (await door.get(f"/api/v2/jobs/j/explain?after={start}")).status in {200, 422}
    assert (await door.get(f"/api/v2/jobs/j/next?after={end}")).status in {200, 422}


async def test_a_backfill_spans_so_many_years(door: Asker) -> None:
    """To count ten thousand years around days off takes the loop for seconds: the bound comes before."""
    await door.post("/api/v2/calendars", {"name": "c", "weekdays": ["sat", "sun"]})
    await door.post("/api/v2/jobs", {"id": "j", "noop": True, "schedule": "@yearly", "calendars": ["c"]})
    span = {"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T00:00:00Z"}
    for path, more in (("backfill", {"dry_run": True}), ("backfill", {}), ("backfill/cancel", {})):
        answer = await door.post(f"/api/v2/jobs/j/{path}", span | more)
        assert (answer.status, answer.error["field"]) == (422, "to")
        assert answer.error["allowed"] == "a range of at most 200 years; ask for the next ones then"


async def test_a_backfill_by_this_door_has_a_bound(door: Asker) -> None:
    """Two centuries of days are more than one answer should hold, and the error says how many may be asked for."""
    await door.post("/api/v2/jobs", {"id": "j", "noop": True, "schedule": "0 0 * * *"})
    wanted = {"from": "1800-01-01T00:00:00Z", "to": "2000-01-01T00:00:00Z"}
    for path, more in (("backfill", {"dry_run": True}), ("backfill", {}), ("backfill/cancel", {})):
        answer = await door.post(f"/api/v2/jobs/j/{path}", wanted | more)
        assert answer.status == 422
        assert (answer.error["field"], answer.error["allowed"]) == (
            "to",
            "a range of at most 10000; ask for the next ones then",
        )


async def test_all_jobs_are_deleted_in_pieces(world: World, door: Asker) -> None:
    """Not without a word of confirmation; a preview says which, and each answer where to go on."""
    for job_id in "abc":
        await world.service.jobs.add(job_id, noop=True)
    refused = await door.ask("DELETE", JOBS, headers=[("host", "localhost")])
    assert (refused.status, refused.error["field"], refused.error["allowed"]) == (422, "confirm", "the text all")
    preview = (await door.ask("DELETE", f"{JOBS}?dry_run=true", headers=[("host", "localhost")])).json
    assert (preview["deleted"], preview["next"], len(await world.service.jobs.list())) == (["a", "b", "c"], None, 3)
    piece = f"{JOBS}?confirm=all&limit=2&until={preview['until']}"
    first = (await door.ask("DELETE", piece, headers=[("host", "localhost")])).json
    assert first == {"deleted": ["a", "b"], "kept": {}, "until": preview["until"], "next": "b"}
    last = await door.ask("DELETE", f"{piece}&after=b", headers=[("host", "localhost")])
    assert (last.json["deleted"], last.json["next"], len(await world.service.jobs.list())) == (["c"], None, 0)


async def test_a_run_goes_on_in_the_trace_of_the_request(door: Asker) -> None:
    """By its header or its body; a header that is no traceparent is ignored, as its standard says."""
    here, there = f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'c' * 32}-{'d' * 16}-00"
    await door.post(JOBS, HELLO)
    headers = [("host", "localhost"), ("content-type", "application/json")]
    for path, job in ((f"{JOBS}/hello/trigger", b""), ("/api/v2/runs", b'"job_id": "hello"')):
        for header, body, found in (
            (here, b"{%b}" % job, here),
            (here, b'{"traceparent": "%b"%b}' % (there.encode(), b", " + job if job else b""), there),
            ("what", b"{%b}" % job, None),
        ):
            answer = await door.ask("POST", path, headers=[*headers, ("traceparent", header)], chunks=[body])
            assert (answer.status, answer.json["traceparent"]) == (201, found)
            shown = (await door.get(answer.headers["location"])).json
            assert shown["traceparent"] == found
