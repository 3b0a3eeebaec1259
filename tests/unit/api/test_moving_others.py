"""The paths by which jobs of Kala, Kōjō, APScheduler and Celery beat come in."""

import json
from pathlib import Path

from tests.unit.api.asgi import Asker

PICKLES = json.loads((Path(__file__).parents[1] / "translators" / "apscheduler_jobs.json").read_text())["3.10, pytz"]
INTO = "/api/v2/import"
KALA = {
    "a": {"id": "a", "name": "a", "command": "make a", "schedule": "R3/2015-01-01T00:00:00Z/P1D", "stats": [None]},
    "b": {"id": "b", "name": "b", "command": "make b", "parent_jobs": ["a"], "disabled": True},
}


async def test_jobs_of_kala(door: Asker) -> None:
    """They come in with their ids, their family and what remains; a second time changes nothing."""
    assert (await door.post(f"{INTO}/kala", {"jobs": KALA, "dry_run": True})).json["added"] == ["a", "b"]
    assert (await door.get("/api/v2/jobs")).json == []
    assert (await door.post(f"{INTO}/kala", {"jobs": KALA})).json["added"] == ["a", "b"]
    assert (await door.post(f"{INTO}/kala", {"jobs": KALA})).json["unchanged"] == ["a", "b"]
    first, second = (await door.get("/api/v2/jobs")).json
    assert (first["runs_remaining"], second["state"], second["parents"]) == (3, "paused", [{"job": "a"}])


async def test_types_and_jobs_of_kojo(door: Asker) -> None:
    """Both tables may be sent."""
    kind = {"type_code": "a", "worker_uri": "X", "worker_method": "y"}
    job = {**kind, "kojo_job_id": 1, "assigned_state": "new", "work_at_date_time": "2020-01-01T00:00:00"}
    body = {"kojo_job_type": [kind], "kojo_job": [job], "command": ["php", "w"]}
    answer = await door.post(f"{INTO}/kojo", body)
    assert answer.json.get("added") == ["a", "a-kojo-1"], answer.json
    assert (await door.get("/api/v2/jobs/a")).json["command"] == ["php", "w", "X", "y"]


async def test_jobs_of_apscheduler(door: Asker) -> None:
    """States come as Base64; what is none is refused with the id of its row."""
    rows = [{"id": "positional", "job_state": PICKLES["positional"]}]
    body = {"rows": rows, "parameters": {"jobs_mod:add": ["x", "y"]}}
    assert (await door.post(f"{INTO}/apscheduler", body)).json["added"] == ["positional"]
    for state in ("%", "cG9zaXg=", 5, None):
        answer = await door.post(f"{INTO}/apscheduler", {"rows": [{"id": "x", "job_state": state}]})
        assert answer.status == 422
        assert "apscheduler_jobs, id 'x': " in answer.json["error"]["message"]


async def test_tasks_of_celery(door: Asker) -> None:
    """Rows of schedules stand beside those of tasks."""
    body = {
        "periodictask": [{"id": 1, "name": "ping", "task": "a.b", "interval_id": 1, "exchange": "e"}],
        "interval": [{"id": 1, "every": 10, "period": "seconds"}],
    }
    answer = (await door.post(f"{INTO}/celery", body)).json
    assert answer["added"] == ["ping"]
    assert "exchange: 'e'" in answer["jobs"]["ping"]["warnings"][0]
