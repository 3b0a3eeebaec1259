"""Options that every importer has: one table of formats, each tried with all of them."""

import json
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.integration.cli import seeds
from tests.integration.cli.conftest import Program
from tokimori.formats.registry import FORMATS, format_of

PICKLES = json.loads((Path(__file__).parents[2] / "unit" / "translators" / "apscheduler_jobs.json").read_text())


class Sample(NamedTuple):
    """A source with one good job, the same with a job that is refused beside it, and how the good one changes."""

    make: Callable[[Program], str]
    job: str
    zone: str | None
    """The zone of the job with `--timezone Asia/Tokyo`; None: the job names one itself, or none."""


def text(name: str, content: str) -> Callable[[Program], str]:
    """A source that is a file."""

    def make(program: Program) -> str:
        path = program.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return str(path)

    return make


def database(script: str, *rows: tuple[str, tuple[object, ...]]) -> Callable[[Program], str]:
    """A source that is a database of SQLite."""

    def make(program: Program) -> str:
        path = seeds.sqlite_file(program.home / "source.db", script)
        with sqlite3.connect(path) as connection:
            for statement, values in rows:
                connection.execute(statement, values)
        connection.close()
        return str(path)

    return make


def units(program: Program) -> str:
    """Two timers, of which one has no service."""
    folder = program.home / "units"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (folder / "a.service").write_text("[Service]\nExecStart=/bin/echo a\n")
    return str(folder)


def a_cronjob(name: str, more: str = "") -> str:
    """A CronJob of Kubernetes."""
    containers = "containers: [{name: main, command: [echo, a]}]"
    return (
        f"apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: {name}}}\nspec: {{schedule: '0 3 * * *', jobTemplate: "
        f"{{spec: {{template: {{spec: {{{containers}{more}}}}}}}}}}}\n---\n"
    )


KALA_JOB = {"command": "echo a", "schedule": "R/2030-06-04T19:25:16-07:00/PT10S", "name": "a"}
DKRON_JOB = {"schedule": "@hourly", "executor": "shell", "executor_config": {"command": "echo a"}}
PICKLE = "INSERT INTO apscheduler_jobs VALUES (?, ?)"
SAMPLES: Mapping[str, Sample] = MappingProxyType(
    {
        "apscheduler": Sample(
            database(
                "CREATE TABLE apscheduler_jobs (id TEXT, job_state BLOB)",
                (PICKLE, ("b", b"posix")),
                (PICKLE, ("nightly", b64decode(PICKLES["3.10, pytz"]["nightly"]))),
            ),
            "nightly",
            None,
        ),
        "celery": Sample(
            text("beat.json", '{"a": {"task": "x.y", "schedule": {"crontab": {}}}, "b": {"task": "x.y"}}'),
            "a",
            "Asia/Tokyo",
        ),
        "crontab": Sample(text("tab", "0 3 * * * a\n61 * * * * b\n"), "a", "Asia/Tokyo"),
        "cronstable": Sample(
            text("jobs.yaml", "jobs: [{name: a, command: x, schedule: '@daily'}, {name: b, command: x}]\n"),
            "a",
            "Asia/Tokyo",
        ),
        "dkron": Sample(
            text("jobs.json", json.dumps([{**DKRON_JOB, "name": "a"}, {**DKRON_JOB, "name": "b", "tags": {"c": "d"}}])),
            "a",
            "Asia/Tokyo",
        ),
        "kala": Sample(text("kala.json", json.dumps({"a": {**KALA_JOB, "id": "a"}, "b": {"id": "b"}})), "a", None),
        "keiji": Sample(
            database(
                "CREATE TABLE task_models (id INTEGER, name TEXT, slug TEXT, schedule_info TEXT, executable TEXT);"
                """INSERT INTO task_models VALUES (1, 'a', 'a', '{"units":"hours","interval":1}', '/x/a.bin');"""
                "INSERT INTO task_models VALUES (2, 'b', 'b', '{}', '/x/b.bin');"
            ),
            "a",
            "Asia/Tokyo",
        ),
        "kojo": Sample(
            text("types.yml", "- {type_code: a, worker_uri: X, worker_method: y}\n- {type_code: b, worker_uri: X}\n"),
            "a",
            "Asia/Tokyo",
        ),
        "koyomi": Sample(
            database(
                seeds.KOYOMI_SQLITE
                + seeds.KOYOMI_ROWS
                + "INSERT INTO jobs (id, user, command, memo) VALUES (9, '', 'x', '');"
                "INSERT INTO job_times (job_id, year, month, day, hour, minute, weekday)"
                " VALUES (9,'*','*','*','**','0','*');"
            ),
            "koyomi-1",
            "Asia/Tokyo",
        ),
        "kubernetes": Sample(
            text("jobs.yaml", a_cronjob("a") + a_cronjob("b", ", serviceAccountName: x")), "a", "Asia/Tokyo"
        ),
        "perfectsched": Sample(
            database(
                seeds.PERFECTSCHED.format(table="schedules", blob="BLOB"),
                ("INSERT INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?)", ("b", 0, 0, "99 * * * *", 0, b"{}", None)),
            ),
            "ns.old",
            "Asia/Tokyo",
        ),
        "systemd": Sample(units, "a", "Asia/Tokyo"),
    }
)


def test_the_table_has_every_format() -> None:
    """A format that is added is tried with all options."""
    assert set(SAMPLES) == set(FORMATS)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_importer_has_the_same_options(program: Program, kind: str) -> None:
    """What is refused stops the import until it is to be skipped; a dry run changes nothing, an update what differs."""
    sample = SAMPLES[kind]
    words = ("job", "import", kind, sample.make(program), "--timezone", "Asia/Tokyo")
    assert "--skip-refused goes on without these" in program.error(*words)["message"]
    assert program.contents() == []
    dry = program.run(*words, "--skip-refused", "--dry-run")
    assert ", would add " in dry.stdout.splitlines()[-1]
    assert program.contents() == []
    done = program.json(*words, "--skip-refused")
    assert len(done["refused"]) >= 1
    assert sample.job in done["added"]
    shown = program.json("job", "show", sample.job)
    assert sample.zone in (None, shown["time_zone"])
    program("job", "update", sample.job, "--owner", "somebody")
    kept = program.run(*words, "--skip-refused")
    assert f"? {sample.job}: it stays as it is" in kept.stdout
    assert '    owner: "somebody" → ' in kept.stdout
    assert sample.job in program.json(*words, "--skip-refused", "--update")["changed"]
    assert program.json("job", "show", sample.job).get("owner") != "somebody"


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_sent_as_it_is_read(kind: str) -> None:
    """Its request has the options of every import beside its own, and its example is one."""
    form = format_of(kind)
    assert {"dry_run", "skip_refused", "update", "time_zone"} < set(form.request.__struct_fields__)
    assert set(form.example) <= set(form.request.__struct_fields__)
