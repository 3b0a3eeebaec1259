"""Databases of Kala, Kōjō, APScheduler and Celery beat, made by hand as their own schemas have them."""

import base64
import json
import sqlite3
from pathlib import Path

from tests.programs.gob import Struct, written

PICKLES = Path(__file__).parents[2] / "unit" / "translators" / "apscheduler_jobs.json"
"""What APScheduler itself has written, by its version and the id of the job."""

APSCHEDULER = """
CREATE TABLE apscheduler_jobs (
    id VARCHAR(191) NOT NULL, next_run_time FLOAT, job_state {blob} NOT NULL, PRIMARY KEY (id));
CREATE INDEX ix_apscheduler_jobs_next_run_time ON apscheduler_jobs (next_run_time);
"""


def pickles() -> dict[str, bytes]:
    """Jobs of APScheduler 3.10 by id."""
    return {name: base64.b64decode(text) for name, text in json.loads(PICKLES.read_text())["3.10, pytz"].items()}


def apscheduler_file(path: Path, jobs: dict[str, bytes]) -> Path:
    """An SQLAlchemyJobStore on SQLite."""
    connection = sqlite3.connect(path)
    connection.executescript(APSCHEDULER.format(blob="BLOB"))
    connection.executemany("INSERT INTO apscheduler_jobs VALUES (?, 1.5, ?)", jobs.items())
    connection.commit()
    connection.close()
    return path


_KOJO_TYPES = """
CREATE TABLE kojo_job_type (
    kojo_job_type_id {key}, type_code VARCHAR(255) NOT NULL UNIQUE, name VARCHAR(255) NOT NULL,
    worker_uri VARCHAR(255) NOT NULL, worker_method VARCHAR(255) NOT NULL, can_work_in_parallel {bool} NOT NULL,
    default_importance BIGINT NOT NULL, cron_expression VARCHAR(255) DEFAULT NULL, schedule_limit BIGINT DEFAULT NULL,
    schedule_limit_allowance BIGINT DEFAULT NULL, is_enabled {bool} NOT NULL, auto_complete_success {bool} NOT NULL,
    auto_delete_interval_duration VARCHAR(255) NOT NULL);
CREATE TABLE kojo_job (
    kojo_job_id {key}, type_code VARCHAR(255) NOT NULL REFERENCES kojo_job_type (type_code), name VARCHAR(255) NOT NULL,
    worker_uri VARCHAR(255) NOT NULL, worker_method VARCHAR(255) NOT NULL, can_work_in_parallel {bool} NOT NULL,
    importance BIGINT NOT NULL, priority BIGINT NOT NULL, work_at_date_time {time} NOT NULL,
    assigned_state VARCHAR(255) NOT NULL, next_state_request VARCHAR(255) NOT NULL, previous_state VARCHAR(255),
    times_worked BIGINT NOT NULL DEFAULT 0, completed_at_date_time {time} DEFAULT NULL);
"""
_KOJO_ROWS = """
INSERT INTO kojo_job_type (type_code, name, worker_uri, worker_method, can_work_in_parallel, default_importance,
    cron_expression, schedule_limit, schedule_limit_allowance, is_enabled, auto_complete_success,
    auto_delete_interval_duration) VALUES
    ('reader', 'Queue reader', '\\Acme\\Reader', 'work', {yes}, 10, '* * * * *', 5, 5, {yes}, {yes}, 'PT1H'),
    ('single', 'Single', '\\Acme\\One', 'work', {no}, 20, '0 22 * * 1-5', 1, 1, {no}, {no}, 'P1D'),
    ('dynamic', 'Dynamic', '\\Acme\\Mail', 'send', {yes}, 0, NULL, 0, 0, {yes}, {yes}, 'PT0S');
INSERT INTO kojo_job (type_code, name, worker_uri, worker_method, can_work_in_parallel, importance, priority,
    work_at_date_time, assigned_state, next_state_request, previous_state) VALUES
    ('dynamic', 'Dynamic', '\\Acme\\Mail', 'send', {yes}, 0, 0, '2030-01-01 10:00:00', 'waiting', 'working', 'new'),
    ('dynamic', 'Dynamic', '\\Acme\\Mail', 'send', {yes}, 0, 0, '2020-01-01 10:00:00', 'waiting', 'working', 'new'),
    ('reader', 'Queue reader', '\\Acme\\Reader', 'work', {yes}, 10, 10, '2030-01-01 10:00:00',
        'new', 'working', 'none'),
    ('reader', 'Queue reader', '\\Acme\\Reader', 'work', {yes}, 10, 10, '2020-01-01 10:00:00', 'complete_success',
        'none', 'working');
"""


def kojo_mysql() -> str:
    """Kōjō's tables on MySQL, as Doctrine makes them."""
    types = {"key": "BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY", "bool": "TINYINT(1)", "time": "DATETIME"}
    return _KOJO_TYPES.format(**types) + _KOJO_ROWS.format(yes=1, no=0).replace("\\", "\\\\")


def kojo_postgres() -> str:
    """The same on PostgreSQL."""
    types = {"key": "BIGSERIAL PRIMARY KEY", "bool": "BOOLEAN", "time": "TIMESTAMP(0) WITHOUT TIME ZONE"}
    return _KOJO_TYPES.format(**types) + _KOJO_ROWS.format(yes="true", no="false")


KOJO_SQLITE = (_KOJO_TYPES + _KOJO_ROWS).format(
    key="INTEGER PRIMARY KEY AUTOINCREMENT", bool="BOOLEAN", time="DATETIME", yes=1, no=0
)
KOJO_JOBS = ["dynamic enabled", "dynamic-kojo-1 enabled", "dynamic-kojo-2 enabled", "reader enabled", "single paused"]

CELERY = """
CREATE TABLE django_celery_beat_intervalschedule (id INTEGER NOT NULL PRIMARY KEY, every INTEGER NOT NULL,
    period VARCHAR(24) NOT NULL);
CREATE TABLE django_celery_beat_crontabschedule (id INTEGER NOT NULL PRIMARY KEY, minute VARCHAR(240) NOT NULL,
    hour VARCHAR(96) NOT NULL, day_of_week VARCHAR(64) NOT NULL, day_of_month VARCHAR(124) NOT NULL,
    month_of_year VARCHAR(64) NOT NULL, timezone VARCHAR(63) NOT NULL);
CREATE TABLE django_celery_beat_periodictask (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE,
    task VARCHAR(200) NOT NULL, args TEXT NOT NULL, kwargs TEXT NOT NULL, queue VARCHAR(200), exchange VARCHAR(200),
    routing_key VARCHAR(200), expires {time}, enabled {bool} NOT NULL, last_run_at {time},
    total_run_count INTEGER NOT NULL, date_changed {time} NOT NULL, description TEXT NOT NULL, crontab_id INTEGER,
    interval_id INTEGER, solar_id INTEGER, one_off {bool} NOT NULL, start_time {time}, priority INTEGER,
    headers TEXT NOT NULL, clocked_id INTEGER, expire_seconds INTEGER);
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 10, 'seconds');
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '30', '7', '1-5', '*', '*', 'Europe/Paris');
INSERT INTO django_celery_beat_periodictask (id, name, task, args, kwargs, routing_key, enabled, total_run_count,
    date_changed, description, crontab_id, interval_id, one_off, headers) VALUES
    (1, 'celery.backend_cleanup', 'celery.backend_cleanup', '[]', '{{}}', NULL, {yes}, 0, '2026-01-01', '', 1, NULL,
        {no}, '{{}}'),
    (2, 'Morning report', 'shop.tasks.report', '[]', '{{"to": "ann"}}', 'mail', {yes}, 5, '2026-01-01', 'daily', 1,
        NULL, {no}, '{{}}'),
    (3, 'ping', 'shop.tasks.ping', '[]', '{{}}', NULL, {no}, 0, '2026-01-01', '', NULL, 1, {no}, '{{}}');
"""
CELERY_SQLITE = CELERY.format(time="datetime", bool="bool", yes=1, no=0)
CELERY_POSTGRES = CELERY.format(time="timestamp with time zone", bool="boolean", yes="true", no="false")

PARENT, CHILD, REMOTE = (f"0f6f0d6c-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
KALA = {
    PARENT: {
        "name": "report",
        "id": PARENT,
        "command": "bash -c 'date > /tmp/x'",
        "owner": "ann@example.com",
        "dependent_jobs": [CHILD],
        "schedule": "R3/2015-06-04T19:25:16.828696-07:00/PT10S",
        "retries": 2,
        "epsilon": "PT5S",
        "metadata": {"success_count": 1, "number_of_finished_runs": 1, "last_success": "2015-06-05T02:25:16Z"},
    },
    CHILD: {"name": "child", "id": CHILD, "command": "echo child", "disabled": True, "parent_jobs": [PARENT]},
    REMOTE: {
        "name": "remote",
        "id": REMOTE,
        "schedule": "R/2030-01-01T00:00:00Z/P1D",
        "on_failure_job": CHILD,
        "type": 1,
        "remote_properties": {"url": "http://127.0.0.1:9/x", "method": "POST", "headers": {"X-A": ["1"]}},
    },
}
KALA_JOBS = [f"{PARENT} enabled", f"{CHILD} paused", f"{REMOTE} enabled"]

_METADATA = Struct("Metadata", {"SuccessCount": "uint", "LastSuccess": "time", "NumberOfFinishedRuns": "uint"})
_REMOTE = Struct("RemoteProperties", {"Url": "string", "Method": "string", "Headers": {"string": ["string"]}})
_JOB = Struct(
    "Job",
    {
        **dict.fromkeys(("Name", "Id", "Command", "Owner"), "string"),
        "Disabled": "bool",
        "DependentJobs": ["string"],
        "ParentJobs": ["string"],
        "OnFailureJob": "string",
        "Schedule": "string",
        "Retries": "uint",
        "Epsilon": "string",
        "Metadata": _METADATA,
        "JobType": "int",
        "RemoteProperties": _REMOTE,
    },
)
_IN_GO = {"type": "JobType"}


def kala_gobs() -> dict[str, bytes]:
    """The same jobs as Kala keeps them in Redis."""
    return {job_id: written(_JOB, _in_go(job)) for job_id, job in KALA.items()}


def _in_go(job: dict[str, object]) -> dict[str, object]:
    """A job with Go's names of fields."""
    found: dict[str, object] = {}
    for name, value in job.items():
        go = _IN_GO.get(name, "".join(word.capitalize() for word in name.split("_")))
        is_struct = name in ("metadata", "remote_properties")
        found[go] = _in_go(value) if is_struct and isinstance(value, dict) else value
    if "LastSuccess" in found:
        found["LastSuccess"] = b"\x01\x00\x00\x00\x0e\xcd\x03\xb8\xdc\x00\x00\x00\x00\xff\xff"
    return found
