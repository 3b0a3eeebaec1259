"""The unit of systemd that install writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tokimori.cli.system_unit import unit_of
from tokimori.config.settings import Settings, load_settings
from tokimori.errors import InvalidInput


def settings(tmp_path: Path, state_dir: str) -> Settings:
    """Those of a node with this state folder."""
    flags = {"state_dir": state_dir, "node.stop_grace": 90}
    return load_settings(flags, {"HOME": str(tmp_path)}, cwd=tmp_path).settings


def test_the_unit_waits_for_the_grace(tmp_path: Path) -> None:
    """systemd gives a node more time than that gives its runs; nothing is asked of this user that only root may do."""
    text = unit_of(settings(tmp_path, "/home/ada/state"), Path("/home/ada/t.toml"), None)
    assert "TimeoutStopSec=120\n" in text
    assert 'Environment="TOKIMORI_STATE_DIR=/home/ada/state"\n' in text
    assert 'Environment="TOKIMORI_CONFIG_PATH=/home/ada/t.toml"\n' in text
    assert "User=" not in text
    assert "StateDirectory" not in text
    assert "WantedBy=default.target" in text


def test_names_are_quoted(tmp_path: Path) -> None:
    """A folder with a blank, a quote, a percent or a dollar sign is the same for systemd; a line's end is refused."""
    text = unit_of(settings(tmp_path, '/srv/a b"%h$HOME'), None, "tokimori")
    assert 'Environment="TOKIMORI_STATE_DIR=/srv/a b\\"%%h$HOME"\n' in text
    with pytest.raises(InvalidInput, match="can't hold this"):
        unit_of(settings(tmp_path, "/srv/a\nExecStart=evil"), None, None)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("user", ["root", None])
def test_systemd_has_nothing_to_complain_about(tmp_path: Path, user: str | None) -> None:
    """`systemd-analyze verify` takes the unit of the machine and that of a user without a word about it."""
    unit = tmp_path / "tokimori.service"
    unit.write_text(unit_of(settings(tmp_path, "/var/lib/tokimori"), None, user))
    kind = ["--user"] if user is None else []
    done = subprocess.run(
        ["systemd-analyze", *kind, "verify", "--recursive-errors=no", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
