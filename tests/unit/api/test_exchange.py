from tests.unit.api.asgi import Asker
from tests.unit.service.world import World

BULK = "/api/v2/jobs/bulk"
CRONTAB = "MAILTO=ann\n0 3 * * * make report\n*/5 * * * * ping\n"
MANIFEST = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  suspend: true
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: report, command: [make, report]}]
"""


async def test_many_jobs_are_added_at_once(door: Asker) -> None:
    """All are added, but those whose ids are taken, which stay as they are and are named."""
    await door.post("/api/v2/jobs", {"id": "b", "noop": True})
    answer = await door.post(BULK, {"jobs": [{"id": name, "command": "x"} for name in "abc"]})
    assert (answer.status, answer.json) == (200, {"added": ["a", "c"], "unchanged": ["b"]})
    assert (await door.get("/api/v2/jobs/b")).json["noop"] is True


async def test_one_bad_job_keeps_all_out(door: Asker) -> None:
    """The fault is named by the place of its job and of its field, and nothing is added."""
    good = {"id": "a", "noop": True}
    for bad, field in (
        ({"id": "b", "noop": True, "retry": {"attempts": 0}}, "jobs[1].retry.attempts"),
        ({"id": "b", "schedule": "61 * * * *", "noop": True}, "jobs[1].minute"),
        ({"noop": True}, "jobs[1].id"),
        ({"id": "-b", "noop": True}, "id"),
    ):
        answer = await door.post(BULK, {"jobs": [good, bad]})
        assert (answer.status, answer.error["field"]) == (422, field)
    assert (await door.get("/api/v2/jobs")).json == []
    assert (await door.post(BULK, {"jobs": [good] * 1001})).status == 422


async def test_runs_remaining_are_said_for_each(door: Asker) -> None:
    """Each job of many has its own number of runs."""
    jobs = [{"id": "a", "noop": True, "schedule": "@daily", "runs_remaining": 3}, {"id": "b", "noop": True}]
    await door.post(BULK, {"jobs": jobs})
    shown = [(await door.get(f"/api/v2/jobs/{name}")).json["runs_remaining"] for name in "ab"]
    assert shown == [3, None]


async def test_a_crontab_is_imported(door: Asker) -> None:
    """Its jobs are shown, and added unless it is a dry run."""
    dry = (await door.post("/api/v2/import/crontab", {"text": CRONTAB, "dry_run": True, "user": "ann"})).json
    assert [job["fields"]["command"] for job in dry["jobs"].values()] == ["make report", "ping"]
    assert (await door.get("/api/v2/jobs")).json == []
    done = (await door.post("/api/v2/import/crontab", {"text": CRONTAB, "user": "ann"})).json
    assert len(done["added"]) == 2
    assert {job["user"] for job in (await door.get("/api/v2/jobs")).json} == {"ann"}


async def test_a_bad_line_is_named(door: Asker) -> None:
    """A line that is none of a crontab is the sender's fault, and nothing is added."""
    answer = await door.post("/api/v2/import/crontab", {"text": "0 3 * * * ok\n99 * * * * bad\n"})
    assert (answer.status, answer.error["code"]) == (422, "invalid_file")
    assert "2" in answer.error["message"]
    assert (await door.get("/api/v2/jobs")).json == []


async def test_cronjobs_are_imported(door: Asker) -> None:
    """One that is suspended is added paused."""
    assert (await door.post("/api/v2/import/kubernetes", {"text": MANIFEST})).json["added"]
    (job,) = (await door.get("/api/v2/jobs")).json
    assert (job["state"], job["reason"], job["by"]) == ("paused", "suspended in Kubernetes", "ada")


async def test_what_is_exported_can_be_added(world: World, door: Asker) -> None:
    """Jobs go out as JSON a page at a time, and come in elsewhere as they are."""
    for name in "abc":
        await world.add({"command": "x", "schedule": "@daily", "retry": {"attempts": 3}, "owner": "ann"}, name)
    first = await door.get("/api/v2/export/json?limit=2")
    rest = await door.get(first.headers["link"].partition(">")[0][1:])
    assert "link" not in rest.headers
    jobs = [*first.json["jobs"], *rest.json["jobs"]]
    for name in "abc":
        await world.service.jobs.delete(name)
    assert (await door.post(BULK, {"jobs": jobs})).json["added"] == ["a", "b", "c"]
    assert (await door.get("/api/v2/export/json")).json["jobs"] == jobs
    assert (await door.get("/api/v2/export/json?id=b")).json["jobs"] == [jobs[1]]


async def test_other_formats_are_written(world: World, door: Asker) -> None:
    """As TOML, and as a crontab, with what cron can't do."""
    await world.add({"command": "make", "schedule": "0 3 * * *", "time_zone": "UTC"}, "a")
    await world.add({"noop": True}, "b")
    assert 'command = "make"' in (await door.get("/api/v2/export/toml")).json["toml"]
    found = (await door.get("/api/v2/export/crontab")).json
    assert "0 3 * * *" in found["crontab"]
    assert [*found["left_out"]] == ["b"]
    assert (await door.get("/api/v2/export/crontab?time_zone=Mars")).error["field"] == "time_zone"
