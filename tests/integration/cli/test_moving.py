"""`tokimori job import koyomi`, `perfectsched`, `keiji` and `systemd`, on their own databases and files."""

import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import seeds
from tests.integration.cli.conftest import Program
from tests.servers import mariadb, postgres
from tokimori.errors import StoreError
from tokimori.sources.mysql import open_mysql
from tokimori.sources.postgres import open_postgres


def twice(program: Program, *words: str) -> tuple[dict[str, Any], list[str]]:
    """What the first import says, and the jobs; the second one must change nothing, and say so."""
    dry = program.json("job", "import", *words, "--dry-run")
    assert program.contents() == []
    first = program.json("job", "import", *words)
    for name in ("added", "jobs", "warnings", "refused", "left_out"):
        assert first[name] == dry[name]
    before = program.contents()
    again = program.json("job", "import", *words)
    assert (again["added"], again["changed"], again["kept"]) == ([], {}, {})
    assert again["unchanged"] == first["added"]
    assert program.contents() == before
    return first, [f"{job['id']} {job['state']}" for job in program.json("job", "list")]


def contents_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def mysql_url() -> Iterator[str]:
    """An empty database of MariaDB."""
    yield mariadb.server().make("moving")
    mariadb.server().drop("moving")


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """An empty database of PostgreSQL."""
    yield postgres.server().make("moving")
    postgres.server().drop("moving")


def test_koyomi_on_sqlite(program: Program) -> None:
    """The jobs come in whole, twice, without change the second time, and the file is only read."""
    source = seeds.sqlite_file(program.home / "koyomi" / "k.db", seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS)
    before = contents_of(source.parent)
    first, jobs = twice(program, "koyomi", str(source), "--timezone", "Asia/Tokyo")
    assert jobs == ["koyomi-1 enabled", "koyomi-2 enabled"]
    assert [each["place"] for each in first["left_out"]] == ["jobs, id 3"]
    shown = program.json("job", "show", "koyomi-1")
    assert shown["schedule"] == "*/*/* *:5 (*); */*/24 9:30 (7)"
    assert (shown["command"], shown["time_zone"], shown["description"]) == ("echo hi", "Asia/Tokyo", "says hi")
    assert program.json("job", "show", "koyomi-2")["user"] == "app"
    assert contents_of(source.parent) == before


@pytest.mark.usefixtures("mysql_url")
def test_koyomi_on_mariadb_by_its_configuration(program: Program) -> None:
    """Its TOML says where the database is and in which zone the times are; who ran a job last is told."""
    mariadb.server().sql(seeds.KOYOMI_MYSQL + seeds.KOYOMI_ROWS + seeds.KOYOMI_LOCKS, "moving")
    config = program.home / "default.toml"
    config.write_text(
        'time_zone = "Asia/Tokyo"\n[worker]\ninterval_minutes = 5\n[datasource.connector]\n'
        f'dsn = "dbi:mysql:database=moving;mysql_socket={mariadb.server().socket}"\nuser = "root"\npassword = ""\n'
    )
    first, jobs = twice(program, "koyomi", str(config))
    assert jobs == ["koyomi-1 enabled", "koyomi-2 enabled"]
    assert program.json("job", "show", "koyomi-2")["time_zone"] == "Asia/Tokyo"
    assert "'web1'" in first["warnings"]["koyomi-1"][0]
    told = program.run("job", "import", "koyomi", str(config), "--prefix", "other", "--dry-run").stderr
    assert "worker.interval_minutes is 5" in told


def test_perfectsched_on_sqlite(program: Program) -> None:
    """Keys, types, data, zones and the next slot come in; the configuration may say where the table is."""
    table = seeds.PERFECTSCHED.format(table="tasks", blob="BLOB")
    source = seeds.sqlite_file(program.home / "p.db", table)
    config = program.home / "perfectsched.yml"
    config.write_text(f"production:\n  type: rdb_compat\n  url: sqlite://{source}\n  table: tasks\n  retry_wait: 60\n")
    _, jobs = twice(program, "perfectsched", str(config), "--environment", "production")
    assert jobs == ["nightly enabled", "ns.old enabled"]
    shown = program.json("job", "show", "nightly")
    assert (shown["function"], shown["payload"], shown["queue"]) == ("report", '{"n":1}', "tasks")
    assert (shown["time_zone"], shown["retry"]["delay"]) == ("Asia/Tokyo", 60)
    assert shown["next_due"].startswith("2030-03-17T17:45:30")
    assert program.json("job", "show", "ns.old")["function"] == "ns"


def test_perfectsched_on_mariadb(program: Program, mysql_url: str) -> None:
    """The table of a server comes in whole, twice, without change the second time."""
    mariadb.server().sql(seeds.PERFECTSCHED.format(table="schedules", blob="LONGBLOB"), "moving")
    _, jobs = twice(program, "perfectsched", mysql_url)
    assert jobs == ["nightly enabled", "ns.old enabled"]
    assert program.json("job", "show", "nightly")["payload"] == '{"n":1}'


def test_keiji_by_its_workspace(program: Program) -> None:
    """The workspace says database and zone; what is disabled is paused, what has failed waits to be resolved."""
    seeds.sqlite_file(program.home / ".keiji" / "db" / "keiji.db", seeds.KEIJI_SQLITE)
    workspace = program.home / "keiji"
    (workspace / "tasks" / "unbuilt").mkdir(parents=True)
    (workspace / "tasks" / "ping").mkdir()
    (workspace / "settings.conf").write_text("DB_URL=default\nTIME_ZONE=Africa/Nairobi\nROTATE_LOGS=0\n")
    first, jobs = twice(program, "keiji", str(workspace))
    assert jobs == ["broken parked", "ping enabled", "weekly paused"]
    assert [each["place"] for each in first["left_out"]] == ["task_models, id 4 (name 'gone')", "tasks/unbuilt"]
    shown = program.json("job", "show", "weekly")
    assert (shown["schedule"], shown["time_zone"]) == ("on friday at 10:00PM", "Africa/Nairobi")
    assert program.json("job", "show", "broken")["reason"] == "[ task error ]: exit status 1"
    program("job", "resolve", "broken")
    assert program.json("job", "show", "broken")["state"] == "enabled"


def test_keiji_on_postgresql(program: Program, postgres_url: str) -> None:
    """Its other database comes in whole, twice, without change the second time."""
    postgres.server().sql(seeds.KEIJI_POSTGRES, "moving")
    _, jobs = twice(program, "keiji", postgres_url, "--timezone", "Africa/Nairobi")
    assert jobs == ["broken parked", "ping enabled", "weekly paused"]


def test_timers_of_a_folder(program: Program) -> None:
    """Units, drop-ins and links of a folder are read as systemd reads them."""
    folder = program.home / "system"
    (folder / "timers.target.wants").mkdir(parents=True)
    (folder / "a.timer.d").mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.timer").write_text("[Timer]\nOnCalendar=daily\nPersistent=yes\n")
        (folder / f"{name}.service").write_text(f"[Service]\nType=oneshot\nExecStart=/bin/echo {name}\nNice=5\n")
    (folder / "a.timer.d" / "time.conf").write_text("[Timer]\nOnCalendar=\nOnCalendar=Mon 9:00\n")
    (folder / "timers.target.wants" / "a.timer").symlink_to("../a.timer")
    (folder / "masked.timer").symlink_to("/dev/null")
    (folder / "alias.timer").symlink_to("a.timer")
    first, jobs = twice(program, "systemd", str(folder), "--timezone", "Europe/Berlin", "--anywhere")
    assert jobs == ["a enabled", "b paused"]
    assert program.json("job", "show", "a")["schedule"] == "0 0 9 * * 1 *"
    assert first["warnings"]["a"][0].startswith("Nice: left out (a.service): ")
    assert {"place": "alias.timer", "why": "it is another name of a.timer"} in first["left_out"]


def test_what_is_refused_is_named_and_may_be_skipped(program: Program) -> None:
    """Nothing is imported with one fault, until it is said that those with faults are to be left out."""
    bad = "INSERT INTO job_times (job_id, year, month, day, hour, minute, weekday) VALUES (1,'*','*','*','**','0','*');"
    source = seeds.sqlite_file(program.home / "k.db", seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS + bad)
    error = program.error("job", "import", "koyomi", str(source))
    assert error["message"].splitlines()[0] == (
        "jobs, id 1: job_times.hour (id 5): '**' is not allowed; allowed: * or a number"
    )
    assert program.contents() == []
    done = program.run("job", "import", "koyomi", str(source), "--skip-refused")
    assert done.stdout.splitlines()[-1] == "3 entries read, 1 added, 0 changed, 0 unchanged, 1 refused, 1 left out"
    assert "refused: jobs, id 1: job_times.hour (id 5): '**'" in done.stderr


def test_a_fault_of_a_file_counts_as_no_entry(program: Program) -> None:
    """What can't be read is refused, be it a file or one that it includes; the entries of others come in."""
    (program.home / "a.yaml").write_text("include: [none.yaml]\njobs: [{name: a, command: x, schedule: '@daily'}]\n")
    (program.home / "b.yaml").write_text("jobs: [")
    source = ("job", "import", "cronstable", "a.yaml", "b.yaml")
    assert "none.yaml" in program.error(*source)["message"]
    done = program.run(*source, "--skip-refused")
    assert done.stdout.splitlines()[-1] == "1 entries read, 1 added, 0 changed, 0 unchanged, 2 refused"


def test_a_job_that_differs_stays_until_it_is_to_be_updated(program: Program) -> None:
    """The difference is shown as `apply` shows it; what people have edited is not overwritten by itself."""
    source = seeds.sqlite_file(program.home / "k.db", seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS)
    program.run("job", "import", "koyomi", str(source), "--timezone", "UTC")
    program("job", "update", "koyomi-1", "--command", "echo mine")
    kept = program.run("job", "import", "koyomi", str(source), "--timezone", "UTC").stdout.splitlines()
    assert kept == [
        "? koyomi-1: it stays as it is",
        '    command: "echo mine" → "echo hi"',
        "3 entries read, 0 added, 0 changed, 1 unchanged, 1 kept, 1 left out; nothing was changed",
    ]
    assert program.json("job", "show", "koyomi-1")["command"] == "echo mine"
    changed = program.run("job", "import", "koyomi", str(source), "--timezone", "UTC", "--update").stdout.splitlines()
    assert changed[0] == "~ koyomi-1"
    assert program.json("job", "show", "koyomi-1")["command"] == "echo hi"


def test_a_source_is_never_written(program: Program) -> None:
    """A database with a write-ahead log has no more files afterwards, and one in a folder without rights is read."""
    source = seeds.sqlite_file(
        program.home / "w" / "k.db", "PRAGMA journal_mode=WAL;" + seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS
    )
    before = contents_of(source.parent)
    source.chmod(0o400)
    source.parent.chmod(0o500)
    try:
        program.json("job", "import", "koyomi", str(source))
    finally:
        source.parent.chmod(0o700)
    assert contents_of(source.parent) == before


async def test_a_server_takes_nothing_from_who_reads_it(mysql_url: str, postgres_url: str) -> None:
    """The session itself can't write, whatever it is asked."""
    for session in (await open_mysql(mysql_url), await open_postgres(postgres_url)):
        with pytest.raises(StoreError, match=r"(?i)read.only"):
            await session.rows("CREATE TABLE t (id int)")
        await session.close()


def test_a_source_that_is_in_use(program: Program) -> None:
    """What a writer has committed is read beside it; a file that is locked is told, with what to do."""
    source = seeds.sqlite_file(
        program.home / "k.db", "PRAGMA journal_mode=WAL;" + seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS
    )
    writer = sqlite3.connect(source, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM job_times")
    assert program.json("job", "import", "koyomi", str(source), "--dry-run")["added"] == ["koyomi-1", "koyomi-2"]
    writer.execute("ROLLBACK")
    writer.execute("PRAGMA journal_mode=DELETE")
    writer.execute("BEGIN EXCLUSIVE")
    assert "another program writes it" in program.error("job", "import", "koyomi", str(source))["message"]
    writer.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("koyomi", "/nowhere.db"), "source /nowhere.db does not exist"),
        (("koyomi", "/etc/hostname"), "source /etc/hostname can't be read: file is not a database"),
        (("koyomi", "redis://x/0"), "source: redis://… is no database that can be read"),
        (("koyomi", "postgresql://ann:secret@127.0.0.1:1/x"), "source postgresql://ann@127.0.0.1:1/x can't be reached"),
        (("koyomi", "mysql://ann:secret@127.0.0.1:1/x"), "source mysql://ann@127.0.0.1:1/x can't be reached"),
        (("perfectsched", "empty.db", "--table", "a b"), "table: 'a b' is no table's name"),
        (("perfectsched", "empty.db"), "source empty.db has no table schedules: it has no tables"),
        (("koyomi", "nameless.db"), "jobs, id None: id: None is not allowed"),
        (("keiji", "."), "settings.conf: it can't be read"),
        (("koyomi", "bad.toml"), "bad.toml: not TOML"),
        (("koyomi", "none.toml"), "none.toml: datasource.connector.dsn: it is missing"),
        (("perfectsched", "bad.yml"), "bad.yml: it has no section 'development'"),
        (("koyomi", "empty.db", "--timezone", "Mars"), "Mars"),
    ],
)
def test_a_source_that_is_none_is_told(program: Program, words: tuple[str, ...], told: str) -> None:
    """What is wrong, and where, without a password."""
    sqlite3.connect(program.home / "empty.db").execute("PRAGMA user_version = 1").connection.close()
    seeds.sqlite_file(
        program.home / "nameless.db", "CREATE TABLE job_times (id); CREATE TABLE jobs AS SELECT 'x' AS user;"
    )
    (program.home / "bad.toml").write_text("time_zone = Asia\n")
    (program.home / "none.toml").write_text('time_zone = "UTC"\n')
    (program.home / "bad.yml").write_text("production: {url: 'sqlite:///x'}\n")
    message = program.error("job", "import", *words)["message"]
    assert told in message
    assert "secret" not in message
    assert program.contents() == []


def many_schedules(program: Program, number: int) -> str:
    """A database of PerfectSched with so many schedules, and its two."""
    source = seeds.sqlite_file(program.home / "p.db", seeds.PERFECTSCHED.format(table="schedules", blob="BLOB"))
    rows = ((f"key-{n:06}", 1900000000, 1900000000, "0 * * * *", 0, b'{"type":"t"}', None) for n in range(number))
    with closing(sqlite3.connect(source)) as connection:
        connection.executemany("INSERT INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    return str(source)


@pytest.mark.prove
def test_many_schedules_come_in_by_pages(program: Program) -> None:
    """They are read a thousand at a time, and all are there; a second import changes nothing."""
    source = many_schedules(program, 2_500)
    for told in (
        "2502 added, 0 changed, 0 unchanged",
        "0 added, 0 changed, 2502 unchanged; nothing was changed",
    ):
        ended = program.run("job", "import", "perfectsched", source)
        assert ended.stdout.splitlines()[-1] == f"2502 entries read, {told}"


def jobs_there(program: Program) -> int:
    """How many jobs are in the store; none before it is made."""
    if not program.database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{program.database}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM tokimori_jobs").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0


@pytest.mark.prove
def test_an_import_that_is_killed_goes_on_when_it_is_begun_again(program: Program) -> None:
    """Killed between two pages it leaves whole pages; the same import again adds the rest, and nothing twice."""
    source = many_schedules(program, 4_000)
    importing = program.start("job", "import", "perfectsched", source)
    while jobs_there(program) == 0 and importing.poll() is None:
        time.sleep(0.002)
    importing.kill()
    assert importing.wait() == -signal.SIGKILL
    there = jobs_there(program)
    assert there in (1_000, 2_000, 3_000)
    again = program.run("job", "import", "perfectsched", source)
    assert again.stdout.splitlines()[-1] == f"4002 entries read, {4_002 - there} added, 0 changed, {there} unchanged"
    listed = [job["id"] for job in program.json("job", "list")]
    assert sorted(listed) == sorted(["nightly", "ns.old", *(f"key-{n:06}" for n in range(4_000))])
    before = program.contents()
    assert program.run("job", "import", "perfectsched", source).returncode == 0
    assert program.contents() == before


def test_units_that_nobody_may_read_are_told(program: Program) -> None:
    """A file or folder that can't be read is named."""
    message = program.error("job", "import", "systemd", str(program.home / "none.timer"))["message"]
    assert "none.timer: it can't be read" in message


def test_a_zone_that_no_configuration_names_is_told(program: Program) -> None:
    """Koyomi means that of the machine then, and the import says which; one that is named is not told."""
    seeds.sqlite_file(program.home / "k.db", seeds.KOYOMI_SQLITE + seeds.KOYOMI_ROWS)
    config = program.home / "default.toml"
    config.write_text('[datasource.connector]\ndsn = "dbi:SQLite:dbname=k.db"\n')
    told = program.run("job", "import", "koyomi", "default.toml", "--dry-run").stderr
    assert "note: times without a zone are read in that of this machine, " in told
    config.write_text(f'time_zone = "UTC"\n{config.read_text()}')
    assert "this machine" not in program.run("job", "import", "koyomi", "default.toml", "--dry-run").stderr
