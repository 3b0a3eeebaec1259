"""`tokimori config import`: the file that it reads, and the one that it writes."""

import io
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Called

KOYOMI = 'debug_mode = true\n[datasource.connector]\ndsn = "dbi:Pg:dbname=d;host=h"\nuser = "u"\npassword = "hunter2"\n'


def test_settings_are_printed_or_written(called: Called, tmp_path: Path) -> None:
    """As the same TOML; a file is new, and only its user reads it; a table of the keys shows no password."""
    (tmp_path / "k.toml").write_text(KOYOMI)
    printed = called("config", "import", "k.toml")
    assert tomllib.loads(printed) == {"store": "postgresql://u:hunter2@h/d"}
    told = called("config", "import", "k.toml", "--to", "new.toml")
    written = tmp_path / "new.toml"
    assert (written.read_text(), stat.S_IMODE(written.stat().st_mode)) == (printed, 0o600)
    assert ("hunter2" in told, "debug_mode" in told, "wrote new.toml" in told) == (False, True, True)
    called("config", "import", "k.toml", "--to", "new.toml", code=2)
    assert "new.toml: can't be written: File exists" in called.told
    called("config", "import", "k.toml", "--to", "no/such/folder", code=2)


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
        (b"DB_URL=dbi:mysql:hunter2:x:y:z\n", "DB_URL: what follows the driver"),
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
