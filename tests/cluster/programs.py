"""Programs of two versions: the one of today, and a copy that knows a migration more and settles by another text."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tokimori

TODAY = Path(tokimori.__file__).parent
MARK = "by the newer text"
"""The result of each run that a node of the newer program settled on PostgreSQL."""
_SETTLE = "stores/postgres/functions/settle.sql"
_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
MORE = """-- A column that the program of today knows nothing of.
-- Nodes since schema {oldest} work on this one.

ALTER TABLE tokimori_jobs ADD COLUMN moon INTEGER NOT NULL DEFAULT 7;
"""


def newer(folder: Path) -> Path:
    """Make the copy in this folder: its stores with SQL have a newer schema, on which nodes of today may work."""
    shutil.copytree(TODAY, folder / TODAY.name)  # with its bytecode, which else each process would make anew
    for migrations in (folder / TODAY.name / "stores").glob("*/migrations"):
        newest = len(list(migrations.glob("*.sql")))
        (migrations / f"{newest + 1:04}_more.sql").write_text(MORE.format(oldest=newest))
    layout = folder / TODAY.name / "stores/redis/layout.py"
    layout.write_text(layout.read_text() + "\nSCHEMA = SCHEMA + 1\n")
    settle = (TODAY / _SETTLE).read_text()
    revised = settle.replace("WHEN state = 'succeeded' THEN result END", f"WHEN state = 'succeeded' THEN '{MARK}' END")
    assert revised != settle
    (folder / TODAY.name / _SETTLE).write_text(revised)
    return folder


def environment(program: Path | None) -> dict[str, str]:
    """The environment of that program, or of the one of today."""
    return dict(os.environ) if program is None else os.environ | {"PYTHONPATH": str(program), **_BYTECODE}


def say(program: Path | None, url: str, *words: str) -> str:
    """What the program's command line answers."""
    command = [sys.executable, "-m", "tokimori", "--store", url, *words]
    done = subprocess.run(command, env=environment(program), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
