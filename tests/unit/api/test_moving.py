"""The paths by which the jobs of other schedulers come in."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from starlette.requests import Request

from tests.unit.api.asgi import Asker
from tests.unit.examples import NEW_YEAR
from tokimori.clock import Moment, SystemClock
from tokimori.errors import NotFound
from tokimori.formats.door import ImportPaths
from tokimori.formats.registry import format_of
from tokimori.formats.systemd import SystemdRequest
from tokimori.model.job import Definition, Job
from tokimori.model.target import Command
from tokimori.service.definitions.imports import Imported
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.translators.entries import Moved

KOYOMI = "/api/v2/import/koyomi"
JOB = {"id": 1, "user": "", "command": "make report", "memo": ""}
TIME = {"job_id": 1, "year": "*", "month": "*", "day": "*", "hour": "3", "minute": "0", "weekday": "*"}
TASK = {
    "id": 1,
    "name": "ping",
    "slug": "ping",
    "schedule_info": {"units": "seconds", "interval": 10},
    "executable": "/x/ping.bin",
    "is_error": True,
    "error_txt": "exit status 1",
}
SCHEDULE = {"id": "k", "timeout": 1899997200, "next_time": 1899997200, "cron": "0 * * * *", "delay": 0}
UNITS = {"a.timer": "[Timer]\nOnCalendar=daily\n", "a.service": "[Service]\nExecStart=/bin/x\nNice=5\n"}


async def test_rows_of_koyomi_become_jobs(door: Asker) -> None:
    """They are shown, and added unless it is a dry run; a second time changes nothing."""
    body = {"jobs": [JOB], "job_times": [TIME], "time_zone": "Asia/Tokyo"}
    dry = (await door.post(KOYOMI, {**body, "dry_run": True})).json
    assert dry["jobs"]["koyomi-1"]["fields"]["schedule"] == "*/*/* 3:0 (*)"
    assert (await door.get("/api/v2/jobs")).json == []
    assert (await door.post(KOYOMI, body)).json["added"] == ["koyomi-1"]
    assert (await door.post(KOYOMI, body)).json["unchanged"] == ["koyomi-1"]
    (job,) = (await door.get("/api/v2/jobs")).json
    assert (job["command"], job["time_zone"]) == ("make report", "Asia/Tokyo")


async def test_state_comes_along(door: Asker) -> None:
    """A task that had failed is parked, and a schedule goes on with its slot."""
    assert (await door.post("/api/v2/import/keiji", {"task_models": [TASK]})).json["added"] == ["ping"]
    await door.post("/api/v2/import/perfectsched", {"rows": [SCHEDULE], "table": "tasks"})
    ping = (await door.get("/api/v2/jobs/ping")).json
    assert (ping["state"], ping["reason"]) == ("parked", "exit status 1")
    kept = (await door.get("/api/v2/jobs/k")).json
    assert (kept["queue"], kept["next_due"]) == ("tasks", "2030-03-17T17:00:00Z")


async def test_units_become_jobs_with_warnings(door: Asker) -> None:
    """What has no equal is told for each job."""
    done = (await door.post("/api/v2/import/systemd", {"files": UNITS, "host": "web1"})).json
    assert done["jobs"]["a"]["warnings"][0].startswith("Nice: left out (a.service): ")
    assert done["jobs"]["a"]["fields"]["labels"] == {"host": "web1"}


async def test_what_is_refused_stops_the_import_or_is_skipped(door: Asker) -> None:
    """Nothing is added with one fault, which is named, unless those with faults are to be left out."""
    times = [TIME, {**TIME, "job_id": 3, "year": "1999"}]
    body = {"jobs": [JOB, {**JOB, "id": None}, {**JOB, "id": 3}], "job_times": times}
    answer = await door.post(KOYOMI, body)
    assert (answer.status, answer.error["code"]) == (422, "invalid_file")
    assert "jobs, id None: id: None is not allowed" in answer.error["message"]
    assert (await door.get("/api/v2/jobs")).json == []
    done = (await door.post(KOYOMI, {**body, "skip_refused": True})).json
    assert done["added"] == ["koyomi-1"]
    assert [each["place"] for each in done["refused"]] == ["jobs, id None"]
    assert [each["place"] for each in done["left_out"]] == ["jobs, id 3"]


async def test_a_job_that_is_there_twice_is_refused(door: Asker) -> None:
    """Both places are named."""
    answer = await door.post(KOYOMI, {"jobs": [JOB, JOB]})
    assert "its id would be 'koyomi-1', like that of jobs, id 1" in answer.error["message"]


@pytest.mark.parametrize("kind", ["koyomi", "perfectsched", "keiji", "systemd"])
async def test_a_node_opens_no_source_that_a_caller_names(door: Asker, kind: str) -> None:
    """Rows and texts are taken, and no address of a database, nor a path."""
    for name in ("source", "url", "dsn", "path"):
        answer = await door.post(f"/api/v2/import/{kind}", {name: "sqlite:////etc/x.db"})
        assert (answer.status, name in answer.error["message"]) == (422, True)


async def test_a_job_that_differs_is_shown_and_changed_if_that_is_wished(door: Asker) -> None:
    """It stays as it is, unless it is to be updated; a dry run changes nothing."""
    await door.post(KOYOMI, {"jobs": [JOB], "job_times": [TIME]})
    new = {"jobs": [{**JOB, "command": "make all"}], "job_times": [TIME]}
    kept = (await door.post(KOYOMI, new)).json["kept"]
    assert kept == {"koyomi-1": [{"field": "command", "old": "make report", "new": "make all"}]}
    assert (await door.post(KOYOMI, {**new, "update": True, "dry_run": True})).json["changed"] == kept
    assert (await door.get("/api/v2/jobs/koyomi-1")).json["command"] == "make report"
    assert (await door.post(KOYOMI, {**new, "update": True})).json["changed"] == kept
    assert (await door.get("/api/v2/jobs/koyomi-1")).json["command"] == "make all"


async def test_a_transaction_adds_a_page_of_jobs() -> None:
    """Two thousand files are up to four thousand jobs; they come in a thousand at a time."""
    pages: list[int] = []

    class Counted:
        db = jobs = property(lambda self: self)

        async def now(self) -> Moment:
            return NEW_YEAR

        async def get(self, job_id: str) -> Job:
            raise NotFound(f"there is no job {job_id!r}")

        async def import_all(self, jobs: Sequence[object], **_: object) -> Imported:
            pages.append(len(jobs))
            return Imported(added=(), unchanged=())

    found = [
        Moved(place="", job_id=f"a{number}", definition=Definition(target=Command(argv=("x",))))
        for number in range(2 * MOST_LISTED + 1)
    ]
    form = replace(format_of("systemd"), read=lambda *_: found)
    paths = ImportPaths(lambda _: cast("Service", Counted()), SystemClock())
    answer = await paths.take(form, Request({"type": "http"}), SystemdRequest(files={}))
    assert pages == [MOST_LISTED, MOST_LISTED, 1]
    assert len(json.loads(bytes(answer.body))["added"]) == 2 * MOST_LISTED + 1
