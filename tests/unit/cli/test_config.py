"""`tokimori config import`: the file that it reads, and the one that it writes."""

import io
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Called
from tokimori.cli import config

KOYOMI = 'debug_mode = true\n[datasource.connector]\ndsn = "dbi:Pg:dbname=d;host=h"\nuser = "u"\npassword = "hunter2"\n'


@pytest.fixture(autouse=True)
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose zone is known."""
    monkeypatch.setattr(config, "machine_zone", lambda _environ: "Asia/Tokyo")


def test_settings_are_printed_or_written(called: Called, tmp_path: Path) -> None:
    """As the same TOML; a file is new, and only its user reads it; a table of the keys shows no password."""
    (tmp_path / "k.toml").write_text(KOYOMI)
    printed = called("config", "import", "k.toml")
    assert tomllib.loads(printed) == {"store": "postgresql://u:hunter2@h/d", "time_zone": "Asia/Tokyo"}
    told = called("config", "import", "k.toml", "--to", "new.toml")
    written = tmp_path / "new.toml"
    assert (written.read_text(), stat.S_IMODE(written.stat().st_mode)) == (printed, 0o600)
    assert ("hunter2" in told, "debug_mode" in told, "wrote new.toml" in told) == (False, True, True)
    assert "new.toml says all of it already" in called("config", "import", "k.toml", "--to", "new.toml")
    assert written.read_text() == printed
    called("config", "import", "k.toml", "--to", "no/such/folder", code=2)


def test_a_zone_that_the_file_names_stays_if_koyomi_names_none(called: Called, tmp_path: Path) -> None:
    """The machine's is what Koyomi takes where nothing is said; it is told, and a zone of Koyomi's own is written."""
    (tmp_path / "k.toml").write_text(KOYOMI)
    target = tmp_path / "t.toml"
    target.write_text('time_zone = "Europe/Paris"\n')
    told = called("config", "import", "k.toml", "--to", "t.toml")
    assert tomllib.loads(target.read_text()) == {"store": "postgresql://u:hunter2@h/d", "time_zone": "Europe/Paris"}
    assert "names a zone, which stays" in " ".join(told.split())
    (tmp_path / "k.toml").write_text(f'time_zone = "Asia/Seoul"\n{KOYOMI}')
    called("config", "import", "k.toml", "--to", "t.toml")
    assert tomllib.loads(target.read_text())["time_zone"] == "Asia/Seoul"
    target.write_text("")
    (tmp_path / "k.toml").write_text(KOYOMI)
    called("config", "import", "k.toml", "--to", "t.toml")
    assert tomllib.loads(target.read_text())["time_zone"] == "Asia/Tokyo"


def test_a_program_reads_them_as_json(called: Called, tmp_path: Path) -> None:
    """The settings, those of sections, and of each key what it became."""
    (tmp_path / "p.yml").write_text("a:\n  url: sqlite://x.db\n  table: t\n")
    found = called.json("config", "import", "p.yml")
    assert (found["format"], found["settings"]) == ("perfectsched", {})
    assert found["env"] == {"a": {"store": f"sqlite://{tmp_path}/x.db"}}
    assert [(key["env"], key["key"], key["became"]) for key in found["keys"]] == [
        ("a", "table", []),
        ("a", "url", ["store"]),
    ]


def test_standard_input_is_read(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DSN alone is the URL of the store."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"dbi:mysql:koyomi;host=db1\n")))
    assert tomllib.loads(called("config", "import", "-")) == {"store": "mariadb://db1/koyomi"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"#" * 300_000, "it is too large"),
        (b"hello", "no system that is known here"),
        (b"[job]\nlock_ttl_seconds = 99\n", "f: job.lock_ttl_seconds: 99 is not less than"),
        (b"DB_URL=dbi:mysql:hunter2:x:y:z\n", "DB_URL: the part after the driver"),
    ],
)
def test_what_is_wrong_is_told(called: Called, tmp_path: Path, content: bytes, message: str) -> None:
    """With the file and the key; a password is not."""
    (tmp_path / "f").write_bytes(content)
    called("config", "import", "f", code=2)
    assert message in called.told
    assert "hunter2" not in called.told


def test_a_file_that_cannot_be_read_is_told(called: Called, tmp_path: Path) -> None:
    """One that is not there, a folder, a name that is none; and a name that is no text."""
    for name in ("none", ".", "a" * 300, "a\0b"):
        called("config", "import", name, code=2)
        assert "can't be read" in called.told
    name = os.fsdecode(b"\xff.conf")
    (tmp_path / name).write_text("ROTATE_LOGS=1\n")
    assert tomllib.loads(called("config", "import", name)) == {"log": {"rotate": True}}
    called("config", "import", name, "--format", "ruby", code=2)
    assert "perfectsched" in called.told


def test_a_zone_that_is_not_said_is_that_of_the_machine(called: Called, tmp_path: Path) -> None:
    """As there, and it is told; one that is said stays."""
    (tmp_path / "k.toml").write_text(KOYOMI)
    told = called("config", "import", "k.toml")
    assert "became time_zone; Koyomi's zone is that of the machine, where none is said" in told
    (tmp_path / "k.toml").write_text(f'time_zone = "UTC"\n{KOYOMI}')
    assert tomllib.loads(called("config", "import", "k.toml"))["time_zone"] == "UTC"


OURS = """\
# Settings of this workspace.
tasks_dir = "tasks"
# time_zone = "Europe/Paris"
log.level = "debug"  # much

[datasource.semaphore]
url = "postgresql://a:hunter3@h/s"  # locks

[worker]
concurrency = 4
"""


def test_settings_that_are_there_already_are_merged(called: Called, tmp_path: Path) -> None:
    """Each comes to its place, what else is there stays as it is, and the difference is shown without a password."""
    place = tmp_path / "tokimori.toml"
    place.write_text(OURS)
    place.chmod(0o640)
    (tmp_path / "settings.conf").write_text("DB_URL=mysql://u:hunter2@h/d\nTIME_ZONE=Africa/Nairobi\n")
    told = called("config", "import", "settings.conf", "--to", "tokimori.toml")
    text = place.read_text()
    assert [line for line in OURS.splitlines() if line not in text.splitlines()] == []
    found = tomllib.loads(text)
    assert (found["store"], found["time_zone"]) == ("mariadb://u:hunter2@h/d", "Africa/Nairobi")
    assert (found["worker"], found["tasks_dir"]) == ({"concurrency": 4}, "tasks")
    assert '+time_zone = "Africa/Nairobi"' in told
    assert '+store = "mariadb://u:***@h/d"' in told
    assert ("hunter2" in told, "hunter3" in told, stat.S_IMODE(place.stat().st_mode)) == (False, False, 0o640)
    (tmp_path / "settings.conf").write_text("TIME_ZONE=Asia/Tokyo\nROTATE_LOGS=1\n")
    told = called("config", "import", "settings.conf", "--to", "tokimori.toml", code=2)
    assert "can't be merged line by line" in called.told
    assert place.read_text() == text


def test_a_workspace_takes_the_settings_of_another_system(called: Called, tmp_path: Path) -> None:
    """`init` has written its file; tables come behind it, and a second import changes nothing."""
    called("init")
    (tmp_path / "k.toml").write_text(f"{KOYOMI}[log]\ndebug = true\n[worker]\ninterval_minutes = 5\n")
    called("config", "import", "k.toml", "--to", "tokimori.toml")
    text = (tmp_path / "tokimori.toml").read_text()
    found = tomllib.loads(text)
    assert (found["tasks_dir"], found["log"], found["worker"]) == ("tasks", {"level": "debug"}, {"interval_minutes": 5})
    assert "says all of it already" in called("config", "import", "k.toml", "--to", "tokimori.toml")
    assert (tmp_path / "tokimori.toml").read_text() == text


FOREIGN = {
    "default.toml": ("koyomi", KOYOMI),
    "settings.conf": ("keiji", "DB_URL=default\nTIME_ZONE=Africa/Nairobi\n"),
    "perfectsched.yml": ("perfectsched", "production:\n  type: rdb_compat\n  url: mysql://h/d\n"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_settings_of_another_system_are_told_as_such(
    called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever names their file learns by which command they become ours; a mere fault of ours is told alone."""
    system, content = FOREIGN[name]
    (tmp_path / name).write_text(content)
    monkeypatch.setenv("TOKIMORI_CONFIG_PATH", name)
    called("config", "check", code=2)
    assert f"{name} holds settings of {system}: `tokimori config import {name} --to tokimori.toml`" in called.told
    (tmp_path / name).write_text("[log]\nlevell = 5\n")
    called("config", "check", code=2)
    assert "config import" not in called.told
