"""`tokimori job import kala`, `kojo`, `apscheduler` and `celery`, on their own databases, servers and files."""

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.cli import other_seeds as seeds
from tests.integration.cli.conftest import Program
from tests.integration.cli.test_moving import contents_of, mysql_url, postgres_url, twice
from tests.servers import mariadb, postgres, redis

__all__ = ["mysql_url", "postgres_url"]
NAMES = ("--parameters", "jobs_mod:add=x,y")


# APScheduler


def test_apscheduler_on_sqlite(program: Program) -> None:
    """Every job that has an equal comes in whole, twice, without change the second time, and the file is only read."""
    (program.home / "aps").mkdir()
    source = seeds.apscheduler_file(program.home / "aps" / "a.db", seeds.pickles())
    before = contents_of(source.parent)
    first, jobs = twice(program, "apscheduler", str(source), *NAMES, "--skip-refused")
    assert len(jobs) == 14
    assert "paused paused" in jobs
    assert [each["place"] for each in first["refused"]] == [
        "apscheduler_jobs, id 'and'",
        "apscheduler_jobs, id 'week'",
    ]
    shown = program.json("job", "show", "nightly")
    assert (shown["schedule"], shown["time_zone"], shown["function"]) == (
        "*/20 2-4 * * *",
        "Europe/Berlin",
        "jobs_mod:report",
    )
    assert program.json("job", "show", "positional")["payload"] == '{"x":1,"y":2}'
    assert contents_of(source.parent) == before


def test_apscheduler_on_postgresql(program: Program, postgres_url: str) -> None:
    """The same table on a server, under another name."""
    table = seeds.APSCHEDULER.format(blob="BYTEA").replace("apscheduler_jobs", "mine")
    state = seeds.pickles()["friday-13"].hex()
    postgres.server().sql(f"{table}INSERT INTO mine VALUES ('friday-13', 1.5, '\\x{state}')", "moving")
    _, jobs = twice(program, "apscheduler", postgres_url, "--table", "mine")
    assert jobs == ["friday-13 enabled"]


def test_a_hostile_pickle_in_a_database_runs_nothing(program: Program) -> None:
    """A row that would run a command where Python loads it is refused, and the command has not run."""
    trap = program.home / "trap"
    hostile = b"cposix\nsystem\n(S'touch " + str(trap).encode() + b"'\ntR."
    source = seeds.apscheduler_file(program.home / "a.db", {"evil": hostile})
    error = program.error("job", "import", "apscheduler", str(source))
    assert "apscheduler_jobs, id 'evil': job_state: <posix.system> is not allowed" in error["message"]
    assert not trap.exists()


def test_nothing_is_imported_where_one_is_refused(program: Program) -> None:
    """Each that can't come is named with table, key, field and value, and how to go on without it."""
    source = seeds.apscheduler_file(program.home / "a.db", seeds.pickles())
    error = program.error("job", "import", "apscheduler", str(source))
    assert "apscheduler_jobs, id 'week': trigger.week: [1] is not allowed" in error["message"]
    assert "--parameters jobs_mod:add=NAME,NAME" in error["message"]
    assert "--skip-refused" in error["message"]
    assert program.contents() == []


# Celery beat


def test_celery_on_sqlite(program: Program) -> None:
    """Django's tables come in whole; what Celery does for itself is left out, and told as is what has no equal."""
    source = program.home / "django.db"
    connection = sqlite3.connect(source)
    connection.executescript(seeds.CELERY_SQLITE)
    connection.close()
    before = source.read_bytes()
    first, jobs = twice(program, "celery", str(source))
    assert jobs == ["Morning_report enabled", "ping paused"]
    assert [each["place"] for each in first["left_out"]] == ["django_celery_beat_periodictask, id 1"]
    assert "routing_key: 'mail'" in first["warnings"]["Morning_report"][0]
    assert program.json("job", "show", "Morning_report")["schedule"] == "30 7 * * 1-5"
    assert source.read_bytes() == before


def test_celery_on_postgresql(program: Program, postgres_url: str) -> None:
    """The same tables on a server."""
    postgres.server().sql(seeds.CELERY_POSTGRES, "moving")
    _, jobs = twice(program, "celery", postgres_url)
    assert jobs == ["Morning_report enabled", "ping paused"]


def test_a_beat_schedule_as_toml(program: Program) -> None:
    """What an app's configuration says, as a file."""
    file = program.home / "beat.toml"
    file.write_text('[a]\ntask = "x.y"\nschedule = 30\n[b]\ntask = "x.z"\nschedule = {crontab = {minute = "0"}}\n')
    _, jobs = twice(program, "celery", str(file))
    assert jobs == ["a enabled", "b enabled"]
    file.write_text("[a")
    assert f"{file}: not TOML" in program.error("job", "import", "celery", str(file))["message"]


def test_beats_own_file_is_not_read(program: Program) -> None:
    """It is a shelf of pickles with what Celery knows anyway; the way to go is told."""
    error = program.error("job", "import", "celery", str(program.home / "celerybeat-schedule.db"))
    assert "beat_schedule" in str(error["allowed"])


# Kōjō


def test_kojo_on_mariadb(program: Program, mysql_url: str) -> None:
    """Types and the jobs that were asked for come in; what the schedule names, and what has ended, does not."""
    mariadb.server().sql(seeds.kojo_mysql(), "moving")
    first, jobs = twice(program, "kojo", mysql_url)
    assert jobs == seeds.KOJO_JOBS
    assert [each["place"] for each in first["left_out"]] == ["kojo_job, id 3"]
    shown = program.json("job", "show", "reader")
    assert (shown["function"], shown["max_running"], shown["max_waiting"]) == ("Acme\\Reader::work", 5, 5)
    assert program.json("job", "show", "dynamic-kojo-1")["schedule"] == "at 2030-01-01T10:00:00Z"
    assert mariadb.server().sql("SELECT COUNT(*) FROM kojo_job", "moving").split()[-1] == "4"


def test_kojo_on_postgresql(program: Program, postgres_url: str) -> None:
    """The same on the other server, with a command in place of functions."""
    postgres.server().sql(seeds.kojo_postgres(), "moving")
    _, jobs = twice(program, "kojo", postgres_url, "--command", "php bin/work")
    assert jobs == seeds.KOJO_JOBS
    assert program.json("job", "show", "single")["command"] == ["php", "bin/work", "Acme\\One", "work"]


def test_kojo_on_sqlite(program: Program) -> None:
    """The same in a file."""
    source = program.home / "kojo.db"
    connection = sqlite3.connect(source)
    connection.executescript(seeds.KOJO_SQLITE)
    connection.close()
    assert twice(program, "kojo", str(source))[1] == seeds.KOJO_JOBS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("types.yml", "- {type_code: a, worker_uri: X, worker_method: y, cron_expression: '@daily'}\n"),
        ("types.php", "<?php\nreturn ['a' => ['worker_uri' => X::class, 'worker_method' => 'y']];\n"),
    ],
)
def test_kojo_from_a_configuration(program: Program, name: str, text: str) -> None:
    """YAML, and an array of PHP, of which nothing is run."""
    file = program.home / name
    file.write_text(text)
    assert twice(program, "kojo", str(file))[1] == ["a enabled"]
    file.write_text(text.replace("worker_method", "method"))
    assert (
        f"{file}:{text.count(chr(10))}: worker_method: None"
        in program.error("job", "import", "kojo", str(file))["message"]
    )


# Kala


class _Answers(BaseHTTPRequestHandler):
    """Kala's API, as far as it lists jobs."""

    def do_GET(self) -> None:
        """Answer."""
        is_list = self.path == "/api/v1/job/"
        self.send_response(200 if is_list else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"jobs": seeds.KALA}).encode() if is_list else b"404 page not found\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def kala() -> Iterator[str]:
    """The address of a server that answers as Kala does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def is_kala(program: Program, source: str) -> None:
    """Kala's jobs come in from this source, with their ids, their family and what remains of them."""
    first, jobs = twice(program, "kala", source)
    assert jobs == seeds.KALA_JOBS
    shown = {job["id"]: job for job in program.json("job", "list")}
    assert shown[seeds.PARENT]["runs_remaining"] == 3
    assert shown[seeds.CHILD]["parents"] == [{"job": seeds.PARENT}]
    assert shown[seeds.REMOTE]["on_failure_job"] == seeds.CHILD
    assert (shown[seeds.REMOTE]["url"], shown[seeds.REMOTE]["headers"]["X-A"]) == ("http://127.0.0.1:9/x", "1")
    assert first["warnings"] == {}


def test_kala_by_its_api(program: Program, kala: str) -> None:
    """The address of a running Kala is enough."""
    is_kala(program, kala)


def test_kala_from_a_file(program: Program) -> None:
    """What the API has answered may come as a file."""
    file = program.home / "kala.json"
    file.write_text(json.dumps({"jobs": seeds.KALA}))
    is_kala(program, str(file))


@pytest.fixture
def kala_redis() -> Iterator[str]:
    """A database of Redis with what Kala keeps there: a hash of gobs."""
    from redis import Redis

    number = redis.DATABASES - 2
    client = Redis(unix_socket_path=redis.server().socket, db=number)
    for job_id, gob in seeds.kala_gobs().items():
        client.hset("kala:jobs", job_id, gob)
    yield redis.server().url(number)
    client.flushdb()
    client.close()


def test_kala_in_redis(program: Program, kala_redis: str) -> None:
    """Gobs of Go are read, and Redis keeps what it had."""
    from redis import Redis

    is_kala(program, kala_redis)
    client = Redis(unix_socket_path=redis.server().socket, db=redis.DATABASES - 2)
    assert client.keys() == [b"kala:jobs"]
    assert client.hlen("kala:jobs") == 3
    client.hset("kala:jobs", "broken", b"\x01\x02")
    client.close()
    error = program.error("job", "import", "kala", kala_redis)
    assert "job broken: gob: it can't be read" in error["message"]


def test_kala_on_mariadb(program: Program, mysql_url: str) -> None:
    """A table with a column of JSON."""
    rows = ", ".join(f"('{name}', '{_sql(job)}')" for name, job in seeds.KALA.items())
    mariadb.server().sql(f"CREATE TABLE jobs (id varchar(36), job JSON); INSERT INTO jobs VALUES {rows};", "moving")
    is_kala(program, mysql_url)


def test_kala_on_postgresql(program: Program, postgres_url: str) -> None:
    """A table of one column."""
    rows = ", ".join(f"('{_sql(job)}')" for job in seeds.KALA.values())
    postgres.server().sql(f"CREATE TABLE jobs (job jsonb); INSERT INTO jobs VALUES {rows};", "moving")
    is_kala(program, postgres_url)


def _sql(job: object) -> str:
    return json.dumps(job).replace("'", "''")


# What goes wrong


def test_sources_that_are_not_there(program: Program) -> None:
    """Servers that don't answer, files and tables that don't exist, and other formats are named, without a password."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        places = {
            ("kala", f"http://127.0.0.1:{port}"): f"source http://127.0.0.1:{port} can't be asked",
            ("kala", f"redis://:geheim@127.0.0.1:{port}/0"): f"source redis://127.0.0.1:{port}/0 can't be read",
            ("kojo", f"mysql://root:geheim@127.0.0.1:{port}/x"): f"source mysql://root@127.0.0.1:{port}/x",
            ("celery", f"postgresql://a:geheim@127.0.0.1:{port}/x"): f"source postgresql://a@127.0.0.1:{port}/x",
            ("apscheduler", str(program.home / "none.db")): "none.db",
            ("celery", str(program.home / "none.json")): "none.json",
            ("kala", str(program.home / "jobdb.db")): "BoltDB is not read",
            ("kala", "mongodb://h/x"): "mongodb:// is not read",
        }
        for words, told in places.items():
            ended = program.run("job", "import", *words)
            assert ended.returncode == 2, ended.stderr
            assert told in ended.stderr
            assert "geheim" not in ended.stderr
    assert program.contents() == []


def test_a_database_of_something_else(program: Program) -> None:
    """The missing table is named, with those that there are."""
    source = seeds.apscheduler_file(program.home / "a.db", {})
    for kind, table in (("kojo", "kojo_job_type"), ("celery", "django_celery_beat_periodictask")):
        message = program.error("job", "import", kind, str(source))["message"]
        assert table in message
        assert "apscheduler_jobs" in message


@pytest.mark.parametrize("text", ["", "[5]", "{", '{"jobs": 5}', '"x"'])
def test_files_that_are_not_kalas(program: Program, text: str) -> None:
    """They are refused with their name."""
    file: Path = program.home / "k.json"
    file.write_text(text)
    assert str(file) in program.error("job", "import", "kala", str(file))["message"]
