"""The unit of systemd, as systemd reads it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs.forked import PROGRAM, ROOT

UNIT = ROOT / "deploy/tokimori.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one(tmp_path: Path) -> None:
    """systemd has nothing to complain about, once the program is where the unit says; a misspelt line it finds."""
    text = UNIT.read_text()
    assert text.count("/opt/tokimori/bin/tokimori serve") == 1
    unit = tmp_path / "tokimori.service"
    text = text.replace("/opt/tokimori/bin/tokimori", str(PROGRAM))
    for broken, words in (("", ""), ("KillMod=mixed\n", "Unknown key")):
        unit.write_text(text.replace("[Install]", f"{broken}[Install]"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        complaints = [line for line in done.stderr.splitlines() if unit.name in line]
        assert bool(complaints) == bool(words), done.stderr
        assert all(words in line for line in complaints)
